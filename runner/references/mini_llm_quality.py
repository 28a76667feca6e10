"""Reference of ``mini_llm_quality``: the logits after every token, and how far they are from the unquantised model's.

The device is judged against the formats it was given, as in ``mini_llm``. What those formats cost is reported beside
that: the same text through the same weights as they were held before, with an exact cache, in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from runner.references import mini_llm
from runner.references.mini_llm import Ids, Values

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

BLOCK = 1 << 24
"""Logits that are held at a time: float64, 128 MiB. All weights of the output projection are made for each block."""

_STATES: WeakKeyDictionary[Case, Values] = WeakKeyDictionary()


def inputs(case: Case, name: str) -> npt.NDArray[Any]:
    """``every`` (B · prompt,): all tokens of the pass; the others are those of ``mini_llm``."""
    if name == "every":
        return np.arange(case["prompt_tokens"])
    return mini_llm.inputs(case, name)


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> Values:
    """Rows of ``logits`` (rows, V): a token's each, one sequence after the other."""
    if case not in _STATES:
        _STATES[case] = states(case)
    return mini_llm.logits_of(case, _STATES[case][rows])


def metrics(case: Case, check: Check) -> dict[str, float]:
    """What the formats cost, over all positions.

    ``logit_rmse``, ``logit_max_abs``: differences of logits; ``kl_divergence``: of the next token's distribution from
    the unquantised one, nats, the mean; ``top1_agreement``: share of positions where both prefer the same token;
    ``perplexity``, ``perplexity_unquantised``: of each token given those before it; ``perplexity_ratio``.
    """
    exact = unquantised(case)
    before = states(exact)
    following = next_ids(case.input("prompt_ids"))
    found = Sums()
    each = max(1, BLOCK // case["V"])
    for first in range(0, len(before), each):
        wanted = mini_llm.logits_of(exact, before[first : first + each])
        got = case.output_rows(check.output, first, len(wanted))
        for row, (exactly, there) in enumerate(zip(wanted, got, strict=True)):
            found.add(exactly, there.astype(np.float64), int(following[first + row]))
    return found.metrics()


def unquantised(case: Case) -> Case:
    """The model before its weights were quantised (they are held as bf16 then), with a cache that rounds nothing."""
    kept = case["weights"] if case["weights"] == "fp32" else "bf16"
    return case.under(weights=kept, kv="fp32")


def states(case: Case) -> Values:
    """(B · prompt, h) behind the last layer."""
    return mini_llm.states(case, case.input("prompt_ids")).reshape(case["prompt_tokens"], case["h"])


def next_ids(ids: Ids) -> Ids:
    """(B · N,): the token that follows each of ``ids`` (B, N); -1 behind the last of a sequence."""
    last = np.full((len(ids), 1), -1)
    return np.concatenate([ids[:, 1:], last], axis=1).reshape(-1)


@dataclass
class Sums:
    """Of the positions so far."""

    positions: int = 0
    logits: int = 0
    squares: float = 0.0
    largest: float = 0.0
    divergence: float = 0.0
    agreed: int = 0
    predicted: int = 0
    surprise: float = 0.0
    """Of the tokens that followed, nats, by what the device says."""
    surprise_unquantised: float = 0.0

    def add(self, exact: Values, got: Values, following: int) -> None:
        """Logits (V,) of one position, and the token after it (-1 = none)."""
        difference = got - exact
        self.positions += 1
        self.logits += len(exact)
        self.squares += float(difference @ difference)
        self.largest = max(self.largest, float(np.abs(difference).max()))
        self.agreed += int(np.argmax(exact) == np.argmax(got))
        wanted, found = log_probabilities(exact), log_probabilities(got)
        # Never below zero, which rounding could make it where the two are the same.
        self.divergence += max(0.0, float(np.exp(wanted) @ (wanted - found)))
        if following >= 0:
            self.predicted += 1
            self.surprise -= float(found[following])
            self.surprise_unquantised -= float(wanted[following])

    def metrics(self) -> dict[str, float]:
        return {
            "logit_rmse": math.sqrt(self.squares / self.logits),
            "logit_max_abs": self.largest,
            "kl_divergence": self.divergence / self.positions,
            "top1_agreement": self.agreed / self.positions,
            "perplexity": math.exp(self.surprise / self.predicted),
            "perplexity_unquantised": math.exp(self.surprise_unquantised / self.predicted),
            "perplexity_ratio": math.exp((self.surprise - self.surprise_unquantised) / self.predicted),
        }


def log_probabilities(logits: Values) -> Values:
    """(V,), natural logarithm."""
    shifted = logits - logits.max()
    out: Values = shifted - math.log(float(np.exp(shifted).sum()))
    return out
