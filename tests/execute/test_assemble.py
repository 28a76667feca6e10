"""What a result takes from the plan of its variant."""

from __future__ import annotations

import pytest

from runner.execute.about import About
from runner.execute.assemble import result
from runner.plan.model import Variant
from runner.result.metrics import Ceilings
from runner.result.model import Status
from runner.worker.protocol import Outcome
from tests.plan.plans import plan_with

ABOUT = About(
    sweep_id="s",
    experiment_id="e",
    kernel="k",
    phase="decode",
    model="m",
    shape="s",
    config={},
    names={},
    overrides=[],
    repeat="",
    environment={},
    fingerprints={},
)


@pytest.mark.parametrize(("flops", "compute"), [(8, "bfloat16"), (0, "")])
def test_the_arithmetic_type_is_there_where_there_is_arithmetic(flops: int, compute: str) -> None:
    plan = plan_with(variants=(Variant("a", (), (), 16, 0, flops, "float32", compute="bfloat16"),), baseline="a")
    made = result(ABOUT, plan, Outcome("a", Status.PASSED), Ceilings(), max_rsd=0.01)
    assert made.compute == compute
