"""The generator in NumPy: its definition, its statistics, its slices, its conversions, its refusals."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.check import generator
from runner.check.generator import CHUNK, FillError
from runner.plan import dtypes
from runner.plan.model import Buffer, Fill

MASK = (1 << 64) - 1
FLOATS = [name for name in dtypes.NAMES if dtypes.is_float(name)]
INTEGERS = [name for name in dtypes.NAMES if not dtypes.is_float(name)]


def scalar_hash(key: int, index: int) -> int:
    """The definition in Python's own integers."""
    bits = (key + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def scalar_uniform(key: int, index: int, low: float, high: float) -> np.float32:
    u = np.float32((scalar_hash(key, index) >> 40) / 2**24)
    width = np.float32(np.float32(high) - np.float32(low))
    return np.float32(np.float32(low) + np.float32(width * u))


def test_the_mixer_is_splitmix64() -> None:
    # First outputs of the published generator for seed 1234567.
    assert [scalar_hash(1234567, i) for i in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@given(st.integers(0, MASK), st.integers(0, 1 << 45), st.floats(-1e3, 1e3, width=32), st.floats(0, 1e3, width=32))
def test_uniform_follows_the_definition(key: int, start: int, low: float, width: float) -> None:
    high = low + width
    made = generator.uniform(key, start, 3, low, high)
    assert made.dtype == np.float32
    assert made.tolist() == [scalar_uniform(key, start + i, low, high) for i in range(3)]


@given(st.integers(0, MASK), st.integers(0, 1 << 45), st.integers(-(1 << 40), 1 << 40), st.integers(1, 1 << 32))
def test_integers_follow_the_definition(key: int, start: int, low: int, span: int) -> None:
    made = generator.integers(key, start, 3, low, low + span)
    assert made.dtype == np.int64
    assert made.tolist() == [low + ((scalar_hash(key, start + i) >> 32) * span >> 32) for i in range(3)]
    assert all(low <= value < low + span for value in made.tolist())


@pytest.mark.parametrize("start", [0, 1, CHUNK - 1, CHUNK, 3 * CHUNK + 5])
def test_any_slice_equals_the_whole(start: int) -> None:
    count = 2 * CHUNK + 3
    whole = generator.uniform(7, 0, start + count, -2, 3)
    assert np.array_equal(generator.uniform(7, start, count, -2, 3), whole[start:])
    ints = generator.integers(7, 0, start + count, -9, 9)
    assert np.array_equal(generator.integers(7, start, count, -9, 9), ints[start:])


@pytest.mark.parametrize("name", dtypes.NAMES)
def test_slices_of_values_equal_the_whole(name: str) -> None:
    kind = "uniform" if dtypes.is_float(name) else "integers"
    buffer = Buffer("x", (9 * CHUNK,), name, Fill(kind, low=0, high=100))  # type: ignore[arg-type]
    whole = generator.values(buffer, 3, 0, buffer.elements)
    assert whole.dtype == dtypes.numpy_dtype(name)
    part = generator.values(buffer, 3, 8 * CHUNK - 2, CHUNK)
    assert part.tobytes() == whole[8 * CHUNK - 2 : 9 * CHUNK - 2].tobytes()


def test_values_are_uniform_and_unrelated() -> None:
    count = 1 << 18
    made = generator.uniform(generator.key(0, "k"), 0, count, 0, 1).astype(np.float64)
    assert abs(made.mean() - 0.5) < 4 * (1 / 12) ** 0.5 / count**0.5
    assert abs(made.var() - 1 / 12) < 1e-3
    assert abs(np.corrcoef(made[:-1], made[1:])[0, 1]) < 0.01
    other = generator.uniform(generator.key(0, "v"), 0, count, 0, 1)
    assert abs(np.corrcoef(made, other)[0, 1]) < 0.01
    histogram = np.bincount((made * 16).astype(int), minlength=16)
    assert abs(histogram - count / 16).max() < 6 * (count / 16) ** 0.5


def test_keys_depend_on_seed_and_name() -> None:
    keys = {generator.key(seed, name) for seed in range(20) for name in ("k", "v", "1", "11", "")}
    assert len(keys) == 100
    assert all(0 <= key < 1 << 64 for key in keys)
    assert generator.key(0, "k") == generator.key(0, "k")


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3", "float8_e5m2"])
def test_narrow_rounds_to_nearest_even(name: str) -> None:
    """By definition: of all values of the type the nearest, on a tie the one with an even pattern."""
    bits = dtypes.itemsize(name) * 8
    target = dtypes.numpy_dtype(name)
    patterns = np.arange(1 << (bits - 1)).astype(f"uint{bits}")
    with np.errstate(invalid="ignore"):
        held = patterns.view(target).astype(np.float64)
    keep = np.isfinite(held)
    patterns, held = patterns[keep], held[keep]
    middles = (held[:-1] + held[1:]) / 2
    exact = middles[middles == middles.astype(np.float32)]  # bfloat16's smallest have no float32 in between
    for value in (
        exact,
        np.nextafter(exact, np.inf, dtype=np.float32),
        np.nextafter(exact, 0, dtype=np.float32),
    ):
        made = generator.narrow(value.astype(np.float32), name)
        wide = value.astype(np.float32).astype(np.float64)
        upper = np.searchsorted(held, wide)
        to_lower, to_upper = wide - held[upper - 1], held[upper] - wide
        even_is_lower = patterns[upper - 1] % 2 == 0
        choose_lower = (to_lower < to_upper) | ((to_lower == to_upper) & even_is_lower)
        expected = np.where(choose_lower, patterns[upper - 1], patterns[upper])
        assert np.array_equal(made.view(f"uint{bits}"), expected)


@pytest.mark.parametrize(("name", "largest"), [("float8_e4m3", 448.0), ("float8_e5m2", 57344.0)])
def test_float8_saturates(name: str, largest: float) -> None:
    made = generator.narrow(np.array([1e30, -1e30, largest, largest * 1.06], np.float32), name)
    assert made.astype(np.float32).tolist() == [largest, -largest, largest, largest]


@pytest.mark.parametrize("name", dtypes.NAMES)
def test_constant_and_zeros(name: str) -> None:
    made = generator.values(Buffer("x", (5,), name, Fill("constant", value=3)), 0, 0, 5)
    assert made.astype(np.float64).tolist() == [3.0] * 5
    assert not generator.values(Buffer("x", (5,), name, Fill("zeros", value=3)), 0, 0, 5).astype(float).any()


def test_a_float64_constant_keeps_its_digits() -> None:
    assert generator.values(Buffer("x", (1,), "float64", Fill("constant", value=0.1)), 0, 0, 1)[0] == 0.1


def test_bfloat16_is_the_ml_dtypes_type() -> None:
    made = generator.values(Buffer("x", (4,), "bfloat16", Fill("uniform")), 0, 0, 4)
    assert made.dtype == np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("dtype", "fill", "message"),
    [
        ("float32", Fill(), "'q'.*has no fill"),
        ("int8", Fill("uniform"), "'q' .int8.*use 'integers'"),
        ("float32", Fill("uniform", low=1, high=0), "low=1 and high=0 must be finite and in order"),
        ("float32", Fill("uniform", low=-3e38, high=3e38), "must be finite"),
        ("int8", Fill("integers", low=0, high=200), "value 199 does not fit, allowed are -128 to 127"),
        ("uint8", Fill("integers", low=-1, high=2), "value -1 does not fit, allowed are 0 to 255"),
        ("int32", Fill("integers", low=0.5, high=2), "low=0.5 and high=2 must be whole numbers"),
        ("int64", Fill("integers", low=4, high=4), "high - low is 0, allowed are 1 to 2"),
        ("int64", Fill("integers", low=0, high=2.0**33), "high - low is 8589934592"),
        ("float16", Fill("uniform", high=7e4), "value 70000.0 does not fit, it would become inf"),
        ("bfloat16", Fill("constant", value=1e39), "value 1e.39 does not fit, it would become inf"),
        ("float32", Fill("constant", value=float("nan")), "it would become nan"),
        ("uint8", Fill("constant", value=256), "value 256 does not fit"),
        ("uint8", Fill("constant", value=0.5), "value=0.5 must be a whole number"),
    ],
)
def test_a_fill_the_type_cannot_hold_is_refused(dtype: str, fill: Fill, message: str) -> None:
    with pytest.raises(FillError, match=message):
        generator.values(Buffer("q", (4,), dtype, fill), 0, 0, 4)


@pytest.mark.parametrize("span", [0, -1, (1 << 32) + 1])
def test_integers_refuse_an_impossible_span(span: int) -> None:
    with pytest.raises(FillError, match="allowed are 1 to"):
        generator.integers(0, 0, 1, 5, 5 + span)


def test_speed() -> None:
    """40 ns an element at most; processor time and the best of five, as the machine may be busy."""
    buffer = Buffer("x", (1 << 20,), "float32", Fill("uniform"))
    took = []
    for _ in range(5):
        begin = time.process_time()
        generator.values(buffer, 0, 0, buffer.elements)
        took.append(time.process_time() - begin)
    assert min(took) / buffer.elements < 40e-9


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e4m3", "int32"])
def test_pieces_that_threads_make_join_without_a_seam(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = "uniform" if dtypes.is_float(name) else "integers"
    buffer = Buffer("x", (1 << 20,), name, Fill(kind, low=0, high=100))  # type: ignore[arg-type]
    whole = generator.values(buffer, 3, 12345, 5003)
    monkeypatch.setattr(generator, "PIECE", 1000)
    for start, count in ((12345, 5003), (12345, 1000), (12345, 1001), (12345 + 999, 2002), (12345, 0)):
        first = start - 12345
        made = generator.values(buffer, 3, start, count)
        assert made.tobytes() == whole[first : first + count].tobytes()


def test_bfloat16_rounds_as_ml_dtypes_does() -> None:
    """Every upper half, with lower halves on and beside a tie and at the ends: subnormals, large and infinite ones."""
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        single = (upper | np.uint32(lower)).view(np.float32)
        single = single[~np.isnan(single)]
        with np.errstate(over="ignore"):
            wanted = single.astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(generator.narrow(single, "bfloat16").view(np.uint16), wanted.view(np.uint16))
