"""What Slurm prints, read."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from runner.launch import slurm_client
from runner.launch.slurm_client import JobState, SlurmError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1:00:00", 60), ("30:00", 30), ("1-02:30:00", 1590), ("0:30", 0.5), ("infinite", None), ("n/a", None)],
)
def test_limits_of_time(text: str, expected: float | None) -> None:
    assert slurm_client.minutes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("gpu:2", 2), ("gpu:a100:4(S:0-1)", 4), ("gpu:a100:4,gpu:h100:2", 6), ("shard:8,gpu:1", 1), ("(null)", 0)],
)
def test_gpus_of_a_node(text: str, expected: int) -> None:
    assert slurm_client.gpus(text) == expected


def answering(monkeypatch: pytest.MonkeyPatch, output: str = "", error: str = "", code: int = 0) -> list[list[str]]:
    asked: list[list[str]] = []

    def run(command: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        asked.append(list(command))
        return subprocess.CompletedProcess(command, code, output, error)

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_partitions_with_all_their_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(
        monkeypatch,
        "test*|1:00:00|a100,ib|gpu:2|64|1000\ntest*|1:00:00|h100|gpu:h100:8|32|2000\nlong|infinite|(null)|(null)|8|n/a\n",
    )
    found = slurm_client.partitions()
    assert found["test"].default and not found["long"].default
    assert found["test"].features == {"a100", "ib", "h100"} and found["test"].gpus == 8
    assert (found["test"].limit_min, found["long"].limit_min) == (60, None)
    assert (found["test"].cpus, found["test"].memory_mb) == (64, 2000)
    assert (found["long"].cpus, found["long"].memory_mb) == (8, 0)


def test_states_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, "7_0|RUNNING|None|node1\n7_1|PENDING|Resources|\n")
    assert slurm_client.states(["7", "9"]) == {
        "7_0": JobState("RUNNING", "", "node1"),
        "7_1": JobState("PENDING", "Resources", ""),
    }
    assert asked == [
        ["squeue", "--noheader", "--states=all", "--array", "--format=%i|%T|%r|%N", "--jobs=7,9"],
    ]


def test_jobs_that_slurm_has_forgotten_have_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, error="slurm_load_jobs error: Invalid job id specified\n", code=1)
    assert slurm_client.states(["7"]) == {}


def test_a_controller_that_is_away_is_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, error="slurm_load_jobs error: Unable to contact slurm controller\n", code=1)
    with pytest.raises(SlurmError, match="Unable to contact slurm controller"):
        slurm_client.states(["7"])


def test_an_error_is_its_last_line() -> None:
    text = "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed: Invalid name\n"
    assert slurm_client.last_line(text) == "Invalid name"


def test_the_advice_that_follows_an_error_is_not_the_error() -> None:
    text = "sbatch: unrecognized option '--foo=1'\nTry \"sbatch --help\" for more information\n"
    assert slurm_client.last_line(text) == "unrecognized option '--foo=1'"


def test_a_machine_without_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SlurmError, match="there is no sinfo here"):
        slurm_client.partitions()
