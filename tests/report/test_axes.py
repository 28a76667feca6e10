"""What a sweep varied, read off its results."""

from __future__ import annotations

from runner.report.axes import MISSING, axes, columns, long_name, value
from runner.result.model import Result, Status
from tests.synthetic import result, sweep


def test_one_axis() -> None:
    results = sweep([4096, 8192])
    assert columns(results) == axes(results) == ["T"]
    assert long_name(results, "T") == "context"
    assert long_name(results, "seed") == ""


def test_a_single_experiment_varies_nothing() -> None:
    assert columns(sweep([4096])) == axes(sweep([4096])) == []


def test_swept_keys_come_first() -> None:
    results = sweep([4096, 8192], batches=(1, 2))
    assert columns(results) == ["B", "T"]
    assert columns(results, ["shape.context"]) == ["T", "B"]


def test_what_moves_together_is_one_axis_but_two_columns() -> None:
    results = [result("q8", 4096, 1), result("q8", 8192, 2), result("q8", 16384, 4)]
    assert columns(results) == ["B", "T"]
    assert axes(results) == ["B"]
    assert axes(results, ["shape.context"]) == ["T"]


def test_dimensions_that_follow_from_the_model_are_left_out() -> None:
    results = sweep([4096, 8192])
    for other in sweep([4096, 8192], model="gpt2"):
        other.params |= {"H": 12, "heads": 12, "D": 64, "head_dim": 64, "model": "gpt2"}
        results.append(other)
    assert columns(results) == ["model", "T"]
    assert axes(results) == ["T"]
    assert columns(results, ["model", "kernel.params.D"]) == ["model", "D", "T"]


def test_a_refused_result_is_placed_by_its_overrides() -> None:
    refused = Result("x", "kv_quant", "", Status.INVALID_CONFIG, overrides=["+shape.context=0", "model=gpt2"])
    refused.names = {"B": "batch", "T": "context"}
    assert value(refused, "T") == 0
    assert value(refused, "model") == "gpt2"
    assert value(refused, "B") is MISSING
    refused.overrides.pop()
    assert columns([*sweep([4096]), refused]) == ["T"]
