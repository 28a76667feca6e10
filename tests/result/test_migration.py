"""Documents of older schemas."""

from __future__ import annotations

import json
from pathlib import Path

from runner.result import document
from runner.result.migration import migrated

SERIES = {"mode": "cold", "method": "cuda_events", "samples_us": [float(10 + i % 3) for i in range(30)]}
OLD = {
    "id": "a",
    "kernel": "kv_quant",
    "variant": "q8",
    "status": "PASSED",
    "metrics": {"time_us": 11.0, "samples": 30.0},
    "samples": [SERIES],
    "schema_version": 1,
}


def test_what_follows_from_the_samples_is_added(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(OLD))
    found = document.read(tmp_path / "result.json")
    assert found.schema_version == 2
    assert found.metrics["time_us"] == 11.0
    assert (found.metrics["time_us_q1"], found.metrics["time_us_q3"]) == (10.0, 12.0)
    assert found.metrics["time_us_low"] <= 11.0 <= found.metrics["time_us_high"]
    assert found.flags == []
    assert found.samples[0].trial == 1


def test_flags_are_worked_out() -> None:
    slow_first = {**SERIES, "samples_us": [100.0, *[10.0 + 0.01 * (i % 3) for i in range(30)]]}
    assert migrated({**OLD, "samples": [slow_first]})["flags"] == ["first_outlier"]


def test_a_run_without_times_stays_without() -> None:
    found = migrated({**OLD, "status": "COMPILE_ERROR", "metrics": {}, "samples": []})
    assert (found["metrics"], found.get("flags")) == ({}, None)


def test_other_versions_are_left_alone() -> None:
    assert migrated({"schema_version": 99}) == {"schema_version": 99}
    assert migrated({"schema_version": 1, "samples": 3, "status": "PASSED"})["schema_version"] == 2
