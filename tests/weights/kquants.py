"""Encoders of ggml's blocks of 256: bytes, and the values that they stand for, worked out apart from any decoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


def q4_k(values: Floats) -> tuple[bytes, Floats]:
    """Eight runs of 32 of four bits, each run with a scale and a minimum of six bits."""
    runs = values.reshape(-1, 8, 32)
    low = np.minimum(runs.min(axis=2), 0)
    scales, mins = (runs.max(axis=2) - low) / 15, -low
    unit, floor = (_half(part.max(axis=1) / 63) for part in (scales, mins))
    scale, minimum = (_whole(part, by, 0, 63) for part, by in ((scales, unit), (mins, floor)))
    step, offset = unit[:, None] * scale, floor[:, None] * minimum
    q = _whole(runs + offset[:, :, None], step, 0, 15)
    made = step[:, :, None] * q - offset[:, :, None]

    s, m = scale.astype(np.uint8), minimum.astype(np.uint8)
    packed = np.concatenate(
        [s[:, :4] | s[:, 4:] >> 4 << 6, m[:, :4] | m[:, 4:] >> 4 << 6, (s[:, 4:] & 15) | (m[:, 4:] & 15) << 4], axis=1
    )
    pairs = q.astype(np.uint8).reshape(-1, 4, 2, 32)
    quants = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(-1, 128)
    return _joined(_raw(unit), _raw(floor), packed, quants), made.reshape(values.shape).astype(np.float32)


def q6_k(values: Floats) -> tuple[bytes, Floats]:
    """Sixteen runs of 16 of six bits, each run with a signed scale of eight bits."""
    runs = values.reshape(-1, 16, 16)
    largest = np.take_along_axis(runs, np.abs(runs).argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
    scales = largest / -32
    unit = _half(np.abs(scales).max(axis=1) / 127)
    scale = _whole(scales, unit, -128, 127)
    step = unit[:, None] * scale
    q = _whole(runs, step, -32, 31)
    made = step[:, :, None] * q

    quarters = (q + 32).astype(np.uint8).reshape(-1, 2, 4, 32)  # within each half of 128
    low, high = quarters & 15, quarters >> 4
    lower = np.concatenate([low[:, :, 0] | low[:, :, 2] << 4, low[:, :, 1] | low[:, :, 3] << 4], axis=2)
    upper = high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6
    raw = _joined(lower.reshape(-1, 128), upper.reshape(-1, 64), scale.astype(np.int8).view(np.uint8), _raw(unit))
    return raw, made.reshape(values.shape).astype(np.float32)


def _half(values: npt.NDArray[Any]) -> Floats:
    return values.astype(np.float16).astype(np.float32)


def _raw(values: Floats) -> Bytes:
    return values.astype("<f2").view(np.uint8).reshape(-1, 2)


def _whole(values: npt.NDArray[Any], step: Floats, low: int, high: int) -> Floats:
    """Nearest multiples of ``step``, which has fewer axes; nothing where the step is zero."""
    by = step.reshape(*step.shape, *(1,) * (values.ndim - step.ndim))
    safe = np.where(by == 0, 1, by)
    return np.clip(np.round(np.where(by == 0, 0, values / safe)), low, high).astype(np.float32)


def _joined(*parts: npt.NDArray[Any]) -> bytes:
    return np.concatenate([part.astype(np.uint8) for part in parts], axis=1).tobytes()
