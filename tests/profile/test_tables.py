"""Tables of a profile as CSV: which files, which columns, nothing for what is empty."""

from __future__ import annotations

import csv
from pathlib import Path

from runner.profile.tables import write_tables
from runner.result.model import CallUse, CategoryUse, GapCause, GapUse, KernelUse, Profile


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_each_table_that_has_rows_becomes_a_file(tmp_path: Path) -> None:
    cause = GapCause("sync", "cuStreamSynchronize", "41", 3, 21.5)
    profile = Profile(
        kernels=[KernelUse('gemm<float, "a">', "matmul", 4, 40.0, 10.0, 0.8, "8x1x1", "256x1x1", 32, 1024)],
        categories=[CategoryUse("matmul", 4, 40.0, 0.8)],
        calls=[CallUse("api", "cuLaunchKernel", 4, 8.0, 2.0, 3.0)],
        gaps=[GapUse("decode/demo/a", 0, 3, 21.5, 61.5, 7.0, 8.0, 8.5, [cause])],
    )
    folder = tmp_path / "with, comma"
    names = write_tables(profile, folder, "demo")
    assert names == [f"demo_{table}.csv" for table in ("kernels", "categories", "calls", "gaps", "gap_causes")]
    (kernel,) = rows(folder / "demo_kernels.csv")
    assert (kernel["name"], kernel["total_us"], kernel["grid"]) == ('gemm<float, "a">', "40.0", "8x1x1")
    (gap,) = rows(folder / "demo_gaps.csv")
    assert gap["p95_us"] == "8.0" and "causes" not in gap
    (why,) = rows(folder / "demo_gap_causes.csv")
    assert (why["range"], why["call"], why["count"]) == ("decode/demo/a", "cuStreamSynchronize", "3")


def test_an_empty_table_leaves_no_file(tmp_path: Path) -> None:
    profile = Profile(categories=[CategoryUse("memcpy", 1, 2.0, 1.0)])
    assert write_tables(profile, tmp_path, "demo") == ["demo_categories.csv"]
    assert [path.name for path in tmp_path.iterdir()] == ["demo_categories.csv"]
