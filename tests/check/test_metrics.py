"""What a reference says of an output beyond right and wrong, and what it can see for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from runner.check.case import Case, CaseError
from runner.check.modules import BadReference
from runner.check.verify import Verifier
from runner.plan.model import Buffer, Check, Fill, Plan, Variant
from tests.plan.plans import plan_with

EXPECTED = "import numpy as np\ndef expected(case, check, rows):\n    return np.zeros((len(rows), 2))\n"
CHECK = Check("plain", output="y", row_dims=1, row_cost=1, atol=9.0, rtol=0.0)
LEFT = np.arange(8, dtype=np.float32)


def plan(folder: Path, metrics: str) -> Plan:
    (folder / "reference.py").write_text(EXPECTED + metrics)
    return plan_with(
        reference=str(folder / "reference.py"),
        symbols={"kv": "int8", "T": 4},
        buffers=(Buffer("x", (4, 2), "float32", Fill("uniform")), Buffer("y", (4, 2), "float32")),
        variants=(Variant("plain", (), (CHECK,), 0, 0, 0, "float32"), Variant("none", (), (), 0, 0, 0, "float32")),
        baseline="plain",
    )


def read(name: str, start: int, count: int) -> npt.NDArray[Any]:
    assert name == "y"
    return LEFT[start : start + count]


def test_they_are_made_of_the_output_in_parts(tmp_path: Path) -> None:
    body = (
        "def metrics(case, check):\n"
        "    parts = [case.output_rows(check.output, row, 2) for row in (0, 2)]\n"
        "    return {check.name: parts[1].sum() - parts[0].sum(), 'T': case['T'], 'flat': len(case.output('y'))}\n"
    )
    verifier = Verifier(plan(tmp_path, body))
    assert verifier.metrics("plain", read) == {"plain": 16.0, "T": 4.0, "flat": 4.0}
    assert verifier.metrics("none", read) == {}
    with pytest.raises(CaseError, match="asked for outside a check"):
        verifier.case.output("y")


def test_a_reference_without_them(tmp_path: Path) -> None:
    assert Verifier(plan(tmp_path, "")).metrics("plain", read) == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 3", "returned int, must be a dictionary"),
        ("return {'a': float('nan')}", "a=nan, must be a finite number"),
        ("return {'a': 'text'}", "a='text', must be a finite number"),
        ("return {'a': True}", "a=True, must be a finite number"),
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("return case.output_rows('y', 3, 2)", "rows 3 … 4 are outside 0 … 3"),
        ("return case.output_rows('z', 0, 1)", "unknown buffer 'z'; the plan has: x, y"),
    ],
)
def test_an_answer_that_cannot_be(tmp_path: Path, body: str, said: str) -> None:
    verifier = Verifier(plan(tmp_path, f"def metrics(case, check):\n    {body}\n"))
    with pytest.raises(BadReference) as refused:
        verifier.metrics("plain", read)
    assert "metrics of 'plain': " in str(refused.value) and said in str(refused.value)


def test_a_case_under_other_symbols(tmp_path: Path) -> None:
    case = Case(plan(tmp_path, ""))
    other = case.under(kv="fp32")
    assert (other["kv"], other["T"], case["kv"], other.seed) == ("fp32", 4, "int8", case.seed)
    assert np.array_equal(other.input("x"), case.input("x"))
    with pytest.raises(CaseError, match="unknown symbol 'cache' of k; known are: T, kv"):
        case.under(cache="fp32")
