"""The line of one check."""

from __future__ import annotations

import pytest

from runner.report.checks import check_line
from runner.result.model import CheckResult


@pytest.mark.parametrize(
    ("check", "line"),
    [
        (
            CheckResult("q8_kv_scan", True, 1.19e-07, 3.4e-06, 2.2e-07, 64, 64),
            "[q8_kv_scan] PASS  max_abs=1.2e-07  max_rel=3.4e-06  l2=2.2e-07",
        ),
        (
            CheckResult("q8_kv_scan", True, 0.0, 0.0, 0.0, 64, 8192),
            "[q8_kv_scan] PASS  max_abs=0  max_rel=0  l2=0  (64 of 8192 rows)",
        ),
        (CheckResult("q8_codes", True, rows_checked=8, rows_total=64), "[q8_codes] PASS"),
        (
            CheckResult("scan", False, 0.5, 1.0, 0.7, 8, 8, "3 of 8 rows differ"),
            "[scan] FAIL  max_abs=5.0e-01  max_rel=1.0e+00  l2=7.0e-01  3 of 8 rows differ",
        ),
        (CheckResult("scan", False, message="the output holds NaN"), "[scan] FAIL  the output holds NaN"),
    ],
)
def test_check_lines(check: CheckResult, line: str) -> None:
    assert check_line(check) == line
