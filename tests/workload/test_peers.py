"""Peer access is tried by another process, and one that lies, hangs or dies costs the pair it was tried with."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runner.backend.base import BackendError, Unsupported, Untrusted
from runner.backend.host import HostBackend
from runner.backend.host.device import HostDevice
from runner.backend.host.stream import HostStream
from runner.workload import peer_trial, peers
from runner.workload.peers import Access, run_trial
from tests.kernels.hosted import programs
from tests.kernels.plans import plan


@pytest.fixture(scope="module")
def program() -> Path:
    return programs(plan("multi_gpu_p2p", {"N": 16}, target=_host()))["main"]


def _host() -> Any:
    from tests.kernels.plans import HOST

    return HOST


@pytest.fixture
def devices() -> Any:
    backend = HostBackend(devices=3)
    opened = [backend.open(ordinal) for ordinal in range(3)]
    yield opened
    for device in opened:
        device.close()


def test_a_sound_pair(devices: list[HostDevice], program: Path) -> None:
    assert peer_trial.examine(devices[0], devices[1], program) == {"copy": "", "read": "", "write": ""}


def test_without_access_only_copies_are_tried(
    devices: list[HostDevice], program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HostDevice, "can_access_peer", lambda self, peer: False)
    assert peer_trial.examine(devices[0], devices[1], program) == {"copy": ""}


def test_writes_that_are_dropped_are_told_from_those_that_are_wrong(
    devices: list[HostDevice], program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., None] = HostStream.launch

    def launch(self: HostStream, function: Any, *rest: Any, **how: Any) -> None:
        if self.device is not devices[0]:  # the source's kernel, which writes, does nothing
            real(self, function, *rest, **how)

    monkeypatch.setattr(HostStream, "launch", launch)
    found = peer_trial.examine(devices[0], devices[1], program)
    count = peer_trial.ELEMENTS
    assert (found["copy"], found["read"]) == ("", "")
    assert found["write"].startswith(f"{count} of {count} words arrived wrong (word 0: 0xa5a5a5a5 for ")
    assert found["write"].endswith(f"{count} were never written")


def test_what_differs_in_words() -> None:
    sent = np.arange(5, dtype=np.uint32)
    arrived = sent.copy()
    assert peer_trial.differs(sent, arrived) == ""
    arrived[[2, 4]] = (0xFFFFFFFF, 0xA5A5A5A5)
    assert peer_trial.differs(sent, arrived) == (
        "2 of 5 words arrived wrong (word 2: 0xffffffff for 0x00000002), 1 were never written"
    )


@pytest.mark.parametrize(
    ("then", "ends"),
    [
        ("pass", ""),
        ("time.sleep(60)", "its trial did not end within 0.5 s"),
        ("raise SystemExit('no such GPU')", "its trial ended with code 1. no such GPU"),
        ("os.kill(os.getpid(), 11)", "its trial was killed by signal 11."),
    ],
)
def test_a_trial_that_stops_is_told_by_its_end(then: str, ends: str) -> None:
    said = 'print("hello"); print(\'{"opened": [0]}\'); print(\'{"wrong": {"copy": ""}}\', flush=True)'
    begin = time.monotonic()
    done, end = run_trial([sys.executable, "-c", f"import os, time; {said}; {then}"], start_s=30, pair_s=0.5)
    assert done == [{"copy": ""}]
    assert end == ends
    assert time.monotonic() - begin < 20


def test_a_pair_that_hangs_costs_itself_alone(
    devices: list[HostDevice], program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def trial(command: list[str]) -> tuple[list[dict[str, str]], str]:
        asked.append(command[-1])
        if len(asked) == 1:
            return [{"copy": ""}], "its trial did not end within 20 s"
        return [{"copy": "", "read": "2 words arrived wrong", "write": ""}], ""

    monkeypatch.setattr(peers, "run_trial", trial)
    one, two, three = devices
    found = peers.tried([(one, two), (two, one), (one, three)], program)
    assert asked == ["[[0, 1], [1, 0], [0, 2]]", "[[0, 2]]"]
    assert list(found.values()) == [
        Access(True, ""),
        Access(True, "its trial did not end within 20 s"),
        Access(True, "a kernel's reads: 2 words arrived wrong"),
    ]


def test_a_real_trial_of_every_pair(devices: list[HostDevice], program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_HOST_DEVICES", "3")
    pairs = [(a, b) for a in devices for b in devices if a is not b]
    assert set(peers.tried(pairs, program).values()) == {Access(True, "")}


def test_a_trial_that_cannot_begin_blames_no_pair(
    devices: list[HostDevice], program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_HOST_DEVICES", "none")
    with pytest.raises(BackendError, match=r"cannot be tried: the process for it ended with code 1.*='none'"):
        peers.tried([(devices[0], devices[1])], program)


def test_a_trial_that_hangs_before_it_begins_blames_no_pair() -> None:
    sleeps = [sys.executable, "-c", "import time; print(3, flush=True); time.sleep(60)"]
    with pytest.raises(BackendError, match=r"the process for it did not end within 0\.5 s"):
        run_trial(sleeps, start_s=0.5, pair_s=0.5)


def test_what_a_variant_needs(monkeypatch: pytest.MonkeyPatch, devices: list[HostDevice]) -> None:
    known = {
        peers._key(devices[0], devices[1]): Access(True),
        peers._key(devices[1], devices[0]): Access(False),
        peers._key(devices[0], devices[2]): Access(True, "lies"),
    }
    monkeypatch.setattr(peers, "_TRIED", known)
    asked = peers.Peers.__new__(peers.Peers)
    asked._devices = devices
    asked.require([(0, 1)], direct=True)
    asked.require([(1, 0)], direct=False)
    with pytest.raises(Unsupported, match="devices 1 and 0 cannot address each other's memory"):
        asked.require([(0, 1), (1, 0)], direct=True)
    with pytest.raises(Untrusted, match="from device 0 to device 2: lies"):
        asked.require([(0, 2)], direct=False)
