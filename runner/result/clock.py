"""How times of day are written in every document."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> str:
    """The time, ISO 8601, UTC, to the millisecond."""
    return written(datetime.now(timezone.utc))


def written(time: datetime) -> str:
    """``time`` as in every document; it must know its zone."""
    return time.astimezone(timezone.utc).isoformat(timespec="milliseconds")
