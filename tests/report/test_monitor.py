"""The plot of what was sampled: drawn where there is something, named after its table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from runner.report.monitor import write
from runner.result.model import Profile, Result, Status

MACHINE = {"system/cpu_utilization_percentage": [[0.1, 20.0], [0.2, 30.0]]}


def result(series: dict[str, list[list[float]]], *artifacts: str) -> Result:
    profile = Profile(artifacts=list(artifacts), series=series)
    return Result("1", "kv_quant", "q8", Status.PASSED, gpu="h200_sxm", profile=profile)


def gpu(number: int, throttled: float = 0.0) -> dict[str, list[list[float]]]:
    named = f"system/gpu_{number}_"
    return {
        f"{named}power_usage_watts": [[0.1, 600.0], [0.2, 650.0]],
        f"{named}sm_clock_mhz": [[0.1, 1980.0], [0.2, 1755.0]],
        f"{named}throttled": [[0.1, 0.0], [0.2, throttled]],
    }


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that is saved."""
    figures: list[Figure] = []
    save = Figure.savefig

    def keep(self: Figure, *arguments: object, **options: object) -> None:
        figures.append(self)
        save(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def test_the_plot_lies_beside_the_table(tmp_path: Path, drawn: list[Figure]) -> None:
    one = result({**gpu(0), **MACHINE}, "trace.json", "model_q8_monitor.csv")
    assert write(one, tmp_path) == ["model_q8_monitor.png"]
    assert (tmp_path / "model_q8_monitor.png").read_bytes().startswith(b"\x89PNG")
    (figure,) = drawn
    assert [panel.get_ylabel() for panel in figure.axes] == ["power, W", "SM clock, MHz", "CPU, %"]
    assert np.asarray(figure.axes[0].lines[0].get_ydata()).tolist() == [600.0, 650.0]
    assert figure.legends == []


def test_gpus_are_told_apart_and_throttling_is_marked(tmp_path: Path, drawn: list[Figure]) -> None:
    write(result({**gpu(0), **gpu(3, throttled=1.0), **MACHINE}, "m_monitor.csv"), tmp_path)
    (figure,) = drawn
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["GPU 0", "GPU 3", "throttled"]
    (span,) = figure.axes[1].patches
    assert (span.get_x(), span.get_width()) == (0.1, 0.1)  # type: ignore[attr-defined]
    assert not figure.axes[0].patches


def test_nothing_sampled_draws_nothing(tmp_path: Path) -> None:
    assert write(result({}, "m_monitor.csv"), tmp_path) == []
    assert write(result(MACHINE), tmp_path) == []
    assert list(tmp_path.iterdir()) == []
