"""The ``measure`` group as the worker takes it."""

from __future__ import annotations

import pytest

from runner.config.schema import Measure, MeasureHost
from runner.execute.settings import measure_settings
from runner.measure.settings import MeasureSettings


def test_host_limits_replace_the_general_ones_on_the_host_only() -> None:
    measure = Measure(name="standard", host=MeasureHost(min_samples=2, min_time_s=0.1, max_time_s=1.5, max_rsd=0.1))
    host, cuda = measure_settings(measure, "host"), measure_settings(measure, "cuda")
    assert (host.min_samples, host.max_time_s, host.max_rsd) == (2, 1.5, 0.1)
    assert (cuda.min_samples, cuda.max_time_s, cuda.max_rsd) == (10, 15.0, 0.005)
    assert host.modes == ("cold",)
    assert cuda.modes == ("cold", "hot")


@pytest.mark.parametrize(
    ("general", "of_the_host", "measured"),
    [
        (["cold", "hot"], ["cold"], ("cold",)),
        (["cold", "graph"], ["cold"], ("cold", "graph")),
        (["graph"], ["cold", "hot"], ("cold", "hot", "graph")),
        (["host"], ["host"], ("host",)),
    ],
)
def test_a_mode_that_was_asked_for_is_measured_on_the_host_too(
    general: list[str], of_the_host: list[str], measured: tuple[str, ...]
) -> None:
    measure = Measure(name="standard", modes=general, host=MeasureHost(modes=of_the_host))
    assert measure_settings(measure, "host").modes == measured
    assert measure_settings(measure, "cuda").modes == tuple(general)


def test_the_config_group_and_the_settings_have_the_same_defaults() -> None:
    assert measure_settings(Measure(name="standard"), "cuda") == MeasureSettings()


def test_a_family_may_say_how_many_samples_are_enough() -> None:
    found = measure_settings(Measure(name="standard"), "cuda", samples=1)
    assert (found.fixed, found.warmup, found.max_time_s) == (1, 0, 15.0)
    asked = measure_settings(Measure(name="fixed", fixed=5, warmup=2), "cuda", samples=1)
    assert (asked.fixed, asked.warmup) == (5, 2)
