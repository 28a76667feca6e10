"""``python -m runner.compare``: sides, verdict, exit code, files and the run in MLflow; and what is refused."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner import compare, remeasure
from runner.record import originals
from runner.record.location import locate
from runner.record.mlflow_store import MlflowStore
from runner.record.originals import Original
from runner.record.selection import Selection
from runner.result.document import write
from runner.result.model import Result, Series, Status
from tests.synthetic import ENVIRONMENT, result

Spool = Callable[..., str]


def timed(variant: str, context: int, factor: float, **changes: Any) -> Result:
    one = result(variant, context, environment={**ENVIRONMENT, "device": {"name": "NVIDIA H200"}})
    middle = 100 * one.metrics["time_us"] * factor  # of a few microseconds, 5 % are less than the noise floor
    one.metrics |= {"time_us": middle, "time_us_low": middle * 0.9995, "time_us_high": middle * 1.0005}
    return dataclasses.replace(one, **changes)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """Writes the results of one command of two variants and two contexts; its folder."""

    def write_side(name: str, factor: float = 1.0, **changes: Any) -> str:
        for variant in ("fp32", "q8"):
            for context in (4096, 8192):
                slower = factor if (variant, context) == ("q8", 8192) else 1.0
                one = timed(variant, context, slower, id=f"{name}-{context}-{variant}", **changes)
                write(one, tmp_path / name / f"{context}" / variant)
        return str(tmp_path / name)

    return write_side


def run(*words: str) -> int:
    return compare.main([*words, "file=false"])


def test_the_exit_code_says_it(spool: Spool, capsys: pytest.CaptureFixture[str]) -> None:
    then = spool("then")
    assert run(f"baseline={then}", f"candidate={spool('same')}") == 0
    assert "4 experiments: 4 SAME" in capsys.readouterr().out
    assert run(f"baseline={then}", f"candidate={spool('slower', 1.05)}") == 3
    said = capsys.readouterr().out
    assert "4 experiments: 1 SLOWER, 3 SAME" in said and "+5.00%" in said
    assert run(f"baseline={then}", f"candidate={spool('faster', 0.9)}") == 0
    assert run(f"baseline={then}", f"candidate={spool('drifting', flags=['drift'])}") == 4
    assert run(f"baseline={then}", f"candidate={spool('slow drift', 1.05)}", "tolerance=10%") == 0
    assert run(f"baseline={then}", f"candidate={spool('wrong', status=Status.INCORRECT)}") == 5


def test_a_word_that_is_no_text_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["baseline=\udcff", "candidate=x"]) == 2
    assert "error: baseline=?: not text in UTF-8, from character 10 on" in capsys.readouterr().err


def test_host_with_gpu_is_refused(spool: Spool, capsys: pytest.CaptureFixture[str]) -> None:
    host = spool("host", backend="host", samples=[Series("host", "host_clock", [1.0])])
    assert run(f"baseline={host}", f"candidate={spool('now')}") == 5
    assert "backends: host and cuda" in capsys.readouterr().out


def test_another_gpu_is_refused_unless_told(spool: Spool, capsys: pytest.CaptureFixture[str]) -> None:
    other = spool("other", environment={**ENVIRONMENT, "device": {"name": "NVIDIA H100"}})
    then = spool("then")
    assert run(f"baseline={other}", f"candidate={then}") == 5
    assert "across=gpu compares them all the same" in capsys.readouterr().out
    assert run(f"baseline={other}", f"candidate={then}", "across=gpu") == 0
    assert "across GPUs: different devices are compared" in capsys.readouterr().out


def test_a_regression_that_outweighs_what_is_incomparable(spool: Spool, tmp_path: Path) -> None:
    then, now = spool("then"), spool("now", 1.05)
    write(timed("fp32", 4096, 1.0, status=Status.TIMEOUT), tmp_path / "now" / "4096" / "fp32")
    assert run(f"baseline={then}", f"candidate={now}") == 3


def test_words_narrow_both_sides_and_files_are_written(
    spool: Spool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [f"baseline={spool('then')}", f"candidate={spool('now', 1.05)}"]
    markdown, out = tmp_path / "pr" / "table.md", tmp_path / "out"
    assert run(*sides, "variant=q8", f"markdown={markdown}", f"out={out}") == 3
    assert "2 experiments: 1 SLOWER, 1 SAME" in capsys.readouterr().out
    assert markdown.read_text(encoding="utf-8").startswith("### 2 experiments: 1 SLOWER, 1 SAME\n")
    document = json.loads((out / "comparison.json").read_text(encoding="utf-8"))
    assert document["counts"]["SLOWER"] == 1 and (out / "comparison.png").is_file()


def test_the_comparison_is_filed(spool: Spool, new_store: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"baseline={spool('then')}", f"candidate={spool('now', 1.05)}", f"uri={new_store}"]
    assert compare.main(words) == 3
    assert "MLflow: http://127.0.0.1:5000/#/experiments/" in capsys.readouterr().out
    store = MlflowStore(locate(new_store))
    store.open()
    ((filed,),) = store.search(Selection(("comparisons",)))
    assert filed.tags["kind"] == "comparison" and filed.status == "FINISHED"
    assert filed.params["baseline"] == words[0].removeprefix("baseline=")
    assert (filed.metrics["count_slower"], filed.metrics["count_same"]) == (1.0, 3.0)
    assert filed.metrics["effect_worst"] == pytest.approx(0.05)
    folder = Path(filed.artifacts)
    assert {path.name for path in folder.iterdir()} == {"table.md", "comparison.json", "comparison.png"}


def test_a_tracker_that_is_gone_costs_a_warning(spool: Spool, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"baseline={spool('then')}", f"candidate={spool('now', 1.05)}", "uri=http://127.0.0.1:9"]
    assert compare.main(words) == 3
    said = capsys.readouterr()
    assert "1 SLOWER" in said.out and said.err.startswith("warning: the comparison is not filed: ")
    assert len(said.err.splitlines()) == 1


def test_only_what_is_ambiguous_is_measured_again(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    then, now = spool("then"), spool("now")
    write(timed("q8", 8192, 1.0, flags=["drift"], id="a" * 32), tmp_path / "now" / "8192" / "q8")
    asked: list[str] = []

    def found(word: str, _: object) -> Original:
        asked.append(word)
        return Original(timed("q8", 8192, 1.0), {}, word)

    def ran(found: list[Original], uri: str, yes: bool, line: str) -> tuple[int, list[Result]]:
        assert yes and len(found) == 1 and "remeasure=true" in line
        return 0, [timed("q8", 8192, 1.05, started="2026-04-01T00:00:00.000+00:00")]

    monkeypatch.setattr(originals, "find", found)
    monkeypatch.setattr(remeasure, "rerun", ran)
    sides = [f"baseline={then}", f"candidate={now}", "remeasure=true"]
    assert run(*sides, "yes=true") == 3
    said = capsys.readouterr().out
    assert asked == ["a" * 32] and "now and 1 measured again" in said
    assert said.index("1 AMBIGUOUS, 3 SAME") < said.index("1 SLOWER, 3 SAME")
    monkeypatch.setattr(remeasure, "rerun", lambda *_: (2, []))
    assert run(*sides) == 2
    assert "were not measured again; yes=true does so without asking" in capsys.readouterr().err
    monkeypatch.setattr(remeasure, "rerun", lambda *_: (130, [timed("q8", 8192, 1.05)]))
    assert run(*sides) == 130
    assert "interrupted; the comparison above is complete" in capsys.readouterr().err


def test_nothing_is_measured_again_where_all_is_clear(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remeasure, "rerun", lambda *_: pytest.fail("nothing is ambiguous"))
    assert run(f"baseline={spool('then')}", f"candidate={spool('now', 1.05)}", "remeasure=true") == 3


def test_nothing_is_measured_again_for_a_baseline_that_cannot_be_believed(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(remeasure, "rerun", lambda *_: pytest.fail("it would not help"))
    assert run(f"baseline={spool('then', flags=['drift'])}", f"candidate={spool('now')}", "remeasure=true") == 4
    assert "it is the baseline that cannot be believed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["candidate={now}"], "baseline= is missing: run:<id>, sweep:<id>"),
        (["baseline={now}"], "candidate= is missing"),
        (["baseline={now}", "candidate=nonsense"], "candidate=nonsense: neither a file nor a commit"),
        (["baseline={now}", "candidate=last-green"], "only a baseline can be the last green one"),
        (["baseline={now}", "candidate={now}", "kernel=sync"], "candidate={now}: no such run (with what else"),
        (["baseline={now}", "candidate={now}", "tolerance=2"], "tolerance=2: must be above 0 and below 1"),
        (["baseline={now}", "candidate={now}"], "are the same runs: there is nothing to compare"),
        (["baseline={now}", "candidate={now}", "across=host"], "across=host: must be gpu"),
        (["baseline={now}", "candidate={now}", "fiel=no"], "fiel: no such key; did you mean 'file'?"),
        (["baseline={now}", "candidate={now}", "uri=ftp://x"], "cannot be used; allowed: sqlite:///<file>"),
        (
            ["baseline={now}", "candidate={other}"],
            "no experiment in common; of the two that are most alike T is",
        ),
    ],
)
def test_what_cannot_be_is_one_line(
    spool: Spool, tmp_path: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"now": spool("now"), "other": str(tmp_path / "other")}
    write(timed("q8", 16384, 1.0), tmp_path / "other")
    given = [word.format(**names) for word in words]
    assert run(*given) == 2
    said = capsys.readouterr()
    assert told.format(**names) in said.err and said.out == ""
    assert len(said.err.removesuffix(compare.USAGE + "\n").splitlines()) == 1


def test_nothing_heavy_is_loaded_for_the_answer(spool: Spool, repository: Path) -> None:
    words = [f"baseline={spool('then')}", f"candidate={spool('now')}", "file=false"]
    code = f"import sys; from runner.compare import main; code = main({words!r}); "
    code += "assert not {'mlflow', 'matplotlib', 'scipy.stats', 'pyarrow'} & set(sys.modules); sys.exit(code)"
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
