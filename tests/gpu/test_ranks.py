"""The kernels by which GPUs meet, with all ranks on one GPU: what they add up and hand over is right for 2, 4 and 8."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = 16
"""Of a kernel that meets its peers: those of 8 ranks, and of their next calls, are all on one GPU at once."""
CASES = {
    "one_row": ("tp_allreduce", {"N": 4, "calls": 7, "compute": 1}),
    "32_kib": ("tp_allreduce", {"N": 8192, "calls": 16}),
    "odd_parts": ("tp_allreduce", {"N": 50004, "calls": 5, "blocks": 3}),
    "4_mib": ("tp_allreduce", {"N": 1 << 20, "calls": 4, "blocks": BLOCKS}),
    "all_gather": ("collectives", {"op": "all_gather", "MB": 1, "blocks": BLOCKS}),
    "reduce_scatter": ("collectives", {"op": "reduce_scatter", "MB": 1, "blocks": BLOCKS}),
    "all_to_all": ("collectives", {"op": "all_to_all", "T": 64, "blocks": BLOCKS}),
    "migrate_pages": ("collectives", {"op": "migrate_pages", "blocks": BLOCKS}),
}


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("case", CASES)
def test_every_variant_is_right(case: str, ranks: int) -> None:
    family, params = CASES[case]
    line = [sys.executable, "-m", "tests.gpu.ranks", family, str(ranks), json.dumps(params)]
    environment = {**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": "32"}
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"\n[figure] {case} over {ranks} ranks: { ({name: one['checks'] for name, one in found.items()}) } checks")
    assert len(found) >= 2
    for name, one in found.items():
        assert one["status"] == "PASSED" and one["checks"] > 0, (name, one)
