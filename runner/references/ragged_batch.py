"""Reference of ``ragged_batch``: how long every context is, and one head at a time over the tokens that exist."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from runner.check.generator import key
from runner.references.kv_quant import attention

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

SHORT_SHARE = 0.75
"""Part of a bimodal batch that is short."""
SHORT = 0.25
"""Length of its short requests, as part of the mean."""


def inputs(case: Case, name: str) -> npt.NDArray[np.int64]:
    """The scheduler's tables.

    ``seq_lens``: tokens in every slot, 0 for an empty one, shape (Bmax,). ``active_ids``: slots in the order in which
    blocks get them, shape (active,). ``offsets``: tokens of the requests before, in that order, shape (active + 1,).
    """
    lengths, ids = schedule(case)
    if name == "seq_lens":
        return lengths
    if name == "active_ids":
        return ids
    return np.concatenate([[0], np.cumsum(lengths[ids])]).astype(np.int64)


def schedule(case: Case) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """``seq_lens`` and ``active_ids`` as in ``inputs``; which slots are active is drawn from the seed."""
    random = np.random.default_rng(key(case.seed, "ragged_batch"))
    drawn = active_lengths(case)
    slots = random.permutation(case["Bmax"])[: case["active"]]
    lengths = np.zeros(case["Bmax"], np.int64)
    # A file is a trace: its order is kept over the slots. Made lengths have no order of their own.
    lengths[np.sort(slots)] = drawn if case["lengths"] == "file" else random.permutation(drawn)
    ids = np.flatnonzero(lengths)
    if case["order"] == "longest":
        ids = ids[np.argsort(-lengths[ids], kind="stable")]
    return lengths, ids.astype(np.int64)


def active_lengths(case: Case) -> npt.NDArray[np.int64]:
    """Lengths of the active requests, shape (active,), each 1 … Tmax, ``tokens`` together.

    Raises ``ValueError`` for a file that says something else.
    """
    active, longest, total = case["active"], case["Tmax"], case["tokens"]
    if case["lengths"] == "file":
        return from_file(Path(case["file"]), active, longest, total)
    at = (np.arange(active) + 0.5) / active  # quantiles
    mean = total / active
    if case["lengths"] == "uniform":
        spread = min(mean - 1.0, longest - mean)
        wanted = mean + spread * (2 * at - 1)
    elif case["lengths"] == "bimodal":
        short = at < SHORT_SHARE
        low = SHORT * mean
        count = int(short.sum())
        wanted = np.where(short, low, (total - low * count) / max(1, active - count))
    else:  # long_tail: length falls with the square root of the rank
        wanted = longest / np.sqrt(1.0 + np.arange(active))
    return to_total(wanted, longest, total)


def to_total(wanted: npt.NDArray[np.float64], longest: int, total: int) -> npt.NDArray[np.int64]:
    """Whole lengths between 1 and ``longest`` that add up to ``total``: ``wanted`` times one factor, as near as can be.

    ``len(wanted) <= total <= len(wanted) * longest``.
    """
    low, high = 0.0, float(longest) / max(1e-9, float(wanted.min()))
    for _ in range(100):
        factor = (low + high) / 2
        if np.clip(wanted * factor, 1, longest).sum() < total:
            low = factor
        else:
            high = factor
    exact = np.clip(wanted * high, 1, longest)
    lengths = np.clip(np.floor(exact), 1, longest).astype(np.int64)
    while (missing := total - int(lengths.sum())) != 0:
        step = 1 if missing > 0 else -1
        room = lengths < longest if missing > 0 else lengths > 1
        order = np.argsort(step * (lengths - exact), kind="stable")
        chosen = order[room[order]][: abs(missing)]
        lengths[chosen] += step
    return lengths


def from_file(path: Path, active: int, longest: int, total: int) -> npt.NDArray[np.int64]:
    """One length a line; blank lines are skipped. Raises ``ValueError`` that names file, line and what is allowed."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"kernel.params.file={path}: {error.strerror or error}") from None
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            length = int(line)
        except ValueError:
            raise ValueError(f"{path}:{number}: {line.strip()!r} is not a length") from None
        if not 1 <= length <= longest:
            raise ValueError(f"{path}:{number}: length {length} is not between 1 and Tmax={longest}")
        found.append(length)
    if len(found) != active or sum(found) != total:
        raise ValueError(
            f"{path} has {len(found)} lengths, {sum(found)} tokens together, but kernel.params.active={active} and "
            f"kernel.params.sum={total}: set kernel.params.active={len(found)} kernel.params.sum={sum(found)}"
        )
    return np.array(found, np.int64)


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Heads ``rows`` (flat over slot or active request, and head) of the output, shape (rows, D)."""
    lengths = case.input("seq_lens")
    compact = "compact" in check.name or "split" in check.name
    ids: npt.NDArray[Any] = case.input("active_ids") if compact else np.arange(case["Bmax"])
    out = np.zeros((len(rows), case["D"]))
    for index, row in enumerate(rows):
        request, head = divmod(int(row), case["H"])
        slot = int(ids[request])
        length = int(lengths[slot])
        if length == 0:
            continue
        q = case.input("q", slot, head).astype(np.float64)
        k = case.input("k", slot, head)[:length].astype(np.float64)
        v = case.input("v", slot, head)[:length].astype(np.float64)
        if check.name.startswith("softmax"):
            out[index] = attention(q, k, v)
        else:
            out[index] = (k @ q) @ v / math.sqrt(case["Tmax"] * case["D"])
    return out
