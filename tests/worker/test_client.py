"""The driver's end of a worker, with programs that are none."""

from __future__ import annotations

import _thread
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runner.worker import client
from runner.worker.client import Worker, WorkerDied, WorkerKey, WorkerTimeout

WAITING = '{"v":1,"kind":"waiting","lock":"host"}'


@contextmanager
def standing_in(program: str) -> Iterator[Worker]:
    """A process of this Python code in a worker's place."""
    worker = Worker(WorkerKey("host", (0,), prefix=(sys.executable, "-c", program)))
    try:
        yield worker
    finally:
        worker.kill()


def test_a_flood_of_lines_that_are_none_of_ours_is_no_answer() -> None:
    with standing_in("import os\nwhile True: os.write(1, b'chatter\\n' * 8000)") as worker:
        begun = time.monotonic()
        with pytest.raises(WorkerTimeout, match=r"no answer within 0\.5 s"):
            worker.receive(0.5)
        assert time.monotonic() - begun < 10 and not worker.alive


def test_what_is_none_of_ours_before_a_message_is_passed_over() -> None:
    with standing_in(f"print('chatter'); print({WAITING!r})") as worker:
        assert worker.receive(30)["lock"] == "host"
        with pytest.raises(WorkerDied, match="exited with code 0"):
            worker.receive(30)


def test_an_interruption_without_a_signal_is_seen_while_a_worker_is_silent() -> None:
    with standing_in("import time; time.sleep(60)") as worker:
        threading.Timer(0.2, _thread.interrupt_main).start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            worker.receive(30)
        assert time.monotonic() - begun < 20


def test_a_wait_for_a_lock_may_last_as_long_as_the_worker_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "WAIT_S", 2.0)
    program = f"import time\nfor _ in range(4): print({WAITING!r}, flush=True); time.sleep(0.7)\ntime.sleep(60)"
    heard = []
    with standing_in(program) as worker, pytest.raises(WorkerTimeout, match="no answer within 2 s"):
        for message in worker.messages(30.0, "done"):
            heard.append(message["kind"])
    assert heard == ["waiting"] * 4
