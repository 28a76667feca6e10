"""What is refused before anything is compiled: a rules file and an earlier run that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.config.points import Point
from runner.diagnose.rules import USER_FILE
from runner.execute.planning import Experiment, plan
from runner.execute.profiling import profile_settings
from runner.result import document
from runner.result.model import Status
from tests import synthetic
from tests.kernels.plans import HOST, config


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return Experiment(Point(config("kv_quant"), (), tmp_path / "job", config_dirs=(tmp_path,)))


def test_a_wrong_rules_file_is_refused(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / USER_FILE).write_text("- name: x\n  confidence: certain\n")
    plan(experiment, HOST)
    assert experiment.plan is None and experiment.refused is not None
    status, message = experiment.refused
    assert status is Status.INVALID_CONFIG
    assert message == f"{tmp_path / USER_FILE}: x: the key 'bound' is missing"


def test_the_clock_of_a_cpu_is_not_locked(experiment: Experiment) -> None:
    experiment.config.measure.lock_clocks = 1500
    plan(experiment, HOST)
    assert experiment.refused == (
        Status.INVALID_CONFIG,
        "measure.lock_clocks=1500: must be 0 here, for the clock of a CPU is not locked",
    )


def test_the_users_rules_are_those_of_the_experiment(experiment: Experiment, tmp_path: Path) -> None:
    rule = "{name: mine, bound: memory, confidence: sure, when: gbps > 1, share: 1, evidence: ['{gbps:.0f} GB/s']}"
    (tmp_path / USER_FILE).write_text(f"- {rule}\n")
    plan(experiment, HOST)
    assert experiment.plan is not None and experiment.rules[-1].name == "mine"


def test_an_earlier_run_that_is_not_there_is_refused(experiment: Experiment, tmp_path: Path) -> None:
    experiment.config.compare_to = str(tmp_path / "nowhere")
    plan(experiment, HOST)
    assert experiment.plan is None and experiment.refused is not None
    assert experiment.refused[1].startswith(f"compare_to={tmp_path / 'nowhere'}: ")


def test_an_earlier_run_is_read_once_before_the_experiment(experiment: Experiment, tmp_path: Path) -> None:
    written = document.write(synthetic.result("q8"), tmp_path / "earlier")
    experiment.config.compare_to = str(written)
    plan(experiment, HOST)
    assert experiment.earlier is not None and [one.variant for one in experiment.earlier.results] == ["q8"]


def test_a_wrong_rule_for_categories_is_refused(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "categories.yaml").write_text("- category: mine\n  match: '('\n")
    plan(experiment, HOST)
    assert experiment.plan is None and experiment.refused is not None
    assert experiment.refused[0] is Status.INVALID_CONFIG
    assert "categories.yaml, rule 1: match='(' is no regular expression" in experiment.refused[1]


def test_the_users_categories_reach_the_profilers(experiment: Experiment, tmp_path: Path) -> None:
    own = tmp_path / "categories.yaml"
    own.write_text("- category: mine\n  match: kv_scan\n")
    plan(experiment, HOST)
    assert profile_settings(experiment.config.profiler, experiment.categories).categories == (own,)
