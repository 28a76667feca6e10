"""Which sweeps have jobs elsewhere that may still run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from runner.execute import on_node
from runner.record import jobs
from runner.record.spool import Sweep


def gone(command: str = "") -> Sweep:
    return dataclasses.replace(Sweep.begin("s", command=command, experiments=2), pid_started=1.0)


@pytest.mark.parametrize(
    ("command", "trace", "elsewhere"),
    [
        ("python -m runner hydra/launcher=ray -m", "", True),
        ("python -m runner '+hydra/launcher=joblib' -m", "", True),
        ("python -m runner hydra/launcher=gpus -m", "", False),
        ("python -m runner kernel=kv_quant -m", "", False),
        ("python -m runner -m", "0/job.json", True),
        ("python -m runner -m", "0/job.log", True),
        ("python -m runner -m", "slurm/1_0_log.out", True),
        ("python -m runner hydra/launcher=basic -m", "0/job.log", False),
    ],
)
def test_which_sweeps_have_jobs(tmp_path: Path, command: str, trace: str, elsewhere: bool) -> None:
    if trace:
        (tmp_path / trace).parent.mkdir()
        (tmp_path / trace).write_text("{}")
    found = jobs.pending(tmp_path, gone(command))
    assert (found is not None) == elsewhere
    if found is not None:
        assert (found.jobs, found.answered) == (2, ())
    assert jobs.pending(tmp_path, Sweep.begin("s", command=command, experiments=2)) is None, "it lives"


def test_what_answers_is_what_a_job_writes(tmp_path: Path) -> None:
    assert jobs.ANSWER_FILE == on_node.ANSWER_FILE
    on_node.write(on_node.Answer("s", 1, "the node broke"), tmp_path / "1")
    found = jobs.pending(tmp_path, gone())
    assert found is not None and (found.jobs, found.answered) == (1, (tmp_path / "1",))
    assert found.complete([tmp_path / "0" / "q8", tmp_path / "1" / "q8", tmp_path / "10" / "q8"]) == [
        tmp_path / "1" / "q8"
    ]
    on_node.write(on_node.Answer("s", 0), tmp_path / "0")
    assert jobs.pending(tmp_path, gone()) is None
