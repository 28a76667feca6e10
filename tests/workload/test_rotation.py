"""Copies of a declared variant's buffers, on the host backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from runner.backend.base import OutOfMemory, Unsupported
from runner.backend.host import HostBackend
from runner.backend.host.device import HostDevice
from runner.plan.memory import flush_bytes
from runner.plan.model import Plan
from runner.worker.experiment import Experiment
from runner.workload import rotation
from runner.workload.base import Context
from runner.workload.declared import DeclaredWorkload
from runner.workload.rotation import MAX_COPIES, Rotation
from tests.kernels.hosted import programs
from tests.worker.test_experiment import planned


@contextmanager
def rotated(plan: Plan | None = None) -> Iterator[tuple[Rotation, Context, HostDevice]]:
    plan = plan or planned()
    backend = HostBackend()
    device = backend.open(0)
    experiment = Experiment(backend, [device], plan, programs(plan), {})
    experiment.prepare()
    context = cast(Context, experiment._own_context)
    made = Rotation(context, plan.variants[0])
    try:
        yield made, context, device
    finally:
        made.close()
        experiment.close()
        device.close()


def content(context: Context, buffer: Any) -> bytes:
    target = np.empty(buffer.nbytes, np.uint8)
    context.streams[0].read(target, buffer)
    return target.tobytes()


def test_each_step_of_a_graph_works_on_its_own_copy() -> None:
    with rotated() as (made, context, _):
        assert made.copy(3) == 3
        inputs, outputs = context.buffers["x"], context.buffers["y"]
        for buffer in [outputs, *(copy["y"] for copy in made._copies)]:
            context.streams[0].fill(buffer, 0xFF)
        graph = made.graph(2)
        graph.launch(context.streams[0])
        context.streams[0].synchronize()
        first, second = made._copies
        assert content(context, first["x"]) == content(context, inputs)
        assert content(context, outputs) == content(context, first["y"]) == content(context, inputs)
        assert set(content(context, second["y"])) == {0xFF}  # the third step would have been its
        graph.free()


def test_a_graph_walks_round() -> None:
    with rotated() as (made, _, _):
        made.copy(2)
        graph = made.graph(6)
        assert graph.nodes == 6 * made.launches == 6
        graph.free()


def test_copies_are_given_back() -> None:
    with rotated() as (made, _, device):
        before = device.free_bytes()
        made.copy(5)
        assert device.free_bytes() == before - 4 * 2 * 4000
        made.close()
        assert device.free_bytes() == before


def test_copies_are_wanted_until_they_outgrow_the_caches() -> None:
    plan = planned()
    with rotated() as (_, context, device):
        caches = rotation.FLUSHES * flush_bytes(device.info.l2_bytes, "host")
        assert Rotation(context, plan.variants[0]).wanted == MAX_COPIES  # of 8 kB each
        big = SimpleNamespace(nbytes=caches // 8, device=device)
        large = replace(context, buffers={"x": big, "y": big})
        made = Rotation(large, replace(plan.variants[0], bytes_read=caches // 8, bytes_written=caches // 8))
        assert (made.wanted, made.warm) == (4, True)
        half = replace(plan.variants[0], bytes_read=caches // 16, bytes_written=caches // 16)
        assert Rotation(large, half).wanted == 8  # it does not touch all of its buffers
        whole = SimpleNamespace(nbytes=caches, device=device)
        alone = Rotation(replace(context, buffers={"x": whole, "y": whole}), replace(half, bytes_read=caches))
        assert (alone.wanted, alone.warm) == (1, False)


def test_copies_stop_where_the_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    with rotated() as (made, _, device):
        before, real = device.free_bytes(), HostDevice.allocate
        left = [5]

        def allocate(self: HostDevice, nbytes: int) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise OutOfMemory("full")
            return real(self, nbytes)

        monkeypatch.setattr(HostDevice, "allocate", allocate)
        assert made.copy(10) == 3  # the third copy lacked its second buffer
        assert device.free_bytes() == before - 2 * 2 * 4000


def test_half_of_the_free_memory_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with rotated() as (_, context, _):
        monkeypatch.setattr(HostDevice, "free_bytes", lambda self: 10 * 8000)
        assert Rotation(context, planned().variants[0]).wanted == 1 + 5


def test_what_cannot_be_captured_says_why() -> None:
    plan = planned()
    context = cast(Context, SimpleNamespace(plan=plan))

    class Own:
        host_timed = False

    with pytest.raises(Unsupported, match="waits for the device itself"):
        rotation.rotation(cast(Any, SimpleNamespace(host_timed=True)), context, "plain")
    with pytest.raises(Unsupported, match="Own enqueues its steps in its own way"):
        rotation.rotation(cast(Any, Own()), context, "plain")
    with rotated() as (_, context, _):
        first = plan.variants[0].launches[0]
        spread = replace(plan, variants=(replace(plan.variants[0], launches=(replace(first, device=1),)),))
        workload = DeclaredWorkload(context)
        with pytest.raises(Unsupported, match="several devices"):
            rotation.rotation(workload, replace(context, plan=spread), "plain")
