"""The families of several GPUs on two and more: right results, the rates of NVLink, and peers that never come."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.backend import nvml, topology
from runner.backend.open import open_backend
from runner.build.api import build, requests
from runner.build.model import Program
from runner.plan.planner import make_plan
from tests.gpu.test_families import run
from tests.kernels.plans import H200, SOURCES, config

pytestmark = pytest.mark.gpu

COMMON = ("gpu=auto", "measure=quick", "tracking=none")


def gpus() -> int:
    return len(nvml.detect())


def say(name: str, text: str) -> None:
    print(f"\n[figure] {name}: {text}", flush=True)


@pytest.fixture(autouse=True)
def _two_gpus() -> None:
    if gpus() < 2:
        pytest.skip(f"needs two GPUs; there {'is one' if gpus() == 1 else 'are none'}")


def measured(folder: Path, devices: int, *arguments: str) -> dict[str, dict[str, Any]]:
    """Variant → result of one experiment; all passed, or were skipped for want of NCCL."""
    chosen = f"devices=[{','.join(map(str, range(devices)))}]"
    code, output, results = run(folder, *arguments, chosen, *COMMON)
    assert code == 0, output
    for result in results:
        assert result["status"] == "PASSED" or "NCCL is not installed" in result["message"], result["message"]
        assert result["backend"] == "cuda" and result["quality"] != "ABOVE_PEAK"
    return {result["variant"]: result for result in results}


def metrics(found: Mapping[str, dict[str, Any]], name: str) -> dict[str, float]:
    return {variant: result["metrics"][name] for variant, result in found.items() if name in result["metrics"]}


def test_copies_at_the_rate_of_the_link(tmp_path: Path) -> None:
    found = measured(tmp_path, 2, "kernel=multi_gpu_p2p", "kernel.params.MB=256", "kernel.params.calls=10")
    rates, hidden = metrics(found, "gbps_link"), metrics(found, "overlap")
    say("256 MiB", f"{rates} GB/s; overlap {hidden}")
    assert all(0.0 <= share <= 1.0 for share in hidden.values())
    if found["copy"]["metrics"].get("nvlinks", 0) >= 18:
        assert rates["copy"] >= 375
        assert rates["copy_both"] >= 1.8 * rates["copy"]


def test_small_copies(tmp_path: Path) -> None:
    found = measured(tmp_path, 2, "kernel=multi_gpu_p2p", "kernel.params.N=1027", "kernel.params.calls=16")
    say("4 KiB", f"{metrics(found, 'call_us')} us")


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_all_reduces_of_32_kib(devices: int, tmp_path: Path) -> None:
    if gpus() < devices:
        pytest.skip(f"needs {devices} GPUs")
    found = measured(tmp_path, devices, "kernel=tp_allreduce", "kernel.params.N=8192", "kernel.params.calls=64")
    times = metrics(found, "call_us")
    say(f"32 KiB over {devices}", f"{times} us; layers {metrics(found, 'layer_us')}, {metrics(found, 'overlap')}")
    if "nccl_graph" in times and topology.nvlinks(0, 1):
        assert min(times["one_shot_graph"], times["one_shot_push_graph"]) < times["nccl_graph"]


@pytest.mark.parametrize("elements", [4, 1028, 16 << 20])
def test_all_reduces_of_other_sizes(elements: int, tmp_path: Path) -> None:
    found = measured(tmp_path, 2, "kernel=tp_allreduce", f"kernel.params.N={elements}", "kernel.params.calls=4")
    say(f"{4 * elements} bytes", f"{metrics(found, 'busbw_gbps')} GB/s")


@pytest.mark.parametrize("op", ["all_gather", "reduce_scatter", "all_to_all", "migrate_pages", "migrate_prefix"])
def test_exchanges(op: str, tmp_path: Path) -> None:
    found = measured(tmp_path, min(gpus(), 8), "kernel=collectives", f"kernel.params.op={op}")
    say(op, f"{metrics(found, 'busbw_gbps')} GB/s")


ALONE = """
import sys
from pathlib import Path
import numpy as np
from runner.backend.base import DeviceFault
from runner.backend.open import open_backend
backend = open_backend("cuda")
devices = [backend.open(0), backend.open(1)]
devices[0].enable_peer_access(devices[1])
boxes = [device.allocate(1 << 16) for device in devices]
streams = [device.stream() for device in devices]
data, counts = devices[0].allocate(256), devices[0].allocate(2048)
for stream, box in zip(streams, boxes):
    stream.fill(box, 0)
streams[0].fill(counts, 0)
for stream in streams:
    stream.synchronize()
numbers = [np.int64(number) for number in (0, 0, 2, 64, 64, 300)]
arguments = (data, data, counts, *boxes, *boxes[:1] * 6, *numbers)
function = devices[0].load(Path(sys.argv[1])).function("one_shot_kernel")
streams[0].launch(function, (1, 1, 1), (256, 1, 1), 0, arguments)
try:
    streams[0].synchronize()
except DeviceFault as fault:
    print("FAULT", fault)
"""
"""A device that launches what should meet another's, which launches nothing."""


def test_a_peer_that_never_comes_is_an_error_and_no_hang() -> None:
    arch = open_backend("cuda").open(0).info.arch
    made, _ = make_plan(config("tp_allreduce", {"N": 64}), replace(H200, arch=arch), [SOURCES])
    request = requests(made)["main"]
    program = build([request])[request]
    assert isinstance(program, Program), program
    line = [sys.executable, "-c", ALONE, str(program.path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert "FAULT device fault" in done.stdout, done.stdout + done.stderr
