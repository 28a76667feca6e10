"""Reference of ``mini_llm_serve``: each request's text as if it were alone, in float64.

Which requests shared a pass, a page or a slot must not be seen in a text. Each token is judged after those that the
device chose before, as in ``mini_llm``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from runner.references import mini_llm
from runner.references.mini_llm import Ids, Values, allowed, logits_of, states
from runner.serving import source
from runner.serving.prompts import prompt_ids
from runner.serving.trace import Request

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

ACTIVATIONS, LOGITS = 1 << 26, 1 << 27
"""Elements within the MLP of texts that are read together, where none is longer, and logits that are held at a time."""
BEHIND = -1
"""What stands behind the end of a text."""

_JUDGED: WeakKeyDictionary[Case, dict[tuple[int, bytes], Ids]] = WeakKeyDictionary()
"""By request and the text judged: policies that gave the same text share its judgement."""


def inputs(case: Case, name: str) -> npt.NDArray[Any]:
    """Weights from a file, ``rotation`` and ``each``: those of ``mini_llm``."""
    return mini_llm.inputs(case, name)


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> Ids:
    """Texts of the requests ``rows``, shape (rows, longest output): each token the device's own where it may be chosen
    there, else the one that should have been."""
    trace = source.of(case, case.seed)
    left = case.output(check.output).astype(np.int64)
    wanted = np.full((len(rows), left.shape[1]), BEHIND)
    requests = [trace[row] for row in rows]
    found = judged(case, requests, {one.index: left[one.index, : one.output] for one in requests})
    for row, request in zip(wanted, requests, strict=True):
        row[: request.output] = found[request.index]
    return wanted


def judged(case: Case, requests: Sequence[Request], texts: Mapping[int, Ids]) -> dict[int, Ids]:
    """Request → the right tokens where its text goes on as ``texts`` says, shape (output,) each."""
    known = _JUDGED.setdefault(case, {})
    new = [one for one in requests if (one.index, texts[one.index].tobytes()) not in known]
    for group in _groups(new, ACTIVATIONS // int(case["I"])):
        for one, tokens in zip(group, _judge(case, group, texts), strict=True):
            known[one.index, texts[one.index].tobytes()] = tokens
    return {one.index: known[one.index, texts[one.index].tobytes()] for one in requests}


def _groups(requests: Sequence[Request], most: int) -> Iterator[list[Request]]:
    """Requests of about the same length, ``most`` tokens together, or one that is longer."""
    group: list[Request] = []
    for one in sorted(requests, key=lambda one: one.cached, reverse=True):
        if group and (len(group) + 1) * group[0].cached > most:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _judge(case: Case, group: Sequence[Request], texts: Mapping[int, Ids]) -> list[Ids]:
    """The right tokens of each of a group, by one reading of the weights."""
    ids = np.zeros((len(group), group[0].cached), np.int64)  # what follows a text does not change it
    for row, one in zip(ids, group, strict=True):
        row[: one.prompt] = prompt_ids(one, case["V"], case.seed)
        # What is no token is wrong, whatever follows.
        row[one.prompt : one.cached] = np.clip(texts[one.index][:-1], 0, case["V"] - 1)
    x = states(case, ids)
    last = np.concatenate([x[i, one.prompt - 1 : one.cached] for i, one in enumerate(group)])
    chosen = np.concatenate([texts[one.index] for one in group])
    tokens = np.concatenate(_chosen(case, last, chosen))
    return np.split(tokens, np.cumsum([one.output for one in group])[:-1])


def _chosen(case: Case, x: Values, chosen: Ids) -> list[Ids]:
    each = max(1, LOGITS // int(case["V"]))
    parts = [slice(first, first + each) for first in range(0, len(x), each)]
    return [allowed(case, logits_of(case, x[part]), chosen[part, None], 0) for part in parts]
