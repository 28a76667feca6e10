"""A run as a store gives it back: plain values, whatever the store's client calls them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Filed:
    run_id: str
    params: dict[str, str]
    metrics: dict[str, float]
    tags: dict[str, str]
    started: int
    """Milliseconds since 1970."""
