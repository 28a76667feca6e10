"""A probe never raises, never hangs, and tells no secret."""

from __future__ import annotations

import sys
import threading
import time

from runner.doctor.model import Answer, Probe, State, ok, run


def test_an_answer_comes_through() -> None:
    assert Probe("x", "y", lambda: ok("1.2")).answer() == Answer(State.OK, "1.2")


def test_what_raises_is_broken_and_shows_no_password() -> None:
    def fail() -> Answer:
        raise RuntimeError("cannot reach http://ada:s3cret@host/")

    answer = Probe("x", "y", fail).answer()
    assert answer.state is State.BROKEN
    assert answer.found == "RuntimeError: cannot reach http://ada:***@host/"


def test_what_hangs_is_left_behind() -> None:
    stop = threading.Event()
    begun = time.monotonic()
    answer = Probe("x", "y", lambda: ok(str(stop.wait(20))), limit_s=0.1).answer()
    stop.set()
    assert time.monotonic() - begun < 5
    assert (answer.state, answer.found) == (State.BROKEN, "no answer within 0.1 s")


def test_programs_that_fail_hang_or_are_not_there_have_a_code() -> None:
    assert run([sys.executable, "-c", "print('one'); print('two')"], 20).last == "two"
    failed = run([sys.executable, "-c", "raise SystemExit(3)"], 20)
    assert (failed.code, failed.last) == (3, "exit code 3")
    assert "did not end within 0.1 s" in run([sys.executable, "-c", "import time; time.sleep(20)"], 0.1).text
    assert "cannot run /none" in run(["/none"], 1).text
