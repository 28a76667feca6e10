"""The fill kernels through a real backend: built, loaded and launched as an experiment does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from runner.backend.base import Device, Module
from runner.backend.open import open_backend
from runner.build import api
from runner.check import generator
from runner.check.fill import fill_launches
from runner.plan import dtypes
from runner.plan.model import Buffer, Fill, Plan, Target
from runner.workload.base import Context
from runner.workload.declared import bind
from tests.plan.plans import plan_with

ELEMENTS = 100_003
"""Not a multiple of anything: the last elements are stored one by one."""


@dataclass
class Opened:
    device: Device
    modules: dict[str, Module]
    plan: Plan


def plan_for(backend: str, arch: str) -> Plan:
    filled = Buffer("x", (1,), "float32", Fill("uniform"))  # makes the plan ask for the unit "fill"
    return plan_with(
        target=Target("t", backend="cuda" if backend == "cuda" else "host", arch=arch), buffers=(filled,), seed=11
    )


@pytest.fixture(scope="module", params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    device = open_backend(request.param).open(0)
    plan = plan_for(request.param, device.info.arch if request.param == "cuda" else "")
    requests = api.requests(plan)
    built = api.build(requests.values())
    modules: dict[str, Any] = {}
    for unit, wanted in requests.items():
        program = built[wanted]
        assert not isinstance(program, Exception), program
        modules[unit] = device.load(program.path)
    yield Opened(device, modules, plan)
    device.close()


@pytest.mark.parametrize("name", dtypes.NAMES)
def test_a_backend_fills_as_numpy_does(opened: Opened, name: str) -> None:
    fills = [Fill("integers", low=0, high=100), Fill("constant", value=3)]
    if dtypes.is_float(name):
        fills += [Fill("uniform", low=-0.1, high=0.2), Fill("uniform", low=-3e-8, high=2e-6)]
    stream = opened.device.stream()
    for fill in fills:
        buffer = Buffer("x", (ELEMENTS,), name, fill)
        memory = opened.device.allocate(ELEMENTS * dtypes.itemsize(name))
        context = Context(opened.plan, [opened.device], [stream], {"x": memory}, [opened.modules])
        for launch in bind(context, fill_launches(opened.plan, buffer)):
            launch.enqueue()
        made = np.empty(ELEMENTS, dtypes.numpy_dtype(name))
        stream.read(made, memory)
        stream.synchronize()
        assert made.tobytes() == generator.values(buffer, 11, 0, ELEMENTS).tobytes(), fill
        memory.free()
    stream.close()
