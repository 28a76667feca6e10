"""``python -m runner.repeat``: the same config once more, with what is said, asked and refused before."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner import repeat
from runner.execute import repeating
from runner.execute.repeating import Repeat, prepare
from runner.record import originals, reading
from runner.record.location import locate
from runner.record.selection import Selection
from runner.result import document
from runner.result.model import Result
from tests.config.test_stored import composed, whole
from tests.execute.test_sweep import run
from tests.synthetic import result

OPTIONS = ("kernel=faulty", "gpu=host", "measure=quick", "measure.host.max_time_s=0.2", "timeout_s=20")


@pytest.fixture
def made(tmp_path: Path, new_store: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a command that was run and filed; the working folder is above it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNNER_LOCKS", str(tmp_path / "locks"))
    done = run(tmp_path, *OPTIONS, f"tracking.uri={new_store}", "kernel.params.fault=10", "seed=3")
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (tmp_path / "outputs").rglob("result.json")
    return path.parent


def answers(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody at a terminal who types this; None = nobody."""
    stream = io.StringIO(text or "")
    monkeypatch.setattr(stream, "isatty", lambda: text is not None)
    monkeypatch.setattr("sys.stdin", stream)


def test_a_run_is_repeated_filed_and_compared(
    made: Path, new_store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = document.read(made / "result.json")
    (filed,) = [r for batch in reading.runs(locate(new_store), Selection(("faulty",))) for r in batch]
    answers(None, monkeypatch)
    code = repeat.main([filed.run_id, f"uri={new_store}", "yes=true"])
    said = capsys.readouterr().out
    assert code in (0, 3, 4), said  # how fast a busy CPU is, nobody knows
    lines = said.splitlines()
    assert lines[0].startswith(f"faulty {first.variant} of run {filed.run_id} ({first.started[:10]} ")
    assert "faulty.cu" in lines[1] and lines[1].startswith("  source: ")
    assert any(line.startswith(f"baseline  run {filed.run_id}") for line in lines)
    assert "1 experiment: 1 " in said

    runs = [r for batch in reading.runs(locate(new_store), Selection(("faulty",))) for r in batch]
    assert len(runs) == 2 and len({r.tags["sweep_id"] for r in runs}) == 2
    again = originals.find(runs[1].run_id, locate(new_store)).result
    assert again.config == {**first.config, "variants": [first.variant]} and again.params == first.params
    assert again.environment["fingerprint"] == first.environment["fingerprint"]
    (summary,) = (
        p for p in (tmp_path / "outputs").rglob("sweep.json") if made not in p.parents and p.parent != made.parent
    )
    assert json.loads(summary.read_text())["command"].startswith(f"python -m runner.repeat {filed.run_id} uri=")


def test_it_asks_where_the_checkout_does_not_vouch_for_it(
    made: Path, new_store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [str(made), f"uri={new_store}"]
    ran: list[str] = []

    def ending(repeats: Sequence[Repeat], line: str) -> tuple[int, list[Result]]:
        ran.append(line)
        return 0, []

    monkeypatch.setattr(repeating, "run", ending)
    answers(None, monkeypatch)
    assert repeat.main(words) == 2
    said = capsys.readouterr()
    assert "note: it uses options and sources in " in said.out
    assert said.err == "error: there is no terminal to ask on: look at the lines above, and add yes=true\n"
    for text in ("", "n\n", "what\n"):
        answers(text, monkeypatch)
        assert repeat.main(words) == 2
        assert capsys.readouterr().out.endswith("execute it? [y/N] nothing was run\n")
    assert not ran
    answers("y\n", monkeypatch)
    assert repeat.main(words) == 0 and len(ran) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"environment": {"git_commit": 40 * "0"}}, "it was not made by the code of this checkout"),
        ({"config": {"environment": {"LD_PRELOAD": "x.so"}}}, "it sets variables of the environment"),
        ({"config": {"kernel": {"source": "/tmp/other.cu"}}}, "is described otherwise than here (source)"),
        ({"repeat": "python -m runner --config-dir /tmp/mine kernel=kv_quant"}, "options and sources in /tmp/mine"),
    ],
)
def test_the_reasons_to_ask(change: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"git_commit": 40 * "a", "git_dirty": False}
    monkeypatch.setattr(repeating, "collect", lambda project: dict(here))
    config = whole(composed("kernel=kv_quant"))
    kernel = {**config["kernel"], **change.get("config", {}).get("kernel", {})}
    config = {**config, **change.get("config", {}), "kernel": kernel}
    old = result(environment={**here, **change.get("environment", {})}, repeat=change.get("repeat", "python -m runner"))
    (one,) = prepare([originals.Original(old, config, "a test")], "")
    found = repeating.reasons(one)
    assert (len(found) == 1 and reason in found[0]) if reason else found == []
    assert one.point.config.variants == ["q8"]


