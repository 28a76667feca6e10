"""The decode loop's calls, on a stream that writes down what it is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from runner.workload.base import Context
from runner.workload.sync import DecodeLoop

STEPS, ELEMENTS = 3, 2050


class FakeStream:
    """``tokens`` on this device are 100, 101, … in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def launch(self, function: str, grid: Any, block: Any, shared: int, arguments: Any) -> None:
        source, target, tokens, count, step = arguments
        assert (function, block, shared, count) == ("decode_step_kernel", (256, 1, 1), 0, ELEMENTS)
        assert (target, tokens) == ("STATE", "TOKENS") and isinstance(step, np.int64)
        self.calls.append(("launch", source, grid[0], int(step)))

    def read(self, target: npt.NDArray[Any], source: str, offset: int = 0) -> None:
        assert source == "TOKENS"
        first = offset // 4
        target[:] = np.arange(100 + first, 100 + first + len(target))
        self.calls.append(("read", len(target), offset))

    def synchronize(self) -> None:
        self.calls.append(("synchronize",))

    def hold(self) -> None:
        self.calls.append(("hold",))

    def release(self) -> None:
        self.calls.append(("release",))

    def record(self, event: FakeEvent) -> None:
        self.calls.append(("record",))


class FakeEvent:
    def synchronize(self) -> None:
        pass

    def elapsed_us(self, since: FakeEvent) -> float:
        return 0.25


def made() -> tuple[DecodeLoop, FakeStream]:
    stream = FakeStream()
    device = SimpleNamespace(page_locked=lambda shape, dtype: np.full(shape, -1, dtype), event=FakeEvent)
    context = SimpleNamespace(
        plan=SimpleNamespace(symbols={"N": ELEMENTS, "steps": STEPS}),
        streams=[stream],
        devices=[device],
        buffers={"initial": "INITIAL", "state": "STATE", "tokens": "TOKENS"},
        function=lambda name: name,
    )
    return DecodeLoop(cast(Context, context)), stream


def launched(step: int) -> tuple[Any, ...]:
    return ("launch", "INITIAL" if step == 0 else "STATE", 3, step)


def test_a_loop_is_worth_its_tokens_and_waits_itself() -> None:
    loop, _ = made()
    assert loop.host_timed and loop.units_per_step == STEPS


def test_sync_each_step() -> None:
    loop, stream = made()
    loop.step("sync_each_step")
    assert stream.calls == [call for step in range(STEPS) for call in (launched(step), ("synchronize",))]


def test_blocking_readback_takes_one_token_at_a_time() -> None:
    loop, stream = made()
    loop.step("blocking_readback")
    expected = [call for s in range(STEPS) for call in (launched(s), ("read", 1, 4 * s), ("synchronize",))]
    assert stream.calls == expected
    assert loop.received.tolist() == [100, 101, 102]


def test_batched_async_waits_once() -> None:
    loop, stream = made()
    loop.step("batched_async")
    assert stream.calls == [*map(launched, range(STEPS)), ("read", STEPS, 0), ("synchronize",)]
    assert loop.received.tolist() == [100, 101, 102]


@pytest.mark.parametrize("variant", ["sync_each_step", "blocking_readback", "batched_async"])
def test_every_loop_starts_from_the_initial_state(variant: str) -> None:
    loop, stream = made()
    loop.reset(variant)
    loop.step(variant)
    first = list(stream.calls)
    stream.calls.clear()
    loop.step(variant)
    assert stream.calls == first
    assert {**loop.outputs(variant)} == cast(Any, {"state": "STATE", "tokens": "TOKENS"})


def test_idle_share_is_a_share() -> None:
    loop, stream = made()
    found = loop.metrics("sync_each_step")
    assert 0.0 <= found["gpu_idle_share"] <= 1.0
    assert found["device_us_per_token"] == pytest.approx(0.25 / STEPS)
    held = stream.calls[: STEPS + 4]
    assert held == [("hold",), ("record",), *map(launched, range(STEPS)), ("record",), ("release",)]
