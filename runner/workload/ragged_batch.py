"""The launches of ``kernel=ragged_batch``, and what its lengths say about the balance of the blocks."""

from __future__ import annotations

from collections.abc import Mapping

from runner.check.case import Case
from runner.workload.base import Context
from runner.workload.declared import DeclaredWorkload


class RaggedBatch(DeclaredWorkload):
    """Runs what the YAML declares; its figures depend on lengths that are drawn or read, unknown to the plan."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._case = Case(context.plan)

    def metrics(self, variant: str) -> Mapping[str, float]:
        """``longest``: tokens of the longest request. ``tail_effect``: tokens of the busiest block over those of the
        mean block, 1 when all have the same; the step cannot end before that block does."""
        lengths = self._case.input("seq_lens")
        longest = int(lengths.max())
        tail = 1.0
        if variant == "masked_ragged":
            tail = longest / float(lengths.mean())
        elif "compact" in variant:
            tail = longest / float(lengths[lengths > 0].mean())
        return {"longest": float(longest), "tail_effect": tail}
