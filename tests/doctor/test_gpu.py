"""GPUs and what drives them, pretended."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.build import cuda
from runner.doctor import gpu
from runner.doctor.model import State
from tests.backend.test_topology import Linked

MODULE_TEXT = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x@y)\nGCC version: 12.2"
)


def test_gpus_are_listed_with_their_modes(library: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "nvmlDeviceGetMigMode", lambda handle: [handle, handle])
    answer = gpu.gpus()
    assert answer.state is State.OK
    assert answer.found == "0: NVIDIA Fake 16 GiB ECC; 1: NVIDIA Fake 16 GiB MIG ECC"
    assert gpu.driver().found == "580.1"


def test_a_gpu_whose_memory_is_ill_is_broken(library: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "nvmlDeviceGetRemappedRows", lambda handle: (0, 1, handle, 0), False)
    answer = gpu.gpus()
    assert answer.state is State.BROKEN
    assert answer.found.endswith("; GPU 1: a memory row waits to be remapped")
    assert "reset the GPU" in answer.mend


def test_without_nvml_each_line_says_so(no_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "MODULE", tmp_path / "none")
    for answer in (gpu.driver(), gpu.gpus(), gpu.peers()):
        assert answer.state is State.MISSING
        assert "experiments run on the CPU" in answer.mend


def test_the_driver_is_seen_without_nvml(no_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "MODULE", tmp_path / "version")
    gpu.MODULE.write_text(MODULE_TEXT)
    assert gpu.driver().found == "580.159.04"


def test_peers(library: Linked) -> None:
    assert gpu.peers().found == "all pairs, by NV18"


def test_peers_that_may_not_write_are_named(library: Linked) -> None:
    library.links = 0
    answer = gpu.peers()
    assert answer.state is State.BROKEN
    assert "2 of 2 directions" in answer.found
    assert "0→1: read OK, write not supported by the topology" in answer.found


@pytest.mark.parametrize(
    ("code", "state", "found"),
    [
        ("print('2025.1 sees 1 GPU(s)')", State.OK, "2025.1 sees 1 GPU(s)"),
        ("raise ImportError('libcuda.so.1')", State.BROKEN, "9.9 does not start: ImportError: libcuda.so.1"),
        ("import os; os.kill(os.getpid(), 11)", State.BROKEN, "9.9 does not start: exit code -11"),
    ],
)
def test_a_package_is_imported_in_a_process_of_its_own(
    library: Linked, monkeypatch: pytest.MonkeyPatch, code: str, state: State, found: str
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9")
    answer = gpu._package("pycuda", code)
    assert (answer.state, answer.found) == (state, found)


def test_a_package_that_is_not_installed_is_missing() -> None:
    answer = gpu._package("no-such-package", "")
    assert (answer.state, answer.mend) == (State.MISSING, "pip install '.[cuda]'")


def test_the_programs_that_import_them_are_valid() -> None:
    for code in (gpu._PYCUDA, gpu._BINDINGS, gpu._CUPTI):
        done = subprocess.run([sys.executable, "-c", f"compile({code!r}, 'x', 'exec')"], check=False)
        assert done.returncode == 0


@pytest.mark.parametrize(
    ("body", "state", "found"),
    [
        ("exit 0", State.OK, "release 13.0, V13.0.88"),
        (
            "echo 'error -- unsupported GNU version! gcc versions later than 14'; exit 1",
            State.BROKEN,
            "unsupported GNU",
        ),
    ],
)
def test_nvcc_compiles_a_kernel(
    pretend: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, body: str, state: State, found: str
) -> None:
    version = '[ "$1" = --version ] && { echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0; }; '
    path = pretend("nvcc", version + body)
    monkeypatch.setattr(cuda, "compiler", lambda: str(path))
    answer = gpu.nvcc()
    assert answer.state is state
    assert found in answer.found
