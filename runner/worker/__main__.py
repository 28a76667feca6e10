"""The worker process: ``python -m runner.worker cuda|host``. Started by ``runner.worker.client``, not by hand."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import BinaryIO

from runner.backend.base import BackendError
from runner.worker import protocol
from runner.worker.session import Session

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Answers messages on stdin until ``exit`` or the pipe closes; the process's exit code."""
    replies = _private_stdout()
    _die_with_parent()
    try:
        session = Session(sys.argv[1], lambda kind, **fields: _send(replies, kind, **fields))
    except BackendError as error:
        _send(replies, "failed", message=str(error))
        return 1
    _send(replies, "ready", pid=os.getpid())
    for line in sys.stdin.buffer:
        message = protocol.decode(line)
        if message is None:
            continue
        if message["kind"] == "exit":
            break
        if not session.handle(message):
            return protocol.FAULT_EXIT
    session.close()
    return 0


def _private_stdout() -> BinaryIO:
    """Keeps the reply pipe for messages alone: whatever prints to stdout goes to stderr from here on."""
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return replies


def _send(replies: BinaryIO, kind: str, **fields: object) -> None:
    data = memoryview(protocol.encode(kind, **fields))
    while data:
        data = data[replies.write(data) or 0 :]


def _die_with_parent() -> None:
    """On Linux the kernel ends this process when the driver is killed, so that no hung kernel keeps a device."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
