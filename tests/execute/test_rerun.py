"""Which of the new results is an earlier one's."""

from __future__ import annotations

from typing import Any

from runner.execute.rerun import successor
from runner.result.model import Result
from tests.synthetic import result


def made(variant: str = "q8", **sections: Any) -> Result:
    config = {"kernel": {"params": {"T": 4096}}, "devices": [0], "environment": {}}
    return result(variant, config=config | sections)


def test_it_is_the_one_whose_config_is_most_alike() -> None:
    plain, other = made(), made(environment={"OMP_NUM_THREADS": "1"})
    longer = made(kernel={"params": {"T": 8192}})
    fp32 = made("fp32")
    for order in ([plain, other, longer, fp32], [fp32, longer, other, plain]):
        for wanted in order:
            old = made(wanted.variant, **wanted.config)
            assert successor(old, order) is wanted
    assert successor(made("fp16"), [plain, fp32]) is None
