"""All-gather, reduce-scatter, routed tokens and migrated caches: ``kernel=collectives``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from runner.backend.base import Buffer
from runner.backend.collectives import Collectives, open_collectives
from runner.plan.family import on_device
from runner.references.collectives import Move, moves, packing, sent, unpacking
from runner.workload.base import Context
from runner.workload.capture import DeviceGraphs
from runner.workload.crossing import Crossing
from runner.workload.declared import BoundLaunch
from runner.workload.mailboxes import THREADS, Mailboxes
from runner.workload.peers import Peers
from runner.workload.pieces import grid

GRAPH = "_graph"
NCCL = "nccl"
ITEM = 4


class Exchanges:
    """A step is ``calls`` exchanges; a variant whose name ends in ``_graph`` replays them, one graph for each
    device."""

    host_timed = False

    def __init__(self, context: Context) -> None:
        self._context = context
        self._streams = context.streams
        plan = context.plan
        self._symbols, self._seed = plan.symbols, plan.seed
        self._op = str(plan.symbols["op"])
        self.units_per_step = int(plan.symbols["calls"])
        self._places = range(len(context.devices))
        self._peers = Peers(context)
        self._boxes = Mailboxes(context)
        self._crossing = Crossing()
        self._nccl: Collectives | None = None
        self._graphs = DeviceGraphs(context.streams)
        self._kernels = [self._meeting(place) for place in self._places]
        self._packs = self._local("packing", packing, "source", "staging")
        self._unpacks = self._local("unpacking", unpacking, "staging", "result")
        self._sums = [self._sum(place) for place in self._places] if self._op == "reduce_scatter" else []
        self._copies = [self._copied(place) for place in self._places]
        self._fresh = False

    def prepare(self) -> None:
        """Nothing: pairs are tried, graphs captured and NCCL opened when a variant needs them."""

    def reset(self, variant: str) -> None:
        """Raises ``Untrusted`` or ``Unsupported`` where devices must not or cannot reach each other, or NCCL is
        missing."""
        kind = variant.removesuffix(GRAPH)
        self._peers.require(self._peers.positions, direct=kind == "read")
        if kind == NCCL and self._nccl is None:
            self._nccl = open_collectives(self._context.devices, self._streams)
        if variant != kind and variant not in self._graphs:
            self._graphs.capture(variant, lambda: self._calls(kind))

    def step(self, variant: str) -> None:
        """In a checked step what receives begins as zeros: not every row of it need get something."""
        if self._fresh:
            self._fresh = False
            for stream, result in zip(self._streams, self._boxes.each("result"), strict=True):
                stream.fill(result, 0)
        if variant in self._graphs:
            self._graphs.launch(variant)
        else:
            self._calls(variant)

    def _calls(self, kind: str) -> None:
        one = {"copy": self._by_copies, NCCL: self._by_nccl, "read": self._by_kernels}[kind]
        for _ in range(self.units_per_step):
            one()

    # --- kernels

    def _own(self, name: str, place: int) -> Buffer:
        return self._context.buffers[on_device(name, place)]

    def _meeting(self, place: int) -> BoundLaunch:
        inputs, devices = self._boxes.table("source"), len(self._places)
        if self._op == "reduce_scatter":
            leading = (*inputs, self._own("result", place))
            return self._boxes.meeting(
                place, "reduce_scatter_kernel", leading, (int(self._symbols["n"]), place, devices)
            )
        leading = (*inputs, self._own("result", place), self._own("moves", place))
        rows = self._context.plan.buffer(on_device("moves", place)).dims[0]
        return self._boxes.meeting(place, "moves_kernel", leading, (rows, place, devices))

    def _local(
        self, table: str, wanted: Callable[[Mapping[str, object], int, int], list[Move]], source: str, target: str
    ) -> list[BoundLaunch]:
        """A launch on each device that has something to put in order."""
        made = []
        for place in self._places:
            if wanted(self._symbols, self._seed, place):
                rows = self._context.plan.buffer(on_device(table, place)).dims[0]
                buffers = [self._own(name, place) for name in (source, target, table)]
                width = (min(rows, 4 * self._context.devices[place].info.sms), 1, 1)
                made.append(self._boxes.bound(place, "local_moves_kernel", width, (*buffers, np.int64(rows)), THREADS))
        return made

    def _sum(self, place: int) -> BoundLaunch:
        elements = int(self._symbols["n"])
        buffers = (self._own("staging", place), self._own("result", place))
        numbers = (np.int64(len(self._places)), np.int64(elements))
        return self._boxes.bound(place, "sum_rows_kernel", grid(elements), (*buffers, *numbers), THREADS)

    def _by_kernels(self) -> None:
        for launch in self._kernels:
            launch.enqueue()

    # --- copies

    def _copied(self, place: int) -> list[Move]:
        """The copies of a device. Tokens are copied as they were packed, all that one device sends another in one
        piece."""
        if self._op != "all_to_all":
            return moves(self._symbols, self._seed, place)
        return [(peer, first, to, count) for peer, (first, to, count) in enumerate(self._parts(place)) if count]

    def _parts(self, target: int) -> list[tuple[int, int, int]]:
        """(first float in the source's packed tokens, first float received, floats) from each device to one."""
        width, parts, to = int(self._symbols["H"]), [], 0
        for source in self._places:
            rows = [len(sent(self._symbols, self._seed, source, peer)) for peer in self._places]
            parts.append((sum(rows[:target]) * width, to * width, rows[target] * width))
            to += rows[target]
        return parts

    def _by_copies(self) -> None:
        """Everything is there before a peer copies it, and has been copied by all before the next call begins."""
        packed = self._op == "all_to_all"
        for launch in self._packs if packed else ():
            launch.enqueue()
        self._crossing.everybody(self._streams, "ready")
        name, into = "staging" if packed else "source", "staging" if self._sums else "result"
        for place, wanted in enumerate(self._copies):
            for peer, first, to, count in wanted:
                self._streams[place].copy(
                    self._own(into, place), self._own(name, peer), ITEM * count, ITEM * to, ITEM * first
                )
        for launch in self._sums:
            launch.enqueue()
        self._crossing.everybody(self._streams, "read")

    # --- NCCL

    def _by_nccl(self) -> None:
        assert self._nccl is not None
        elements = int(self._symbols["n"])
        if self._op == "all_gather":
            self._nccl.all_gather(self._boxes.each("source"), self._boxes.each("result"), elements)
        elif self._op == "reduce_scatter":
            self._nccl.reduce_scatter(self._boxes.each("source"), self._boxes.each("result"), elements)
        else:
            for launch in self._packs:
                launch.enqueue()
            packed, unpacked = bool(self._packs), bool(self._unpacks)
            self._nccl.all_to_all(
                self._boxes.each("staging" if packed else "source"),
                self._boxes.each("staging" if unpacked else "result"),
                self._matrix,
            )
            for launch in self._unpacks:
                launch.enqueue()

    @cached_property
    def _matrix(self) -> list[list[tuple[int, int, int]]]:
        """``[source][target]``: first float sent, first float received, floats."""
        if self._op == "all_to_all":
            columns = [self._parts(target) for target in self._places]
            return [[columns[target][source] for target in self._places] for source in self._places]
        moved = (0, 0, int(self._symbols["pages"]) * int(self._symbols["page_floats"]))
        return [[moved if (a, b) == (0, 1) else (0, 0, 0) for b in self._places] for a in self._places]

    # --- what it left

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        """Asked for before a checked step."""
        self._fresh = True
        checks = self._context.plan.variant(variant).checks
        return {check.output: self._context.buffers[check.output] for check in checks}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """``moved_bytes`` over links by one exchange, of all devices together; of tokens ``imbalance``: what the device
        that receives most gets, over the mean. Of a graph, what capturing it took."""
        wanted = [self._copies[place] for place in self._places]
        crossing = sum(count for place, each in enumerate(wanted) for peer, _, _, count in each if peer != place)
        found = {"moved_bytes": float(ITEM * crossing), **self._graphs.times(variant)}
        if self._op == "all_to_all":
            received = [sum(count for *_, count in each) for each in wanted]
            found["imbalance"] = max(received) * len(received) / max(1, sum(received))
        return found

    def close(self) -> None:
        self._graphs.close()
        if self._nccl is not None:
            self._nccl.close()
            self._nccl = None
