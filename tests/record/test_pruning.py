"""What may go, and what stays for which reason."""

from __future__ import annotations

import pytest

from runner.record.filed import Filed
from runner.record.pruning import Everything, Group, plan
from runner.record.selection import Selection


def run(
    number: int, variant: str = "q8", T: str = "1", experiment: str = "", sweep: str = "s", status: str = "FINISHED",
    **tags: str,
) -> Filed:  # fmt: skip
    given = {"kind": "result", "experiment_id": experiment or f"e{number}", "sweep_id": sweep, **tags}
    return Filed(str(number), {"kernel": "kv", "variant": variant, "T": T}, {}, given, number, status=status)


def summary(sweep: str, **tags: str) -> Filed:
    return Filed(f"summary {sweep}", {}, {}, {"kind": "summary", "sweep_id": sweep, **tags}, 0, status="FINISHED")


def everything(*runs: Filed) -> Everything:
    store = Everything()
    store.add(runs)
    return store


def ids(runs: list[Filed]) -> list[str]:
    return [run.run_id for run in runs]


def test_by_age_the_oldest_first() -> None:
    found = plan(everything(run(3), run(1), run(2)), Selection(before=3))
    assert ids(found.runs) == ["1", "2"] and not found.kept


@pytest.mark.parametrize(("per", "gone"), [("point", ["1"]), ("variant", ["1", "2"]), ("kernel", ["1", "2", "3"])])
def test_the_last_of_each_group_stay(per: Group, gone: list[str]) -> None:
    store = everything(run(1), run(2, T="2"), run(3, "fp16"), run(4), run(5))
    found = plan(store, Selection(), last=2, per=per)
    assert ids(found.runs) == gone and found.kept["among the last 2"] == 5 - len(gone)


def test_the_last_are_counted_among_younger_ones_too() -> None:
    found = plan(everything(run(1), run(2), run(3), run(4)), Selection(before=3), last=2)
    assert ids(found.runs) == ["1", "2"]


@pytest.mark.parametrize("per", ["point", "variant", "kernel"])
def test_the_newest_that_passed_of_each_point_stays(per: Group) -> None:
    store = everything(
        *(Filed(str(n), {"kernel": "kv", "variant": "q8", "T": T}, {}, {"kind": "result", "status": s}, n)
          for n, T, s in ((1, "1", "PASSED"), (2, "1", "PASSED"), (3, "2", "PASSED"), (4, "1", "TIMEOUT"),
                          (5, "1", "INCORRECT"), (6, "1", "TIMEOUT"), (7, "2", "TIMEOUT"))),
    )  # fmt: skip
    found = plan(store, Selection(), last=1, per=per)
    assert not {"2", "3"} & set(ids(found.runs)) and {"1", "4", "5"} <= set(ids(found.runs))
    assert found.kept["the newest that passed"] == 2
    assert {"2", "3"} <= set(ids(plan(store, Selection(before=9)).runs)), "without last, age alone decides"


def test_other_gpus_are_other_points_though_both_are_auto() -> None:
    a, b = {"device_name": "NVIDIA L4", "gpu_uuid": "a"}, {"device_name": "NVIDIA T4", "gpu_uuid": "b"}
    store = everything(
        run(1, **a), run(2, **b), run(3, device_name="NVIDIA T4", gpu_uuid="c"), run(4, gpu_uuid="a"),
        run(5, gpu_uuid="b"), run(6, gpu_uuid="b"),
    )  # fmt: skip
    assert ids(plan(store, Selection(), last=1).runs) == ["2", "5"]


def test_what_is_being_filed_or_tagged_stays() -> None:
    store = everything(run(1, status="RUNNING"), run(2, keep="paper"), run(3, keep="false"), run(4))
    found = plan(store, Selection(before=9))
    assert ids(found.runs) == ["3", "4"]
    assert found.kept == {"still being filed": 1, "with the tag keep": 1}


def test_a_baseline_goes_only_when_asked_and_with_its_whole_experiment() -> None:
    store = everything(
        run(1, "fp32", experiment="old", baseline="true"), run(2, experiment="old"),
        run(3, "fp32", experiment="half", baseline="true"), run(4, experiment="half", keep="yes"),
    )  # fmt: skip
    found = plan(store, Selection(before=9))
    assert ids(found.runs) == ["2"] and found.kept == {"baseline": 2, "with the tag keep": 1}
    found = plan(store, Selection(before=9), baselines=True)
    assert ids(found.runs) == ["1", "2"] and found.kept == {"baseline": 1, "with the tag keep": 1}


def test_a_summary_goes_with_the_last_result_of_its_command() -> None:
    store = everything(
        run(1, sweep="a"), run(2, sweep="a"), summary("a"), run(3, sweep="b"), run(4, sweep="b"), summary("b"),
        run(5, sweep="c"), summary("c", keep="1"), summary("empty"),
    )  # fmt: skip
    found = plan(store, Selection(runs=("1", "2", "3", "5")))
    assert ids(found.summaries) == ["summary a"]


def test_runs_of_others_are_not_seen() -> None:
    assert everything(Filed("1", {}, {}, {}, 0), Filed("2", {}, {}, {"kind": "model"}, 0)) == Everything()
