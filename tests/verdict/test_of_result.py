"""A result as a judgement looks at it."""

from __future__ import annotations

import dataclasses
import math

import pytest

from runner.result.model import Series, Status
from runner.verdict.model import Measured
from runner.verdict.of_result import METRICS, figures, measured
from tests.synthetic import ENVIRONMENT, result


def test_what_a_result_says() -> None:
    environment = {**ENVIRONMENT, "device": {"name": "NVIDIA H200"}, "fingerprint": "f"}
    one = result(environment=environment, flags=["drift"])
    one.metrics |= {"time_us_low": 1.0, "time_us_high": 2.0, "trials": 3.0, "time_us_trials_rsd": 0.1}
    one.metrics |= {"time_us_q1": 1.2, "time_us_q3": 1.8}
    found = measured(one)
    assert (found.kernel, found.variant, found.backend, found.device) == ("kv_quant", "q8", "cuda", "NVIDIA H200")
    assert (found.method, found.mode, found.flags) == ("cuda_events", "cold", ("drift",))
    assert (found.time_us, found.low, found.high, found.samples) == (one.metrics["time_us"], 1.0, 2.0, 12)
    assert (found.q1, found.q3) == (1.2, 1.8)
    assert (found.trials, found.trials_rsd, found.sm_clock_mhz) == (3, 0.1, None)
    assert found.params["T"] == found.params["context"] == "32768"
    assert "gpu" not in found.params and "backend" not in found.params
    assert found.started == 1772366400000 and found.fingerprint == "f"


def test_every_figure_of_a_judgement_comes_from_a_metric() -> None:
    found = figures(dict.fromkeys(METRICS, 2.0))
    numbers = {one.name for one in dataclasses.fields(Measured) if "float" in str(one.type)}
    assert numbers | {"samples", "trials"} == set(found)


def test_the_series_behind_the_time_says_how() -> None:
    hot = Series("hot", "cuda_events", [1.0])
    host = Series("host", "host_clock", [2.0])
    assert measured(result(samples=[hot, host])).mode == "host"


@pytest.mark.parametrize("time_us", [math.nan, math.inf, -math.inf, 0.0, -5.0])
def test_a_time_that_is_none_is_no_figure(time_us: float) -> None:
    found = figures({"time_us": time_us, "time_us_low": time_us, "samples": math.nan, "trials": math.inf, "flops": 0.0})
    assert (found["time_us"], found["low"], found["samples"], found["trials"]) == (None, None, 0, 1)
    assert found["flops"] == 0.0


def test_a_result_that_failed_has_no_figures() -> None:
    found = measured(result(status=Status.TIMEOUT))
    assert (found.status, found.time_us, found.mode, found.samples) == (Status.TIMEOUT, None, "", 0)
