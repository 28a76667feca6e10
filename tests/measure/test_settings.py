"""Settings refuse what cannot work."""

from __future__ import annotations

from typing import Any

import pytest

from runner.measure.settings import MeasureSettings


def test_the_defaults_are_allowed() -> None:
    assert MeasureSettings().modes == ("cold", "hot")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"modes": ()}, r"measure.modes=\[\]: must be one or more of cold, hot, host, each once"),
        ({"modes": ("warm",)}, r"measure.modes=\['warm'\]"),
        ({"modes": ("hot", "hot")}, "each once"),
        ({"warmup": -1}, "measure.warmup=-1: must be at least 0"),
        ({"min_samples": 0}, "measure.min_samples=0: must be at least 1"),
        ({"fixed": -2}, "measure.fixed=-2: must be at least 0"),
        ({"min_time_s": -0.1}, "measure.min_time_s=-0.1: must be at least 0"),
        ({"max_rsd": float("nan")}, "measure.max_rsd=nan: must be at least 0"),
        ({"settled": -1.0}, "measure.settled=-1.0: must be at least 0"),
        ({"max_time_s": 0.0}, "measure.max_time_s=0.0: must be above 0"),
        ({"hot_batch_time_s": 0.0}, "measure.hot_batch_time_s=0.0: must be above 0"),
        ({"max_samples": 5}, "measure.max_samples=5: must be at least measure.min_samples=10"),
    ],
)
def test_impossible_values_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MeasureSettings(**values)
