"""Commands that go on where earlier ones ended, on the host backend."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.config.check import check
from runner.config.errors import ConfigError
from runner.execute import fingerprint, resume
from runner.execute.planning import Experiment
from runner.result import document
from runner.result.document import write
from runner.result.model import Result, Status
from tests.execute.test_sweep import results, run
from tests.kernels.plans import config, plan
from tests.synthetic import result

FAULTS = "kernel.params.fault=0,3,10"
SETTINGS = ("kernel=faulty", "gpu=host", "measure=quick", "measure.host.max_time_s=0.1", "timeout_s=4")
NONE = (*SETTINGS, "tracking=none")
PASSED, INCORRECT = "PASSED", "INCORRECT"


def faults(folder: Path) -> Counter[tuple[int, str]]:
    """How often each fault ended how."""
    found = ((r["config"]["kernel"]["params"]["fault"], r["status"]) for r in results(folder))
    return Counter(found)


def test_what_passed_is_left_out_and_the_rest_runs(tmp_path: Path) -> None:
    assert run(tmp_path, *NONE, FAULTS, "-m").returncode == 1
    before = {(0, PASSED): 1, (3, INCORRECT): 1, (10, PASSED): 1}
    assert faults(tmp_path) == before

    done = run(tmp_path, *NONE, "kernel.params.fault=0,3,10,11", "-m", "resume=true")
    assert "2 results are there already, 2 are left to run" in done.stdout
    assert done.returncode == 1
    assert faults(tmp_path) == {**before, (3, INCORRECT): 2, (11, PASSED): 1}
    newest = results(tmp_path)[-1]
    assert "resume" not in newest["repeat"] and not any("resume" in line for line in newest["overrides"])

    done = run(tmp_path, *NONE, "kernel.params.fault=0,3,10,11,12", "-m", "retry=failed")
    assert "3 results are there already, 1 are left to run" in done.stdout
    assert faults(tmp_path) == {**before, (3, INCORRECT): 3, (11, PASSED): 1}

    done = run(tmp_path, *NONE, "kernel.params.fault=0,10", "-m", "resume=true")
    assert (done.returncode, done.stdout) == (0, "2 results are there already, 0 are left to run\n")
    assert sum(faults(tmp_path).values()) == 6


def test_the_store_knows_what_is_no_longer_on_disk_and_the_disk_what_the_store_never_got(
    tmp_path: Path, new_store: str
) -> None:
    store = f"tracking.uri={new_store}"
    assert run(tmp_path, *SETTINGS, store, "kernel.params.fault=0,10", "-m").returncode == 0
    shutil.rmtree(tmp_path / "multirun")
    assert run(tmp_path, *NONE, "kernel.params.fault=11").returncode == 0
    done = run(tmp_path, *SETTINGS, store, "kernel.params.fault=0,10,11,12", "-m", "resume=true")
    assert "3 results are there already, 1 are left to run" in done.stdout
    assert faults(tmp_path) == {(11, PASSED): 1, (12, PASSED): 1}

    dead = "tracking.uri=http://127.0.0.1:9"
    done = run(tmp_path, *SETTINGS, dead, "kernel.params.fault=0,11,12", "-m", "resume=true")
    assert "2 results are there already, 1 are left to run; without those of the store: " in done.stdout
    assert "127.0.0.1:9" in done.stdout


@pytest.mark.parametrize(
    "changed",
    [("seed=1",), ("measure.warmup=7",), ("measure.trials=2",), ("environment.SOME=thing",), ("kernel.params.N=1024",)],
)
def test_anything_that_a_result_depends_on_is_run_again(tmp_path: Path, changed: tuple[str, ...]) -> None:
    assert run(tmp_path, *NONE, "kernel.params.fault=0").returncode == 0
    done = run(tmp_path, *NONE, "kernel.params.fault=0", "resume=true", *changed)
    assert "0 results are there already, 1 are left to run" in done.stdout
    done = run(tmp_path, *NONE, "kernel.params.fault=0", "resume=true", "timeout_s=5")
    assert "1 results are there already, 0 are left to run" in done.stdout


def test_variants_count_one_by_one_and_speed_ups_refer_to_the_earlier_baseline(tmp_path: Path) -> None:
    line = (
        "kernel=quant_decode",
        "kernel.params.N=8",
        "kernel.params.K=64",
        "gpu=host",
        "measure=quick",
        "tracking=none",
    )
    assert run(tmp_path, *line, "variants=[fp32,q8]").returncode == 0
    done = run(tmp_path, *line, "resume=true")
    assert "2 results are there already, 1 are left to run" in done.stdout
    by_variant: dict[str, dict[str, Any]] = {result["variant"]: result for result in results(tmp_path)}
    assert sorted(by_variant) == ["fp32", "q4", "q8"]
    fp32, q4 = (by_variant[name]["metrics"] for name in ("fp32", "q4"))
    assert q4["speedup"] == pytest.approx(fp32["time_us"] / q4["time_us"])


@pytest.mark.parametrize(
    ("keys", "kept", "before"),
    [({"resume": True}, ["q4"], ["fp32 2", "q8 1"]), ({"retry": "failed"}, ["q8"], ["fp32 2"])],
)
def test_the_newest_that_passed_stands_for_what_is_left_out(
    keys: dict[str, Any], kept: list[str], before: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fp32 passed twice, q8 passed and failed since, q4 never ran."""
    made = config("quant_decode")
    for key, value in keys.items():
        setattr(made, key, value)
    point: Any = SimpleNamespace(config=made)
    experiment = Experiment(point, plan=plan("quant_decode"))
    passed, failed = Status.PASSED, Status.INCORRECT
    known: dict[str, list[tuple[str, Status]]] = {"fp32": [("fp32 2", passed), ("fp32 1", passed)], "q4": []}
    known["q8"] = [("q8 2", failed), ("q8 1", passed)]
    earlier = SimpleNamespace(
        problem="", of=lambda kernel, name: [Result(one, kernel, name, status) for one, status in known[name]]
    )
    monkeypatch.setattr(resume, "_Earlier", lambda *given: earlier)
    monkeypatch.setattr(fingerprint, "of", lambda experiment: {name: name for name in known})
    left = resume.left([experiment], tmp_path)
    assert left.experiments == [experiment] and experiment.plan is not None
    assert [variant.name for variant in experiment.plan.variants] == kept
    assert [result.id for result in experiment.before] == before
    assert (left.there, left.to_run) == (2, 1)


