"""The GPUs, and what drives them: driver, nvcc, PyCUDA, cuda-bindings, CUPTI, access between peers."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tempfile
from pathlib import Path

from runner.backend import nvml, topology
from runner.backend.cuda.libraries import INSTALL
from runner.build import cuda
from runner.build.model import CompilerMissing
from runner.doctor.host import SOURCE
from runner.doctor.model import Answer, Probe, broken, missing, ok, run

MODULE = Path("/proc/driver/nvidia/version")
_IMPORT_S = 60.0
_NO_GPU = "without a GPU nothing is to be done: experiments run on the CPU"
_PYCUDA = """
import pycuda, pycuda.driver as driver
driver.init()
print(pycuda.VERSION_TEXT, "sees", driver.Device.count(), "GPU(s)")
"""
_BINDINGS = """
import cuda.bindings
from cuda.bindings import driver
error, version = driver.cuDriverGetVersion()
print(cuda.bindings.__version__, "for CUDA", f"{version // 1000}.{version % 1000 // 10}")
"""
_CUPTI = """
import importlib.metadata
from cupti import cupti
cupti.get_timestamp()  # the package loads NVIDIA's library when it is first asked for something
print(importlib.metadata.version("cupti-python"))
"""

_NCCL = """
from runner.backend.base import Unsupported
from runner.backend.cuda.nccl import library, version
try:
    print(version(library()), "without NVLink multicast")
except Unsupported:
    raise SystemExit(1)
"""


def probes() -> list[Probe]:
    return [
        Probe("nvidia-ml-py", "finds GPUs; clocks, power, health, topology", nvml_package),
        Probe("driver", "runs kernels on a GPU", driver),
        Probe("GPU", "what kernels run on with gpu=auto", gpus),
        Probe("nvcc", "compiles kernels for a GPU", nvcc, limit_s=120),
        Probe("PyCUDA", "drives the GPU", lambda: _package("pycuda", _PYCUDA), limit_s=90),
        Probe(
            "cuda-bindings", "CUDA graphs, pools, peer copies", lambda: _package("cuda-bindings", _BINDINGS), limit_s=90
        ),
        Probe("CUPTI", "profiler=timeline on a GPU", lambda: _package("cupti-python", _CUPTI), limit_s=90),
        Probe("peer access", "devices=[0,1]: one GPU reads the other's memory", peers),
        Probe("NCCL", "variant nccl of the families of several GPUs", nccl, limit_s=90),
    ]


def nvml_package() -> Answer:
    try:
        return ok(importlib.metadata.version("nvidia-ml-py"))
    except importlib.metadata.PackageNotFoundError:
        return missing("not installed, so that no GPU is found", INSTALL)


def driver() -> Answer:
    version = nvml.driver_version() or _loaded_module(MODULE)
    if version:
        return ok(version)
    return missing(nvml.reason(), f"install NVIDIA's driver, and in a container start it with --gpus all; {_NO_GPU}")


def _loaded_module(path: Path) -> str:
    """Version of the kernel module, which tells it also where NVML cannot be asked; empty when there is none."""
    try:
        found = re.search(r"Kernel Module.*?(\d+\.\d+[\d.]*)", path.read_text(encoding="utf-8"))
    except OSError:
        return ""
    return found[1] if found else ""


def gpus() -> Answer:
    """Every GPU with its modes; faults of its memory make it broken."""
    states = nvml.detect()
    if not states:
        return missing(nvml.reason(), f"CUDA_VISIBLE_DEVICES hides GPUs, if it is set; {_NO_GPU}")
    parts, faults = [], []
    for state in states:
        seen = nvml.snapshot(state.uuid)
        modes = [name.upper() for name in ("mig", "ecc") if seen.get(name)]
        parts.append(f"{state.index}: {state.name} {state.memory_mib / 1024:.0f} GiB {' '.join(modes)}".rstrip())
        faults += [
            f"GPU {state.index}: {text}"
            for key, text in (
                ("remap_failed", "a memory row could not be remapped"),
                ("remap_pending", "a memory row waits to be remapped"),
                ("ecc_uncorrected", "uncorrected memory errors"),
            )
            if seen.get(key)
        ]
    found = "; ".join(parts)
    if faults:
        return broken(
            f"{found}; {'; '.join(faults)}", "reset the GPU (nvidia-smi -r) or reboot; if it stays, replace it"
        )
    return ok(found)


def nvcc() -> Answer:
    """A kernel is compiled for nvcc's own default architecture."""
    try:
        path = cuda.compiler()
    except CompilerMissing as error:
        return missing(error.message, error.advice)
    text = cuda.versions(path)[0]
    release = next((line.strip() for line in text.splitlines() if "release" in line), text.strip())
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cu"
        source.write_text(SOURCE)
        said = run([path, "-cubin", "--std=c++17", "-o", str(source.with_suffix(".cubin")), str(source)], _IMPORT_S)
    if said.code != 0:
        errors = cuda.error_lines(said.text, 1)
        return broken(
            f"{path}: {release} does not compile a kernel: {' '.join(errors) or said.last}",
            "install a host compiler that this nvcc supports, and name it with NVCC_CCBIN",
        )
    return ok(f"{path}: {release}")


def _package(name: str, code: str) -> Answer:
    """Imported in a process of its own, as a package that does not fit the driver may crash."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return missing("not installed", INSTALL)
    said = run([sys.executable, "-c", code], _IMPORT_S)
    if said.code == 0:
        return ok(said.last)
    if not nvml.detect():
        return broken(f"{version} is installed and does not start: {said.last}", f"it needs NVIDIA's driver; {_NO_GPU}")
    return broken(f"{version} does not start: {said.last}", f"install it anew against this CUDA toolkit: {INSTALL}")


def nccl() -> Answer:
    """Loaded in a process of its own: the library may print, and stays."""
    said = run([sys.executable, "-c", _NCCL], _IMPORT_S)
    if said.code == 0:
        return ok(said.last)
    return missing("not installed", "pip install '.[nccl]'; without it those variants are skipped")


def peers() -> Answer:
    if not nvml.detect():
        return missing("no GPU", _NO_GPU)
    pairs = topology.pairs()
    if not pairs:
        return ok("one GPU, which has no peer")
    closed = [pair for pair in pairs if (pair.read, pair.write) != ("OK", "OK")]
    paths = ", ".join(dict.fromkeys(pair.path for pair in pairs))
    if not closed:
        return ok(f"all pairs, by {paths}")
    shown = "; ".join(f"{pair.first}→{pair.second}: read {pair.read}, write {pair.write}" for pair in closed[:4])
    return broken(
        f"{len(closed)} of {len(pairs)} directions are closed ({shown})",
        "copies between these go through host memory; a virtual machine or ACS on the PCIe bridges may be why",
    )