def test_a_program_is_shown_and_always_asked_for() -> None:
    config = whole(composed("kernel=command", "command.argv=[prog,--flag,'a b']", "command.environment.A=1"))
    old = result("prog", kernel="command", repeat="python -m runner")
    (one,) = prepare([originals.Original(old, config, "a test")], "")
    assert "program: prog --flag 'a b'" in repeating.shown(one)
    assert "command.environment: A=1" in repeating.shown(one)
    assert "it runs a program, which no checkout vouches for" in repeating.reasons(one)
    assert one.point.config.variants is None


def test_a_result_cannot_hide_what_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = whole(composed("kernel=command", "command.shell=placeholder"))
    config["command"]["shell"] = "rm -rf x\x1b[2K\rls\necho"
    document.write(result("sh", kernel="command", config=config, repeat="python -m runner"), tmp_path)
    answers("n\n", monkeypatch)
    assert repeat.main([str(tmp_path / "result.json")]) == 2
    assert "  program: rm -rf xls\\necho\n" in capsys.readouterr().out


def test_variants_of_one_experiment_are_run_together_and_others_in_folders_of_their_own() -> None:
    config = whole(composed("kernel=kv_quant", "resume=true", "study.gate.max_slowdown=3%"))
    some = [result("fp32", experiment_id="a"), result("q8", experiment_id="a"), result("q8", experiment_id="b")]
    found = prepare([originals.Original(one, config, "a test") for one in some], "sqlite:///x.db")
    assert [one.point.config.variants for one in found] == [["fp32", "q8"], ["q8"]]
    assert [one.point.folder.name for one in found] == ["0", "1"]
    assert len({one.point.sweep_id for one in found}) == 1
    first = found[0].point.config
    assert (first.resume, first.study.gate.max_slowdown, first.tracking.uri) == (False, None, "sqlite:///x.db")
    assert "variants=[fp32,q8]" in found[0].point.overrides


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "name one result, not 0"),
        (["a", "b"], 2, "name one result, not 2"),
        (["a", "yess=true"], 2, "yess: no such key; did you mean 'yes'?"),
        (["a", "yes=maybe"], 2, "yes=maybe: must be true or false"),
        (["a", "yes="], 2, "yes=: a value is missing"),
        (["nowhere"], 2, "nowhere: give the id of a run"),
        ([32 * "0"], 2, "has no such run"),
        (["broken.json"], 2, "cannot read broken.json"),
        (["empty.json"], 2, "the result keeps no config"),
    ],
)
def test_what_cannot_be_repeated_is_one_line(
    words: list[str], code: int, message: str, new_store: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text("{", encoding="utf-8")
    document.write(result(config={}), tmp_path)
    (tmp_path / "result.json").rename("empty.json")
    assert repeat.main([*words, f"uri={new_store}"]) == code
    line, *usage = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and message in line
    assert all(one.startswith("usage: ") for one in usage)


def test_the_command_says_what_it_does(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runner.repeat", "--help"], capture_output=True, text=True, cwd=repository
    )
    assert done.returncode == 0 and "yes=true" in done.stdout
