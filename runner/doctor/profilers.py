"""The profilers: NVIDIA's tools, whether the driver lets them count, and whether ranges are recorded."""

from __future__ import annotations

import importlib.util
import sys

from runner.backend import nvml
from runner.doctor.model import Answer, Probe, broken, missing, ok, run
from runner.profile import ncu, ncu_failures, nsys, nvtx
from runner.profile.find_tool import Found, Tool
from runner.profile.sanitizer import COMPUTE_SANITIZER

_COUNT_S = 120.0
_METRIC = "sm__cycles_elapsed.max"
"""Any hardware counter; the launch's own figures would be given to anybody."""
_KERNEL = """
import pycuda.driver as driver
driver.init()
device = driver.Device(0)
context = device.make_context()
try:
    capability = device.compute_capability()
    target = ("7.0", 80) if capability >= (8, 0) else ("6.3", 75) if capability >= (7, 5) else ("6.0", 50)
    ptx = ".version %s\\n.target sm_%d\\n.address_size 64\\n.visible .entry probe() { ret; }\\n" % target
    driver.module_from_buffer(ptx.encode()).get_function("probe")(block=(1, 1, 1))
    context.synchronize()
finally:
    context.pop()
    context.detach()
"""
"""One empty kernel, which the driver itself compiles: nvcc is not needed."""


def probes() -> list[Probe]:
    return [
        Probe("Nsight Systems", "profiler=nsys", lambda: _tool(nsys.TOOL)),
        Probe("nvtx", "names on the timeline; profiler=nsys and nvtx", ranges),
        Probe("Nsight Compute", "profiler=ncu", lambda: _tool(ncu.TOOL)),
        Probe("GPU counters", "profiler=ncu", counters, limit_s=_COUNT_S + 30),
        Probe("Compute Sanitizer", "profiler=memcheck and its kin on a GPU", lambda: _tool(COMPUTE_SANITIZER)),
    ]


def _tool(tool: Tool) -> Answer:
    found = tool.find()
    if isinstance(found, Found):
        return ok(f"{found.path}: {found.version}")
    return (broken if found.broken else missing)(found.what, found.hint)


def ranges() -> Answer:
    found = nsys.TOOL.find()
    problem = nvtx.unrecorded(nvtx.version(), found.version if isinstance(found, Found) else "")
    if not problem:
        return ok(nvtx.version())
    what, _, mend = problem.rpartition(": ")
    return (broken if nvtx.version() else missing)(what, mend)


def counters() -> Answer:
    """A kernel is counted for real: only that tells whether the driver allows it."""
    found = ncu.TOOL.find()
    if not isinstance(found, Found):
        return missing("cannot be tried without Nsight Compute", "install Nsight Compute")
    if not nvml.detect():
        return missing("cannot be tried without a GPU", "without a GPU nothing is to be done")
    if importlib.util.find_spec("pycuda") is None:
        return missing("cannot be tried without PyCUDA", "pip install '.[cuda]'")
    command = [str(found.path), "--target-processes", "all", "--metrics", _METRIC, sys.executable, "-c", _KERNEL]
    said = run(command, _COUNT_S)
    denied = ncu_failures.denied(said.text)
    if denied:
        what, _, mend = denied.partition(": ")
        return broken(what, mend)
    if said.code == 0 and _METRIC in said.text:
        return ok("a kernel could be counted")
    errors = [line for line in said.text.splitlines() if line.startswith("==ERROR==")]
    return broken(
        f"no kernel could be counted: {errors[0] if errors else said.last}",
        "try it by hand: ncu with any CUDA program; see that no other profiler (DCGM) holds the counters",
    )
