"""Times of day as documents hold them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from runner.result import clock


def test_a_time_is_written_in_utc_to_the_millisecond() -> None:
    zone = timezone(timedelta(hours=9))
    assert clock.written(datetime(2026, 3, 1, 8, 0, 0, 123_999, zone)) == "2026-02-28T23:00:00.123+00:00"


def test_now_is_now() -> None:
    before = datetime.now(timezone.utc) - timedelta(milliseconds=1)
    assert before <= datetime.fromisoformat(clock.now()) <= datetime.now(timezone.utc)


def test_a_time_in_milliseconds() -> None:
    assert clock.millis("2026-03-01T12:00:00Z") == clock.millis("2026-03-01T13:00:00+01:00") == 1772366400000
    assert clock.millis("2026-03-01T12:00:00.123+00:00") == 1772366400123
    assert clock.millis("") == clock.millis("yesterday") == 0
