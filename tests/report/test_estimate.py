"""The page of an estimate, and the files beside it."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from runner.config.schema import Model
from runner.estimate import architecture, precision
from runner.estimate.estimate import estimate
from runner.estimate.model import Efficiency, Estimate, Machine, Parallel, Work
from runner.report.estimate import bar, page, print_page, text
from runner.report.estimate_files import operators_csv, write, write_comparison

MODEL = Model(name="toy", layers=4, hidden=512, heads=8, kv_heads=8, head_dim=64, intermediate=1024, vocab=1000)
GPU = Machine("g1", 1000.0, 2 * 10**9, {"bfloat16": 100.0, "float16": 100.0}, tdp_w=300.0)
BIGGER = replace(GPU, name="g2", memory_bytes=4 * 10**9)
BITS16 = precision.of("bfloat16")


def made(machine: Machine = GPU, efficiency: Efficiency | None = None, batch: int = 2) -> Estimate:
    work = Work(batch, 100, 28, BITS16, BITS16, BITS16)
    arch = architecture.of(MODEL)
    return estimate(arch, work, Parallel(), machine, efficiency or Efficiency(), 10**8, 0.9)


def shown(one: Estimate, width: int = 80) -> str:
    printed = io.StringIO()
    print_page(page(one, [GPU, BIGGER]), ["results: here"], Console(width=width, file=printed, highlight=False))
    return printed.getvalue()


def test_the_page_names_level_and_source_of_its_times() -> None:
    assert "Level: ideal roofline; from the datasheet's rates, nothing else." in shown(made())
    fitted = Efficiency(level="model", source="a file", bandwidth=0.9, compute=0.5, layer_us=70.0)
    assert "Level: roofline with an efficiency model; from a file." in shown(made(efficiency=fitted))


def test_the_page_fits_a_terminal_of_eighty_columns_and_cuts_nothing() -> None:
    printed = shown(made())
    assert max(map(len, printed.splitlines())) <= 80
    assert "…" not in printed
    assert printed.endswith("results: here\n")
    assert "estimate.weights=int4_g128" in printed and "gpu=g2" in printed


def test_a_narrower_terminal_folds_and_cuts_nothing() -> None:
    printed = shown(made(), width=48)
    assert "…" not in printed
    assert max(len(line) for line in printed.splitlines() if "─" in line) <= 48


def test_the_operators_are_those_of_the_phase_the_longest_first() -> None:
    one = made()
    blocks = {block.title: block for block in page(one, []).blocks}
    names = [row[0] for row in blocks["Operators: decode"].rows]
    assert sorted(names) == sorted(operator.name for operator in one.decode.operators)
    shares = [float(row[-1].rstrip("%")) for row in blocks["Operators: decode"].rows]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=0.5)


def test_what_does_not_fit_says_how_much_is_missing_and_where_the_limit_is() -> None:
    small = made(replace(GPU, memory_bytes=10**8))
    missing = small.memory.total - small.memory.available
    assert f"It does not fit: {missing / 1e6:.4g} MB are missing" in " ".join(shown(small).split())
    assert "|" in bar(small).partition("]")[0]
    assert "|" not in bar(made())
    assert len(bar(made()).partition("]")[0]) == 33


def test_the_page_is_markdown_too() -> None:
    said = text(page(made(), []))
    assert said.startswith("# toy on g1, on paper\n")
    assert "## Memory of one GPU" in said and "| weights |" in said


def test_the_operators_add_up_to_the_phases() -> None:
    one = made()
    rows = list(csv.DictReader(io.StringIO(operators_csv(one))))
    for phase in (one.prefill, one.decode):
        mine = [row for row in rows if row["phase"] == phase.name]
        moved = sum(float(row[f"{part}_bytes"]) for row in mine for part in ("weight", "kv", "activation"))
        assert moved == pytest.approx(phase.bytes)
        assert sum(float(row["flops"]) for row in mine) == pytest.approx(phase.flops)


def test_the_files_are_written(tmp_path: Path) -> None:
    names = write(made(), page(made(), []), tmp_path / "bfloat16")
    assert {path.name for path in (tmp_path / "bfloat16").iterdir()} == set(names)


def test_a_sweep_over_gpus_is_drawn_together_and_one_over_batches_is_not(tmp_path: Path) -> None:
    (path,) = write_comparison([made(), made(BIGGER)], tmp_path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert write_comparison([made(), made(batch=4)], tmp_path / "none") == []