def test_only_what_is_asked_for_is_built_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(6):
        place = tmp_path / "multirun" / "s" / str(number)
        write(result(index=number, environment={"fingerprint": f"print{number % 3}"}), place)
    write(result(index=6, environment={}, message='"fingerprint": "print1"'), tmp_path / "outputs" / "6")
    (tmp_path / "outputs" / "7").mkdir()
    (tmp_path / "outputs" / "7" / "result.json").write_bytes(b"\xff\xfe")
    built: list[Path] = []
    real = document.read

    def read(path: Path) -> Result:
        built.append(path)
        return real(path)

    monkeypatch.setattr(document, "read", read)
    made = config("quant_decode")
    made.tracking.enabled = False
    earlier = resume._Earlier(made, tmp_path / "none", True, {"kv_quant": ["print1", ""], "sync": []})
    assert sorted(one.id[-1] for one in earlier.of("kv_quant", "print1")) == ["1", "4"]
    assert {key: len(kept) for key, kept in earlier._on_disk.items()} == {"print1": 2}
    assert sorted(path.parent.name for path in built) == ["1", "4"]


def test_half_a_result_stands_for_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, *NONE, "kernel.params.fault=0").returncode == 0
    (path,) = (tmp_path / "outputs").rglob("result.json")
    path.write_text(json.dumps(json.loads(path.read_text()))[:500])
    assert (
        "0 results are there already, 1 are left" in run(tmp_path, *NONE, "kernel.params.fault=0", "resume=true").stdout
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [({"retry": "foiled"}, "retry"), ({"resume": True, "retry": "failed"}, "exclude each other")],
)
def test_what_makes_no_sense_is_refused(values: dict[str, Any], message: str) -> None:
    made = config("quant_decode")
    for key, value in values.items():
        setattr(made, key, value)
    with pytest.raises(ConfigError, match=message):
        check(made)
