"""``streams`` on the host backend: odd sizes, which stream gets what, and the figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from runner.backend.host.stream import HostStream
from runner.config.errors import ConfigError
from runner.workload.streams import max_connections
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import plan

VARIANTS = ["serial", "one_stream_each", "priorities"]


@pytest.mark.parametrize(
    "params",
    [
        {"S": 1, "N": 1, "steps": 1, "compute": 1},
        {"S": 3, "N": 1027, "steps": 3, "compute": 2},
        {"S": 4, "N": 30, "steps": 2, "compute": 0},
        {"S": 32, "N": 5, "steps": 1, "compute": 4},
    ],
)
def test_every_variant_passes(params: dict[str, int]) -> None:
    _, outcomes, left_out = hosted("streams", params)
    assert (list(outcomes), messages(outcomes), left_out) == (VARIANTS, {}, {})
    for outcome in outcomes.values():
        assert outcome.units_per_step == params["steps"]
        assert outcome.metrics["concurrency"] > 0 and outcome.metrics["serial_us"] > 0
        assert "max_connections" not in outcome.metrics  # the CPU knows no such queues
    assert outcomes["serial"].metrics["concurrency"] == 1.0
    found = outcomes["priorities"].metrics
    assert found["priority"] > 0 and found["high_done_us"] > 0
    assert ("low_done_us" in found) == (params["S"] > 1)


def test_which_stream_gets_what(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int, int, bool]] = []
    real: Callable[..., None] = HostStream.launch

    def launch(self: HostStream, function: Any, grid: Any, block: Any, shared: int, arguments: Any, **how: Any) -> None:
        if function.name == "decode_step_kernel":
            seen.append((int(arguments[4]), int(arguments[2]), self.number, self.priority > 0))
        real(self, function, grid, block, shared, arguments, **how)

    monkeypatch.setattr(HostStream, "launch", launch)
    _, outcomes, _ = hosted("streams", {"S": 3, "N": 8, "steps": 2, "compute": 1})
    assert messages(outcomes) == {}
    turns = [(step, first) for step in (0, 1) for first in (0, 8, 16)]
    by_streams: dict[tuple[int, ...], tuple[bool, ...]] = {}
    for start in range(0, len(seen), 6):
        one = seen[start : start + 6]
        assert [(step, first) for step, first, _, _ in one] == turns
        numbers = tuple(number for _, _, number, _ in one)
        assert numbers[:3] == numbers[3:]  # a sequence stays on its stream
        by_streams[numbers[:3]] = tuple(high for _, _, _, high in one[:3])
    assert [(len(set(numbers)), high) for numbers, high in by_streams.items()] == [
        (1, (False, False, False)),
        (3, (False, False, False)),
        (3, (False, True, True)),
    ]


def test_decode_steps_out_of_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sequence whose decode steps run in the wrong order has another state."""
    real: Callable[..., None] = HostStream.launch

    def launch(self: HostStream, function: Any, grid: Any, block: Any, shared: int, arguments: Any, **how: Any) -> None:
        if function.name == "decode_step_kernel" and self.priority > 0:
            swapped = type(arguments[4])(1 - arguments[4])
            arguments = (*arguments[:4], swapped, *arguments[5:])
        real(self, function, grid, block, shared, arguments, **how)

    monkeypatch.setattr(HostStream, "launch", launch)
    _, outcomes, _ = hosted("streams", {"S": 2, "N": 8, "steps": 2, "compute": 1})
    assert list(messages(outcomes)) == ["priorities"]
    assert "8 of 16" in outcomes["priorities"].message


def test_connections_in_force() -> None:
    assert [max_connections(text) for text in ("", "1", "32")] == [8, 1, 32]
    assert [max_connections(text) for text in ("0", "33", "-1", "many")] == [None] * 4


def test_defaults_and_bytes() -> None:
    made = plan("streams")
    assert made.params["streams"] == 8
    for variant in made.variants:
        assert variant.bytes_moved == 8 * 8 * 16384 * 8
        assert variant.flops == 3 * 8 * 16384 * 8 * 256


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ({"S": 0}, "S=0: must be at least 1"),
        ({"S": 33}, "S=33: must be at most 32"),
        ({"N": 0}, "N=0: must be at least 1"),
        ({"steps": 0}, "steps=0: must be at least 1"),
        ({"compute": -1}, "compute=-1: must be at least 0"),
    ],
)
def test_bad_parameters_are_refused(params: dict[str, int], key: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"kernel.params.{key}")):
        plan("streams", params)
