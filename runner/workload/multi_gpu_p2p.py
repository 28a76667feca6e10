"""Copies between devices, by their copy engines or by kernels that read a peer's memory: ``kernel=multi_gpu_p2p``."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from runner.backend import topology
from runner.backend.base import Argument, Buffer, Stream
from runner.plan.family import on_device
from runner.workload.base import Context
from runner.workload.crossing import Crossing
from runner.workload.peers import Pair, Peers
from runner.workload.pieces import BLOCK, grid
from runner.workload.timing import median_devices_us, median_us

READ_THREADS = 512
READ_BLOCKS_PER_SM = 2
SCALE, OFFSET = np.float32(-1.0), np.float32(0.5)
"""What the kernel beside the copies computes with: no result is ever rounded."""
BOTH = ("copy_both", "read_both")
READS = ("read", "read_both", "overlap_read")
OVERLAPS = ("overlap", "overlap_read")
MATRIX = "p2p_matrix.csv"


class PeerCopies:
    """A step copies ``calls`` times from the device at ``src`` to the one at ``dst``, on the stream of the one that
    receives."""

    host_timed = False

    def __init__(self, context: Context) -> None:
        self._context = context
        symbols = context.plan.symbols
        self._elements = int(symbols["n"])
        self.units_per_step = int(symbols["calls"])
        self._pair: Pair = (int(symbols["src"]), int(symbols["dst"]))
        self._compute = np.int64(symbols["compute"])
        self._peers = Peers(context)
        count = len(context.devices)
        self._beside: dict[int, Stream] = {}
        """Streams of the kernels that compute beside the copies."""
        self._crossing = Crossing()
        self._rates: dict[str, dict[Pair, float]] = {}
        """Variant → GB/s of every pair."""
        self._readers = [context.function("peer_copy_kernel", device=place) for place in range(count)]
        self._computing = [context.function("beside_kernel", device=place) for place in range(count)]
        self._grids = [
            (max(1, min(READ_BLOCKS_PER_SM * device.info.sms, -(-self._elements // (4 * READ_THREADS)))), 1, 1)
            for device in context.devices
        ]

    def _buffer(self, name: str, place: int) -> Buffer:
        return self._context.buffers[on_device(name, place)]

    def prepare(self) -> None:
        """Nothing: pairs are tried when a variant needs them."""

    def reset(self, variant: str) -> None:
        """Raises ``Untrusted`` or ``Unsupported`` for a pair that must not or cannot be measured."""
        self._peers.require(self._ways(variant), direct=variant in READS)
        if variant in OVERLAPS and not self._beside:
            place = self._pair[1]
            self._beside[place] = self._context.devices[place].stream()

    def _ways(self, variant: str) -> list[Pair]:
        source, target = self._pair
        return [(source, target), (target, source)] if variant in BOTH else [(source, target)]

    def step(self, variant: str) -> None:
        if variant in OVERLAPS:
            self._overlapped(variant)
        else:
            self._move(variant, self._ways(variant))

    def _move(self, variant: str, ways: list[Pair]) -> None:
        for _ in range(self.units_per_step):
            for way in ways:
                self._one(variant in READS, way)

    def _one(self, by_kernel: bool, way: Pair) -> None:
        source, target = way
        stream = self._context.streams[target]
        origin, into = self._buffer("payload", source), self._buffer("landing", target)
        if by_kernel:
            arguments: tuple[Argument, ...] = (origin, into, np.int64(self._elements))
            stream.launch(self._readers[target], self._grids[target], (READ_THREADS, 1, 1), 0, arguments)
        else:
            stream.copy(into, origin, 4 * self._elements)

    def _overlapped(self, variant: str, parts: tuple[str, ...] = ("move", "compute")) -> None:
        """The copies and, on another stream of the receiving device, as many kernels; both start and end together."""
        place = self._pair[1]
        stream, beside = self._context.streams[place], self._beside[place]
        with self._crossing.fork(stream, [beside]):
            if "compute" in parts:
                for _ in range(self.units_per_step):
                    self._calculate(beside, place)
            if "move" in parts:
                self._move(variant, self._ways(variant))

    def _calculate(self, stream: Stream, place: int) -> None:
        arguments = (
            self._buffer("work", place),
            self._buffer("worked", place),
            np.int64(self._elements),
            self._compute,
            SCALE,
            OFFSET,
        )
        stream.launch(self._computing[place], grid(self._elements), (BLOCK, 1, 1), 0, arguments)

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        checks = self._context.plan.variant(variant).checks
        return {check.output: self._context.buffers[check.output] for check in checks}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """``direct_access`` (1 where the pair can address each other's memory) and ``nvlinks`` between them (0: none;
        absent where it is not known). Of ``overlap`` and ``overlap_read`` besides the parts alone, and ``overlap``: of
        the shorter one the share (0 to 1) that the longer one hides. Of the others ``gbps_<source>_<target>`` of
        every pair, in the form of the variant."""
        source, target = self._pair
        found = {"direct_access": float(self._peers.access(source, target).direct)}
        links = topology.nvlinks(*(self._context.devices[place].info.ordinal for place in self._pair))
        if links is not None and self._context.devices[0].info.backend == "cuda":
            found["nvlinks"] = float(links)
        if variant in OVERLAPS:
            return {**found, **self._hidden(variant)}
        found |= {f"gbps_{a}_{b}": rate for (a, b), rate in self._matrix(variant).items()}
        return found

    def _hidden(self, variant: str) -> dict[str, float]:
        """Medians over streams of the receiving device."""
        stream = self._context.streams[self._pair[1]]

        def time(*parts: str) -> float:
            return median_us(stream, lambda: self._overlapped(variant, parts))

        moving, computing, together = time("move"), time("compute"), time("move", "compute")
        found = {"moving_us": moving, "computing_us": computing, "together_us": together}
        shorter = min(moving, computing)
        if shorter > 0:
            found["overlap"] = min(1.0, max(0.0, (moving + computing - together) / shorter))
        return found

    def _matrix(self, variant: str) -> dict[Pair, float]:
        """GB/s of every sound pair, one pair after another; measured once."""
        if variant in self._rates:
            return self._rates[variant]
        self._peers.try_all()
        found: dict[Pair, float] = {}
        for pair in self._peers.positions:
            access = self._peers.access(*pair)
            both = variant in BOTH
            ways = [pair, pair[::-1]] if both else [pair]
            if any(self._peers.access(*way).wrong for way in ways) or (variant in READS and not access.direct):
                continue
            found[pair] = len(ways) * 4e-3 * self._elements * self.units_per_step / self._pair_us(variant, ways)
        self._rates[variant] = found
        return found

    def _pair_us(self, variant: str, ways: list[Pair]) -> float:
        """Device time of the copies of a pair, the longer of both where they go both ways."""
        streams = [self._context.streams[target] for _, target in ways]
        self._move(variant, ways)
        return median_devices_us(streams, lambda: self._move(variant, ways))

    def record(self, variant: str, folder: Path) -> None:
        """``p2p_matrix.csv``: for every pair the link between them, the access, what the trial found, and GB/s."""
        self._peers.try_all()
        rates = {} if variant in OVERLAPS else self._matrix(variant)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / MATRIX).open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["source", "target", "link", "path", "direct_access", "trial", "bytes", "gbps"])
            for pair in self._peers.positions:
                source, target = (self._context.devices[place].info for place in pair)
                access = self._peers.access(*pair)
                path = topology.path(source.ordinal, target.ordinal) if source.backend == "cuda" else ""
                rate = f"{rates[pair]:.2f}" if pair in rates else ""
                link = topology.link(path) if path else "none (one memory)"
                row = [source.ordinal, target.ordinal, link, path, int(access.direct), access.wrong or "sound"]
                rows.writerow([*row, 4 * self._elements, rate])

    def close(self) -> None:
        for stream in self._beside.values():
            stream.close()
        self._beside.clear()
