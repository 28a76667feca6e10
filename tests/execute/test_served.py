"""What is made of the traces that variants served: files beside each, and a plot of all of them."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest

from runner.execute.served import write
from runner.result.document import DocumentError
from runner.result.model import Result, Status
from runner.serving import document
from tests.execute.test_sweep import QUICK, results, run
from tests.serving.modelled import requests, served
from tests.synthetic import result

TRACE = requests((0, 20, 3), (0.01, 300, 2), (1.0, 20, 1))
TABLES = ["served_requests.csv", "served_steps.csv", "served_buckets.csv"]
PLOT, TOGETHER = "kv_quant_llama3_8b_on_h200_over_time.png", "kv_quant_llama3_8b_on_h200_by_policy_over_time.png"
SIZES = {
    **{"L": 1, "h": 24, "H": 4, "KVH": 2, "D": 6, "I": 40, "V": 97, "bias": "true", "tied": "false"},
    **{"weights": "fp32", "kv": "fp32", "B": 3, "page": 4, "max_tokens": 8},
}
TINY = ("kernel=mini_llm_serve", *QUICK, *(f"kernel.params.{letter}={size}" for letter, size in SIZES.items()))


def left(folder: Path, *policies: str) -> list[Result]:
    for policy in policies:
        document.write(served(TRACE, policy)[0], folder / policy / document.FILE_NAME)
    return [result(policy) for policy in policies]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_tables_and_plots_are_artifacts_of_each_variant(tmp_path: Path) -> None:
    made = left(tmp_path, "monolithic", "chunked")
    write(made, tmp_path)
    for one in made:
        assert one.artifacts == ["served.json", *TABLES, PLOT, TOGETHER]
        assert names(tmp_path / one.variant) == sorted(one.artifacts)
        with (tmp_path / one.variant / TABLES[0]).open(newline="") as file:
            assert [row["prompt"] for row in csv.DictReader(file)] == ["20", "300", "20"]
    assert names(tmp_path) == [TOGETHER]


def test_one_variant_has_no_plot_of_all(tmp_path: Path) -> None:
    made = left(tmp_path, "static")
    write(made, tmp_path)
    assert made[0].artifacts == ["served.json", *TABLES, PLOT] and names(tmp_path) == []


def test_what_did_not_pass_or_served_nothing_is_left_alone(tmp_path: Path) -> None:
    failed, other = left(tmp_path, "chunked")[0], result("q8")
    failed.status = Status.INCORRECT
    write([failed, other], tmp_path)
    assert failed.artifacts == other.artifacts == []


def test_a_folder_that_cannot_be_written_is_a_document_error(tmp_path: Path) -> None:
    made = left(tmp_path, "chunked")
    (tmp_path / "chunked" / TABLES[0]).mkdir()
    with pytest.raises(DocumentError, match="cannot be written: Is a directory"):
        write(made, tmp_path)


def tiny(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(folder, *TINY, *arguments, timeout=300)


def test_a_whole_command_leaves_the_trace_beside_each_policy(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,prompt,output\n0,4,3\n0.01,40,2\n0.02,5,4\n0.02,7,1\n0.1,6,3\n")
    done = tiny(tmp_path, "kernel.params.trace=t.csv")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {one["variant"]: one for one in results(tmp_path)}
    assert {name: one["status"] for name, one in found.items()} == {
        **dict.fromkeys(("static", "monolithic", "chunked"), "PASSED"),
        "chunked_shared": "SKIPPED",
    }
    assert found["chunked"]["params"]["prompt_high"] == 40 and found["chunked"]["metrics"]["steps_mixed"] > 0
    (folder,) = (path.parent for path in tmp_path.rglob("chunked/result.json"))
    assert set(found["chunked"]["artifacts"]) >= {"served.json", *TABLES, "report.md"}
    assert all((folder / name).is_file() for name in found["chunked"]["artifacts"])
    served_one = document.read(folder / "served.json")
    assert [one.request.output for one in served_one.requests] == [3, 2, 4, 1, 3]
    assert json.loads((folder / "result.json").read_text())["samples"][0]["stop_reason"] == "fixed"
    assert "TTFT" in done.stdout


def test_a_bad_trace_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,prompt,output\n0,4,3\n-1,4,3\n")
    done = tiny(tmp_path, "kernel.params.trace=t.csv")
    assert done.returncode == 2 and results(tmp_path) == []
    (line,) = done.stderr.strip().splitlines()
    assert line == f"error: {tmp_path}/t.csv, line 3: arrival_s=-1: must be seconds from 0 to 1e+09"
