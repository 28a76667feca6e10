"""The verifier on a small plan: what is read, what is compared, what is remembered, what drifts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from runner.check import generator
from runner.check.case import CaseError
from runner.check.verify import Verifier
from runner.plan.model import Buffer, Check, Fill, Plan, Variant
from tests.plan.plans import plan_with

ROWS, WIDTH = 40, 3

REFERENCE = """
import numpy as np

calls = []


def expected(case, check, rows):
    calls.append((check.name, rows.tolist()))
    step = 0.25 if check.name == "q8" else 0.0
    return np.stack([case.input("x", row).astype(np.float64) * 2 + step for row in rows])
"""

FP32 = Check("fp32", output="y", row_dims=1, row_cost=1, atol=1e-6, rtol=1e-6)
Q8 = replace(FP32, name="q8")
DOUBLED = generator.uniform(generator.key(3, "x"), 0, ROWS * WIDTH, 1, 2).reshape(ROWS, WIDTH) * 2


class Memory:
    """An output on a device, and every read of it."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values
        self.reads: list[tuple[str, int, int]] = []

    def read(self, name: str, start: int, count: int) -> npt.NDArray[Any]:
        self.reads.append((name, start, count))
        return self.values.reshape(-1)[start : start + count].copy()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "ref.py").write_text(REFERENCE)
    variants = (
        Variant("base", (), (FP32,), 0, 0, 0, "float32"),
        Variant("quant", (), (Q8,), 0, 0, 0, "int8", drift="fp32"),
    )
    x = Buffer("x", (ROWS, WIDTH), "float32", Fill("uniform", low=1, high=2))
    return plan_with(
        reference=str(tmp_path / "ref.py"),
        buffers=(x, Buffer("y", (ROWS, WIDTH), "float32")),
        variants=variants,
        baseline="base",
        seed=3,
    )


def reference_calls(verifier: Verifier) -> list[Any]:
    calls: list[Any] = verifier._expected.__globals__["calls"]  # type: ignore[union-attr]
    return calls


def test_all_rows_are_read_at_once_when_they_are_cheap(plan: Plan) -> None:
    memory = Memory(DOUBLED.copy())
    (result,) = Verifier(plan).verify("base", memory.read)
    assert result.passed, result.message
    assert (result.name, result.rows_checked, result.rows_total) == ("fp32", ROWS, ROWS)
    assert memory.reads == [("y", 0, ROWS * WIDTH)]


