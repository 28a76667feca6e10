"""What is looked at, and what came of it."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from runner.config.secrets import redact_text


class State(str, Enum):
    OK = "ok"
    MISSING = "missing"
    """Not here; what it is for cannot be done."""
    BROKEN = "broken"
    """Here, and of no use as it is."""


@dataclass(frozen=True)
class Answer:
    """What one probe found."""

    state: State
    found: str
    """Version, place or number; what is wrong where it is not well. Free of secrets."""
    mend: str = ""
    """What to do, where something can be done."""


def ok(found: str, mend: str = "") -> Answer:
    return Answer(State.OK, found, mend)


def missing(found: str, mend: str) -> Answer:
    return Answer(State.MISSING, found, mend)


def broken(found: str, mend: str) -> Answer:
    return Answer(State.BROKEN, found, mend)


@dataclass(frozen=True)
class Probe:
    """One question to the machine."""

    name: str
    purpose: str
    """What it is for."""
    ask: Callable[[], Answer]
    needed: bool = False
    """Without it no experiment runs, not even on the CPU."""
    limit_s: float = 30.0

    def answer(self) -> Answer:
        """Never raises and never takes longer than the limit: what hangs in a driver is left behind."""
        heard = _Heard()
        thread = threading.Thread(target=heard.run, args=(self.ask,), daemon=True, name=self.name)
        thread.start()
        thread.join(self.limit_s)
        return heard.answer or broken(
            f"no answer within {self.limit_s:g} s", "see what it waits for: a hung driver, disk or server"
        )


@dataclass
class _Heard:
    answer: Answer | None = field(default=None)

    def run(self, ask: Callable[[], Answer]) -> None:
        try:
            self.answer = ask()
        except Exception as error:  # whatever a library or the system does, the other probes are to be heard
            text = redact_text(" ".join(str(error).split()))
            self.answer = broken(f"{type(error).__name__}: {text}"[:300], "")


@dataclass(frozen=True)
class Said:
    """What a program printed and how it ended."""

    code: int
    text: str

    @property
    def last(self) -> str:
        """Its last line, free of secrets."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        return redact_text(lines[-1].strip())[:300] if lines else f"exit code {self.code}"


def run(command: Sequence[str], limit_s: float, environment: dict[str, str] | None = None) -> Said:
    """Runs a program to its end; one that takes too long or cannot be started has a code that is not 0."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return Said(-1, f"{command[0]} did not end within {limit_s:g} s")
    except OSError as error:
        return Said(-1, f"cannot run {command[0]}: {error.strerror}")
    return Said(done.returncode, done.stdout)
