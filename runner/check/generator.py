"""Buffer contents from a counter: the NumPy half of ``cuda_src/common/generator.cuh``, equal to the last bit.

Element ``i`` of a buffer depends on (seed, buffer name, i) alone, so any slice can be made without the rest.

    hash(key, i)  = the splitmix64 finaliser (Steele, Lea, Flood 2014) of key + (i + 1) * 0x9E3779B97F4A7C15
    u             = (hash >> 40) / 2**24                     exact in float32, in [0, 1)
    uniform       = low + (high - low) * u                   float32, every operation rounded once
    integers      = low + ((hash >> 32) * (high - low) >> 32)

Rounding can lift the largest ``uniform`` values to ``high`` itself. Narrower types are rounded to nearest
even; float8 saturates at its largest value.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.plan import dtypes
from runner.plan.model import Buffer

CHUNK = 1 << 16
"""Elements handled at a time: temporaries of 512 KiB, which a core's own cache holds and which keep a thread busy long
enough that others need not wait for the interpreter."""

PIECE = 32 * CHUNK
"""Elements that a thread makes at a time, where there are more."""

MAX_SPAN = 1 << 32
"""Most different values an ``integers`` fill can take."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_MASK = (1 << 64) - 1
_COUNTER = np.arange(1, CHUNK + 1, dtype=np.uint64) * _STEP


class FillError(ValueError):
    """A fill that its buffer's type cannot hold, or that has no values; names the buffer."""


