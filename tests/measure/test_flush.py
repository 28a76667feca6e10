"""The flush buffer: how large, and whose."""

from __future__ import annotations

from typing import Any

import pytest

from runner.measure.flush import HOST_CAP_BYTES, UNKNOWN_L2_BYTES, Flusher


@pytest.mark.parametrize(
    ("backend", "of_device", "asked", "expected"),
    [
        ("cuda", 50 << 20, 0, 100 << 20),
        ("cuda", 50 << 20, 60 << 20, 120 << 20),
        ("cuda", 0, 0, 2 * UNKNOWN_L2_BYTES),
        ("host", 8 << 20, 0, 16 << 20),
        ("host", 300 << 20, 0, HOST_CAP_BYTES),
    ],
)
def test_size_is_twice_the_cache(bench: Any, backend: str, of_device: int, asked: int, expected: int) -> None:
    made = bench()
    device = made.device
    device.info.backend, device.info.l2_bytes = backend, of_device
    assert Flusher(device, made.flush, made.stream, asked).nbytes == expected
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
