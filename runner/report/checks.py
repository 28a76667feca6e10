"""One line per check, as it is printed while a sweep runs."""

from __future__ import annotations

from runner.report.numbers import error
from runner.result.model import CheckResult


def check_line(check: CheckResult) -> str:
    """``[q8_kv_scan] PASS  max_abs=1.2e-07  max_rel=3.4e-06  l2=2.2e-07``; exact checks say PASS alone.

    A failed check ends with its message; a sampled one says how many rows were compared.
    """
    parts = [f"[{check.name}] {'PASS' if check.passed else 'FAIL'}"]
    figures = (("max_abs", check.max_abs_err), ("max_rel", check.max_rel_err), ("l2", check.l2_err))
    parts += [f"{name}={error(value)}" for name, value in figures if value is not None]
    if len(parts) > 1 and 0 < check.rows_checked < check.rows_total:
        parts.append(f"({check.rows_checked} of {check.rows_total} rows)")
    if not check.passed and check.message:
        parts.append(check.message)
    return "  ".join(parts)
