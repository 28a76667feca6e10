"""The ``measure`` group as the worker takes it."""

from __future__ import annotations

import pytest

from runner.config.schema import Measure, MeasureHost
from runner.execute.settings import measure_settings
from runner.plan.errors import PlanError


def test_host_limits_replace_the_general_ones_on_the_host_only() -> None:
    measure = Measure(name="standard", host=MeasureHost(min_samples=2, min_time_s=0.1, max_time_s=1.5, max_rsd=0.1))
    host, cuda = measure_settings(measure, "host"), measure_settings(measure, "cuda")
    assert (host.min_samples, host.max_time_s, host.max_rsd) == (2, 1.5, 0.1)
    assert (cuda.min_samples, cuda.max_time_s, cuda.max_rsd) == (10, 15.0, 0.005)
    assert host.modes == ("cold",)
    assert cuda.modes == ("cold", "hot")


@pytest.mark.parametrize(
    ("measure", "key"),
    [
        (Measure(name="m", modes=["warm"]), "measure.modes"),
        (Measure(name="m", modes=[]), "measure.modes"),
        (Measure(name="m", min_samples=0), "measure.min_samples"),
        (Measure(name="m", max_time_s=0), "measure.max_time_s"),
        (Measure(name="m", fixed=-1), "measure.fixed"),
    ],
)
def test_a_bad_value_names_its_key(measure: Measure, key: str) -> None:
    with pytest.raises(PlanError) as raised:
        measure_settings(measure, "cuda")
    assert raised.value.key == key