def key(seed: int, buffer: str) -> int:
    """The 64-bit key of a buffer, made on the host and passed to the fill kernels."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{buffer}".encode(), digest_size=8).digest(), "little")


def uniform(key: int, start: int, count: int, low: float, high: float) -> npt.NDArray[np.float32]:
    """Elements ``start … start + count`` of a uniform buffer, float32."""
    base, width = limits(low, high)
    out = np.empty(count, np.float32)
    for offset, size in _chunks(count):
        part = out[offset : offset + size]
        bits = _hash(key, start + offset, size)
        bits >>= np.uint64(40)
        # Through int32: NumPy converts it to float32 several times faster than uint64; 24 bits are exact.
        np.multiply(bits.astype(np.int32), np.float32(2.0**-24), out=part, dtype=np.float32, casting="unsafe")
        part *= width
        part += base
    return out


def integers(key: int, start: int, count: int, low: int, high: int) -> npt.NDArray[np.int64]:
    """Elements ``start … start + count`` of an integer buffer, int64 in [low, high). Raises ``FillError``."""
    if not 0 < high - low <= MAX_SPAN:
        raise FillError(f"integers fill: high - low is {high - low}, allowed are 1 to 2**32")
    out = np.empty(count, np.int64)
    for offset, size in _chunks(count):
        bits = _hash(key, start + offset, size)
        bits >>= np.uint64(32)
        bits *= np.uint64(high - low)
        bits >>= np.uint64(32)
        np.add(bits.view(np.int64), np.int64(low), out=out[offset : offset + size])
    return out


def values(buffer: Buffer, seed: int, start: int, count: int) -> npt.NDArray[Any]:
    """Elements ``start … start + count`` (C order) of ``buffer`` in its own dtype.

    Raises ``FillError`` for a buffer without a fill, or one whose fill its type cannot hold.
    """
    require_fill(buffer)
    fill = buffer.fill
    target = dtypes.numpy_dtype(buffer.dtype)
    if fill.kind in ("zeros", "constant"):
        return np.full(count, constant(buffer), target)
    out = np.empty(count, target)
    buffer_key = key(seed, buffer.name)

    def make(first: int) -> None:
        end = min(first + PIECE, count)
        for offset in range(first, end, CHUNK):
            size = min(CHUNK, end - offset)
            made: npt.NDArray[Any]
            if fill.kind == "uniform":
                made = uniform(buffer_key, start + offset, size, fill.low, fill.high)
            else:
                made = integers(buffer_key, start + offset, size, int(fill.low), int(fill.high))
            out[offset : offset + size] = narrow(made, buffer.dtype)

    # In pieces, so that the wider intermediate never exists as a whole; NumPy lets other threads run meanwhile.
    pieces = range(0, count, PIECE)
    if len(pieces) < 2:
        for offset in pieces:
            make(offset)
        return out
    with ThreadPoolExecutor(min(len(pieces), os.cpu_count() or 1)) as pool:
        list(pool.map(make, pieces))
    return out


def narrow(wide: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """``wide`` rounded to nearest even into ``dtype``, through float32 as on the device; float8 saturates."""
    target = dtypes.numpy_dtype(dtype)
    if dtype == "float64" or not dtypes.is_float(dtype):
        return wide.astype(target)
    single = wide.astype(np.float32, copy=False)
    if dtype == "bfloat16":
        # The upper half, rounded; ml_dtypes does the same, one thread at a time.
        bits = single.view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        return rounded.astype(np.uint16).view(target)
    if dtype.startswith("float8"):
        import ml_dtypes

        largest = np.float32(ml_dtypes.finfo(target).max)  # type: ignore[no-untyped-call]
        single = np.clip(single, -largest, largest)
    narrowed: npt.NDArray[Any] = single.astype(target, copy=False)
    return narrowed


def limits(low: float, high: float) -> tuple[np.float32, np.float32]:
    """(low, high - low) of a uniform fill as the float32 pair that the fill kernels take."""
    base = np.float32(low)
    return base, np.float32(np.float32(high) - base)


def constant(buffer: Buffer) -> npt.NDArray[Any]:
    """The one value of a ``zeros`` or ``constant`` buffer, shape (1,), in its dtype."""
    value = buffer.fill.value if buffer.fill.kind == "constant" else 0.0
    if dtypes.is_float(buffer.dtype):
        return narrow(np.array([value], np.float64), buffer.dtype)
    return np.array([int(value)], dtypes.numpy_dtype(buffer.dtype))


def require_fill(buffer: Buffer) -> None:
    """Raises ``FillError`` when ``buffer.fill`` is none, or its values do not fit ``buffer.dtype``."""
    fill, where = buffer.fill, f"buffer {buffer.name!r} ({buffer.dtype})"
    is_float = dtypes.is_float(buffer.dtype)
    if fill.kind == "none":
        raise FillError(f"{where} has no fill: the generator cannot say what it holds")
    if fill.kind == "uniform":
        if not is_float:
            raise FillError(f"{where}: fill 'uniform' is for floating-point types, use 'integers'")
        with np.errstate(over="ignore"):
            width = limits(fill.low, fill.high)[1]
        if not (np.isfinite(width) and fill.low <= fill.high):
            raise FillError(f"{where}: low={fill.low} and high={fill.high} must be finite and in order")
    if is_float:
        _require_finite(where, buffer)
    if fill.kind == "integers":
        if not (float(fill.low).is_integer() and float(fill.high).is_integer()):
            raise FillError(f"{where}: low={fill.low} and high={fill.high} must be whole numbers")
        if not 0 < fill.high - fill.low <= MAX_SPAN:
            raise FillError(f"{where}: high - low is {fill.high - fill.low:.0f}, allowed are 1 to 2**32")
        if not is_float:
            _require_range(where, int(fill.low), buffer.dtype)
            _require_range(where, int(fill.high) - 1, buffer.dtype)
    if fill.kind == "constant" and not is_float:
        if not float(fill.value).is_integer():
            raise FillError(f"{where}: value={fill.value} must be a whole number")
        _require_range(where, int(fill.value), buffer.dtype)


def _require_finite(where: str, buffer: Buffer) -> None:
    """A value beyond the type's range becomes infinite, except in float8, which saturates."""
    fill = buffer.fill
    numbers = {"constant": (fill.value,), "uniform": (fill.low, fill.high), "integers": (fill.low, fill.high)}
    for number in numbers.get(fill.kind, ()):
        with np.errstate(over="ignore"):
            held = narrow(np.array([number], np.float64), buffer.dtype).astype(np.float64)
        if not np.isfinite(held).all():
            raise FillError(f"{where}: value {number} does not fit, it would become {held[0]}")


def _require_range(where: str, value: int, dtype: str) -> None:
    info = np.iinfo(dtypes.numpy_dtype(dtype))
    if not info.min <= value <= info.max:
        raise FillError(f"{where}: value {value} does not fit, allowed are {info.min} to {info.max}")


def _chunks(count: int) -> list[tuple[int, int]]:
    return [(offset, min(CHUNK, count - offset)) for offset in range(0, count, CHUNK)]


def _hash(key: int, start: int, count: int) -> npt.NDArray[np.uint64]:
    """64 mixed bits per element; ``count`` at most ``CHUNK``."""
    bits = _COUNTER[:count] + np.uint64((key + start * int(_STEP)) & _MASK)
    other = bits >> np.uint64(30)
    bits ^= other
    bits *= _MIX_1
    np.right_shift(bits, np.uint64(27), out=other)
    bits ^= other
    bits *= _MIX_2
    np.right_shift(bits, np.uint64(31), out=other)
    bits ^= other
    return bits
