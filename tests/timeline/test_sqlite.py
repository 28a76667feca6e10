"""The reader against ``nsys stats`` of the same reports, and against layouts of other versions."""

from __future__ import annotations

import csv
import sqlite3
from collections import defaultdict
from pathlib import Path

import pytest

from runner.timeline.sqlite import call_name, kernel_name, read
from tests.timeline.made import DATA, REPORTS, report

TABLES = {
    "cuda_gpu_kern_sum": ("launch", "Instances", "Name"),
    "cuda_api_sum": ("api", "Num Calls", "Name"),
    "cuda_gpu_mem_time_sum": ("copy", "Count", "Operation"),
    "osrt_sum": ("os", "Num Calls", "Name"),
    "nvtx_sum": ("range", "Instances", "Range"),
}
DIRECTIONS = {"[CUDA memcpy Host-to-Device]": "HtoD", "[CUDA memcpy Device-to-Host]": "DtoH"}


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("table", TABLES)
def test_counts_and_times_are_those_of_the_tool(name: str, table: str) -> None:
    kind, count, key = TABLES[table]
    path = DATA / f"{name}_{table}.csv"
    expected: dict[str, tuple[int, int]] = {}
    if path.is_file():
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                label = call_name(DIRECTIONS.get(row[key], row[key]))
                expected[label] = (int(row[count]), int(row["Total Time (ns)"]))
    found: dict[str, list[int]] = defaultdict(list)
    for event in report(name).events:
        if event.kind == kind:
            found[event.name].append(round((event.end_us - event.start_us) * 1000))
    assert {label: (len(times), sum(times)) for label, times in found.items()} == expected


def test_times_count_from_the_earliest_event() -> None:
    events = report("sync.blocking_readback").events
    assert min(event.start_us for event in events) == 0
    assert all(event.end_us >= event.start_us for event in events)


def test_an_event_carries_what_the_report_says() -> None:
    trace = report("host_transfer.pinned_overlap_pipeline")
    kernel = next(event for event in trace.events if event.kind == "launch")
    assert (kernel.name, kernel.grid, kernel.block, kernel.device) == (
        "transfer_compute_kernel",
        "512x1x1",
        "256x1x1",
        0,
    )
    assert kernel.registers == 18
    up, down = (next(event for event in trace.work if event.name == name) for name in ("HtoD", "DtoH"))
    assert up.memory == down.memory == "pinned"
    assert up.bytes > 0
    assert trace.gpus == {0: "NVIDIA H200"}
    assert trace.thread_name(trace.causes[kernel.correlation].thread) == "python3"
    assert trace.causes[kernel.correlation].name == "cuLaunchKernel"
    assert trace.range_names() == ["transfer/host_transfer/pinned_overlap_pipeline"]


def test_memory_of_a_blocking_copy_is_pageable() -> None:
    copies = [event for event in report("sync.blocking_readback").events if event.kind == "copy"]
    assert {event.memory for event in copies} == {"pageable"}


def test_kernels_of_a_graph_share_the_correlation_of_its_launch() -> None:
    trace = report("cuda_graph_decode.graph")
    assert {trace.causes[event.correlation].name for event in trace.work} == {"cuGraphLaunch"}
    assert len({event.correlation for event in trace.work}) == len(trace.work) / 4


def made(path: Path, *statements: str) -> Path:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


def test_a_report_without_any_table_is_empty(tmp_path: Path) -> None:
    trace = read(made(tmp_path / "empty.sqlite", "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)"))
    assert (trace.events, trace.threads, trace.gpus) == ([], {}, {})


def test_columns_may_be_missing_and_ranges_may_be_open(tmp_path: Path) -> None:
    process = 5 << 24
    path = made(
        tmp_path / "a folder#1.sqlite",
        "CREATE TABLE StringIds (id INTEGER, value TEXT)",
        "INSERT INTO StringIds VALUES (1, 'axpy'), (2, 'registered')",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, streamId INTEGER, shortName INTEGER)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (3000, 4500, 7, 1)",
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER,"
        " globalTid INTEGER)",
        f"INSERT INTO NVTX_EVENTS VALUES (1000, 9000, 59, 'in the event', NULL, {process + 6}),"
        f" (2000, 5000, 60, NULL, 2, {process + 6}), (2500, NULL, 59, 'open', NULL, {process + 6}),"
        f" (0, 9000, 34, 'a mark', NULL, {process + 6})",
    )
    trace = read(path)
    assert trace.range_names() == ["in the event", "registered"]
    assert [(event.name, event.start_us, event.end_us, event.grid) for event in trace.work] == [
        ("axpy", 2.0, 3.5, "0x0x0")
    ]
    assert trace.ranges[0].thread == 6


def test_correlations_of_two_processes_differ(tmp_path: Path) -> None:
    one, two = 5 << 24, 6 << 24
    path = made(
        tmp_path / "two.sqlite",
        "CREATE TABLE StringIds (id INTEGER, value TEXT)",
        "INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'first'), (3, 'second')",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME"
        " (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER)",
        f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 10, {one + 5}, 1, 1), (0, 20, {two + 6}, 1, 1)",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, globalPid INTEGER, correlationId INTEGER,"
        " shortName INTEGER)",
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (30, 40, {one}, 1, 2), (30, 41, {two}, 1, 3)",
    )
    trace = read(path)
    assert {event.name: trace.causes[event.correlation].thread for event in trace.work} == {"first": 5, "second": 6}


def test_a_graph_traced_as_a_whole_is_one_piece_of_work(tmp_path: Path) -> None:
    path = made(
        tmp_path / "graph.sqlite",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,"
        " correlationId INTEGER, globalPid INTEGER, graphId INTEGER)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (0, 5000, 1, 7, 3, 16777216, 12)",
    )
    (event,) = read(path).work
    assert (event.kind, event.name, event.device, event.end_us) == ("graph", "graph 12", 1, 5.0)


def test_what_is_no_database_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    path.write_text("no database at all, but long enough to have a header that could be one" * 20)
    with pytest.raises(sqlite3.DatabaseError):
        read(path)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync"),
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync"),
        ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel"),
        ("cuGraphLaunch", "cuGraphLaunch"),
    ],
)
def test_names_of_calls_lose_their_version(name: str, short: str) -> None:
    assert call_name(name) == short


@pytest.mark.parametrize(
    ("short", "signature", "name"),
    [
        ("Kernel2", "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16>(T1::Params)",
         "Kernel2<cutlass_80_tensorop_s16816gemm_bf16>"),
        ("device_kernel", "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<T>>>(P)",
         "device_kernel<FlashAttnFwdSm90>"),
        ("rmsnorm_kernel", "void rmsnorm_kernel<float>(float*)", "rmsnorm_kernel"),
        ("kernel", "kernel", "kernel"),
    ],
)  # fmt: skip
def test_a_wrapper_is_named_by_what_it_wraps(short: str, signature: str, name: str) -> None:
    assert kernel_name(short, signature) == name
