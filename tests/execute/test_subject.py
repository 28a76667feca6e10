"""What a profiler's process is started with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.build.model import BuildRequest, CompileError
from runner.execute import subject
from runner.execute.experiment import worker_key
from runner.execute.planning import Experiment
from runner.execute.subject import ProfiledWorker
from runner.profile.base import Launch
from tests.kernels.plans import HOST, plan


def experiment(**replaced: Any) -> Experiment:
    """A planned one, with the user's variables for its worker."""
    made = replace(plan("rope_layout", target=HOST), **replaced)
    config = SimpleNamespace(environment={"OMP_NUM_THREADS": "1"})
    return cast(Experiment, SimpleNamespace(plan=made, config=config, devices=(), held=False))


def test_a_sanitizers_options_win_over_those_of_a_sanitized_run() -> None:
    key = worker_key(experiment(sanitize=True), (), {"ASAN_OPTIONS": "log_path=/scratch/report"})
    environment = dict(key.environment)
    assert environment["ASAN_OPTIONS"] == "log_path=/scratch/report"
    assert "libasan" in environment["LD_PRELOAD"]
    assert environment["OMP_NUM_THREADS"] == "1"


def test_a_program_that_cannot_be_sanitized_is_a_problem_not_an_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[BuildRequest] = []

    def refuse(requests: Iterable[BuildRequest]) -> dict[BuildRequest, CompileError]:
        asked.extend(requests)
        return {request: CompileError("the disk is full") for request in asked}

    monkeypatch.setattr(subject, "build", refuse)
    ended = ProfiledWorker(experiment(), {}).run(Launch((), tmp_path, sanitize=True), 10.0)
    assert ended.problem == "the disk is full"
    assert ended.returncode is None
    assert asked and all(request.sanitize for request in asked)


@pytest.mark.parametrize("held", [True, False])
def test_a_worker_is_told_what_the_driver_holds_already(held: bool, tmp_path: Path) -> None:
    made = experiment()
    made.held = held
    assert ProfiledWorker(made, {})._request(Launch((), tmp_path), {})["held"] is held
