"""A served trace as tables: its requests, its passes, and its buckets of prompt lengths."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from runner.serving.buckets import EDGES, buckets
from runner.serving.figures import percentiles
from runner.serving.gaps import gaps
from runner.serving.served import Record, Served

Row = dict[str, str | int | float]
"""Column → cell; all rows of a table have the same columns, and a figure that there is not is empty."""
_SHARES = (50, 95, 99)


def request_rows(served: Served, edges: Sequence[int] = EDGES) -> list[Row]:
    """A row for each request, in order of arrival."""
    label = {one.request.index: bucket.label for bucket in buckets(served.requests, edges) for one in bucket.records}
    return [_request_row(one, label[one.request.index]) for one in served.requests]


def step_rows(served: Served) -> list[Row]:
    """A row for each pass, in order."""
    return [
        {
            "start_s": step.start_s,
            "step_ms": 1e3 * (step.end_s - step.start_s),
            "plan_ms": 1e3 * (step.planned_s - step.start_s),
            "kind": step.kind,
            "prefill_tokens": step.prefill,
            "decode_tokens": step.decode,
            "recomputed_tokens": step.recomputed,
            "active": step.active,
            "waiting": step.waiting,
        }
        for step in served.steps
    ]


def bucket_rows(served: Served, edges: Sequence[int] = EDGES) -> list[Row]:
    """A row for each bucket that has requests, the shortest prompts first."""
    between = gaps(served)
    rows: list[Row] = []
    for bucket in buckets(served.requests, edges):
        row: Row = {"prompt": bucket.label, "requests": len(bucket.records)}
        found = {
            **percentiles("queue_ms", [one.queued_s for one in bucket.records]),
            **percentiles("ttft_ms", [one.ttft_s for one in bucket.records]),
            **percentiles("tpot_ms", [one.tpot_s for one in bucket.records if one.tpot_s is not None]),
            **percentiles("itl_ms", between.of(one.request.index for one in bucket.records)),
        }
        names = [f"{name}_p{share}" for name in ("queue_ms", "ttft_ms", "tpot_ms", "itl_ms") for share in _SHARES]
        rows.append(row | {name: found.get(name, "") for name in names})
    return rows


def write(served: Served, folder: Path, name: str, edges: Sequence[int] = EDGES) -> list[str]:
    """Writes ``<name>_requests.csv``, ``_steps`` and ``_buckets`` into ``folder``, those that have rows, and returns
    the file names. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for table, rows in (
        ("requests", request_rows(served, edges)),
        ("steps", step_rows(served)),
        ("buckets", bucket_rows(served, edges)),
    ):
        if rows:
            path = folder / f"{name}_{table}.csv"
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
            written.append(path.name)
    return written


def _request_row(one: Record, bucket: str) -> Row:
    return {
        "request": one.request.index,
        "arrival_s": one.request.arrival_s,
        "prompt": one.request.prompt,
        "output": one.request.output,
        "bucket": bucket,
        "queue_ms": 1e3 * one.queued_s,
        "ttft_ms": 1e3 * one.ttft_s,
        "tpot_ms": "" if one.tpot_s is None else 1e3 * one.tpot_s,
        "e2e_ms": 1e3 * one.whole_s,
        "shared_tokens": one.shared,
        "preempted": one.preempted,
    }
