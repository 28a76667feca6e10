"""The SQLite export is read on made-up databases: those of a GPU, of old versions, and broken ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.profile import report
from runner.profile.report import Reading, Report, ReportError


def database(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def test_a_report_of_a_gpu(tmp_path: Path) -> None:
    """Names inline and registered, marks and open ranges left out, order by start, a graph counts as
    kernels."""
    path = database(
        tmp_path / "a b?#.sqlite",
        "CREATE TABLE StringIds (id INTEGER, value TEXT)",
        "INSERT INTO StringIds VALUES (7, 'decode/demo/a'), (8, 'runner_capture')",
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER)",
        "INSERT INTO NVTX_EVENTS VALUES (5, 6, 60, 'inline', NULL), (2, 9, 59, NULL, 7), (1, 10, 59, NULL, 8),"
        " (3, 4, 34, 'a mark', NULL), (4, NULL, 59, 'never closed', NULL), (7, 8, 59, NULL, 7)",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1), (2)",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1)",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (1)",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER)",
    )
    assert report._look(path) == Reading(ranges=["decode/demo/a", "inline"], kernels=3, copies=1)


def test_an_old_export_without_registered_names(tmp_path: Path) -> None:
    path = database(
        tmp_path / "old.sqlite",
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT)",
        "INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, 'x')",
        "CREATE TABLE OSRT_API (start INTEGER)",
        "INSERT INTO OSRT_API VALUES (1)",
    )
    assert report._look(path) == Reading(ranges=["x"], os_calls=1)


def test_tables_are_named_alike_for_every_version_and_only_made_where_there_is_data(
    pretend_nsys: Callable[[str], Path], tmp_path: Path
) -> None:
    nsys = pretend_nsys(
        'if [ "$2" = --help-reports ]; then\n'
        "  echo '  nvtxsum -- NVTX Range Summary'; echo '  gpukernsum[:base|:mangled] -- Kernel Summary'\n"
        "  echo '  osrtsum -- OS Runtime Summary'; exit 0\n"
        "fi\n"
        f'echo "$@" > "{tmp_path}/asked"\n'
        "echo Range > r.1_nvtxsum.csv; : > r.1_osrtsum.csv"
    )
    made = Report(nsys, tmp_path / "r.1.nsys-rep", 5).tables(Reading(ranges=["x"], os_calls=1, api_calls=1))
    assert made == {"nvtx_sum": tmp_path / "r.1_nvtxsum.csv"}
    asked = (tmp_path / "asked").read_text().split()
    assert asked[0] == "stats"
    assert asked[-3:] == ["--report=nvtxsum", "--report=osrtsum", "r.1.nsys-rep.sqlite"]


def test_a_tool_that_hangs_is_given_up(pretend_nsys: Callable[[str], Path], tmp_path: Path) -> None:
    nsys = pretend_nsys("exec sleep 30")
    path = tmp_path / "r.nsys-rep"
    path.write_bytes(b"x")
    with pytest.raises(ReportError, match=r"nsys export did not end within 0\.2 s"):
        Report(nsys, path, 0.2).read()


def test_a_broken_export_is_an_error(pretend_nsys: Callable[[str], Path], tmp_path: Path) -> None:
    nsys = pretend_nsys("echo nonsense > r.nsys-rep.sqlite")
    path = tmp_path / "r.nsys-rep"
    path.write_bytes(b"x")
    with pytest.raises(ReportError, match="cannot be read"):
        Report(nsys, path, 5).read()
