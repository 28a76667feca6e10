"""Requests by the length of their prompt."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from runner.serving.served import Record

EDGES = (128, 512, 2048)
"""Longest prompts of the buckets, tokens; one more holds those that are longer still."""


@dataclass(frozen=True)
class Bucket:
    """Prompts longer than ``above`` and no longer than ``most``, where there are such bounds."""

    above: int | None
    most: int | None
    records: tuple[Record, ...]

    @property
    def name(self) -> str:
        """Within the name of a metric: ``prompt_le_512``, ``prompt_gt_2048``."""
        return f"prompt_gt_{self.above}" if self.most is None else f"prompt_le_{self.most}"

    @property
    def label(self) -> str:
        """For readers."""
        if self.most is None:
            return f"> {self.above}"
        return f"≤ {self.most}" if self.above is None else f"{self.above + 1} – {self.most}"


def buckets(records: Sequence[Record], edges: Sequence[int] = EDGES) -> list[Bucket]:
    """Those that have requests, the shortest prompts first. Raises ``ValueError`` where ``edges`` do not rise."""
    if not edges or list(edges) != sorted(set(edges)):
        raise ValueError(f"edges={list(edges)}: must be lengths that rise")
    members: list[list[Record]] = [[] for _ in range(len(edges) + 1)]
    for record in records:
        members[bisect_left(edges, record.request.prompt)].append(record)
    bounds = (None, *edges, None)
    return [Bucket(bounds[i], bounds[i + 1], tuple(found)) for i, found in enumerate(members) if found]
