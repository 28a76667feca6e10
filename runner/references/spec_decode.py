"""Reference of ``spec_decode``: the tables of token ids, and the rows of all tokens yielded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.check import generator

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

VOCABULARY = 1 << 16


def inputs(case: Case, name: str) -> npt.NDArray[np.int64]:
    """``target_ids`` (windows, draft + 1), ``draft_ids`` (windows, draft) or ``emitted_ids`` (tokens,), int64.

    A window's proposals equal the target's tokens up to the accepted length, and differ in the one after.
    """
    windows, draft = case["windows"], case["draft"]
    target = _drawn(case, "target_ids", windows * (draft + 1), VOCABULARY).reshape(windows, draft + 1)
    if name == "target_ids":
        return target
    accepted = lengths(case)[:, None]
    if name == "emitted_ids":
        emitted: npt.NDArray[np.int64] = target[np.arange(draft + 1) <= accepted]
        return emitted
    place = np.arange(draft)
    proposals: npt.NDArray[np.int64] = _drawn(case, "draft_ids", windows * draft, VOCABULARY).reshape(windows, draft)
    proposals = np.where(place < accepted, target[:, :draft], proposals)
    proposals[place == accepted] = ((target[:, :draft] + 1) % VOCABULARY)[place == accepted]
    return proposals


def lengths(case: Case) -> npt.NDArray[np.int64]:
    """Proposals accepted in each window, int64, shape (windows,); they add up to ``accepted_drafts``.

    With a probability they are drawn; then windows are visited in a drawn order and moved by one, within 0 … draft,
    until the sum is the expected one, which the plan counts on.
    """
    windows, draft, probability = case["windows"], case["draft"], case["probability"]
    if probability == 0:
        return np.full(windows, case["accept"], dtype=np.int64)
    drawn = _drawn(case, "acceptance", windows * draft, 1 << 24).reshape(windows, draft)
    kept = np.cumprod(drawn < probability * (1 << 24), axis=1)
    found: npt.NDArray[np.int64] = kept.sum(axis=1).astype(np.int64)
    order = np.argsort(_drawn(case, "correction", windows, 1 << 31), kind="stable")
    while (missing := int(case["accepted_drafts"] - found.sum())) != 0:
        step = 1 if missing > 0 else -1
        movable = order[found[order] < draft] if step > 0 else order[found[order] > 0]
        found[movable[: abs(missing)]] += step
    return found


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Rows of the tokens ``rows``, shape (rows, N); the same whichever way they were decoded."""
    x = case.input("x").astype(np.float64)
    ids = case.input("emitted_ids")[rows]
    made: npt.NDArray[np.float64] = 0.5 * x[None, :] + ids[:, None] / VOCABULARY
    return made


def _drawn(case: Case, name: str, count: int, below: int) -> npt.NDArray[np.int64]:
    return generator.integers(generator.key(case.seed, name), 0, count, 0, below)
