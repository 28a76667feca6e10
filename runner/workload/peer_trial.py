"""Tries what devices say they can do with each other's memory: ``python -m runner.workload.peer_trial``.

Run as a process of its own by ``peers.py``, with a time limit: access that is advertised may drop writes, deliver other
bytes, or never end. It prints a JSON object when the devices are open, and one for every pair that it has finished, in
the order given.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from runner.backend.base import Buffer, Device, Stream
from runner.backend.open import open_backend

ELEMENTS = (1 << 18) + 3
"""Floats moved: 1 MiB, and some that are no whole quad."""
KERNEL = "peer_copy_kernel"
BLOCKS, THREADS = 16, 512
POISON = 0xA5

Words = npt.NDArray[np.uint32]


def examine(source: Device, target: Device, program: Path) -> dict[str, str]:
    """What is wrong with each way from ``source`` to ``target``: empty where every word arrived.

    ``copy``: the copy engine. ``read``: a kernel on the target reads the source's memory. ``write``: a kernel on the
    source writes the target's; the latter two only where both devices can address each other.
    """
    found = {}
    with _Trial(source, target, program) as trial:
        found["copy"] = trial.engine()
        if source.can_access_peer(target) and target.can_access_peer(source):
            source.enable_peer_access(target)
            target.enable_peer_access(source)
            found["read"] = trial.kernel(target)
            found["write"] = trial.kernel(source)
    return found


class _Trial:
    """Memory and streams of one pair."""

    def __init__(self, source: Device, target: Device, program: Path) -> None:
        self._devices = {device.info.ordinal: device for device in (source, target)}
        self._source, self._target, self._program = source, target, program
        self._from: Buffer = source.allocate(4 * ELEMENTS)
        self._to: Buffer = target.allocate(4 * ELEMENTS)
        self._here, self._there = source.stream(), target.stream()
        self._salt = 0

    def __enter__(self) -> _Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self._here.close()
        self._there.close()
        self._from.free()
        self._to.free()

    def engine(self) -> str:
        """From the stream of either device."""
        for stream in (self._there, self._here):
            wrong = self._moved(lambda s=stream: s.copy(self._to, self._from, 4 * ELEMENTS), stream)  # type: ignore[misc]
            if wrong:
                return wrong
        return ""

    def kernel(self, device: Device) -> str:
        """By a kernel on ``device``, one of the two."""
        function = device.load(self._program).function(KERNEL)
        stream = self._there if device is self._target else self._here
        arguments = (self._from, self._to, np.int64(ELEMENTS))
        return self._moved(lambda: stream.launch(function, (BLOCKS, 1, 1), (THREADS, 1, 1), 0, arguments), stream)

    def _moved(self, move: Callable[[], None], stream: Stream) -> str:
        """What differs after ``move``: every word is new and the target is poisoned before. The target's own device
        reads."""
        self._salt += 1
        pattern: Words = (np.arange(ELEMENTS, dtype=np.uint32) + np.uint32(self._salt)) * np.uint32(2654435761)
        self._here.write(self._from, pattern)
        self._there.fill(self._to, POISON)
        self._here.synchronize()
        self._there.synchronize()
        move()
        stream.synchronize()
        arrived: Words = np.empty(ELEMENTS, np.uint32)
        self._there.read(arrived, self._to)
        self._there.synchronize()
        return differs(pattern, arrived)


def differs(sent: Words, arrived: Words) -> str:
    """In words; empty when all are equal."""
    wrong = np.flatnonzero(sent != arrived)
    if not len(wrong):
        return ""
    first = int(wrong[0])
    untouched = int(np.count_nonzero(arrived == int.from_bytes(bytes([POISON]) * 4, "little")))
    return (
        f"{len(wrong)} of {len(sent)} words arrived wrong (word {first}: {arrived[first]:#010x} "
        f"for {sent[first]:#010x}), {untouched} were never written"
    )


def main(arguments: list[str]) -> int:
    """``backend program [[source, target], …]``: ordinals."""
    backend = open_backend(arguments[0])
    pairs = json.loads(arguments[2])
    devices: dict[int, Device] = {
        ordinal: backend.open(ordinal) for ordinal in sorted({o for pair in pairs for o in pair})
    }
    print(json.dumps({"opened": sorted(devices)}), flush=True)
    for pair in pairs:
        found = examine(devices[pair[0]], devices[pair[1]], Path(arguments[1]))
        print(json.dumps({"pair": pair, "wrong": found}), flush=True)
    for device in devices.values():
        device.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