def test_only_sampled_rows_are_read(plan: Plan) -> None:
    verifier = Verifier(plan, budget_elements=5 * WIDTH)
    memory = Memory(DOUBLED.copy())
    (result,) = verifier.verify("base", memory.read)
    rows = verifier.rows(FP32)
    assert result.passed and result.rows_checked == len(rows) == 5
    read = [row for _, start, count in memory.reads for row in range(start // WIDTH, (start + count) // WIDTH)]
    assert read == rows.tolist()
    assert read[0] == 0 and read[-1] == ROWS - 1


def test_a_sampled_row_that_is_wrong_is_found_and_named(plan: Plan) -> None:
    memory = Memory(DOUBLED.copy())
    memory.values[ROWS - 1, 2] = 0
    (result,) = Verifier(plan, budget_elements=1).verify("base", memory.read)
    assert not result.passed
    assert f"y[{ROWS - 1}, 2]: got 0" in result.message
    assert (result.rows_checked, result.rows_total) == (2, ROWS)


def test_variants_of_one_shape_look_at_the_same_rows(plan: Plan) -> None:
    verifier = Verifier(plan, budget_elements=30)
    assert np.array_equal(verifier.rows(FP32), verifier.rows(Q8))


def test_the_row_cost_counts(plan: Plan) -> None:
    verifier = Verifier(plan, budget_elements=1000)
    assert len(verifier.rows(FP32)) == ROWS
    assert len(verifier.rows(replace(FP32, row_cost=250))) == 4


def test_the_reference_is_computed_once(plan: Plan) -> None:
    verifier = Verifier(plan)
    memory = Memory(DOUBLED.copy())
    assert verifier.verify("base", memory.read)[0].passed
    assert verifier.verify("base", memory.read)[0].passed
    assert [name for name, _ in reference_calls(verifier)] == ["fp32"]


def test_a_result_that_changes_fails_though_both_are_within_tolerance(plan: Plan) -> None:
    loose = replace(FP32, atol=0.1, rtol=0.0)
    verifier = Verifier(replace(plan, variants=(replace(plan.variants[0], checks=(loose,)),)))
    low, high = DOUBLED.copy(), DOUBLED.copy()
    low[7, 1] -= 0.08
    high[7, 1] += 0.08
    assert verifier.verify("base", Memory(low).read)[0].passed
    (second,) = verifier.verify("base", Memory(high).read)
    assert not second.passed
    assert "changed between the check before and the check after timing, y[7, 1]" in second.message


def test_a_wrong_result_afterwards_is_reported_as_wrong(plan: Plan) -> None:
    verifier = Verifier(plan)
    assert verifier.verify("base", Memory(DOUBLED.copy()).read)[0].passed
    (second,) = verifier.verify("base", Memory(np.full_like(DOUBLED, np.nan)).read)
    assert not second.passed and "not finite" in second.message


def test_drift_is_the_distance_from_the_other_variants_reference(plan: Plan) -> None:
    verifier = Verifier(plan)
    assert verifier.verify("quant", Memory(DOUBLED + np.float32(0.25)).read)[0].passed
    drift = verifier.drift("quant")
    assert drift["drift_max_abs"] == pytest.approx(0.25, abs=1e-6)
    assert drift["drift_max_rel"] == pytest.approx(0.25 / DOUBLED.min(), rel=1e-5)
    expected = 0.25 * DOUBLED.size**0.5 / np.linalg.norm(DOUBLED.astype(np.float64))
    assert drift["drift_l2"] == pytest.approx(expected, rel=1e-5)


def test_drift_looks_at_the_variants_own_rows(plan: Plan) -> None:
    """The two references cost differently, so their own samples differ."""
    quant = replace(plan.variants[1], checks=(replace(Q8, row_cost=10),))
    verifier = Verifier(replace(plan, variants=(plan.variants[0], quant)), budget_elements=40)
    verifier.verify("base", Memory(DOUBLED.copy()).read)
    verifier.verify("quant", Memory(DOUBLED + np.float32(0.25)).read)
    assert verifier.drift("quant")["drift_max_abs"] == pytest.approx(0.25, abs=1e-6)
    assert [len(rows) for _, rows in reference_calls(verifier)] == [13, 4, 4]


def test_no_drift_without_a_name_or_a_finite_output(plan: Plan) -> None:
    verifier = Verifier(plan)
    verifier.verify("base", Memory(DOUBLED.copy()).read)
    verifier.verify("quant", Memory(np.full_like(DOUBLED, np.inf)).read)
    assert verifier.drift("base") == {}
    assert verifier.drift("quant") == {}


def test_drift_needs_only_the_other_checks_reference(plan: Plan) -> None:
    """As with ``variants=[quant]``: the variant that the check belongs to is not in the plan."""
    verifier = Verifier(replace(plan, variants=plan.variants[1:]))
    verifier.verify("quant", Memory(DOUBLED + np.float32(0.25)).read)
    assert verifier.drift("quant")["drift_max_abs"] == pytest.approx(0.25, abs=1e-6)


def test_drift_before_the_check_is_an_error(plan: Plan) -> None:
    with pytest.raises(RuntimeError, match="drift of 'quant' asked for before"):
        Verifier(plan).drift("quant")


def test_an_empty_output(plan: Plan) -> None:
    empty = replace(plan, buffers=(plan.buffers[0], Buffer("y", (0, WIDTH), "float32")))
    memory = Memory(np.empty((0, WIDTH), np.float32))
    reference = Path(plan.reference)
    reference.write_text("import numpy as np\ndef expected(case, check, rows): return np.empty((0, 3))\n")
    (result,) = Verifier(empty).verify("base", memory.read)
    assert result.passed and memory.reads == []


FOLLOWING = """
import numpy as np

calls = []


def expected(case, check, rows):
    calls.append((check.name, rows.tolist()))
    left = case.output("y")
    # Each row is to be twice the one before it, whatever that is.
    return np.stack([np.ones(3) if row == 0 else left[row - 1].astype(np.float64) * 2 for row in rows])
"""


def test_a_reference_that_looks_at_the_output_is_asked_each_time(plan: Plan) -> None:
    Path(plan.reference).write_text(FOLLOWING)
    verifier = Verifier(plan)
    row = 2.0 ** np.arange(ROWS, dtype=np.float64)[:, None].repeat(WIDTH, axis=1)
    memory = Memory(row.astype(np.float32))
    assert [verifier.verify("base", memory.read)[0].passed for _ in range(2)] == [True, True]
    memory.values = memory.values.copy()
    memory.values[7] = 3  # wrong behind row 6, and row 8 no longer follows it
    (result,) = verifier.verify("base", memory.read)
    assert not result.passed and "y[" in result.message
    assert result.max_abs_err == pytest.approx(2.0**8 - 6)
    assert [name for name, _ in reference_calls(verifier)] == ["fp32"] * 3


def test_an_output_cannot_be_looked_at_once_its_check_has_ended(plan: Plan) -> None:
    verifier = Verifier(plan)
    verifier.verify("base", Memory(DOUBLED.copy()).read)
    with pytest.raises(CaseError, match="outside a check"):
        verifier.case.output("y")
    with pytest.raises(ZeroDivisionError):
        verifier.verify("base", lambda *where: 1 // 0)  # type: ignore[arg-type]
    with pytest.raises(CaseError, match="outside a check"):
        verifier.case.output("y")


def test_what_varies_may_differ_where_the_reference_allows_both(plan: Plan) -> None:
    loose = replace(FP32, atol=1.0, varies=True)
    varied = replace(plan, variants=(replace(plan.variants[0], checks=(loose,)),))
    verifier = Verifier(varied)
    assert all(verifier.verify("base", Memory(DOUBLED + step).read)[0].passed for step in (0.0, 0.5))
    assert not verifier.verify("base", Memory(DOUBLED + 2).read)[0].passed
