"""How times of day are written in every document, and read."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> str:
    """The time, ISO 8601, UTC, to the millisecond."""
    return written(datetime.now(timezone.utc))


def written(time: datetime) -> str:
    """``time`` as in every document; it must know its zone."""
    return time.astimezone(timezone.utc).isoformat(timespec="milliseconds")


def read(iso: str) -> datetime:
    """A time as documents hold it. Raises ``ValueError``."""
    return datetime.fromisoformat(iso.replace("Z", "+00:00"))


def millis(iso: str) -> int:
    """Milliseconds since 1970 of a time as documents hold it; 0 for an empty or unreadable one."""
    try:
        return round(read(iso).timestamp() * 1000)
    except ValueError:
        return 0
