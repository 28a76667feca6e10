"""Where lines for the user go, also when nobody reads them any more: ``python -m runner … | head -1``."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class Terminal(Console):
    """A console that falls silent when its reader leaves: the command goes on, for its results are on disk."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence()


def silence() -> None:
    """Sends what is still written to standard output nowhere, so that the interpreter's own last flush succeeds."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
