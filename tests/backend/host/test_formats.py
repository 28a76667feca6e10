"""half, bfloat16 and fp8 against ml_dtypes, over every code and every rounding case."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from runner.backend.base import Module
from runner.backend.host.device import HostDevice
from tests.backend.host.harness import Array, call, compiled

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
CODES = np.arange(65536, dtype=np.uint16)
NARROW = {"half": np.float16, "bfloat16": ml_dtypes.bfloat16, "e4m3": E4M3, "e5m2": E5M2}


@pytest.fixture(params=["hardware", "software"])
def module(request: pytest.FixtureRequest, device: HostDevice) -> Module:
    """With the processor's own half conversion (where it has one) and without."""
    defines = (("HOST_SOFTWARE_HALF", "1"),) if request.param == "software" else ()
    return device.load(compiled("formats", defines=defines))


def grid(n: int) -> tuple[int, int, int]:
    return (-(-n // 256), 1, 1)


def values() -> Array:
    """Every finite value of each format, the ties between neighbours, what is just off a tie, and the ends."""
    parts = [np.array([0.0, np.inf, 1e30, 3e38, 1e-30, 1e-45], np.float32)]
    for dtype in NARROW.values():
        codes = CODES if np.dtype(dtype).itemsize == 2 else np.arange(256, dtype=np.uint8)
        with np.errstate(all="ignore"):
            every = codes.view(dtype).astype(np.float64)
        every = np.unique(np.abs(every[np.isfinite(every)]))
        if len(every) > 2000:  # 16-bit formats: each code by itself is tested in the other direction
            every = np.unique(np.concatenate([every[:600], every[-600:], every[:: len(every) // 997]]))
        ties = (every[1:] + every[:-1]) / 2
        for middle in (every, ties):
            single = middle.astype(np.float32)
            parts += [single, np.nextafter(single, np.float32(np.inf)), np.nextafter(single, np.float32(0))]
    largest = np.array([464, 448, 480, 57344, 61440, 65504, 65520], np.float32)  # ends and their halfway points
    parts += [largest, np.nextafter(largest, np.float32(np.inf)), np.nextafter(largest, np.float32(0))]
    rng = np.random.default_rng(0)
    parts.append(rng.integers(0, 0x7F800000, 50_000).astype(np.uint32).view(np.float32))
    positive = np.concatenate(parts)
    return np.concatenate([positive, -positive])


def same(actual: Array, expected: Array) -> None:
    """Equal codes; any NaN equals any NaN."""
    with np.errstate(all="ignore"):
        nan = np.isnan(expected.astype(np.float32))
        assert np.isnan(actual[nan].astype(np.float32)).all()
    bits = np.uint16 if actual.dtype.itemsize == 2 else np.uint8
    np.testing.assert_array_equal(actual[~nan].view(bits), expected[~nan].view(bits))


@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_every_16_bit_code_widens_exactly(device: HostDevice, module: Module, name: str) -> None:
    arguments = [CODES, np.zeros(65536, np.float32), np.int64(65536)]
    out = call(device, module, f"widen_{name}", grid(65536), (256, 1, 1), arguments)[1]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, CODES.view(NARROW[name]).astype(np.float32))


def test_every_fp8_code_widens_exactly(device: HostDevice, module: Module) -> None:
    empty = np.zeros(256, np.float32)
    e4m3, e5m2 = call(device, module, "widen_fp8", (1, 1, 1), (256, 1, 1), [empty, empty])
    codes = np.arange(256, dtype=np.uint8)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(e4m3, codes.view(E4M3).astype(np.float32))
        np.testing.assert_array_equal(e5m2, codes.view(E5M2).astype(np.float32))


def test_narrowing_rounds_to_nearest_even(device: HostDevice, module: Module) -> None:
    single = values()
    n = len(single)
    outs = [np.zeros(n, np.uint16), np.zeros(n, np.uint16), np.zeros((4, n), np.uint8)]
    _, half, brain, fp8 = call(device, module, "narrow", grid(n), (256, 1, 1), [single, *outs, np.int64(n)])
    with np.errstate(all="ignore"):
        same(half.view(np.float16), single.astype(np.float16))
        same(brain.view(ml_dtypes.bfloat16), single.astype(ml_dtypes.bfloat16))
        same(fp8[0].view(E4M3), np.clip(single, -448, 448).astype(E4M3))
        same(fp8[1].view(E5M2), np.clip(single, -57344, 57344).astype(E5M2))
        same(fp8[2].view(E4M3), single.astype(E4M3))
        same(fp8[3].view(E5M2), single.astype(E5M2))


def test_nan_becomes_the_canonical_nan(device: HostDevice, module: Module) -> None:
    single = np.array([0x7FC00000, 0xFFC12345, 0x7F800001], np.uint32).view(np.float32)
    outs = [np.zeros(3, np.uint16), np.zeros(3, np.uint16), np.zeros((4, 3), np.uint8)]
    _, half, brain, fp8 = call(device, module, "narrow", (1, 1, 1), (3, 1, 1), [single, *outs, np.int64(3)])
    assert set(half) == set(brain) == {0x7FFF}
    assert set(fp8.flat) == {0x7F}


def test_directed_rounding_and_doubles(device: HostDevice, module: Module) -> None:
    single = values()
    n = len(single)
    arguments = [single, np.zeros((4, n), np.uint16), np.int64(n)]
    nearest, zero, up, down = call(device, module, "narrow_half", grid(n), (256, 1, 1), arguments)[1].view(np.float16)
    with np.errstate(all="ignore"):
        same(nearest, single.astype(np.float16))
        above, below = up.astype(np.float64), down.astype(np.float64)
        exact = single.astype(np.float64)
        assert (above >= exact).all() and (below <= exact).all()
        # Neighbours, or the value itself.
        inexact = above != below
        np.testing.assert_array_equal(np.nextafter(down[inexact], np.float16(np.inf)), up[inexact])
        np.testing.assert_array_equal(above[~inexact], exact[~inexact])
        np.testing.assert_array_equal(zero, np.where(exact > 0, down, up))


def test_half_arithmetic_rounds_once(device: HostDevice, module: Module) -> None:
    rng = np.random.default_rng(3)
    n = 20_000
    a, b, c = (rng.integers(0, 65536, n).astype(np.uint16).view(np.float16) for _ in range(3))
    out = call(
        device, module, "half_arithmetic", grid(n), (256, 1, 1), [a, b, c, np.zeros((5, n), np.float16), np.int64(n)]
    )
    with np.errstate(all="ignore"):
        wide = [array.astype(np.longdouble) for array in (a, b, c)]
        expected = [
            a + b,
            a * b,
            (wide[0] * wide[1] + wide[2]).astype(np.float16),
            (wide[0] * wide[2] + 1).astype(np.float16),
            (wide[1] * wide[2] - 1).astype(np.float16),
        ]
    for actual, wanted in zip(out[3], expected, strict=True):
        same(actual, wanted)


def test_halves_move_between_lanes(device: HostDevice, module: Module) -> None:
    given = np.arange(32, dtype=np.float16)
    arrays = [given, np.zeros(32, np.float16), np.zeros((32, 2), np.float16)]
    _, out, pairs = call(device, module, "half_shuffle", (1, 1, 1), (32, 1, 1), arrays)
    np.testing.assert_array_equal(out, given[np.arange(32) ^ 1])
    np.testing.assert_array_equal(pairs, np.repeat(given[[*range(1, 32), 31]][:, None], 2, axis=1))
