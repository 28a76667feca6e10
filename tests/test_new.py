"""``python -m runner.new``: what it writes runs and passes as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runner import new


def test_a_new_family_runs_and_passes_as_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "mine"
    assert new.main(["kernel=row_scale", f"dir={folder}"]) == 0
    assert f"--config-dir {folder} kernel=row_scale" in capsys.readouterr().out
    line = [sys.executable, "-m", "runner", "--config-dir", str(folder), "kernel=row_scale", "shape=smoke", "gpu=host"]
    done = subprocess.run(
        [*line, "kernel.params.N=1003", "measure=quick", "tracking=none"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "row_scale shape B=1 N=1003" in done.stdout
    results = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("outputs/**/result.json"))]
    assert [(r["variant"], r["status"]) for r in results] == [("plain", "PASSED"), ("vector", "PASSED")]


def test_a_new_family_goes_into_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cuda_src").mkdir()
    monkeypatch.setattr(new, "project_dir", lambda: tmp_path)
    written = {str(path.relative_to(tmp_path)) for path in new.write("row_scale")}
    assert written == {"cuda_src/row_scale.cu", "conf/kernel/row_scale.yaml", "runner/references/row_scale.py"}
    text = (tmp_path / "conf" / "kernel" / "row_scale.yaml").read_text()
    assert "NAME" not in text and "REFERENCE" not in text and "reference:" not in text


def test_nothing_that_exists_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert new.main(["kernel=row_scale", f"dir={tmp_path}"]) == 0
    before = (tmp_path / "cuda_src" / "row_scale.cu").read_text()
    assert new.main(["kernel=row_scale", f"dir={tmp_path}"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "cuda_src" / "row_scale.cu").read_text() == before


@pytest.mark.parametrize(
    "words", [[], ["kernel="], ["kernel=Row-Scale"], ["name=row"], ["kernel=../up"], ["kernel=1a"]]
)
def test_a_bad_name_is_refused(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert new.main([*words, f"dir={tmp_path}"]) == 2
    assert "error:" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
