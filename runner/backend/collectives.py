"""Exchanges between all devices of an experiment by a library made for them: NCCL, where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runner.backend.base import Buffer, Device, Stream, Unsupported


class Collectives(Protocol):
    """One call enqueues an exchange on the stream of every device. Buffers hold float32, one for each device in
    order."""

    version: str
    """``2.28.9``."""

    def all_reduce(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer], count: int, first: int = 0) -> None:
        """Sums of ``count`` elements of the inputs from ``first`` on, on every device."""
        ...

    def all_gather(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer], count: int) -> None:
        """``count`` elements of each device one after another, on every device."""
        ...

    def reduce_scatter(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer], count: int) -> None:
        """``count`` elements of the sum for each device: the first the first ones."""
        ...

    def all_to_all(
        self,
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        parts: Sequence[Sequence[tuple[int, int, int]]],
    ) -> None:
        """``parts[source][target]``: first element sent, first element received, elements."""
        ...

    def close(self) -> None:
        """Gives the library's memory back. Nothing of it may be running."""
        ...


def open_collectives(devices: Sequence[Device], streams: Sequence[Stream]) -> Collectives:
    """NCCL on these devices. Raises ``Unsupported`` where it is not installed and on the host backend."""
    if devices[0].info.backend != "cuda":
        raise Unsupported("NCCL needs GPUs")
    from runner.backend.cuda.nccl import Nccl

    return Nccl(devices, streams)
