"""NCCL's calls, by a library that writes down what it is asked; and what is said where there is none."""

from __future__ import annotations

import ctypes
import os
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.backend.base import BackendError, Unsupported
from runner.backend.collectives import open_collectives
from runner.backend.cuda import nccl
from runner.backend.cuda.memory import CudaBuffer


class FakeNccl:
    """Answers every call with success, but for the one named ``fails``."""

    def __init__(self, fails: str = "") -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._fails = fails

    def ncclGetVersion(self, number: Any) -> int:
        ctypes.cast(number, ctypes.POINTER(ctypes.c_int))[0] = 22809
        return 0

    def ncclCommInitAll(self, communicators: Any, count: int, ordinals: Any) -> int:
        self.calls.append(("init", list(ordinals)))
        for place in range(count):
            communicators[place] = 1000 + place
        return 3 if self._fails == "init" else 0

    def ncclGetErrorString(self, code: int) -> bytes:
        return f"error {code}".encode()

    def ncclGetLastError(self, communicator: Any) -> bytes:
        return b"no peer"

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, *arguments))
            return 5 if name == self._fails else 0

        return call


def devices(count: int, log: list[str]) -> tuple[list[Any], list[Any]]:
    def current(handle: int) -> tuple[int]:
        log.append(f"current {handle}")
        return (0,)

    bindings = SimpleNamespace(cuCtxSetCurrent=current)
    made = [
        SimpleNamespace(
            info=SimpleNamespace(ordinal=place, backend="cuda"),
            context_handle=70 + place,
            activate=lambda place=place: log.append(f"activate {place}"),
            errors=SimpleNamespace(check=lambda result, doing: None),
            libraries=SimpleNamespace(bindings=bindings),
        )
        for place in range(count)
    ]
    streams = [SimpleNamespace(handle=500 + place, ready=lambda: log.append("ready")) for place in range(count)]
    return made, streams


def buffers(count: int, first: int, floats: int = 64) -> list[Any]:
    return [CudaBuffer(None, first + 0x1000 * place, 4 * floats, lambda one: None) for place in range(count)]  # type: ignore[arg-type]


def test_an_all_reduce_is_one_group_of_a_call_for_each_device() -> None:
    library, log = FakeNccl(), []  # type: tuple[FakeNccl, list[str]]
    opened = nccl.Nccl(*devices(2, log), load=lambda: library)
    assert opened.version == "2.28.9"
    library.calls.clear()
    opened.all_reduce(buffers(2, 0x10000), buffers(2, 0x80000), 16)
    assert library.calls == [
        ("ncclGroupStart",),
        ("ncclAllReduce", 0x10000, 0x80000, 16, 7, 0, 1000, 500),
        ("ncclAllReduce", 0x11000, 0x81000, 16, 7, 0, 1001, 501),
        ("ncclGroupEnd",),
    ]
    assert log[-2:] == ["activate 0", "current 70"]


def test_gather_scatter_and_routed_parts() -> None:
    library, log = FakeNccl(), []  # type: tuple[FakeNccl, list[str]]
    opened = nccl.Nccl(*devices(2, log), load=lambda: library)
    library.calls.clear()
    opened.all_gather(buffers(2, 0x10000), buffers(2, 0x80000), 32)
    opened.reduce_scatter(buffers(2, 0x10000), buffers(2, 0x80000), 32)
    parts = [[(0, 0, 4), (4, 2, 6)], [(0, 4, 0), (8, 8, 1)]]
    opened.all_to_all(buffers(2, 0x10000), buffers(2, 0x80000), parts)
    named = [call for call in library.calls if call[0] in ("ncclSend", "ncclRecv")]
    assert named == [
        ("ncclSend", 0x10000, 4, 7, 0, 1000, 500),
        ("ncclRecv", 0x80000, 4, 7, 0, 1000, 500),
        ("ncclSend", 0x10010, 6, 7, 1, 1000, 500),
        ("ncclRecv", 0x81008, 6, 7, 0, 1001, 501),
        ("ncclSend", 0x11020, 1, 7, 1, 1001, 501),
        ("ncclRecv", 0x81020, 1, 7, 1, 1001, 501),
    ]
    with pytest.raises(BackendError, match="do not fit a buffer"):
        opened.all_gather(buffers(2, 0x10000), buffers(2, 0x80000), 33)
    assert library.calls[-1] == ("ncclGroupEnd",)  # a group that began ends


@pytest.mark.parametrize(
    ("fails", "message"),
    [("init", "NCCL cannot connect 2 devices: error 3"), ("ncclAllReduce", "NCCL cannot all-reduce: error 5")],
)
def test_an_error_has_the_librarys_words(fails: str, message: str) -> None:
    library, log = FakeNccl(fails), []  # type: tuple[FakeNccl, list[str]]
    with pytest.raises(BackendError, match=message + r" \(no peer\)"):
        nccl.Nccl(*devices(2, log), load=lambda: library).all_reduce(buffers(2, 0x10000), buffers(2, 0x80000), 4)
    if fails != "init":
        assert library.calls[-1] == ("ncclGroupEnd",)  # a group that began ends


def test_communicators_are_destroyed_once() -> None:
    library, log = FakeNccl(), []  # type: tuple[FakeNccl, list[str]]
    opened = nccl.Nccl(*devices(2, log), load=lambda: library)
    opened.close()
    opened.close()
    assert [call for call in library.calls if call[0] == "ncclCommDestroy"] == [
        ("ncclCommDestroy", 1000),
        ("ncclCommDestroy", 1001),
    ]


def test_without_the_library_there_is_a_reason_and_no_multicast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    monkeypatch.setattr(nccl, "_installed", list)
    monkeypatch.setattr(nccl, "LIBRARY", "libnccl_that_is_not_here.so.2")
    nccl.library.cache_clear()
    with pytest.raises(Unsupported, match=r"NCCL is not installed \(pip install '.\[nccl\]'\): libnccl_that"):
        nccl.library()
    assert os.environ["NCCL_NVLS_ENABLE"] == "0"


def test_the_host_backend_has_none() -> None:
    host = SimpleNamespace(info=SimpleNamespace(backend="host"))
    with pytest.raises(Unsupported, match="NCCL needs GPUs"):
        open_collectives([cast(Any, host)], [])
