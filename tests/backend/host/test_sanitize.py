"""What ``sanitize=true`` finds: accesses out of bounds, missing barriers, shared memory that was never set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from runner.backend.base import BackendError
from runner.backend.host.backend import BARRIERS_VARIABLE
from runner.backend.host.device import HostDevice
from runner.build.host import SANITIZER_EXIT, sanitizer_environment
from runner.build.sanitizer import report
from tests.backend.host.harness import KERNELS, compiled


def child(kernel: str, seed: int = 1, barriers: bool = False) -> subprocess.CompletedProcess[str]:
    program = compiled("faulty", sanitize=True)
    return subprocess.run(
        [sys.executable, "-m", "tests.backend.host.sanitized", str(program), kernel, str(seed)],
        env={**os.environ, **sanitizer_environment(), BARRIERS_VARIABLE: str(int(barriers))},
        capture_output=True,
        text=True,
        check=False,
    )


def outputs(kernel: str, seed: int = 1, barriers: bool = False) -> Any:
    done = child(kernel, seed, barriers)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def line_of(text: str) -> int:
    lines = (KERNELS / "faulty.cu").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("kernel", "kind", "line"),
    [
        ("global_overrun", "heap-buffer-overflow, write of 4 bytes", "data[i] = 1.0f;  // one"),
        ("dynamic_overrun", "heap-buffer-overflow, write of 4 bytes", "cells[threadIdx.x + 1]"),
        ("static_overrun", "global-buffer-overflow, write of 4 bytes", "__shared__ float cells[32];"),
    ],
)
def test_an_access_out_of_bounds_is_named(kernel: str, kind: str, line: str) -> None:
    done = child(kernel)
    assert done.returncode == SANITIZER_EXIT
    message = report(done.stderr)
    number = line_of(line) + (1 if kernel == "static_overrun" else 0)
    first, second = message.splitlines()
    assert first == f"the address sanitizer found a {kind} in kernel {kernel} at {KERNELS / 'faulty.cu'}:{number}"
    assert second.startswith("  the address is 0 bytes ")


def test_a_missing_barrier_gives_a_wrong_result() -> None:
    expected = np.roll(np.arange(64), -1)
    for result in outputs("guarded"):
        np.testing.assert_array_equal(result, expected)
    for kernel, right in (("exchange", expected), ("broadcast", np.full(64, 42))):
        for result in outputs(kernel):
            assert (np.array(result) != right).any()


def test_the_order_of_threads_follows_the_seed() -> None:
    once, again, other = outputs("exchange", 1), outputs("exchange", 1), outputs("exchange", 2)
    assert once == again
    assert once != other
    assert once[0] != once[1]


def test_blocks_come_in_an_order_that_follows_the_seed() -> None:
    in_order = list(range(64))
    assert outputs("chained", 0) == [in_order] * 3
    once = outputs("chained", 1)
    assert all(result != in_order for result in once)
    assert once != outputs("chained", 2)


def test_threads_keep_their_order_without_a_seed() -> None:
    assert outputs("broadcast", 0) == [[42] * 64] * 3


def test_a_barrier_that_half_the_block_leaves_out_is_found_where_asked_for() -> None:
    assert outputs("divergent") == [list(range(64))] * 3
    done = child("divergent", barriers=True)
    assert "kernel divergent, block (" in done.stderr
    assert ": 32 of 64 threads left out a __syncthreads: thread (32,0,0) passed 0, others 1" in done.stderr


def test_even_barriers_are_no_fault() -> None:
    assert outputs("good", barriers=True) == outputs("good")


def test_nothing_is_left_in_shared_memory_for_the_next_block() -> None:
    assert outputs("reads_unset") == [[-1] * 64] * 3


def test_right_code_passes() -> None:
    data = np.arange(640, dtype=np.float32)
    padded = np.concatenate([data, np.zeros(32, np.float32)]).reshape(7, 96)[:, ::-1].reshape(-1, 2)
    expected = np.repeat(padded.sum(axis=1), 2)[:640]
    for result in outputs("good"):
        np.testing.assert_array_equal(result, expected)


def test_a_sanitized_program_needs_the_sanitizer(device: HostDevice) -> None:
    with pytest.raises(BackendError, match="compiled with sanitize=true"):
        device.load(compiled("faulty", sanitize=True))
