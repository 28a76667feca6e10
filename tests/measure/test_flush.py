"""The flush buffer: how large, and whose."""

from __future__ import annotations

from typing import Any

import pytest

from runner.measure.flush import Flusher
from runner.plan.memory import HOST_FLUSH_BYTES, UNKNOWN_L2_BYTES


@pytest.mark.parametrize(
    ("backend", "l2_bytes", "expected"),
    [
        ("cuda", 50 << 20, 100 << 20),
        ("cuda", 0, 2 * UNKNOWN_L2_BYTES),
        ("host", 8 << 20, 16 << 20),
        ("host", 300 << 20, HOST_FLUSH_BYTES),
    ],
)
def test_size_is_twice_the_cache(bench: Any, backend: str, l2_bytes: int, expected: int) -> None:
    made = bench()
    device = made.device
    device.info.backend, device.info.l2_bytes = backend, l2_bytes
    assert Flusher(device, made.flush, made.stream).nbytes == expected
    assert device.log == [f"allocate {expected}", "allocate 16", "zero"]


def test_flush_is_queued_and_close_frees_once(bench: Any) -> None:
    made = bench()
    flusher = Flusher(made.device, made.flush, made.stream)
    flusher.flush(made.stream)
    assert made.device.queue == [made.device.flush_us]
    flusher.close()
    flusher.close()
    assert made.log[3:] == ["flush", "free", "free"]
    with pytest.raises(RuntimeError, match="closed"):
        flusher.flush(made.stream)
