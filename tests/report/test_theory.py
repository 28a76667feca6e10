"""Theory beside measurement on the page, as CSV and as a plot."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runner.estimate.beside import Measurement, compared
from runner.estimate.model import Efficiency, Estimate
from runner.report.estimate import page, text
from runner.report.estimate_files import write, write_comparison
from runner.report.theory import PLOT, TABLE, figure, table_csv
from tests.report.test_estimate import made, shown

MODEL = Efficiency(level="model", source="a test", bandwidth=0.9, compute=0.5, layer_us=70.0)


def beside(batch: int = 2, **figures: float) -> Estimate:
    one = made(batch=batch)
    found = Measurement("bench", "result.json", figures or {"tpot_ms": 1.0, "tokens_per_s": 2000.0}, served=False)
    return compared(one, [found], MODEL)


def test_the_page_has_the_table_and_fits_a_terminal() -> None:
    printed = shown(beside())
    assert "Theory beside measurement" in printed and "main reason" in printed
    assert "Measured: bench (result.json)" in printed
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert "Theory beside measurement" not in shown(made())


def test_the_reason_is_text_in_markdown_too() -> None:
    lines = text(page(beside(), [])).splitlines()
    start = lines.index("| figure | theoretical | measured | ratio | main reason |")
    assert lines[start + 1] == "| --- | ---: | ---: | ---: | --- |"


def test_the_csv_holds_every_figure() -> None:
    rows = list(csv.DictReader(io.StringIO(table_csv(beside()))))
    assert [row["figure"] for row in rows] == ["tpot_ms", "tokens_per_s"]
    assert (rows[0]["measured_by"], rows[0]["source"], rows[0]["level"]) == ("bench", "result.json", "ideal")
    assert float(rows[0]["ratio"]) == pytest.approx(float(rows[0]["measured"]) / float(rows[0]["theoretical"]))
    assert "fixed time of the layers" in rows[0]["main_reason"]


def test_the_table_is_a_file_where_something_was_measured(tmp_path: Path) -> None:
    assert TABLE in write(beside(), page(beside(), []), tmp_path)
    assert (tmp_path / TABLE).read_text() == table_csv(beside())
    assert TABLE not in write(made(), page(made(), []), tmp_path)


def test_the_plot_has_a_point_for_each_measurement_and_the_diagonal() -> None:
    several = [beside(batch, ttft_ms=2.0 * batch, tpot_ms=1.0 * batch) for batch in (1, 2, 4)]
    drawn = figure([row for one in several for row in one.compared])
    assert len(drawn.axes) == 2
    for panel in drawn.axes:
        diagonal, points = panel.lines
        assert np.array_equal(diagonal.get_xdata(), diagonal.get_ydata())
        assert np.asarray(points.get_xdata()).size == 3
        assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    assert np.array_equal(drawn.axes[1].lines[1].get_ydata(), [1.0, 2.0, 4.0])


def test_only_a_sweep_with_a_measurement_is_drawn(tmp_path: Path) -> None:
    assert [path.name for path in write_comparison([beside(1), beside(2)], tmp_path)] == [PLOT]
    assert (tmp_path / PLOT).stat().st_size > 1000
    plain = [replace(beside(batch), compared=()) for batch in (1, 2)]
    assert write_comparison(plain, tmp_path / "none") == []
