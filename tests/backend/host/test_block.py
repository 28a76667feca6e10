"""Grids, blocks, barriers and shared memory; hangs and traps as errors of their launch."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

from runner.backend.base import DeviceFault
from runner.backend.host.device import HostDevice
from tests.backend.host.harness import call, compiled

UCONTEXT = (("HOST_UCONTEXT", "1"),)


def test_three_dimensions(device: HostDevice) -> None:
    grid, block = (3, 4, 5), (5, 3, 2)
    module = device.load(compiled("block"))
    out = call(device, module, "places", grid, block, [np.full((60 * 30, 6), -1, np.int32)])[0]
    expected = np.array(
        [
            (bx, by, bz, x, y, z)
            for bz in range(5)
            for by in range(4)
            for bx in range(3)
            for z in range(2)
            for y in range(3)
            for x in range(5)
        ]
    )
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("defines", [(), UCONTEXT], ids=["registers", "ucontext"])
def test_shared_memory_static_and_dynamic(device: HostDevice, defines: tuple[tuple[str, str], ...]) -> None:
    values = np.random.default_rng(0).standard_normal((7, 200)).astype(np.float32)
    module = device.load(compiled("block", defines=defines))
    arrays = [values, np.zeros_like(values), np.zeros(values.shape)]
    _, out, doubled = call(device, module, "reverse", (7, 1, 1), (200, 1, 1), arrays, shared_bytes=200 * 8)
    np.testing.assert_array_equal(out, values[:, ::-1])
    np.testing.assert_array_equal(doubled, 2.0 * values)


@pytest.mark.parametrize("threads", [2, 64, 1024])
def test_threads_that_returned_do_not_count_at_barriers(device: HostDevice, threads: int) -> None:
    values = np.arange(threads, dtype=np.int32)
    module = device.load(compiled("block"))
    out = call(device, module, "early_exit", (1, 1, 1), (threads, 1, 1), [values, np.zeros(1, np.int32)])[1]
    assert out[0] == values.sum()


def test_barriers_that_count(device: HostDevice) -> None:
    values = np.arange(96, dtype=np.int32)
    module = device.load(compiled("block"))
    out = call(device, module, "counting", (1, 1, 1), (96, 1, 1), [values, np.full((70, 4), -1, np.int32)])[1]
    np.testing.assert_array_equal(out, np.tile([35, 1, 1, 0], (70, 1)))


def test_templates_constants_and_pragmas(device: HostDevice) -> None:
    out = call(device, device.load(compiled("block")), "language", (1, 1, 1), (1, 1, 1), [np.zeros(6, np.int32)])[0]
    np.testing.assert_array_equal(out, [6, 10, 14, 22, 9, 32])


@pytest.mark.parametrize("defines", [(), UCONTEXT], ids=["registers", "ucontext"])
def test_a_hang_is_an_error_that_names_the_barrier(device: HostDevice, defines: tuple[tuple[str, str], ...]) -> None:
    module = device.load(compiled("block", defines=defines))
    with pytest.raises(DeviceFault) as caught:
        call(device, module, "hang", (3, 1, 1), (16, 1, 1), [np.zeros(16, np.int32)])
    message = str(caught.value)
    assert message.startswith("kernel hang, block (")
    assert "8 threads wait at __syncthreads that 8 others never reach" in message
    # The device is as good as before.
    test_templates_constants_and_pragmas(device)


def test_a_hang_within_a_warp_names_the_lanes(device: HostDevice) -> None:
    module = device.load(compiled("block"))
    with pytest.raises(DeviceFault, match=r"warp 0: lanes 0x0000000. wait .* mask 0x0000000. that lanes"):
        call(device, module, "split_warp", (1, 1, 1), (4, 1, 1), [np.zeros(8, np.int32)])


def test_a_mask_without_the_caller(device: HostDevice) -> None:
    module = device.load(compiled("warp"))
    with pytest.raises(DeviceFault, match="leaves it out"):
        call(device, module, "wrong_mask", (1, 1, 1), (8, 1, 1), [np.zeros(8, np.int32)])


def test_a_trap_names_the_thread(device: HostDevice) -> None:
    module = device.load(compiled("block"))
    with pytest.raises(DeviceFault, match=r"kernel trap, block \(5,0,0\) thread \(3,0,0\): trap"):
        call(device, module, "trap", (9, 1, 1), (32, 1, 1), [np.zeros(9, np.int32), np.int32(5)])


def test_a_failed_assertion_names_the_line(device: HostDevice) -> None:
    module = device.load(compiled("block"))
    with pytest.raises(DeviceFault, match=r"block\.cu:\d+: assertion failed: blockIdx\.x < 2"):
        call(device, module, "checked", (3, 1, 1), (1, 1, 1), [np.zeros(3, np.int32)])


def test_a_stack_overflow_ends_the_process_at_the_guard() -> None:
    script = (
        "import numpy as np\n"
        "from runner.backend.host import HostBackend\n"
        "from tests.backend.host.harness import call, compiled\n"
        "device = HostBackend().open(0)\n"
        "module = device.load(compiled('block'))\n"
        "run = lambda depth: call(device, module, 'recurse', (1, 1, 1), (1, 1, 1),\n"
        "    [np.zeros(1, np.int32), np.int32(depth)])\n"
        "run(20)\n"
        "print('shallow', flush=True)\n"
        "run(10000)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "shallow\n"
    assert done.returncode == -signal.SIGSEGV
