"""Two experiments never share a device."""

from __future__ import annotations

import errno
import multiprocessing
import re
import time
from pathlib import Path

import pytest

from runner.backend.base import BackendError, DeviceInfo
from runner.worker import locks


def info(ordinal: int, backend: str = "cuda") -> DeviceInfo:
    return DeviceInfo(ordinal, "d", f"uuid-{ordinal}", backend, "", 1, 0, 0, 1, 0)  # type: ignore[arg-type]


def test_locks_are_taken_in_one_order_whatever_the_order_of_devices() -> None:
    assert locks.names([info(3), info(1)]) == locks.names([info(1), info(3)]) == ["cuda-uuid-1", "cuda-uuid-3"]


def test_all_virtual_devices_share_the_machines_lock() -> None:
    assert locks.names([info(0, "host"), info(1, "host")]) == ["host"]


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RUNNER_LOCKS", str(tmp_path / "file" / "locks"))
    wanted = f"RUNNER_LOCKS={tmp_path}/file/locks: devices cannot be locked there: Not a directory; name a folder"
    with pytest.raises(BackendError, match=re.escape(wanted)), locks.hold([info(0)], lambda name: None):
        pass


def test_a_folder_that_is_no_place_for_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file of /proc or of somebody else's mount answers, also to its owner."""

    def chmod(path: Path, mode: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "chmod", chmod)
    monkeypatch.setenv("RUNNER_LOCKS", str(tmp_path))
    with pytest.raises(BackendError, match=rf"^RUNNER_LOCKS={tmp_path}: devices cannot be locked there: Operation not"):
        locks.folder()


def _hold(folder: str, ready: object, release: object) -> None:
    import os

    os.environ["RUNNER_LOCKS"] = folder
    with locks.hold([info(0)], lambda name: None):
        ready.set()  # type: ignore[attr-defined]
        release.wait(30)  # type: ignore[attr-defined]


def test_a_second_process_waits_until_the_first_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_LOCKS", str(tmp_path))
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(str(tmp_path), ready, release))
    other.start()
    assert ready.wait(30)
    waited: list[str] = []

    def waiting(name: str) -> None:
        waited.append(name)
        release.set()

    with locks.hold([info(0)], waiting):
        assert waited == ["cuda-uuid-0"]
    other.join(30)
    assert other.exitcode == 0


def test_a_killed_holder_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_LOCKS", str(tmp_path))
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(str(tmp_path), ready, release))
    other.start()
    assert ready.wait(30)
    other.kill()
    other.join(30)
    begin = time.monotonic()
    with locks.hold([info(0)], lambda name: None):
        assert time.monotonic() - begin < 5
