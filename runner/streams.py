"""Standard output and error as they should be: able to take every line, or none at all."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[@-_]?|[\x00-\x1f\x7f-\x9f]"
    r"|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"  # the order in which letters are shown
)
_BLANK = str.maketrans("\t\n", "  ")


def prepare() -> None:
    """Standard streams that take every line: nowhere where they are closed, ``?`` for a letter they do not know."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  lives as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def refuse_bytes(words: Iterable[str]) -> None:
    """Raises ``ValueError`` for a word of the command line whose bytes are no text: no document could hold it."""
    for word in words:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError as error:
            shown = word.encode("utf-8", "replace").decode("utf-8")
            raise ValueError(f"{shown}: not text in UTF-8, from character {error.start + 1} on") from None


def printable(line: str) -> str:
    """What somebody else wrote, as one line without what would steer the terminal it is shown on."""
    return _CONTROL.sub("", line.translate(_BLANK))


def complain(message: object, kind: str = "error", usage: str = "") -> None:
    """One line on standard error, whatever names the message holds; below it how to write the command."""
    print(f"{kind}: {printable(str(message))}" + (f"\n{usage}" if usage else ""), file=sys.stderr)


class _Outliving:
    """A stream that says nothing more once it cannot be written: ``… | head -1``, a full disk."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._gone = False

    def write(self, text: str) -> int:
        """As of a stream, without its errors of the operating system."""
        with self._noticed():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """As ``write``."""
        with self._noticed():
            self._stream.flush()

    @contextlib.contextmanager
    def _noticed(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not (self._gone or isinstance(error, BrokenPipeError)):
                complain(f"standard output cannot be written: {error.strerror}; going on without it", "warning")
            self._gone = True
            silence()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def outliving() -> Iterator[None]:
    """Within it a reader of standard output that leaves ends nothing: work goes on, and the exit code stays true."""
    stream = _Outliving(sys.stdout)
    with contextlib.redirect_stdout(stream):
        yield
        stream.flush()


def silence() -> None:
    """Sends what is still written to standard output nowhere, so that the interpreter's own last flush succeeds."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
