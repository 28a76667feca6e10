"""Shuffles, votes and reductions of a warp, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from runner.backend.host.device import HostDevice
from tests.backend.host.harness import Array, call, compiled

THREADS = 96


@pytest.fixture(params=["registers", "ucontext"])
def defines(request: pytest.FixtureRequest) -> tuple[tuple[str, str], ...]:
    """Both ways of switching between threads."""
    return (("HOST_UCONTEXT", "1"),) if request.param == "ucontext" else ()


def run(
    device: HostDevice, defines: tuple[tuple[str, str], ...], name: str, threads: int, *arrays: Array
) -> list[Array]:
    return call(device, device.load(compiled("warp", defines=defines)), name, (1, 1, 1), (threads, 1, 1), arrays)


def test_shuffles(device: HostDevice, defines: tuple[tuple[str, str], ...]) -> None:
    values = np.random.default_rng(0).integers(0, 1000, THREADS).astype(np.int32)
    out = run(device, defines, "shuffles", THREADS, values, np.zeros((THREADS, 8), np.int32))[1]
    lane = np.arange(32)
    sub = lane % 8
    sources = [
        np.full(32, 5),
        np.where(lane >= 3, lane - 3, lane),
        np.where(lane + 3 < 32, lane + 3, lane),
        lane ^ 9,
        lane // 8 * 8 + lane * 7 % 8,
        np.where(sub >= 2, lane - 2, lane),
        np.where(sub + 2 < 8, lane + 2, lane),
        lane ^ 4,
    ]
    for warp in range(THREADS // 32):
        own = values[warp * 32 : warp * 32 + 32]
        expected = np.stack([own[source] for source in sources], axis=1)
        np.testing.assert_array_equal(out[warp * 32 : warp * 32 + 32], expected)


def test_shuffles_of_all_widths(device: HostDevice, defines: tuple[tuple[str, str], ...]) -> None:
    values = np.random.default_rng(1).standard_normal(32)
    empty = np.zeros(32)
    _, doubles, longs, floats = run(
        device, defines, "wide_shuffles", 32, values, empty, empty.astype(np.int64), empty.astype(np.float32)
    )
    lane = np.arange(32)
    np.testing.assert_array_equal(doubles, values[lane ^ 1])
    np.testing.assert_array_equal(longs, (values * 1e12).astype(np.int64)[lane ^ 2])
    np.testing.assert_array_equal(floats, values.astype(np.float32)[lane ^ 4])


def test_votes_and_reductions(device: HostDevice, defines: tuple[tuple[str, str], ...]) -> None:
    values = np.random.default_rng(2).integers(0, 1000, 32).astype(np.int32)
    out = run(device, defines, "votes", 32, values, np.zeros((32, 10), np.uint32))[1]
    bits = 1 << np.arange(32, dtype=np.uint64)
    expected = np.zeros((32, 10), np.uint32)
    expected[:, 0] = bits[values % 2 == 1].sum()
    expected[:, 2] = expected[:, 3] = 1
    expected[:, 5] = [bits[values % 5 == value % 5].sum() for value in values]
    expected[:, 6] = values.sum()
    expected[:, 7] = values.min()
    expected[:, 8] = values.max()
    expected[:, 9] = 0xFFFFFFFF
    np.testing.assert_array_equal(out, expected)


def test_parts_of_a_warp_meet_apart(device: HostDevice, defines: tuple[tuple[str, str], ...]) -> None:
    out = run(device, defines, "partial_masks", 64, np.zeros(64, np.int32))[0]
    low, high = sum(range(16)), sum(range(16, 32))
    # Lane 0 and lane 1 are both of the lower half; the last shuffle takes the value of the mirrored lane.
    expected = [low * 1000 + (high if lane < 16 else low) for lane in range(32)]
    np.testing.assert_array_equal(out, expected * 2)


def test_lanes_that_returned_are_not_waited_for(device: HostDevice, defines: tuple[tuple[str, str], ...]) -> None:
    out = run(device, defines, "leaving", 32, np.zeros(32, np.uint32))[0]
    np.testing.assert_array_equal(out, [0xFFFFFFFF & ~((1 << lane) - 1) for lane in range(32)])


def test_a_warp_that_is_not_full(device: HostDevice, defines: tuple[tuple[str, str], ...]) -> None:
    out = run(device, defines, "ragged", 75, np.zeros(3, np.int32))[0]
    np.testing.assert_array_equal(out, [32, 32, 11])
