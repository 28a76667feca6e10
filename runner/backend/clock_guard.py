"""The process that unlocks the clocks of GPUs when the one that locked them ends without doing so.

It reads its standard input, a pipe whose other end only its parent holds: ``DONE`` there means that all is well, an end
without it that the parent is gone.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from runner.backend import nvml
from runner.backend.clock_lock import DONE, READY, let_go


def main(uuids: Sequence[str]) -> None:
    """Returns when the parent is done or gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # those go to whole groups of processes
        signal.signal(number, signal.SIG_IGN)
    library, _ = nvml.opened()
    if library is None:
        return
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    if sys.stdin.buffer.read() != DONE:
        let_go(library, uuids)


if __name__ == "__main__":
    main(sys.argv[1:])
