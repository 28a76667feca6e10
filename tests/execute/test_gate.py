"""A study's gate: results of a sweep against the standards in a store."""

from __future__ import annotations

from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from runner import baseline
from runner.config.errors import ConfigError
from runner.config.points import Point
from runner.config.schema import Config, Gate, Study, Tracking
from runner.execute import gate
from runner.execute.gate import Answer, Counts
from runner.record.location import Location, locate
from runner.record.mlflow_store import MlflowStore
from runner.result.model import Quality, Result, Series, Status
from runner.verdict.judge import judge
from runner.verdict.model import Judged, Measured, Pair, Verdict
from tests.execute.test_sweep import run
from tests.record.conftest import spooled
from tests.synthetic import ENVIRONMENT, result

GATE = Gate("3%", 2)
NOW = "now"


@pytest.fixture
def location(new_store: str) -> Location:
    return locate(new_store)


def timed(
    context: int, time_us: float, *, device: str = "NVIDIA H200", spread: float = 0.001, **changes: Any
) -> Result:
    made = result("q8", context, sweep_id=NOW, environment={**ENVIRONMENT, "device": {"name": device}}, **changes)
    made.id = f"{made.sweep_id}-{context}-{device}-{time_us}"
    if made.metrics:
        made.metrics |= {"time_us": time_us}
        made.metrics |= {"time_us_low": time_us * (1 - spread), "time_us_high": time_us * (1 + spread)}
        made.samples = [Series("cold", "cuda_events", [time_us] * 10)]
    made.config = {"study": {"name": "nightly", "gate": asdict(GATE)}}
    return made


def standards(location: Location, folder: Path, *results: Result) -> None:
    """Files them and names them so."""
    store = MlflowStore(location)
    store.open()
    for one in results:
        one.sweep_id = "then"
    runs = [store.file(one, place) for one, place in zip(results, spooled(folder, results), strict=True)]
    assert baseline.main(["set", f"run={','.join(runs)}", f"uri={location.uri}"]) == 0


def held(location: Location, folder: Path, *results: Result, given: Gate = GATE) -> tuple[int, str]:
    """Exit code and what was printed."""
    spooled(folder, results)
    config = Config(study=Study(gate=given), tracking=Tracking(uri=location.uri))
    console = Console(file=StringIO(), width=200)
    code = gate.hold([Point(config, (), folder)], folder, NOW, console)
    assert isinstance(console.file, StringIO)
    return code, console.file.getvalue()


CONTEXTS = (4096, 8192, 16384)


@pytest.mark.parametrize(
    ("times", "code", "state", "told"),
    [
        ((100, 100.5, 97), 0, "open", "0 for sure, 0 perhaps"),
        ((110, 100, 100), 0, "open", "1 for sure, 0 perhaps"),
        ((110, 120, 100), 3, "closed", "2 for sure, 0 perhaps"),
        ((110, 103, 100), 4, "undecided", "1 for sure, 1 perhaps"),
    ],
)
def test_the_code_follows_from_how_many_are_slower(
    times: tuple[float, ...], code: int, state: str, told: str, location: Location, tmp_path: Path
) -> None:
    standards(location, tmp_path / "then", *(timed(context, 100) for context in CONTEXTS))
    now = [timed(context, time) for context, time in zip(CONTEXTS, times, strict=True)]
    found, said = held(location, tmp_path / "now", *now)
    line = f"gate: {state}: experiments slower by more than 3 %: {told}, of 3; it closes at 2"
    assert (found, said.splitlines()[-1].partition("; measure")[0]) == (code, line)
    assert "baseline  the standards" in said


def test_without_a_standard_it_is_not_held_and_says_how_to_set_one(location: Location, tmp_path: Path) -> None:
    MlflowStore(location).open()
    code, said = held(location, tmp_path / "now", timed(4096, 100))
    assert code == 5
    assert said.splitlines() == [
        "gate: 1 of 1 results have no standard",
        "gate: not held: nothing compares with a standard for NVIDIA H200; this sweep becomes it by: "
        f"python -m runner.baseline set sweep=now uri={location.uri}",
    ]


def test_a_standard_of_another_gpu_is_named_and_does_not_compare(location: Location, tmp_path: Path) -> None:
    standards(location, tmp_path / "then", timed(4096, 100, device="NVIDIA L4"))
    code, said = held(location, tmp_path / "now", timed(4096, 100))
    assert code == 5 and "devices: NVIDIA L4 and NVIDIA H200" in said
    standards(location, tmp_path / "here", timed(4096, 100))
    code, said = held(location, tmp_path / "now", timed(4096, 100))
    assert code == 0 and "NVIDIA L4" not in said


def test_some_that_do_not_compare_are_said(location: Location, tmp_path: Path) -> None:
    standards(location, tmp_path / "then", timed(4096, 100), timed(8192, 100))
    failed = timed(8192, 100, status=Status.INCORRECT)
    code, said = held(location, tmp_path / "now", timed(4096, 100), failed, timed(16384, 100))
    assert code == 0
    assert "gate: 1 of 3 results have no standard" in said
    assert "gate: 1 experiments do not compare with their standard; the table says why" in said


