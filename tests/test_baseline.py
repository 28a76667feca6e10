"""``python -m runner.baseline``: which runs become the standard for their GPU, which stop being it, what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner import baseline, prune
from runner.record import baselines
from runner.record.location import Location, locate
from runner.record.mlflow_store import MlflowStore
from runner.record.selection import Selection
from runner.result.model import Quality, Result, Series, Status
from tests.record.conftest import spooled
from tests.synthetic import ENVIRONMENT, result

H200 = {**ENVIRONMENT, "device": {"name": "NVIDIA H200"}}
L4 = {**ENVIRONMENT, "device": {"name": "NVIDIA L4"}}


@pytest.fixture
def location(new_store: str) -> Location:
    return locate(new_store)


def timed(variant: str = "q8", day: int = 1, **changes: Any) -> Result:
    """Ten samples around 50 µs, on an H200."""
    values = {"environment": H200, "started": f"2026-03-{day:02}T12:00:00.000+00:00", "sweep_id": f"day-{day}"}
    made = result(variant, **{**values, **changes})
    made.id = f"{made.sweep_id}-{variant}-{made.environment['device']['name']}-{made.status.value}-{made.quality.value}"
    made.metrics |= {"time_us": 50.0, "time_us_low": 49.9, "time_us_high": 50.1}
    made.samples = [Series("cold", "cuda_events", [50.0] * 10)]
    return made


def file(location: Location, folder: Path, *results: Result) -> list[str]:
    """Their run ids."""
    store = MlflowStore(location)
    store.open()
    return [store.file(one, place) for one, place in zip(results, spooled(folder, results), strict=True)]


def standing(location: Location) -> dict[str, str]:
    """Run id → device."""
    found = baselines.standing(location, Selection())
    return {run.run_id: run.tags["baseline_of"] for run in found}


def test_one_standard_for_each_configuration_and_device(
    location: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"uri={location.uri}"
    first, other = file(location, tmp_path / "a", timed(), timed("fp32"))
    (elsewhere,) = file(location, tmp_path / "b", timed(environment=L4))
    assert baseline.main(["set", "v1", "sweep=day-1", uri]) == 0
    said = capsys.readouterr().out
    assert f"standard for NVIDIA H200: kv_quant q8 B=1 T=32768 H=16 D=128 (run {first})" in said
    assert "standard for NVIDIA L4" in said and "no longer" not in said
    assert standing(location) == {first: "NVIDIA H200", other: "NVIDIA H200", elsewhere: "NVIDIA L4"}

    again, newest = file(location, tmp_path / "c", timed(day=2), timed(day=3))
    assert baseline.main(["set", f"run={again},{newest}", uri]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"standard for NVIDIA H200: kv_quant q8 B=1 T=32768 H=16 D=128 (run {newest})",
        f"no longer: kv_quant q8 B=1 T=32768 H=16 D=128 (run {first})",
        "1 older runs of the same configurations were passed over",
    ]
    assert standing(location) == {newest: "NVIDIA H200", other: "NVIDIA H200", elsewhere: "NVIDIA L4"}
    tags = {run.run_id: run.tags for run in baselines.standing(location, Selection())}
    assert tags[other]["baseline_name"] == "v1" and "baseline_name" not in tags[newest]

    assert baseline.main(["show", "variant=q8", uri]) == 0
    said = capsys.readouterr().out
    assert "NVIDIA H200" in said and "NVIDIA L4" in said and "fp32" not in said
    assert "50.0 µs" in said and "49.9 µs – 50.1 µs" in said and "01234567+" in said and "2026-03-03" in said

    assert baseline.main(["unset", "variant=q8", "tag.device_name=NVIDIA H200", uri]) == 0
    assert capsys.readouterr().out.startswith("no longer standard for NVIDIA H200: ")
    assert standing(location) == {other: "NVIDIA H200", elsewhere: "NVIDIA L4"}


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (timed(status=Status.INCORRECT, message="q8_kv_scan differs"), "INCORRECT: q8_kv_scan differs"),
        (timed(quality=Quality.UNSTABLE), "its quality is UNSTABLE"),
        (timed(quality=Quality.THROTTLED), "its quality is THROTTLED"),
        (timed(flags=["drift"]), "drift: its samples rise or fall with time"),
        (timed(environment={**ENVIRONMENT, "device": {"name": ""}}), "it does not say on which device it ran"),
    ],
)
def test_what_is_not_good_enough_is_refused(
    made: Result, reason: str, location: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, _ = file(location, tmp_path, timed("fp32"), made)
    assert baseline.main(["set", "sweep=day-1", f"uri={location.uri}"]) == 1
    said = capsys.readouterr()
    assert reason in said.err and said.err.startswith("refused: kv_quant q8 ")
    assert list(standing(location)) == [good]


def test_the_skipped_and_the_cache_resident_are_no_obstacle(location: Location, tmp_path: Path) -> None:
    skipped = timed("fp32", status=Status.SKIPPED, quality=Quality.UNMEASURED)
    resident, _ = file(location, tmp_path, timed(quality=Quality.L2_RESIDENT), skipped)
    assert baseline.main(["set", "sweep=day-1", f"uri={location.uri}"]) == 0
    assert list(standing(location)) == [resident]


def test_a_standard_is_never_pruned(location: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, _ = file(location, tmp_path, timed(day=1), timed(day=2))
    assert baseline.main(["set", f"run={old}", f"uri={location.uri}"]) == 0
    assert prune.main(["kernel=kv_quant", "dry_run=false", f"uri={location.uri}"]) == 0
    assert "1 × the standard for its GPU" in capsys.readouterr().out
    assert list(standing(location)) == [old]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to do: known: set, show, unset"),
        (["sett", "run=1"], "did you mean 'set'?"),
        (["set", "kernel=kv_quant"], "set: say which runs: run=<id>, sweep=<id> or commit=<hash>"),
        (["set", "run=1", "name"], "name: write key=value"),
        (["set", "runs=1"], "did you mean 'run'?"),
        (["set", "v\x1b[2J1", "run=1"], "set: a name is printable and has at most 100 characters; this one has 6"),
        (["set", 101 * "v", "run=1"], "at most 100 characters; this one has 101"),
        (["show", "na\x1b[2Jme\n=1"], "error: name : no such key"),
        (["show", "commit=xyz"], "commit=xyz: must be 4 to 40 hexadecimal digits"),
        (["unset"], "unset: say which"),
        (["show", "uri=ftp://x"], "cannot be used"),
    ],
)
def test_a_bad_command_is_refused_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert baseline.main(words) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("error: ") and message in said[0]
    assert said[1].startswith("usage: ")


def test_nothing_meant_and_no_store_are_said(
    location: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"uri={location.uri}"
    for words, message in (
        (["set", f"run={32 * '0'}", uri], "no run in "),
        (["show", uri], "no standard in "),
        (["unset", "kernel=rope", uri], "no standard in "),
        (["show", f"uri=sqlite:///{tmp_path / 'none.db'}"], "there is no store at "),
    ):
        assert baseline.main(words) == 1
        assert message in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()
