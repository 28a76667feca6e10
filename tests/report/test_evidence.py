"""The machine of a result as a table."""

from __future__ import annotations

from runner.report.evidence import environment
from runner.result.model import Result, Status


def test_ceilings_are_shown_where_they_were_measured() -> None:
    known = {"copy_gbps": 4250.0, "read_gbps": 4380.0, "write_gbps": 0.0, "tflops": {"float32": 64.2, "float8": 1900.0}}
    page = environment(Result("1", "kv_quant", "fp32", Status.PASSED, environment={"ceilings": known}))
    assert "| measured copy bandwidth | 4250 GB/s |" in page and "| measured read bandwidth | 4380 GB/s |" in page
    assert "| measured float32 | 64.2 TFLOP/s |" in page and "| measured float8 | 1900 TFLOP/s |" in page
    assert "write" not in page
    older = environment(Result("1", "kv_quant", "fp32", Status.PASSED, environment={"ceilings": {"copy_gbps": 4250.0}}))
    assert "| measured copy bandwidth | 4250 GB/s |" in older and "TFLOP/s" not in older
