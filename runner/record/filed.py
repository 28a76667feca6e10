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
    ended: int = 0
    """As ``started``; 0 = has not."""
    name: str = ""
    status: str = ""
    """The tracker's own: ``RUNNING``, ``FINISHED``, ``FAILED``, ``KILLED``."""
    artifacts: str = ""
    """Where its files lie."""


@dataclass(frozen=True)
class Only:
    """What is asked of runs whose other tags and metrics nobody looks at; parameters are always there."""

    tags: tuple[str, ...]
    metrics: tuple[str, ...]
