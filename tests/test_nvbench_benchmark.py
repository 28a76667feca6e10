"""``benchmarks/nvbench.py``: what it asks of the three loops, and the page it writes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from runner.execute.planning import roots
from runner.plan.planner import make_plan
from runner.plan.target import target_of
from tests.benchmark_scripts import load

nvbench = load("nvbench")


@pytest.mark.parametrize("case", nvbench.CASES, ids=lambda case: case.name)
def test_every_case_is_planned(case: Any) -> None:
    config = nvbench.composed(*case.words, "gpu=h200_sxm", f"variants=[{case.variant}]")
    plan, _ = make_plan(config, target_of(config.gpu), roots(()))
    assert [variant.name for variant in plan.variants] == [case.variant]


def documents(runner: list[float], memset: list[float], theirs: list[float], wall_s: float = 0.1) -> list[Any]:
    """One document a process; every case has the same times."""
    found = []
    for run, times in enumerate(zip(runner, memset, theirs, strict=True)):
        rows = [
            {**nvbench.row(tool, case, [us] * 3, wall_s if tool == "runner" else 0.2, "rsd")}
            for case in nvbench.CASES
            for tool, us in zip(nvbench.TOOLS, times, strict=True)
        ]
        about: dict[str, Any] = {
            "device": "NVIDIA H200",
            "driver": "580",
            "cuda": "13.0",
            "date": "2026-01-02T03:04:05Z",
            "commit": "abc",
        }
        about |= {"run": run, "trial": 0, "state": {"sm_clock_mhz": 1980}, "dirty": False}
        found.append({"about": about, "rows": rows})
    return found


def problems(found: list[Any]) -> list[str]:
    return list(nvbench.judged(nvbench.summarised(found)))


def test_agreement_is_no_problem() -> None:
    assert problems(documents([100.0, 100.1], [100.1, 100.1], [100.5, 100.6])) == []


def test_a_difference_that_the_flush_explains_is_none() -> None:
    assert problems(documents([90.0, 90.1], [100.1, 100.1], [100.5, 100.6])) == []


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (documents([98.0, 98.0], [98.0, 98.0], [100.0, 100.1]), "medians differ by more than 1%"),
        (documents([9.5, 9.5], [9.5, 9.5], [10.0, 10.0]), "medians differ by more than 3%"),
        (
            documents([100.0, 102.0], [100.0, 100.0], [100.0, 103.0]),
            "our medians spread by 1.40% from run to run",
        ),
        (documents([100.0, 100.9] * 5, [100.0] * 10, [100.0, 100.1] * 5), "NVBench's by 0.05%"),
        (
            documents([100.0, 100.0], [100.0, 100.0], [100.0, 100.0], wall_s=0.3),
            "all cases take 2.10 s, NVBench 1.40 s",
        ),
    ],
)
def test_each_problem_is_told(found: list[Any], says: str) -> None:
    assert any(says in problem for problem in problems(found))


def trials_of(run: int, values: list[float]) -> list[Any]:
    """A set of trials: one document each, with the short cases by our loop."""
    short = [case for case in nvbench.CASES if case.short]
    return [
        {
            "about": {"run": run, "trial": trial},
            "rows": [nvbench.row("runner", case, [us] * 3, 0.1, "") for case in short],
        }
        for trial, us in enumerate(values, start=1)
    ]


def test_trials_bring_a_short_kernel_to_its_spread() -> None:
    found = documents([10.0, 10.3], [10.0, 10.0], [10.0, 10.3])
    assert any("fused norm and GELU: our medians spread by 2.09%" in problem for problem in problems(found))
    for run in (0, 1):
        found += trials_of(run, [10.3, 10.1, 10.1, 10.0])
    rows = nvbench.summarised(found)
    assert rows["fused norm and GELU"]["runner"]["trials_rsd"] == 0.0
    assert rows["fused norm and GELU"]["runner"]["median_us"] == pytest.approx(10.15)
    assert "trials_rsd" not in rows["copy of 1 GiB"]["runner"]
    told = [problem.split(":")[0] for problem in problems(found)]
    assert told == [case.name for case in nvbench.CASES if not case.short]


def test_the_page(tmp_path: Path) -> None:
    found = documents([90.0, 90.1], [100.1, 100.1], [100.5, 100.6])
    rows = nvbench.summarised(found)
    nvbench.write(tmp_path, found, rows, ["something"])
    page = (tmp_path / "README.md").read_text()
    assert "| copy of 1 GiB | 90.05 µs | 100.55 µs | -10.44% | -0.45% |" in page
    assert "NVIDIA H200, driver 580" in page and "not as it should be: something" in page
    with (tmp_path / "processes.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == 2 * len(nvbench.TOOLS) * len(nvbench.CASES)
