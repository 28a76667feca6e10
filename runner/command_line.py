"""What the commands whose words are ``key=value`` do alike round their own work."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from runner import streams
from runner.exit_codes import FAILED, INTERRUPTED, PASSED, REFUSED
from runner.record.location import TrackingUnavailable

Asked = TypeVar("Asked")


def run(
    page: str | None,
    usage: str,
    arguments: Sequence[str] | None,
    parse: Callable[[Sequence[str]], Asked],
    work: Callable[[Asked], int],
    *,
    refused: tuple[type[Exception], ...] = (),
    failed: tuple[type[Exception], ...] = (TrackingUnavailable,),
    interrupted: str = "interrupted",
    outlive: bool = True,
) -> int:
    """The exit code of one command; an error is one line on standard error, and no traceback.

    ``page`` is what ``--help`` prints. Words that ``parse`` refuses (``ValueError``, ``TrackingUnavailable``) are
    answered with ``usage``; ``refused`` and ``failed`` are what ``work`` may raise, the first asked first.
    With ``outlive`` the work goes on where standard output cannot be written any more; otherwise it meets the error.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    streams.prepare()
    about = "-h" in words or "--help" in words
    with streams.outliving() if outlive or about else contextlib.nullcontext():
        if about:
            print(page)
            return PASSED
        try:
            try:
                streams.refuse_bytes(words)
                asked = parse(words)
            except (ValueError, TrackingUnavailable) as error:
                streams.complain(error, usage=usage)
                return REFUSED
            return work(asked)
        except refused as error:
            streams.complain(error)
            return REFUSED
        except failed as error:
            streams.complain(error)
            return FAILED
        except KeyboardInterrupt:
            print(interrupted, file=sys.stderr)
            return INTERRUPTED
