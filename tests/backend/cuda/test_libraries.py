"""What a user is told when a package or the driver is missing."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from runner.backend.base import BackendError
from runner.backend.cuda import libraries


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries.load.cache_clear()
    for name in libraries.ENVIRONMENT:
        monkeypatch.setenv(name, "set by the user")


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    with pytest.raises(BackendError, match=r"pycuda is not installed .*pip install '\.\[cuda\]'"):
        libraries.load()


def test_a_driver_that_does_not_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Error(Exception):
        pass

    def init() -> None:
        raise Error("cuInit failed: no CUDA-capable device is detected")

    fake, package = ModuleType("pycuda.driver"), ModuleType("pycuda")
    fake.Error, fake.init = Error, init  # type: ignore[attr-defined]
    for name, module in {
        "pycuda": package,
        "pycuda.driver": fake,
        "cuda": ModuleType("cuda"),
        "cuda.bindings": ModuleType("cuda.bindings"),
        "cuda.bindings.driver": ModuleType("cuda.bindings.driver"),
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(BackendError, match=r"cannot start \(CUDA_VISIBLE_DEVICES=''\): cuInit failed"):
        libraries.load()
