"""Where lines for the user go, also when nobody reads them any more: ``python -m runner … | head -1``."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console

from runner.streams import silence

NARROWEST = 40
"""Columns. Below, no table could be read: a narrower terminal wraps its lines, and COLUMNS=0 means nothing."""


class Terminal(Console):
    """A console that falls silent when its reader leaves: the command goes on, for its results are on disk."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.width < NARROWEST:
            self.width = NARROWEST

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence()

    def _check_buffer(self) -> None:
        try:
            super()._check_buffer()
        except OSError as error:  # output sent to a file on a full disk
            print(f"standard output cannot be written: {error.strerror}; going on without it", file=sys.stderr)
            self.on_broken_pipe()
