"""Run in a child process under the address sanitizer: one kernel of ``faulty.cu``, its outputs as JSON.

Called as ``python -m tests.backend.host.sanitized PROGRAM KERNEL SEED``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from runner.backend.base import Dim3
from runner.backend.host import HostBackend
from tests.backend.host.harness import call


def main() -> None:
    program, kernel, seed = sys.argv[1:]
    device = HostBackend(devices=1, seed=int(seed)).open(0)
    module = device.load(Path(program))
    floats, ints = np.zeros(100, np.float32), np.full(64, -7, np.int32)
    arguments: dict[str, tuple[Dim3, Dim3, list[Any], int]] = {
        "global_overrun": ((4, 1, 1), (32, 1, 1), [floats, np.int64(100)], 0),
        "dynamic_overrun": ((1, 1, 1), (32, 1, 1), [floats], 32 * 4),
        "static_overrun": ((1, 1, 1), (32, 1, 1), [floats], 0),
        "exchange": ((1, 1, 1), (64, 1, 1), [ints, np.int32(0)], 0),
        "guarded": ((1, 1, 1), (64, 1, 1), [ints, np.int32(1)], 0),
        "broadcast": ((1, 1, 1), (64, 1, 1), [ints], 0),
        "divergent": ((2, 1, 1), (64, 1, 1), [ints], 0),
        "chained": ((64, 1, 1), (32, 1, 1), [ints], 0),
        "reads_unset": ((3, 1, 1), (64, 1, 1), [ints], 256),
        "good": ((7, 1, 1), (96, 1, 1), [np.arange(640, dtype=np.float32), np.int64(640)], 96 * 4),
    }
    grid, block, passed, shared = arguments[kernel]
    name = "exchange" if kernel == "guarded" else kernel
    outs = [call(device, module, name, grid, block, passed, shared)[0].tolist() for _ in range(3)]
    device.close()
    print(json.dumps(outs))


if __name__ == "__main__":
    main()
