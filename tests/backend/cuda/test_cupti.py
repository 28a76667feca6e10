"""CUPTI's records as events: real records of an H200, handed over by a pretended library."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from runner.backend.base import BackendError
from runner.backend.cuda import cupti

RECORDS = Path(__file__).resolve().parents[2] / "data" / "cupti_records.json"
KINDS = {"DRIVER": 4, "CONCURRENT_KERNEL": 10, "MEMCPY": 1, "MEMCPY2": 22, "MEMSET": 2}


class FakeCupti(ModuleType):
    """Delivers its records, in a thread of its own, when it is flushed."""

    ActivityKind = SimpleNamespace(**KINDS)
    ActivityThreadIdType = SimpleNamespace(SYSTEM=1)
    CallbackDomain = SimpleNamespace(DRIVER_API=1)

    def __init__(self) -> None:
        super().__init__("cupti.cupti")
        self.calls: list[tuple[object, ...]] = []
        self.now = 1795993170903000000
        self.records = [SimpleNamespace(**record) for record in json.loads(RECORDS.read_text())]
        self.refused = ""

    def get_timestamp(self) -> int:
        return self.now

    def set_thread_id_type(self, kind: int) -> None:
        self.calls.append(("threads", kind))

    def activity_register_callbacks(self, requested: Any, completed: Any) -> None:
        self.calls.append(("register", requested()))
        self.completed = completed

    def activity_enable(self, kind: int) -> None:
        if self.refused:
            raise RuntimeError(self.refused)
        self.calls.append(("enable", kind))

    def activity_disable(self, kind: int) -> None:
        self.calls.append(("disable", kind))

    def activity_flush_all(self, flag: int) -> None:
        self.calls.append(("flush", flag))
        thread = threading.Thread(target=self.completed, args=(self.records,))
        thread.start()
        thread.join()
        self.records = []

    def get_callback_name(self, domain: int, number: int) -> str:
        self.calls.append(("name", domain, number))
        return {3: "cuDeviceGetCount", 386: "cuMemAlloc_v2", 323: "cuMemcpyHtoDAsync_v2_ptsz"}[number]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupti]:
    fake = FakeCupti()
    monkeypatch.setitem(sys.modules, "cupti", ModuleType("cupti"))
    monkeypatch.setitem(sys.modules, "cupti.cupti", fake)
    cupti._library.cache_clear()
    yield fake
    cupti._library.cache_clear()


def test_recording_is_on_for_the_block_only(library: FakeCupti) -> None:
    with cupti.activities() as source:
        source.events()
    with cupti.activities():
        pass
    on, off = ([(what, kind) for kind in KINDS.values()] for what in ("enable", "disable"))
    calls = [call for call in library.calls if call[0] != "name"]
    # The callbacks are registered once per process: 8 MiB a buffer, as many records as fit.
    assert calls == [("threads", 1), ("register", (8 << 20, 0)), *on, ("flush", 1), *off, *on, *off]


def test_real_records_become_events(library: FakeCupti) -> None:
    with cupti.activities() as source:
        events = source.events()
    calls = [event for event in events if event.kind == "api"]
    assert [event.name for event in calls] == ["cuDeviceGetCount", "cuMemAlloc", "cuMemcpyHtoDAsync"]
    assert [(event.thread, event.correlation) for event in calls] == [(1491587392, n) for n in (1, 2, 3)]
    assert (calls[0].start_us, calls[0].end_us) == (545.935, 556.487)
    kernels = [event for event in events if event.kind == "launch"]
    assert [event.correlation for event in kernels] == [12, 14, 16]
    first = kernels[0]
    assert (first.name, first.device, first.stream, first.grid, first.block) == ("k", 0, 13, "1x1x1", "32x1x1")
    assert (first.registers, first.shared_bytes) == (16, 0)
    assert first.end_us - first.start_us == pytest.approx(0.96)
    copies = [event for event in events if event.kind == "copy"]
    assert [(event.name, event.bytes, event.memory) for event in copies] == [
        ("HtoD", 4096, "pageable"),
        ("DtoH", 4096, "pageable"),
    ]
    (filled,) = [event for event in events if event.kind == "fill"]
    assert (filled.name, filled.bytes, filled.stream, filled.correlation) == ("memset", 4096, 7, 18)
    assert len(events) == 9, "CUPTI's own overhead is no event"


def test_times_share_the_records_clock(library: FakeCupti) -> None:
    with cupti.activities() as source:
        library.now += 2500
        assert source.now_us() == 2.5


def test_memory_of_a_peer_copy_is_no_hosts(library: FakeCupti) -> None:
    common = {"start": library.now, "end": library.now + 10, "correlation_id": 1, "device_id": 1, "stream_id": 7}
    library.records = [SimpleNamespace(**common, kind=22, bytes=8, copy_kind=10, src_kind=3, dst_kind=3)]
    with cupti.activities() as source:
        (event,) = source.events()
    assert (event.kind, event.name, event.memory, event.device) == ("copy", "PtoP", "", 1)


def test_records_that_come_late_belong_to_nobody(library: FakeCupti) -> None:
    late = library.records
    with cupti.activities() as first:
        pass
    library.completed(late)
    with cupti.activities() as second:
        assert [event.kind for event in second.events()].count("launch") == 3
    assert first._events == []


def test_a_record_that_cannot_be_read_is_told(library: FakeCupti) -> None:
    library.records = [SimpleNamespace(kind=10)]
    with cupti.activities() as source, pytest.raises(BackendError, match=r"record could not be read: .*'start'"):
        source.events()


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)", "one tool at a time"),
        ("ERROR_INSUFFICIENT_PRIVILEGES (35)", "ERR_NVGPUCTRPERM"),
        ("ERROR_UNKNOWN (999)", "CUPTI cannot start: ERROR_UNKNOWN"),
    ],
)
def test_a_refusal_says_what_to_do(library: FakeCupti, error: str, remedy: str) -> None:
    library.refused = error
    with pytest.raises(BackendError, match=remedy), cupti.activities():
        pass
    assert not [call for call in library.calls if call[0] == "disable"]


def test_without_the_package_the_line_to_install_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupti.cupti", None)
    cupti._library.cache_clear()
    with pytest.raises(BackendError, match=r"pip install '\.\[cuda\]'"), cupti.activities():
        pass
    monkeypatch.setattr(cupti, "version", lambda: "")
    assert cupti.reason() == "cupti-python is not installed: pip install '.[cuda]'"
    monkeypatch.setattr(cupti, "version", lambda: "13.4.0")
    assert cupti.reason() == ""
