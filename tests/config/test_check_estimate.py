"""What the section ``estimate`` may hold."""

from __future__ import annotations

import math
from typing import Any

import pytest

from runner.config.check_estimate import check_estimate
from runner.config.errors import ConfigError
from runner.config.schema import Config, Estimate, Gpu, Kernel, Profiler, Shape


def config(**estimate: Any) -> Config:
    return Config(
        kernel=Kernel(name="estimate", kind="estimate"), shape=Shape(name="decode"), estimate=Estimate(**estimate)
    )


def refused(wrong: Config) -> str:
    with pytest.raises(ConfigError) as error:
        check_estimate(wrong)
    return str(error.value)


def test_the_defaults_pass() -> None:
    check_estimate(config())


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("tensor", 0, "must be at least 1"),
        ("pipeline", -1, "must be at least 1"),
        ("expert", 0, "must be at least 1"),
        ("prefix_share", 1.5, "must be at least 0 and at most 1"),
        ("prefix_share", math.nan, "must be at least 0 and at most 1"),
        ("acceptance", -0.1, "must be at least 0 and at most 1"),
        ("speculative", -1, "must be at least 0"),
        ("chunk", -1, "must be at least 0"),
        ("chunk", 10**400, "must be at least 0 and at most 2147483647"),
        ("expert_skew", 2.0, "must be at least 0 and at most 1"),
        ("layer_us", -1.0, "must be at least 0"),
        ("reserve_gb", math.inf, "must be at least 0"),
        ("ttft_ms", math.nan, "must be at least 0"),
        ("bandwidth", 0.0, "above 0 and at most 1"),
        ("compute", 1.1, "above 0 and at most 1"),
        ("memory_share", math.nan, "above 0 and at most 1"),
    ],
)
def test_a_value_out_of_range_is_refused(key: str, value: float, allowed: str) -> None:
    message = refused(config(**{key: value}))
    assert message.startswith(f"estimate.{key}={value}: ")
    assert allowed in message


@pytest.mark.parametrize(
    ("key", "value"),
    [("tensor", 2), ("pipeline", 2), ("expert", 2), ("prefix_share", 0.5), ("speculative", 3), ("chunk", 512)],
)
def test_measured_kernels_are_those_of_one_gpu_and_a_whole_prompt(key: str, value: float) -> None:
    message = refused(config(efficiency="measured", **{key: value}))
    assert message.startswith(f"estimate.{key}={value}: must be ")
    assert "with estimate.efficiency=measured" in message
    check_estimate(config(efficiency="measured", kernels="results"))
    assert refused(config(kernels="results")).startswith("estimate.kernels=results: counts with")


@pytest.mark.parametrize(("key", "value"), [("prompt", 0), ("output", 0), ("batch", 2**40)])
def test_lengths_are_positive_and_countable(key: str, value: int) -> None:
    wrong = config()
    setattr(wrong.shape, key, value)
    assert refused(wrong).startswith(f"shape.{key}={value}: kernel=estimate takes 1 to ")


def test_what_has_no_meaning_on_paper_is_refused() -> None:
    wrong = config()
    wrong.profiler = Profiler(name="nsys", tools=["nsys"])
    assert refused(wrong) == "profiler=nsys: kernel=estimate runs nothing that could be profiled; use profiler=none"
    wrong = config()
    wrong.devices = [0, 1]
    assert "estimate.tensor=" in refused(wrong)
    wrong = config()
    wrong.sanitize = True
    assert refused(wrong).startswith("sanitize=true: ")
    wrong = config()
    wrong.variants = ["bfloat16"]
    assert "sweep a key of estimate" in refused(wrong)
    wrong = config()
    wrong.gpu = Gpu(name="x", price_per_hour=-1.0)
    assert refused(wrong).startswith("gpu.price_per_hour=-1.0: ")