def test_a_measurement_that_cannot_be_believed_leaves_it_undecided(location: Location, tmp_path: Path) -> None:
    standards(location, tmp_path / "then", timed(4096, 100), timed(8192, 100))
    unstable = [timed(context, 100, quality=Quality.UNSTABLE) for context in (4096, 8192)]
    code, said = held(location, tmp_path / "now", *unstable)
    assert (code, "0 for sure, 2 perhaps, of 2" in said) == (4, True)


def test_a_store_that_is_away_and_no_gate(location: Location, tmp_path: Path) -> None:
    away = Location("http://127.0.0.1:9", "server")
    code, said = held(away, tmp_path / "now", timed(4096, 100))
    assert code == 5 and said.startswith("gate: not held: ") and "127.0.0.1:9" in said
    assert held(location, tmp_path / "now", timed(4096, 100), given=Gate()) == (0, "")


@pytest.mark.parametrize(
    ("counts", "answers"),
    [
        (Counts(), {1: Answer.UNHELD}),
        (Counts(incomparable=3), {1: Answer.UNHELD}),
        (Counts(fast=1, incomparable=3), {1: Answer.OPEN}),
        (Counts(slow=2, unclear=1, fast=1), {1: Answer.CLOSED, 2: Answer.CLOSED, 3: Answer.UNDECIDED, 4: Answer.OPEN}),
    ],
)
def test_the_answer_by_counts(counts: Counts, answers: dict[int, Answer]) -> None:
    assert {least: counts.answer(least) for least in answers} == answers


def test_variants_of_one_experiment_are_one() -> None:
    def judged(experiment: str, low: float, high: float, verdict: Verdict) -> Judged:
        one = Measured((), "kv_quant", "q8", "cuda", Status.PASSED, experiment_id=experiment)
        return Judged(Pair(one, one), verdict, low=low, high=high)

    pairs = [
        judged("a", 0.05, 0.06, Verdict.SLOWER),
        judged("a", -0.01, 0.01, Verdict.SAME),
        judged("a", 0.05, 0.06, Verdict.SLOWER),
        judged("b", 0.05, 0.06, Verdict.AMBIGUOUS),
        judged("c", 0.01, 0.02, Verdict.SLOWER),
    ]
    assert gate.count(pairs, 0.03) == Counts(slow=1, unclear=1, fast=1)


def test_a_higher_clock_does_not_open_a_gate() -> None:
    """5 % more cycles at a clock that is 8 % higher take 3 % less time."""

    def at(clock: float, time_us: float) -> Measured:
        one = Measured((), "kv_quant", "q8", "cuda", Status.PASSED, "NVIDIA H200", "cuda_events", "cold")
        one = replace(one, time_us=time_us, low=time_us * 0.999, high=time_us * 1.001)
        return replace(one, sm_clock_mhz=clock, experiment_id=str(time_us))

    then = at(1800.0, 1000.0)
    hidden, alike, less = (Pair(then, at(1944.0, cycles * 1800 / 1944)) for cycles in (1050.0, 1010.0, 950.0))
    judged = judge([hidden, alike, less])
    assert [one.verdict for one in judged] == [Verdict.AMBIGUOUS, Verdict.AMBIGUOUS, Verdict.FASTER]
    assert gate.count(judged, 0.03) == Counts(unclear=1, fast=2)


def test_one_that_could_never_close_is_refused() -> None:
    def points(*gates: Gate) -> list[Point]:
        return [Point(Config(study=Study(gate=one)), (), Path()) for one in gates]

    gate.check(points(Gate("3%", 2), Gate("3%", 2)))
    gate.check(points(Gate(None, 9)))
    with pytest.raises(
        ConfigError, match=r"^study\.gate\.min_experiments=3: must be at most 2: this command has no more"
    ):
        gate.check(points(Gate("3%", 3), Gate("3%", 3), Gate("5%", 1)))


def test_a_command_ends_with_what_its_gate_says_unless_something_failed(tmp_path: Path, new_store: str) -> None:
    words = ("kernel=faulty", "gpu=host", "measure=quick", "measure.host.max_time_s=0.1", f"tracking.uri={new_store}")
    done = run(tmp_path, *words, "study.gate.max_slowdown=3%", "kernel.params.fault=0")
    assert done.returncode == 5, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("gate: not held: nothing compares with a standard for "), "filed first, then held"
    done = run(tmp_path, *words, "study.gate.max_slowdown=3%", "kernel.params.fault=0,3", "-m")
    assert done.returncode == 1 and "gate: not held" in done.stdout
    done = run(tmp_path, *words, "study.gate.max_slowdown=fast", "kernel.params.fault=0")
    assert done.returncode == 2 and done.stderr.startswith("error: study.gate.max_slowdown=fast: must be")
    done = run(tmp_path, *words, "study.gate={max_slowdown: 3%, min_experiments: 2}", "kernel.params.fault=0")
    assert done.returncode == 2 and done.stderr.startswith("error: study.gate.min_experiments=2: must be at most 1")
