"""The calls of an eager and a replayed loop, on a stream that writes down what it is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from runner.backend.base import BackendError, Graph
from runner.plan.model import Buffer, Launch
from runner.workload.base import Context
from runner.workload.capture import Captured
from runner.workload.cuda_graph_decode import REPEATS, GraphLoop

STEPS = 3
KERNELS = ("norm", "rope", "mix", "argmax")


class FakeGraph:
    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def launch(self, stream: FakeStream) -> None:
        stream.calls.append("replay")

    def free(self) -> None:
        self._calls.append("free")


class FakeStream:
    """Outputs read after a replay are ``after_replay``, after launches ``after_launch``."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.refuses = ""
        self.after_launch = self.after_replay = 1.0

    def launch(self, function: str, *rest: Any, **how: Any) -> None:
        if function == self.refuses and "begin_capture" in self.calls:
            raise BackendError("refused")
        self.calls.append(function)

    def read(self, target: npt.NDArray[Any], source: str, offset: int = 0) -> None:
        last = next(call for call in reversed(self.calls) if call in (*KERNELS, "replay"))
        target[...] = self.after_replay if last == "replay" else self.after_launch

    def fill(self, target: str, byte: int) -> None:
        assert (target, byte) == ("POSITION", 0)
        self.calls.append("rewind")

    def begin_capture(self) -> None:
        self.calls.append("begin_capture")

    def end_capture(self) -> FakeGraph:
        self.calls.append("end_capture")
        return FakeGraph(self.calls)

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def hold(self) -> None:
        self.calls.append("hold")

    def release(self) -> None:
        self.calls.append("release")

    def record(self, event: FakeEvent) -> None:
        self.calls.append("record")


class FakeEvent:
    def elapsed_us(self, since: FakeEvent) -> float:
        return 6.0


def made() -> tuple[GraphLoop, FakeStream]:
    stream = FakeStream()
    launches = tuple(Launch(name, (1, 1, 1), (32, 1, 1), ()) for name in KERNELS)
    outputs = {name: Buffer(name, (2, 2), "float32") for name in ("state", "maximum", "token")}
    context = SimpleNamespace(
        plan=SimpleNamespace(
            symbols={"steps": STEPS},
            variant=lambda name: SimpleNamespace(launches=launches),
            buffer=outputs.__getitem__,
        ),
        streams=[stream],
        devices=[SimpleNamespace(event=FakeEvent)],
        buffers={"position": "POSITION", **{name: name.upper() for name in outputs}},
        function=lambda name, *rest: name,
    )
    return GraphLoop(cast(Context, context)), stream


def test_a_loop_is_worth_its_steps_and_waits_itself() -> None:
    loop, _ = made()
    assert loop.host_timed and loop.units_per_step == STEPS


def test_eager_launches_every_kernel_of_every_step_and_captures_nothing() -> None:
    loop, stream = made()
    loop.reset("eager")
    assert stream.calls == ["rewind", "synchronize"]
    stream.calls.clear()
    loop.step("eager")
    assert stream.calls == [*KERNELS * STEPS, "synchronize"]


def test_the_graph_is_captured_once_and_replayed_once_a_step() -> None:
    loop, stream = made()
    loop.reset("graph")
    warm = [*KERNELS, "synchronize"]
    assert stream.calls == [*warm, "begin_capture", *KERNELS, "end_capture", "rewind", "synchronize"]
    stream.calls.clear()
    loop.reset("graph")
    loop.step("graph")
    assert stream.calls == ["rewind", "synchronize", *["replay"] * STEPS, "synchronize"]
    loop.close()
    loop.close()
    assert stream.calls.count("free") == 1


def test_a_launch_that_is_refused_does_not_leave_the_stream_in_capture() -> None:
    loop, stream = made()
    stream.refuses = "mix"
    with pytest.raises(BackendError, match="refused"):
        loop.reset("graph")
    assert stream.calls[-4:] == ["norm", "rope", "end_capture", "free"]
    stream.refuses = ""
    loop.reset("graph")  # a new capture, not the broken one
    assert stream.calls.count("begin_capture") == 2
    loop.close()


def test_eager_knows_the_device_time_alone() -> None:
    loop, stream = made()
    loop.reset("eager")
    stream.calls.clear()
    assert loop.metrics("eager") == {"device_us_per_step": 6.0 / STEPS}
    held = ["hold", "record", *KERNELS * STEPS, "record", "release", "synchronize", "rewind", "synchronize"]
    assert stream.calls == held * REPEATS


def test_replay_and_eager_are_compared_bit_by_bit() -> None:
    loop, stream = made()
    loop.reset("graph")
    assert loop.metrics("graph")["replay_mismatches"] == 0
    stream.after_replay = float(np.nextafter(np.float32(1.0), np.float32(2.0)))
    assert loop.metrics("graph")["replay_mismatches"] == 12
    stream.after_replay = stream.after_launch = float("nan")
    assert loop.metrics("graph")["replay_mismatches"] == 0


@pytest.mark.parametrize(("eager", "graph", "steps"), [(60.0, 30.0, 4.0), (30.0, 30.0, None), (30.0, 60.0, None)])
def test_break_even(monkeypatch: pytest.MonkeyPatch, eager: float, graph: float, steps: float | None) -> None:
    loop, _ = made()
    loop.reset("graph")
    times: dict[str, tuple[float, dict[str, Any]]] = {"eager": (eager, {}), "graph": (graph, {})}
    monkeypatch.setattr(loop, "_timed", times.__getitem__)
    monkeypatch.setattr(loop, "_captured", Captured(cast(Graph, FakeGraph([])), 15.0, 25.0))
    found = loop.metrics("graph")
    assert (found["capture_us"], found["instantiate_us"]) == (15.0, 25.0)
    assert found.get("break_even_steps") == steps
