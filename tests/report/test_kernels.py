"""Measured kernels on the page of an estimate and as files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from runner.estimate import architecture
from runner.estimate.beside import Measurement, compared
from runner.estimate.estimate import estimate
from runner.estimate.kernels import Kernels, Launch, Timing, combined
from runner.estimate.model import Efficiency, Estimate, Parallel, Work
from runner.report.estimate import page, text
from runner.report.estimate_files import KERNELS, TOKENS, write, write_comparison
from runner.report.kernels import kernels_csv
from tests.report.test_estimate import BITS16, GPU, MODEL, shown

RUN = "run 0123456789abcdef0123456789abcdef"
STEP = (Timing("decode_qkv", 10.0, 4, RUN), Timing("decode_logits", 80.0, 1, "outputs/job/decode_logits"))
PREFILL = (Timing("prefill_qkv", 100.0, 4, RUN),)
LAUNCH = Launch(empty_us=3.0, node_us=1.0, source="run e and run g")


def made(launch: Launch | None = LAUNCH) -> Estimate:
    kernels: Kernels = combined(PREFILL, STEP, "kernel=layer_ops in the store", launch, ["a note of theirs"])
    level = Efficiency(level="measured", source=kernels.place)
    work = Work(2, 100, 28, BITS16, BITS16, BITS16)
    return estimate(architecture.of(MODEL), work, Parallel(), GPU, level, 10**8, 0.9, kernels)


def test_the_page_names_the_level_and_the_run_of_every_time() -> None:
    printed = shown(made())
    assert "toy on g1, from its measured kernels" in printed
    assert "Level: measured kernels; from kernel=layer_ops in the store." in printed
    assert "By the ideal roofline, not by the measured kernels." in printed
    assert "run 01234567" in printed and "a note of theirs" in printed
    assert "What a change would buy" not in printed and "on a server" not in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_the_longest_operator_comes_first() -> None:
    blocks = {block.title: block for block in page(made(), []).blocks}
    decode = blocks["Measured operators: decode"]
    assert [row[0] for row in decode.rows] == ["decode_logits", "decode_qkv"]
    assert decode.rows[0] == ("decode_logits", "1.00", "80.0 µs", "78.0 µs", "70.9%", "job")
    assert "takes 3.00 µs, as a node of a graph 1.00 µs" in decode.lines[1] and "run e and run g" in decode.lines[1]
    plain = {block.title: block for block in page(made(None), []).blocks}["Measured operators: decode"]
    assert len(plain.lines) == 1 and plain.rows[0][3] == "80.0 µs"


def test_the_csv_has_every_source_in_full() -> None:
    kernels = made().kernels
    assert kernels is not None
    rows = list(csv.DictReader(io.StringIO(kernels_csv(kernels))))
    assert [(row["phase"], row["operator"]) for row in rows] == [
        ("prefill", "prefill_qkv"), ("prefill", "decode_logits"), ("decode", "decode_qkv"), ("decode", "decode_logits"),
    ]  # fmt: skip
    assert {row["source"] for row in rows} == {RUN, "outputs/job/decode_logits"}
    for phase, ms in (("prefill", made().metrics["ttft_ms"]), ("decode", made().metrics["tpot_ms"])):
        whole = sum(float(row["in_pass_us"]) for row in rows if row["phase"] == phase)
        assert whole == pytest.approx(1e3 * ms)


def test_the_files_are_those_that_measured_kernels_can_fill(tmp_path: Path) -> None:
    names = write(made(), page(made(), []), tmp_path)
    assert KERNELS in names and TOKENS not in names
    assert write_comparison([made(), made(None)], tmp_path / "none") == []


def test_every_level_is_a_column_of_the_comparison() -> None:
    beside = compared(made(), [Measurement("graph", "run m", {"tpot_ms": 0.2}, served=False)], Efficiency("model"))
    head = "| figure | ideal | model | measured kernels | measured | ratio | main reason |"
    assert head in text(page(beside, [])).splitlines()
    assert "The ratio is measured over the level measured kernels." in text(page(beside, []))
