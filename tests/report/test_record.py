"""The record of a decoder's runs: which results are in it, and what each cell says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runner.report.record import record
from runner.report.summary import write_report
from runner.result.model import Profile, ProfileStatus, RawReport, Result, Status
from tests.synthetic import result

ENVIRONMENT = {"driver": "580.65", "cuda": "13.0", "nvcc": "13.0.48"}


def run(variant: str, metrics: dict[str, float], **changes: Any) -> Result:
    made = result(variant)
    params = {"B": 4, "prompt": 128, "steps": 31, "weights": "bf16", "kv": "bf16"}
    made.params = {**params, **changes.pop("params", {})}
    made.metrics, made.environment, made.model = metrics, dict(ENVIRONMENT), "qwen2_5_0_5b"
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def cells(results: list[Result]) -> list[list[str]]:
    lines = record(results).splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in [lines[0], *lines[2:]]]


def test_a_line_for_each_run() -> None:
    reports = Profile(ProfileStatus.OK, reports=[RawReport("/data/nsys/request.nsys-rep", 5, "0" * 64)])
    whole = {"ttft_ms": 12.5, "tpot_us_p50": 850.0, "tokens_per_s": 4600.0}
    head, *rows = cells(
        [
            run("request", whole, params={"weights": "w4a16", "kv": "int8"}, profile=reports),
            run("prefill", {"ttft_ms": 12.5}, params={"weights": "fp32", "kv": "fp8"}),
            run("graph", {"tpot_us": 800.0, "tpot_us_p50": 790.0}, environment={"cuda": "13.0"}),
        ]
    )
    assert head == [
        "GPU", "driver", "CUDA", "model", "variant", "dtype", "quantisation", "report", "batch", "ISL", "OSL", "TTFT",
        "TPOT", "tokens/s",
    ]  # fmt: skip
    assert rows == [
        ["h200", "580.65", "13.0.48", "qwen2_5_0_5b", "request", "bf16", "w4a16, kv int8", "request.nsys-rep",
         "4", "128", "32", "12.5 ms", "850 µs", "4600"],
        ["h200", "580.65", "13.0.48", "qwen2_5_0_5b", "prefill", "fp32", "kv fp8", "–", "4", "128", "1", "12.5 ms",
         "–", "–"],
        ["h200", "–", "13.0", "qwen2_5_0_5b", "graph", "bf16", "–", "–", "4", "128", "32", "–", "800 µs", "–"],
    ]  # fmt: skip


def test_what_failed_or_is_no_decoder_is_not_in_it() -> None:
    failed = run("graph", {"tpot_us": 800.0}, status=Status.INCORRECT)
    other = run("decode", {"tpot_us": 800.0})
    del other.params["weights"]
    assert record([failed, other, run("graph", {"time_us": 3.0}), result("q8")]) == ""


def test_it_is_a_file_of_the_report(tmp_path: Path) -> None:
    names = [path.name for path in write_report([run("prefill", {"ttft_ms": 1.0})], tmp_path)]
    assert names == ["table.md", "table.csv", "record.md"]
    assert "| TTFT |" in (tmp_path / "record.md").read_text()
    assert "record.md" not in [path.name for path in write_report([result("q8")], tmp_path / "other")]
