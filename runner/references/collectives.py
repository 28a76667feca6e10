"""Reference of ``collectives``: who gets what from whom, as lists of moves and as the result.

A move is (device it comes from, first element there, first element here, elements). ``moves`` says them for the copies
and tables of the workload; ``expected`` is written from what the exchange means, not from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from runner.references.arrays import SCATTERED

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

CHUNK = 1 << 14
"""Most floats of a table's move: what one block of a kernel copies at a time."""
Move = tuple[int, int, int, int]
Symbols = Mapping[str, Any]


def routes(symbols: Symbols, seed: int, device: int) -> npt.NDArray[np.int64]:
    """Experts of the tokens of a device, shape (T, top_k), different ones for each token: the first experts are asked
    for more often, as it is without balancing."""
    generator = np.random.default_rng([seed, device])
    experts = int(symbols["experts"])
    scores = generator.gumbel(size=(int(symbols["T"]), experts)) - 0.5 * np.log1p(np.arange(experts))
    return np.argsort(-scores, axis=1, kind="stable")[:, : int(symbols["top_k"])].astype(np.int64)


def sent(symbols: Symbols, seed: int, source: int, target: int) -> npt.NDArray[np.int64]:
    """Tokens that a device sends to another, one entry for each expert there, in the order of the tokens."""
    per_device = -(-int(symbols["experts"]) // int(symbols["devices"]))
    token, _ = np.nonzero(routes(symbols, seed, source) // per_device == target)
    return token.astype(np.int64)


def pages(symbols: Symbols, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the pages of the migrated sequence lie in the source's pool, and where they go in the target's."""
    count, pool = int(symbols["pages"]), int(symbols["pool"])
    if symbols["op"] == "migrate_prefix":
        return np.arange(count), np.arange(count)
    generator = np.random.default_rng([seed, count])
    return generator.permutation(pool)[:count], generator.permutation(pool)[:count]


def moves(symbols: Symbols, seed: int, device: int) -> list[Move]:
    """What a device gets, from itself too, contiguous pieces together."""
    devices, n, op = int(symbols["devices"]), int(symbols["n"]), symbols["op"]
    if op == "all_gather":
        return [(peer, 0, peer * n, n) for peer in range(devices)]
    if op == "reduce_scatter":
        return [(peer, device * n, peer * n, n) for peer in range(devices)]
    if op == "all_to_all":
        width, slot, made = int(symbols["H"]), 0, []
        for peer in range(devices):
            for token in sent(symbols, seed, peer, device):
                made.append((peer, int(token) * width, slot * width, width))
                slot += 1
        return made
    if device != 1:
        return []
    size = int(symbols["page_floats"])
    if op == "migrate_prefix":
        return [(0, 0, 0, int(symbols["pages"]) * size)]
    return [(0, int(a) * size, int(b) * size, size) for a, b in zip(*pages(symbols, seed), strict=True)]


def packing(symbols: Symbols, seed: int, device: int) -> list[Move]:
    """What a device puts together before it is sent: its tokens by the device they go to, or the pages of a
    sequence."""
    if symbols["op"] == "all_to_all":
        width = int(symbols["H"])
        order = np.concatenate([sent(symbols, seed, device, peer) for peer in range(int(symbols["devices"]))])
        return [(device, int(token) * width, slot * width, width) for slot, token in enumerate(order)]
    if symbols["op"] == "migrate_pages" and device == 0:
        size = int(symbols["page_floats"])
        return [(0, int(page) * size, place * size, size) for place, page in enumerate(pages(symbols, seed)[0])]
    return []


def unpacking(symbols: Symbols, seed: int, device: int) -> list[Move]:
    """What a device does with what arrived in one piece: the pages of a sequence go to their places."""
    if symbols["op"] != "migrate_pages" or device != 1:
        return []
    size = int(symbols["page_floats"])
    return [(1, place * size, int(page) * size, size) for place, page in enumerate(pages(symbols, seed)[1])]


def split(wanted: list[Move]) -> Iterator[Move]:
    """The same in moves of ``CHUNK`` elements at most."""
    for device, origin, to, count in wanted:
        for first in range(0, count, CHUNK):
            yield (device, origin + first, to + first, min(CHUNK, count - first))


TABLES = {"moves": moves, "packing": packing, "unpacking": unpacking}


def inputs(case: Case, name: str) -> npt.NDArray[np.int64]:
    """A table of moves, shape (rows, 4); rows that are not needed are empty moves."""
    kind, _, place = name.rpartition("_gpu")
    table = np.zeros(case.dims(name), np.int64)
    wanted = list(split(TABLES[kind](_symbols(case), case.seed, int(place))))
    table[: len(wanted)] = np.array(wanted, np.int64).reshape(-1, 4)
    return table


def _symbols(case: Case) -> dict[str, Any]:
    names = ("op", "devices", "n", "T", "H", "experts", "top_k", "pages", "pool", "page_floats")
    return {name: case[name] for name in names}


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Rows of a device's result, float64, shape (len(rows), width). Where nothing arrives there are zeros."""
    place, symbols = int(check.output.rpartition("_gpu")[2]), _symbols(case)
    found = np.zeros((len(rows), int(case["width"])))
    per = int(case["n"]) // int(case["width"])
    if case["op"] == "all_gather":
        for peer in range(case["devices"]):
            mine = rows // per == peer
            found[mine] = _rows(case, f"source_gpu{peer}", rows[mine] % per)
    elif case["op"] == "reduce_scatter":
        for peer in range(case["devices"]):
            found += _rows(case, f"source_gpu{peer}", place * per + rows)
    elif case["op"] == "all_to_all":
        lists = [sent(symbols, case.seed, peer, place) for peer in range(case["devices"])]
        begins = np.cumsum([0, *(len(tokens) for tokens in lists)])
        for peer, tokens in enumerate(lists):
            mine = (begins[peer] <= rows) & (rows < begins[peer + 1])
            found[mine] = _rows(case, f"source_gpu{peer}", tokens[rows[mine] - begins[peer]])
    else:
        origin, target = pages(symbols, case.seed)
        home = np.full(int(case["pool"]), -1)
        home[target] = origin
        mine = home[rows] >= 0
        found[mine] = _rows(case, "source_gpu0", home[rows][mine])
    return found


def _rows(case: Case, name: str, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Rows of a source, float32, shape (rows, width); a few of many are made one by one."""
    total, width = case.dims(name)
    if len(rows) * SCATTERED < total:
        return np.array([case.input(name, row) for row in rows], np.float32).reshape(-1, width)
    found: npt.NDArray[np.float32] = case.input(name)[rows]
    return found
