from __future__ import annotations

from pathlib import Path

import pytest

from runner.profile.sanitizer_report import grouped, read
from runner.result.model import Finding

DATA = Path(__file__).resolve().parents[1] / "data" / "sanitizer"

MEMCHECK = """\
========= COMPUTE-SANITIZER
the program's own line
========= Invalid __global__ write of size 4 bytes
=========     at void scale<int>(T1 *, long)+0x90 in scale.cu:7
=========     by thread (31,0,0) in block (3,0,0)
=========     Address 0x7f2b4e400200 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2b4e400000 of size 512 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main [0x8e6a] in program
=========
========= Invalid __global__ write of size 4 bytes
=========     at void scale<int>(T1 *, long)+0x90 in scale.cu:7
=========     by thread (30,0,0) in block (3,0,0)
=========     Address 0x7f2b4e4001fc is misaligned
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "unspecified launch failure" on CUDA API call to \
cuCtxSynchronize.
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: main [0x8e6a] in program
=========
========= Leaked 1,024 bytes at 0x7f2b4e400000
=========     Saved host backtrace up to driver entry point at allocation time
=========         Host Frame: main [0x8e6a] in program
=========
========= LEAK SUMMARY: 1,024 bytes leaked in 1 allocations
========= ERROR SUMMARY: 4 errors
"""
"""The forms that the manual describes."""


def test_uninitialised_reads_of_one_line_are_one_finding() -> None:
    reading = read((DATA / "initcheck.txt").read_text())
    assert reading.finished and not reading.problem
    assert reading.findings == [
        Finding(
            "Uninitialized __global__ memory read of size 4 bytes",
            "uninit in faulty.cu:4",
            32,
            "by thread (0,0,0) in block (0,0,0); Address 0x7f19be800000",
        )
    ]


def test_a_race_names_both_sides_and_counts_its_hazards() -> None:
    first, second = read((DATA / "racecheck.txt").read_text()).findings
    assert first == Finding(
        "Race between write and write or read",
        "race in faulty.cu:3",
        288,
        "write at race in faulty.cu:3, 32 times; read at race in faulty.cu:3, 256 times",
    )
    assert (second.kind, second.count) == ("Race between write and read", 128)


def test_a_race_that_may_be_none_says_so() -> None:
    text = (DATA / "racecheck.txt").read_text().replace("Error: Race", "Warning: Race")
    assert read(text).findings[1].kind == "Race between write and read (warning)"


def test_a_barrier_error_is_placed_in_the_kernel_not_in_the_function_it_called() -> None:
    (finding,) = read((DATA / "synccheck.txt").read_text()).findings
    assert finding.kind == "Barrier error detected. Invalid arguments"
    assert finding.where == "divsync in faulty.cu:5"
    assert finding.count == 16
    assert finding.detail == "in __syncwarp in sm_30_intrinsics.hpp:110; by thread (16,0,0) in block (0,0,0)"


def test_accesses_failed_calls_and_leaks() -> None:
    reading = read(MEMCHECK)
    assert reading.finished
    access, call, leak = reading.findings
    assert access == Finding(
        "Invalid __global__ write of size 4 bytes",
        "void scale<int> in scale.cu:7",
        2,
        "by thread (31,0,0) in block (3,0,0); Address 0x7f2b4e400200 is out of bounds; and is 1 bytes after the "
        "nearest allocation at 0x7f2b4e400000 of size 512 bytes",
    )
    assert call.kind.startswith("Program hit CUDA_ERROR_LAUNCH_FAILED (error 719)")
    assert call.where == "cuCtxSynchronize"
    assert leak == Finding("Leaked memory", detail="1,024 bytes were never freed")


def test_a_kernel_without_line_numbers_is_named_alone() -> None:
    (access, *_) = read(MEMCHECK.replace(" in scale.cu:7", "")).findings
    assert access.where == "void scale<int>"


def test_no_errors_is_no_finding() -> None:
    reading = read((DATA / "clean.txt").read_text())
    assert reading.finished and reading.findings == [] and reading.problem == ""


def test_errors_beyond_the_limit_are_counted() -> None:
    text = MEMCHECK + "========= ERROR SUMMARY: 1,048,476 errors were not printed. Use --print-limit option to adjust\n"
    reading = read(text)
    assert reading.unprinted == 1_048_476
    assert len(reading.findings) == 3


def test_errors_of_an_unknown_form_still_count() -> None:
    (finding,) = read("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 7 errors\n").findings
    assert finding.count == 7


def test_a_log_that_breaks_off_is_not_finished() -> None:
    assert not read("========= COMPUTE-SANITIZER\n").finished
    assert not read("").finished


@pytest.mark.parametrize(
    ("line", "unsupported"),
    [
        ("========= Error: Target application terminated before first instrumented API call", False),
        ("========= Internal Sanitizer Error: The Sanitizer encountered an internal error", False),
        ("========= Error: Device not supported. Please refer to the supported devices", True),
    ],
)
def test_what_the_tool_could_not_do_is_no_finding(line: str, unsupported: bool) -> None:
    reading = read(f"========= COMPUTE-SANITIZER\n{line}\n========= ERROR SUMMARY: 0 errors\n")
    assert reading.findings == []
    assert reading.problem in line and reading.problem
    assert reading.unsupported is unsupported


def test_a_warning_of_the_tool_is_no_finding() -> None:
    text = "========= Warning: something is slow\n=========     in some way\n========= ERROR SUMMARY: 0 errors\n"
    assert read(text).findings == [] and read(text).problem == ""


def test_findings_are_grouped_without_changing_those_given() -> None:
    one, other = Finding("a", "here", 2, "first"), Finding("a", "here", 3, "second")
    assert grouped([one, other, Finding("a", "there")]) == [Finding("a", "here", 5, "first"), Finding("a", "there")]
    assert one.count == 2
