"""``python -m runner.export``: which runs, in which form, and what is said where there are none."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from runner import export
from runner.record.location import locate
from runner.record.mlflow_store import MlflowStore
from tests.record.conftest import spooled
from tests.synthetic import ENVIRONMENT, result


@pytest.fixture
def uri(new_store: str, tmp_path: Path) -> str:
    """A store of six runs: three commits, each with q8 and fp32; and a run that somebody else has filed."""
    store = MlflowStore(locate(new_store))
    store.open()
    made = [
        result(
            variant,
            index=2 * number + second,
            environment={**ENVIRONMENT, "git_commit": 10 * f"{number}abc"},
            started=f"2026-03-0{1 + number}T12:00:0{second}.000+00:00",
        )
        for number in range(3)
        for second, variant in enumerate(("fp32", "q8"))
    ]
    for one, folder in zip(made, spooled(tmp_path / "spool", made), strict=True):
        store.file(one, folder)
    store._client.create_run(store.experiment_id("kv_quant"))
    return f"uri={new_store}"


def test_two_commits_as_parquet(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "it's.parquet"
    assert export.main([uri, f"out={out}", "commit=0abc,2ABC"]) == 0
    assert capsys.readouterr().out == f"{out}: 4 runs\n"
    rows = parquet.read_table(out).to_pylist()
    assert [(row["git_commit"][:4], row["variant"]) for row in rows] == [
        ("0abc", "fp32"), ("0abc", "q8"), ("2abc", "fp32"), ("2abc", "q8"),
    ]  # fmt: skip
    assert [row["baseline"] for row in rows] == [True, False] * 2
    first = rows[0]
    assert (first["params.T"], first["params.context"], first["params.H"]) == (32768.0, 32768.0, 16.0)
    assert first["metrics.time_us"] == result("fp32").metrics["time_us"]
    assert (first["driver"], first["host"], first["gpu"]) == ("580.65.06", "bench-01", "h200")
    assert not list(tmp_path.glob(".*part"))


def test_without_a_file_it_is_csv_on_standard_output(uri: str, repository: Path) -> None:
    command = [sys.executable, "-m", "runner.export", uri, "variant=q8", "after=2026-03-02"]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    code = f"import sys; sys.argv = {command[2:]!r}; from runner.export import main; code = main(); "
    code += "assert 'mlflow' not in sys.modules; sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["started"] for row in rows] == ["2026-03-02 12:00:01.000Z", "2026-03-03 12:00:01.000Z"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["out=a.txt"], 2, "out=a.txt: must end in .parquet or .csv"),
        (["kernl=x"], 2, "did you mean 'kernel'?"),
        (["uri=ftp://x"], 2, "cannot be used; allowed: sqlite:///<file>"),
        (["kernel=sync"], 1, "is meant by that; nothing was written"),
        (
            ["out=/no/such/folder/a.csv"],
            1,
            "error: out=/no/such/folder/a.csv cannot be written: No such file or directory",
        ),
        (["out=a.csv", "uri=sqlite:////no/such.db"], 1, "there is no store at sqlite:////no/such.db"),
    ],
)
def test_what_cannot_be_is_one_line(
    uri: str, words: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = words if any(word.startswith("uri=") for word in words) else [uri, *words]
    assert export.main(given) == code
    said = capsys.readouterr()
    assert told in said.err and said.out == ""
    assert len(said.err.removesuffix(export.USAGE + "\n").splitlines()) == 1


def test_a_full_disk_leaves_the_file_that_was_there(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs.csv"
    out.write_text("earlier")

    def full(self: object, file: io.BufferedWriter, form: str) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("runner.record.columns.Table.write", full)
    assert export.main([uri, f"out={out}"]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert out.read_text() == "earlier" and not list(tmp_path.glob(".*part"))
