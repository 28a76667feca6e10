"""Ceilings on the host backend: variants of a CPU pass, and those of tensor cores say why not."""

from __future__ import annotations

import pytest

from tests.kernels.hosted import hosted, messages


@pytest.mark.parametrize("megabytes", [1, 5])
def test_variants_of_a_cpu(megabytes: int) -> None:
    plan, found, left_out = hosted("ceilings", {"MB": megabytes})
    assert list(found) == ["copy", "read", "write", "fma_fp32"]
    assert messages(found) == {}
    assert plan.variant("write").bytes_read == 0 and plan.variant("write").bytes_written == megabytes << 20
    assert set(left_out) == {"mma_fp16", "mma_bf16", "mma_fp8", "wgmma_fp16", "wgmma_bf16", "wgmma_fp8"}
    assert all("a CPU has no tensor cores" in why for why in left_out.values())
