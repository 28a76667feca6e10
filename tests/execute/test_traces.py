"""A trace that cannot be served is refused before anything runs, in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.config.points import Point
from runner.execute.planning import Experiment, plan
from runner.result.model import Status
from tests.kernels.plans import HOST, config

SIZES: dict[str, Any] = {"L": 1, "h": 24, "H": 4, "KVH": 2, "D": 6, "I": 40, "V": 97, "B": 3, "page": 4}


def planned(folder: Path, lines: str, **params: Any) -> Experiment:
    (folder / "t.csv").write_text(lines)
    made = config("mini_llm_serve", {**SIZES, "trace": str(folder / "t.csv"), **params})
    experiment = Experiment(Point(made, (), folder / "job"))
    plan(experiment, HOST)
    return experiment


def test_the_plan_is_that_of_the_files_trace(tmp_path: Path) -> None:
    experiment = planned(tmp_path, "arrival_s,prompt,output,shared\n0,9,2,4\n1,7,5,4\n")
    assert experiment.plan is not None and experiment.refused is None
    said = {name: experiment.plan.params[name] for name in ("requests", "prompt_high", "output_high", "shared", "rate")}
    assert said == {"requests": 2, "prompt_high": 9, "output_high": 5, "shared": 4, "rate": 1.0}
    assert experiment.plan.buffer("tokens").dims == (2, 5)
    assert (experiment.settings.fixed, experiment.settings.warmup) == (1, 0)


@pytest.mark.parametrize(
    ("lines", "params", "message"),
    [
        ("arrival_s,prompt\n", {}, "kernel.params.trace={file}: has no column output; needed are arrival_s, prompt"),
        ("arrival_s,prompt,output\n0,0,1\n", {}, "{file}, line 2: prompt=0: must be a whole number from 1 to 1048576"),
        ("arrival_s,prompt,output\n", {}, "kernel.params.trace={file}: has no requests"),
        (
            "arrival_s,prompt,output\n0,9,2\n1,40,3\n",
            {"pool": 9},
            "request 1: prompt=40, output=3: needs room for 42 tokens; one sequence can have 36 (9 pages of 4)",
        ),
    ],
)
def test_a_bad_trace_is_one_error(lines: str, params: dict[str, Any], message: str, tmp_path: Path) -> None:
    experiment = planned(tmp_path, lines, **params)
    assert experiment.plan is None and experiment.refused is not None
    status, said = experiment.refused
    assert status is Status.INVALID_CONFIG
    assert said.startswith(message.format(file=tmp_path / "t.csv")) and "\n" not in said


def test_a_trace_that_takes_longer_than_a_variant_may_is_refused(tmp_path: Path) -> None:
    assert planned(tmp_path, "arrival_s,prompt,output\n5,9,2\n204,7,5\n").refused is None
    refused = planned(tmp_path, "arrival_s,prompt,output\n5,9,2\n205,7,5\n").refused
    assert refused == (
        Status.INVALID_CONFIG,
        "timeout_s=600: the last request arrives after 200.0 s and the trace is served 3 times; must be well above 600",
    )


def test_other_families_have_no_trace(tmp_path: Path) -> None:
    experiment = Experiment(Point(config("kv_quant"), (), tmp_path / "job"))
    plan(experiment, HOST)
    assert experiment.refused is None and experiment.settings.fixed == 0
