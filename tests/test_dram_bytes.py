"""``benchmarks/dram_bytes.py``: points that are possible on an H200 and far above its L2, and a table that is true."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.config.compose import Composer
from runner.config.study import expand
from runner.execute.targets import static_target
from runner.paths import conf_dir, cuda_src_dir
from runner.plan.memory import memory_bytes
from runner.plan.planner import make_plan
from tests.benchmark_scripts import load
from tests.test_studies import composer

ROOT = Path(__file__).resolve().parents[1]


dram_bytes = load("dram_bytes")


def test_every_variant_of_every_family_has_a_point() -> None:
    # Launches of these are mini_llm's: single ones, most too small to be counted, or as many as acceptance or a trace
    # of requests asks for.
    counted_there = {"layer_ops", "mini_llm_quality", "mini_llm_serve", "mini_llm_spec"}
    of_several_gpus = {"multi_gpu_p2p", "tp_allreduce", "collectives"}  # which share what is moved
    others = {"command", "estimate"} | counted_there | of_several_gpus
    families = {path.stem for path in conf_dir().glob("kernel/*.yaml")} - others
    assert {point.family for point in dram_bytes.POINTS} == families
    for family in families:
        points = [point for point in dram_bytes.POINTS if point.family == family]
        named = [name for point in points for name in point.variants]
        if named:
            in_registers = {"fma", "mma", "wgmma"} if family == "ceilings" else set()
            moving = [name for name in dram_bytes.variants(family) if name.split("_")[0] not in in_registers]
            assert sorted(named) == sorted(moving)
        else:
            assert len(points) == 1


@pytest.fixture(scope="module")
def composed() -> Composer:
    return composer()


@pytest.mark.slow
@pytest.mark.parametrize("point", dram_bytes.POINTS, ids=lambda point: point.name)
def test_a_point_is_possible_and_far_above_the_l2(composed: Composer, point: Any) -> None:
    (found,) = expand(composed, point.overrides("h200_sxm"), sweep=False).points
    plan, left_out = make_plan(found.config, static_target(found.config.gpu), (cuda_src_dir(),))
    assert left_out == {}
    assert found.config.profiler.launch_count == 0
    assert memory_bytes(plan) < 60e9
    for variant in plan.variants:
        assert variant.bytes_moved >= 0.5e9, variant.name
        if variant.bytes_written > 0.01 * variant.bytes_read:
            # What stays in the L2 of each kernel is within 5 % of what all of them move.
            assert variant.bytes_written >= 1.2e9, variant.name


def result(variant: str, counted: float | None, declared: float = 2e9) -> dict[str, Any]:
    """What a run leaves, as far as the table reads it."""
    profile: dict[str, Any] = {"metrics": {}, "reason": "no ncu"}
    if counted is not None:
        profile = {
            "metrics": {
                "dram_bytes_read": counted / 2,
                "dram_bytes_written": counted / 2,
                "counted_dram_bytes": counted,
                "declared_over_counted": declared / counted,
            },
            "reason": "",
        }
    return {
        "variant": variant,
        "status": "PASSED",
        "started": "2026-01-31T12:00:00.000+00:00",
        "message": "",
        "metrics": {"bytes_moved": declared, "bytes_read": declared / 2, "bytes_written": declared / 2},
        "profile": profile,
        "environment": {"device": {"name": "NVIDIA H200"}, "driver": "580", "git_commit": "abc", "git_dirty": False},
    }


def leave(folder: Path, *found: dict[str, Any]) -> None:
    for one in found:
        (folder / one["variant"]).mkdir(parents=True)
        (folder / one["variant"] / "result.json").write_text(json.dumps(one))


def table(out: Path, monkeypatch: pytest.MonkeyPatch, *further: str) -> tuple[int, dict[str, dict[str, str]]]:
    monkeypatch.setattr(sys, "argv", ["dram_bytes.py", "--out", str(out), *further])
    code = dram_bytes.main()
    with (out / "dram_bytes.csv").open(newline="") as file:
        return code, {row["variant"]: row for row in csv.DictReader(file)}


def test_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    leave(
        tmp_path / "runs" / "logits_processor", result("fused", 2.05e9), result("top_p", 6e9), result("separate", 3e9)
    )
    monkeypatch.setattr(dram_bytes, "variants", lambda family: {"separate": "", "fused": "", "top_p": "three passes"})
    code, rows = table(tmp_path, monkeypatch, "--table-only", "--families", "logits_processor")
    assert code == 1
    assert "no reason: logits_processor separate: 0.6667" in capsys.readouterr().out
    assert list(rows) == ["separate", "fused", "top_p"]
    assert rows["fused"]["declared_over_counted"] == "0.9756"
    assert rows["fused"]["reason"] == ""
    assert rows["top_p"]["reason"] == "three passes"
    assert rows["top_p"]["sizes"] == "B=1024 V=524288"
    page = (tmp_path / "README.md").read_text()
    assert "3 variants, 1 within 5%" in page
    assert "| logits_processor | fused | B=1024 V=524288 | 1.000 | 1.000 | 1.025 | 1.025 | 0.9756 |  |" in page
    assert "* GPU: NVIDIA H200\n* driver: 580\n" in page
    assert "* date: 2026-01-31\n* commit: abc\n" in page


def test_what_was_not_counted_is_not_green(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(tmp_path / "runs" / "ceilings-copy", result("copy", None), result("read", 2e9))
    code, rows = table(tmp_path, monkeypatch, "--table-only", "--families", "ceilings,sync")
    assert code == 1
    assert rows["copy"]["counted_read"] == ""
    said = capsys.readouterr().out
    assert "no reason: ceilings copy: not counted" in said
    assert "no results: sync" in said


def test_a_run_is_one_command_a_point_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []

    def pretend(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        leave(Path(command[-1].removeprefix("hydra.run.dir=")), result("copy", 2e9), result("read", 2e9))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(dram_bytes.subprocess, "run", pretend)
    code, _ = table(tmp_path, monkeypatch, "--families", "ceilings")
    assert code == 0
    assert "ceilings-copy: 2 of 2 counted" in capsys.readouterr().out
    assert commands == [
        [
            sys.executable,
            "-m",
            "runner",
            "kernel=ceilings",
            "gpu=auto",
            "kernel.params.MB=4096",
            "variants=[copy,read,write]",
            *dram_bytes.COMMON,
            f"hydra.run.dir={tmp_path / 'runs' / 'ceilings-copy'}",
        ]
    ]
    table(tmp_path, monkeypatch, "--families", "ceilings")
    assert len(commands) == 1


def test_an_unknown_family_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        dram_bytes.parse(["--families", "kv_quant,nothing"])
    assert "'nothing' is not one of allocator, " in capsys.readouterr().err
