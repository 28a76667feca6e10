"""Standard output and error as they should be: able to take every line, or none at all."""

from __future__ import annotations

import io
import os
import sys


def prepare() -> None:
    """Standard streams that take every line: nowhere where they are closed, ``?`` for a letter they do not know."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  lives as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def silence() -> None:
    """Sends what is still written to standard output nowhere, so that the interpreter's own last flush succeeds."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
