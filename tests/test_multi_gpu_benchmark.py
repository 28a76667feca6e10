"""``benchmarks/multi_gpu.py``: points that fit an H200, and a page that says what was and was not reached."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from runner.config.study import expand
from runner.execute.planning import roots
from runner.plan.memory import memory_bytes
from runner.plan.planner import make_plan
from runner.plan.target import target_of
from tests.benchmark_scripts import load
from tests.test_studies import composer

multi_gpu = load("multi_gpu")


@pytest.mark.parametrize("devices", [3, 8])
def test_every_run_is_planned_and_fits(devices: int) -> None:
    runs = multi_gpu.runs_of(devices)
    ranks = {run.devices for run in runs if run.name.startswith("allreduce")}
    assert ranks == {count for count in (2, 4, 8) if count <= devices}
    for run in runs:
        chosen = f"devices=[{','.join(map(str, range(run.devices)))}]"
        found = expand(composer(), [*run.arguments, chosen, "gpu=h200_sxm", *multi_gpu.COMMON[:-1]], sweep=True)
        for draft in found.points:
            plan, _ = make_plan(draft.config, target_of(draft.config.gpu), roots(()))
            assert plan.variants and len(plan.devices) == run.devices
            assert all(memory_bytes(plan, place) < 40 << 30 for place in range(run.devices))


def result(
    variant: str, size: int, metrics: Mapping[str, float] = MappingProxyType({}), status: str = "PASSED"
) -> dict[str, Any]:
    environment = {"device": {"name": "NVIDIA H200"}, "devices": [{}, {}], "driver": "580", "cuda": "13.0"}
    return {
        "variant": variant,
        "status": status,
        "message": "said so" if status != "PASSED" else "",
        "params": {"N": size // 4, "MB": 1},
        "metrics": {"ranks": 2.0, "time_us_rsd": 0.01, **metrics},
        "environment": {**environment, "git_commit": "abc", "topology": "GPU0 GPU1"},
        "started": "2026-01-02T03:04:05Z",
    }


def copies(one: float, both: float) -> list[dict[str, Any]]:
    size = multi_gpu.TARGET_BYTES
    pair = {"gbps_0_1": one, "gbps_1_0": one - 1, "nvlinks": 18.0}
    return [result("copy", size, {"gbps_link": one, **pair}), result("copy_both", size, {"gbps_link": both, **pair})]


def sums(own: float, nccl: float) -> list[dict[str, Any]]:
    names = {"one_shot_push_graph": own, "nccl_graph": nccl, "two_shot_graph": 2 * own}
    figures = {"payload_bytes": 32768.0, "algbw_gbps": 1.0, "busbw_gbps": 1.0}
    return [result(name, 32768, {"call_us": time, **figures}) for name, time in names.items()]


def test_what_is_held_against_the_targets() -> None:
    large = multi_gpu.Run("p2p-large", 2, ())
    small = multi_gpu.Run("allreduce-2-small", 2, ())
    assert list(multi_gpu.judge(large, copies(390, 760))) == []
    slow = list(multi_gpu.judge(large, copies(370, 500)))
    assert slow == [
        "p2p-large: a copy of 256 MiB runs at 370 GB/s, below 375",
        "p2p-large: both ways at 500 GB/s are less than 1.8 times one way at 370",
    ]
    assert list(multi_gpu.judge(small, sums(3.0, 7.3))) == []
    assert list(multi_gpu.judge(small, sums(8.0, 7.3))) == [
        "allreduce-2-small: 32 KiB in a graph take 8.00 µs, NCCL takes 7.30"
    ]
    failed = [result("one_shot", 32768, status="INCORRECT"), result("nccl", 32768, status="SKIPPED")]
    assert list(multi_gpu.judge(small, failed)) == ["allreduce-2-small one_shot N=8192: INCORRECT: said so"]
    assert list(multi_gpu.judge(small, [])) == ["allreduce-2-small: no results"]


def test_the_page_has_the_tables(tmp_path: Path) -> None:
    runs = [run for run in multi_gpu.runs_of(2) if run.name in ("p2p-large", "allreduce-2-small")]
    found = {
        "p2p-large": copies(390, 760),
        "allreduce-2-small": [*sums(3.0, 7.3), result("nccl", 32768, status="SKIPPED")],
    }
    multi_gpu.write(tmp_path, runs, found, [], 2)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| 256 MiB | 389.0 to 390.0 | 389.0 to 390.0 | – | – |" in page
    assert "| **0** | – | 390 |" in page and "| **1** | 389 | – |" in page
    assert "| one_shot_push_graph | 3.00 µs<br>1.0 |" in page
    assert "* not measured: nccl: said so" in page
    assert "Met: 375 GB/s or more one way at 256 MiB, 1.8 times that or more both ways, a kernel faster than" in page
    rows = list(csv.DictReader((tmp_path / "p2p.csv").open(encoding="utf-8")))
    assert [(row["source"], row["target"], row["gbps"]) for row in rows[:2]] == [("0", "1", "390"), ("1", "0", "389")]
    assert (tmp_path / "p2p.png").stat().st_size > 10_000 and (tmp_path / "allreduce.png").is_file()


def test_it_needs_two_gpus(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(multi_gpu, "gpus", lambda: 1)
    monkeypatch.setattr("sys.argv", ["multi_gpu.py"])
    assert multi_gpu.main() == 2
    assert capsys.readouterr().out == "multi_gpu.py needs two GPUs; there is one here\n"


def test_what_cannot_be_run_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "README.md").write_text("measured before")
    (tmp_path / "taken").write_text("")

    def told(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["multi_gpu.py", "--devices", "2", *words])
        assert multi_gpu.main() == 2
        return str(capsys.readouterr().out)

    assert told("--only", "allreduce-8-small") == "--only: allreduce-8-small: needs more than the 2 devices there are\n"
    assert told("--out", f"{tmp_path}/taken").startswith(f"--out={tmp_path}/taken: cannot be written: ")
    refused = told("--out", str(tmp_path), "--gpu", "hots", "--only", "decode")
    assert refused.startswith("decode: error: gpu=hots: no such option; did you mean 'host'?")
    assert (tmp_path / "README.md").read_text() == "measured before"
    monkeypatch.setattr("sys.argv", ["multi_gpu.py", "--devices", "-3"])
    with pytest.raises(SystemExit, match="2"):
        multi_gpu.main()
    assert "--devices -3: must be at least 2, or 0 for all there are" in capsys.readouterr().err


def test_a_run_that_was_cut_short_is_run_again(tmp_path: Path) -> None:
    assert not multi_gpu.ended(tmp_path)
    for text, kept in (
        ('{"status": "RUNNING"}', False),
        ('{"status": "KILLED"}', False),
        ('{"status": "FINISHED"}', True),
    ):
        (tmp_path / "sweep.json").write_text(text)
        assert multi_gpu.ended(tmp_path) is kept
