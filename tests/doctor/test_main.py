"""The command: exit codes, the table, JSON, and one run for real."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from runner.doctor import __main__ as doctor
from runner.doctor.model import Answer, Probe, State, broken, missing, ok


def answered(**answers: Answer) -> list[tuple[Probe, Answer]]:
    """Probes by name; those called ``needed…`` are needed."""
    return [
        (Probe(name, f"for {name}", lambda: ok(""), needed=name.startswith("needed")), answer)
        for name, answer in answers.items()
    ]


def test_only_what_is_needed_decides() -> None:
    assert doctor.can_run(answered(needed=ok("1"), other=missing("no", "get it")))
    assert not doctor.can_run(answered(needed=broken("no", "mend it"), other=ok("1")))


def test_the_table_says_what_how_and_the_mend() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80)
    doctor.show(answered(needed=ok("[1.2] /usr"), other=missing("not here", "pip install '.[cuda]'")), console)
    text = out.getvalue()
    assert "ok" in text and "[1.2] /usr" in text  # not taken for markup
    assert "→ pip install '.[cuda]'" in text
    assert "for other" in text
    assert text.rstrip().endswith("experiments can run here, on the CPU")
    assert max(map(len, text.splitlines())) <= 80


def test_the_verdict_says_whether_a_gpu_can_be_used() -> None:
    out = io.StringIO()
    on_gpu = [(Probe(name, "", lambda: ok("")), ok("")) for name in doctor._FOR_GPU]
    doctor.show(on_gpu, Console(file=out, width=80))
    assert out.getvalue().rstrip().endswith("experiments can run here, on the GPU and on the CPU")


def test_the_verdict_names_what_is_lacking() -> None:
    out = io.StringIO()
    doctor.show(answered(needed=missing("no", "x"), needed2=ok("1")), Console(file=out, width=80))
    assert "experiments cannot run here: needed" in out.getvalue()


@pytest.mark.parametrize(("state", "code"), [(State.OK, 0), (State.MISSING, 1), (State.BROKEN, 1)])
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: State, code: int
) -> None:
    made = [Probe("compiler", "all", lambda: Answer(state, "found", "mend"), needed=True)]
    monkeypatch.setattr(doctor, "probes", lambda uri: made)
    assert doctor.main(["--json"]) == code
    assert json.loads(capsys.readouterr().out) == {
        "can_run": code == 0,
        "probes": [
            {
                "name": "compiler",
                "state": state.value,
                "found": "found",
                "purpose": "all",
                "mend": "mend",
                "needed": True,
            }
        ],
    }


def test_what_it_does_not_know_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["uri=http://ada:s3cret@host"]) == 2
    said = capsys.readouterr().err
    assert "unknown argument uri" in said and "tracking.uri=" in said
    assert "s3cret" not in said


def test_the_store_is_asked_last_and_by_its_uri() -> None:
    assert [probe.name for probe in doctor.probes("")][-1] == "MLflow store"
    names = [probe.name for probe in doctor.probes("")]
    assert len(set(names)) == len(names)
    assert {probe.name for probe in doctor.probes("") if probe.needed} == {
        "C++ compiler",
        "compile cache",
        "output folders",
        "MLflow store",
    }


def test_this_machine_is_told_in_full(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runner.doctor", "--json", f"tracking.uri=sqlite:///{tmp_path}/store.db"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    told = json.loads(done.stdout)
    assert done.returncode == (0 if told["can_run"] else 1), done.stderr
    states = {probe["name"]: probe["state"] for probe in told["probes"]}
    assert states["C++ compiler"] == states["output folders"] == states["MLflow store"] == "ok"
    assert all(probe["mend"] for probe in told["probes"] if probe["state"] == "missing")
    assert done.stderr == ""
