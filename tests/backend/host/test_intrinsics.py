"""Integer, conversion and rounding intrinsics against NumPy and exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from runner.backend.host.device import HostDevice
from tests.backend.host.harness import call, compiled


def test_integer_intrinsics(device: HostDevice) -> None:
    rng = np.random.default_rng(0)
    special = [0, 1, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFF, 0x800000, 0xFF800000]
    a = np.concatenate([special, rng.integers(0, 2**32, 500)]).astype(np.uint32)
    b = np.concatenate([special[::-1], rng.integers(0, 2**32, 500)]).astype(np.uint32)
    n = len(a)
    module = device.load(compiled("intrinsics"))
    arguments = [a, b, np.zeros((11, n), np.uint32), np.int32(n)]
    out = call(device, module, "integers", (2, 1, 1), (512, 1, 1), arguments)[2]
    for i, (x, y) in enumerate(zip(map(int, a), map(int, b), strict=True)):
        byte = [*x.to_bytes(4, "little"), *y.to_bytes(4, "little")]
        signed = [value - 256 if value > 127 else value for value in byte]
        low = [(v & 0x7FFFFF) - (v & 0x800000) for v in (x, y)]
        expected = [
            x.bit_count(),
            32 - x.bit_length(),
            (x & -x).bit_length(),
            int(f"{x:032b}"[::-1], 2),
            x * y >> 32,
            int.from_bytes([byte[1], byte[6], byte[5], byte[2]], "little"),
            (sum(p * q for p, q in zip(signed[:4], signed[4:], strict=True)) + 7) % 2**32,
            sum(p * q for p, q in zip(byte[:4], byte[4:], strict=True)) + 7,
            (y << 13 | x >> 19) % 2**32,
            low[0] * low[1] % 2**32,
            (x << 32) * y >> 64,
        ]
        assert [int(value) for value in out[:, i]] == expected, (hex(x), hex(y))


def test_float_to_integer_saturates(device: HostDevice) -> None:
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1.2, -1.2, 3e9, -3e9, 5e9, np.nan, np.inf, -np.inf], np.float32)
    n = len(values)
    module = device.load(compiled("intrinsics"))
    arguments = [values, np.zeros((6, n), np.int32), np.int32(n)]
    out = call(device, module, "floats", (1, 1, 1), (32, 1, 1), arguments)[1]
    wide = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=1e300, neginf=-1e300)
    for row, rounded in enumerate([np.rint(wide), np.trunc(wide), np.ceil(wide), np.floor(wide)]):
        np.testing.assert_array_equal(out[row], np.clip(rounded, -(2**31), 2**31 - 1).astype(np.int64))
    np.testing.assert_array_equal(out[4].view(np.uint32), np.clip(np.rint(wide), 0, 2**32 - 1).astype(np.uint64))
    np.testing.assert_array_equal(out[5].view(np.float32), np.clip(wide, 0, 1).astype(np.float32))


@pytest.mark.parametrize("unit", ["main", "prepare"])
def test_contraction_only_where_it_is_allowed(device: HostDevice, unit: str) -> None:
    rng = np.random.default_rng(1)
    n = 4096
    a = rng.standard_normal(n).astype(np.float32)
    b = (-(a.astype(np.float64) ** 2)).astype(np.float32)  # cancels: the rounding of the product is all that is left
    module = device.load(compiled("intrinsics", unit="prepare" if unit == "prepare" else "main"))
    arguments = [a, b, np.zeros((4, n), np.float32), np.int32(n)]
    out = call(device, module, "contraction", (16, 1, 1), (256, 1, 1), arguments)[2]
    fused = np.array([float(Fraction(float(x)) ** 2 + Fraction(float(y))) for x, y in zip(a, b, strict=True)])
    np.testing.assert_array_equal(out[0], a * a + b)
    np.testing.assert_array_equal(out[1], fused.astype(np.float32))
    if unit == "prepare":
        np.testing.assert_array_equal(out[2], a * a + b)
    expected = np.exp(a.astype(np.float64)) + 1 / np.sqrt(np.abs(a.astype(np.float64)) + 1) + a / 3.0
    np.testing.assert_allclose(out[3], expected, rtol=3e-6, atol=1e-6)


def test_every_argument_type(device: HostDevice) -> None:
    scalars: list[Any] = [
        np.int8(-5),
        np.uint8(250),
        np.int16(-30000),
        np.uint16(60000),
        np.int32(-(2**31)),
        np.uint32(2**32 - 1),
        np.int64(-(2**53)),
        np.uint64(2**53),
        np.float32(0.1),
        np.float64(0.1),
        np.bool_(True),
    ]
    module = device.load(compiled("intrinsics"))
    out = call(device, module, "every_type", (1, 1, 1), (1, 1, 1), [*scalars, np.zeros(11)])[0]
    np.testing.assert_array_equal(out, [float(value) for value in scalars])
