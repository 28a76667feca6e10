"""The launches of ``kernel=moe_routing``, and what its routing came to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from runner.check.case import Case
from runner.references.moe_routing import route
from runner.workload.base import Context
from runner.workload.declared import DeclaredWorkload

LISTED = 64
"""Experts whose counts are filed one by one."""


class MoeRouting(DeclaredWorkload):
    """Runs what the YAML declares; the figures depend on a routing that is drawn, so the plan has not got them."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._symbols = context.plan.symbols
        self._counts = route(Case(context.plan)).counts

    def metrics(self, variant: str) -> Mapping[str, float]:
        """Per expert ``expert_count_<e>`` (the first 64) and largest, smallest and imbalance (largest over mean);
        ``drop_rate``: choices without a slot; ``padding_waste``: part of the expert rows that are empty."""
        counts = self._counts
        choices = int(counts.sum())
        found = {
            "expert_count_max": float(counts.max()),
            "expert_count_min": float(counts.min()),
            "expert_imbalance": float(counts.max() / counts.mean()),
            "drop_rate": 0.0,
            "padding_waste": 0.0,
        }
        found.update({f"expert_count_{e}": float(count) for e, count in enumerate(counts[:LISTED])})
        if variant == "padded":
            capacity = int(self._symbols["capacity"])
            kept = int(np.minimum(counts, capacity).sum())
            found["drop_rate"] = 1.0 - kept / choices
            found["padding_waste"] = 1.0 - kept / (len(counts) * capacity)
        return found
