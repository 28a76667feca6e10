"""The all-reduce of tensor parallelism: by copies, by kernels that meet, by NCCL, and within a decode step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import cycle, islice, zip_longest

import numpy as np

from runner.backend.affinity import Bound
from runner.backend.base import Buffer, Event, Stream
from runner.backend.collectives import Collectives, open_collectives
from runner.plan.family import on_device
from runner.workload.base import Context
from runner.workload.capture import DeviceGraphs
from runner.workload.crossing import Crossing
from runner.workload.declared import BoundLaunch
from runner.workload.mailboxes import THREADS, Mailboxes
from runner.workload.peers import Peers
from runner.workload.pieces import BLOCK, grid
from runner.workload.timing import median_devices_us

SCALE, OFFSET = np.float32(-1.0), np.float32(0.5)
"""What a layer computes with: no result is ever rounded."""
GRAPH = "_graph"
KERNELS = {"one_shot": "one_shot_kernel", "two_shot": "two_shot_kernel", "one_shot_push": "one_shot_push_kernel"}
DECODE = ("decode_exposed", "decode_hidden")
NCCL = "nccl"
POISONED = 1 << 20
"""Words that are overwritten at once."""
FLAGS = 4096
"""Words at the beginning of a mailbox: ``peers::kBlocks`` x ``kKinds`` x ``kMost``."""


class AllReduce:
    """A step is ``calls`` all-reduces; a variant whose name ends in ``_graph`` replays them, one graph for each
    device. Calls sum ``turns`` payloads in turn, which lie ``apart`` elements from each other in one buffer: bytes and
    alignment are the same for all, and what one call leaves in a mailbox is wrong for the next ones."""

    host_timed = False

    def __init__(self, context: Context) -> None:
        self._context = context
        self._streams = context.streams
        symbols = context.plan.symbols
        self._elements = int(symbols["n"])
        self._compute = int(symbols["compute"])
        self.units_per_step = int(symbols["calls"])
        self._turns = [int(symbols["apart"]) * turn for turn in range(int(symbols["turns"]))]
        """First element of the payload, call by call."""
        self._places = range(len(context.devices))
        first = context.devices[0].info
        self._bound = Bound(first.ordinal, first.backend == "cuda")
        self._peers = Peers(context)
        self._boxes = Mailboxes(context)
        self._crossing = Crossing()
        self._side: list[Stream] = []
        """A second stream of each device, for what runs beside the measured one."""
        self._nccl: Collectives | None = None
        self._graphs = DeviceGraphs(context.streams)
        self._kernels = {
            (kernel, turn): [self._meeting(kernel, place, turn) for place in self._places]
            for kernel in KERNELS
            for turn in self._turns
        }
        self._sums = {turn: [self._sum(place, turn) for place in self._places] for turn in self._turns}

    def prepare(self) -> None:
        """Nothing: pairs are tried, graphs captured and NCCL opened when a variant needs them."""

    def reset(self, variant: str) -> None:
        """Raises ``Untrusted`` or ``Unsupported`` where devices must not or cannot reach each other, or NCCL is
        missing."""
        kind = variant.removesuffix(GRAPH)
        self._peers.require(self._peers.positions, direct=kind in KERNELS or kind in DECODE)
        if kind == NCCL and self._nccl is None:
            self._nccl = open_collectives(self._context.devices, self._streams)
        if (kind == "overlap" or kind in DECODE) and not self._side:
            self._side = [device.stream() for device in self._context.devices]
        if (variant != kind or kind in DECODE) and variant not in self._graphs:
            self._graphs.capture(variant, self._once(kind))

    def _once(self, kind: str) -> Callable[[], None]:
        """What enqueues a whole step, launch by launch."""
        if kind in DECODE:
            return lambda: self._decode(hidden=kind == "decode_hidden")
        if kind == "overlap":
            return self._overlapped
        return lambda: self._calls(kind)

    def step(self, variant: str) -> None:
        if variant in self._graphs:
            self._graphs.launch(variant)
        else:
            self._once(variant)()

    def _payloads(self) -> Iterator[int]:
        """First element of the payload of every call of a step."""
        return islice(cycle(self._turns), self.units_per_step)

    def _calls(self, kind: str) -> None:
        """All all-reduces. Devices take turns, so that no device's queue is full before its peers have work."""
        one = {"sequential": self._sequential, "bidirectional": self._bidirectional, NCCL: self._by_nccl}.get(kind)
        for turn in self._payloads():
            if one is not None:
                one(turn)
            else:
                for launch in self._kernels[kind, turn]:
                    launch.enqueue()

    # --- kernels

    def _own(self, name: str, place: int) -> Buffer:
        return self._context.buffers[on_device(name, place)]

    def _meeting(self, kernel: str, place: int, turn: int) -> BoundLaunch:
        inputs = self._boxes.table("partial") if kernel == "two_shot" else (self._own("partial", place),)
        leading = (*inputs, self._own("total", place))
        sizes = (turn, place, len(self._places), self._elements)
        if kernel == "one_shot":
            return self._one_shot(place, "partial", turn, 0, self._elements)
        return self._boxes.meeting(place, KERNELS[kernel], leading, sizes, programmatic=True)

    def _one_shot(self, place: int, source: str, begin: int, first: int, count: int) -> BoundLaunch:
        """Elements [first, first + count) of the sum, from those of ``source`` that begin at ``begin``."""
        leading = (self._own(source, place), self._own("total", place))
        sizes = (begin, first, place, len(self._places), count, self._elements)
        return self._boxes.meeting(place, KERNELS["one_shot"], leading, sizes, programmatic=True)

    def _sum(self, place: int, turn: int) -> BoundLaunch:
        own = [self._own(name, place) for name in ("partial", "landed", "total")]
        numbers = (np.int64(turn), np.int64(place), np.int64(len(self._places)), np.int64(self._elements))
        return self._boxes.bound(place, "sum_landed_kernel", grid(self._elements), (*own, *numbers), THREADS)

    def _layer(self, place: int, names: tuple[str, str], turn: int, first: int, count: int) -> BoundLaunch:
        source, target = (self._own(name, place) for name in names)
        numbers = (np.int64(turn), np.int64(first), np.int64(count), np.int64(self._compute), SCALE, OFFSET)
        return self._boxes.bound(place, "layer_kernel", grid(count), (source, target, *numbers), BLOCK)

    # --- copies

    def _sequential(self, turn: int) -> None:
        """One device at a time, each behind the one before it."""
        self._crossing.everybody(self._streams, "ready")
        for place in self._places:
            if place:
                self._crossing.after(self._streams[place], self._streams[place - 1])
            self._gather(place, turn)
        self._crossing.everybody(self._streams, "read")

    def _bidirectional(self, turn: int) -> None:
        """Every payload is there before a peer copies it, and has been copied by all before the next call begins."""
        self._crossing.everybody(self._streams, "ready")
        for place in self._places:
            self._gather(place, turn)
        self._crossing.everybody(self._streams, "read")

    def _gather(self, place: int, turn: int) -> None:
        """Copies every peer's payload to this device, beginning with the next one so that links share the work."""
        count = len(self._places)
        for step in range(1, count):
            peer = (place + step) % count
            landed, partial, nbytes = self._own("landed", place), self._own("partial", peer), 4 * self._elements
            self._streams[place].copy(landed, partial, nbytes, target_offset=peer * nbytes, source_offset=4 * turn)
        self._sums[turn][place].enqueue()

    def _overlapped(self, parts: tuple[str, ...] = ("exchange", "compute")) -> None:
        """The all-reduces, and on another stream of each device a layer for each of them."""
        for place in self._places:
            self._crossing.begin(self._streams[place], [self._side[place]])
        if "compute" in parts:
            layers = [self._layer(p, ("hidden_state", "hidden_next"), 0, 0, self._elements) for p in self._places]
            for _ in range(self.units_per_step):
                for place, layer in enumerate(layers):
                    replace(layer, stream=self._side[place]).enqueue()
        if "exchange" in parts:
            self._calls("bidirectional")
        for place in self._places:
            self._crossing.end(self._streams[place], [self._side[place]])

    def _by_nccl(self, turn: int) -> None:
        assert self._nccl is not None
        self._nccl.all_reduce(self._boxes.each("partial"), self._boxes.each("total"), self._elements, turn)

    # --- the decode step

    def _decode(self, hidden: bool, parts: tuple[str, ...] = ("exchange", "compute")) -> None:
        for _ in zip_longest(*(self._decode_on(place, hidden, parts) for place in self._places)):
            pass  # devices take turns, a layer at a time

    def _decode_on(self, place: int, hidden: bool, parts: tuple[str, ...]) -> Iterator[None]:
        """Layers and their all-reduces on one device, each enqueued when it is asked for. Hidden, the two halves of the
        batch take turns: the all-reduce of one is on the second stream while the layer of the other computes, and a
        layer waits for its own half's all-reduce."""
        main = self._streams[place]
        side = self._side[place] if hidden else main
        pieces = _halves(self._elements) if hidden else [(0, self._elements)]
        layers = {
            turn: [self._layer(place, ("partial", "mixed"), turn, *piece) for piece in pieces] for turn in self._turns
        }
        sums = [replace(self._one_shot(place, "mixed", piece[0], *piece), stream=side) for piece in pieces]
        done: list[Event | None] = [None for _ in pieces]
        for turn in self._payloads():
            for half, (layer, reduced) in enumerate(zip(layers[turn], sums, strict=True)):
                if (last := done[half]) is not None:
                    main.wait(last)
                if "compute" in parts:
                    layer.enqueue()
                if hidden:
                    self._crossing.after(side, main)
                if "exchange" in parts:
                    reduced.enqueue()
                if hidden:
                    done[half] = self._crossing.recorded(side, f"half {half}")
            yield
        for last in done:
            if last is not None:
                main.wait(last)

    # --- what it left, and figures

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        """Asked for before a checked step: what earlier steps left for peers, or copied from them, is overwritten, so
        that reading it would show. Meetings go on counting; a NaN is the flag of no call that comes."""
        words = int(self._context.plan.symbols["mailbox_words"])
        for place, stream in enumerate(self._streams):
            _poison(stream, self._own("mailbox", place), FLAGS, words)
            _poison(stream, self._own("landed", place), 0, len(self._places) * self._elements)
        for stream in self._streams:
            stream.synchronize()
        checks = self._context.plan.variant(variant).checks
        return {check.output: self._context.buffers[check.output] for check in checks}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """Of a graph, what capturing it took. Of ``overlap`` and the decode steps the parts alone and ``overlap``: of
        the shorter part the share (0 to 1) that the longer one hides. Of ``nccl`` its version as a number, 22809 for
        2.28.9. ``host_cores``: how many cores near the first GPU the launching thread is kept on."""
        found = self._graphs.times(variant)
        if self._bound.cores:
            found["host_cores"] = float(len(self._bound.cores))
        if self._nccl is not None and variant.startswith(NCCL):
            major, minor, patch = (int(part) for part in self._nccl.version.split("."))
            found["nccl_version"] = float(10000 * major + 100 * minor + patch)
        if variant == "overlap":
            return {**found, **self._hidden(self._overlapped, lambda: self.step(variant))}
        if variant in DECODE:
            return {**found, **self._hidden(self._replayed, lambda: self.step(variant))}
        return found

    def _replayed(self, parts: tuple[str, ...]) -> None:
        """Parts of a decode step as graphs, like the whole: a layer at a time, whatever the variant makes of it."""
        name = "decode " + " ".join(parts)
        if name not in self._graphs:
            self._graphs.capture(name, lambda: self._decode(False, parts))
        self._graphs.launch(name)

    def _hidden(self, enqueue: Callable[[tuple[str, ...]], None], together: Callable[[], None]) -> dict[str, float]:
        def alone(part: str) -> float:
            enqueue((part,))  # the first time captures
            for stream in self._streams:
                stream.synchronize()
            return median_devices_us(self._streams, lambda: enqueue((part,)))

        exchange, compute = alone("exchange"), alone("compute")
        both = median_devices_us(self._streams, together)
        found = {"exchange_us": exchange, "compute_us": compute, "together_us": both}
        shorter = min(exchange, compute)
        if shorter > 0:
            found["overlap"] = min(1.0, max(0.0, (exchange + compute - both) / shorter))
        return found

    def close(self) -> None:
        self._graphs.close()
        if self._nccl is not None:
            self._nccl.close()
            self._nccl = None
        for stream in self._side:
            stream.close()
        self._side.clear()
        self._bound.close()


def _poison(stream: Stream, buffer: Buffer, first: int, end: int) -> None:
    """Elements [first, end) become NaN."""
    poison = np.full(min(POISONED, end - first), np.nan, dtype=np.float32)
    for begin in range(first, end, POISONED):
        stream.write(buffer, poison[: end - begin], 4 * begin)


def _halves(elements: int) -> list[tuple[int, int]]:
    """(first element, elements) of two parts of whole quads, or of one where there is but one quad."""
    first = -(-elements // 8) * 4
    return [(0, first), (first, elements - first)] if first < elements else [(0, elements)]
