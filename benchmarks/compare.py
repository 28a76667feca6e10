"""What ``python -m runner.compare`` costs in a store of 10,000 experiments: two commits of 5,000 each.

    python benchmarks/compare.py [--experiments 10000] [--out benchmarks/store]

One real experiment on the host backend is filed twice, under two commits, through what a command files with. Its rows
in the database are then copied, each copy with an id, a context, a start and times of its own, until there are so many
experiments. Timed is the command, Python's start included, the best of three: reading, matching and judging with the
table on standard output, and the same with the comparison filed in MLflow. A row is appended to ``compare.csv``.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import store  # type: ignore[import-not-found]  # the script beside this one

from runner.record.location import Location, locate
from runner.record.mlflow_store import MlflowStore
from runner.result.document import read, write
from runner.result.model import Quality

COMMITS = (40 * "a", 40 * "b")
TABLES = ("runs", "params", "tags", "metrics", "latest_metrics")
TIMES = ("time_us", "time_us_low", "time_us_high")
INTERVAL = 0.001
"""Of the median, relative."""
FIELDS = ("experiments", "compare_s", "compare_cpu_s", "compare_mib", "filed_s", "filed_cpu_s", "told")
MACHINE = ("machine", "system", "date", "commit")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=10000)
    parser.add_argument("--out", type=Path, default=store.OUT)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        location = locate(f"sqlite:///{folder}/mlflow.db", Path(folder))
        ids = filed(location, Path(folder))
        multiply(location.database, ids, arguments.experiments // 2)
        row = measure(location, arguments.experiments)
    print(row)
    append(row | store.machine(), arguments.out / "compare.csv")
    return 0


def filed(location: Location, place: Path) -> list[str]:
    """One experiment under each commit; the ids of the runs."""
    template = store.real_result(place / "template")
    real = read(template / "result.json")
    time_us = real.metrics["time_us"]
    times = dict(zip(TIMES, (time_us, time_us * (1 - INTERVAL), time_us * (1 + INTERVAL)), strict=True))
    tracker = MlflowStore(location)
    tracker.open()
    found = []
    for number, commit in enumerate(COMMITS):
        result = dataclasses.replace(
            real,
            id=str(uuid.uuid4()),
            sweep_id=f"sweep-{number}",
            quality=Quality.OK,  # so that every pair goes the whole way
            flags=[],
            metrics=real.metrics | times,
            environment=real.environment | {"git_commit": commit, "fingerprint": ""},
            started=f"2026-01-0{1 + number}T00:00:00.000+00:00",
        )
        folder = place / str(number)
        write(result, folder)
        found.append(tracker.file(result, folder))
    return found


def multiply(database: Path, ids: Sequence[str], count: int) -> None:
    """Copies the rows of these runs until there are ``count`` of each."""
    drawn = random.Random(1)
    with sqlite3.connect(database) as connection:
        for run_id in ids:
            for table in TABLES:
                cursor = connection.execute(f"select * from {table} where run_uuid = ?", (run_id,))
                names = [column[0] for column in cursor.description]
                rows = [dict(zip(names, row, strict=True)) for row in cursor]
                marks = ", ".join(f":{name}" for name in names)
                copies = (copied(row, run_id, number, drawn) for number in range(1, count) for row in rows)
                connection.executemany(f"insert into {table} values ({marks})", copies)


def copied(row: dict[str, Any], run_id: str, number: int, drawn: random.Random) -> dict[str, Any]:
    """A row of the copy of that number."""
    found = row | {"run_uuid": f"{run_id[:24]}{number:08x}"}
    if "start_time" in row:
        found["start_time"] = row["start_time"] + number
    if row.get("key") in ("T", "context"):
        found["value"] = str(1000 + number)  # the first one has a smaller context
    elif row.get("key") in TIMES:
        found["value"] = row["value"] * drawn.uniform(0.9995, 1.0005)
    return found


def measure(location: Location, experiments: int) -> dict[str, object]:
    """Both commands, the best of three."""
    words = ["baseline=commit:aaaa", "candidate=commit:bbbb", f"uri={location.uri}"]
    with tempfile.TemporaryDirectory() as bytecode:
        alone = [command([*words, "file=false"], bytecode) for _ in range(3)]
        filing = [command(words, bytecode) for _ in range(3)]
    told = next(line for line in alone[0][1].splitlines() if line.endswith(("AMBIGUOUS", "SAME")) and ":" in line)
    assert told.startswith(f"{experiments // 2} experiments:"), told
    assert all("MLflow: " in printed for _, printed in filing)
    seconds, cpu, memory = (min(values) for values in zip(*(figures for figures, _ in alone), strict=True))
    filed_s, filed_cpu, _ = (min(values) for values in zip(*(figures for figures, _ in filing), strict=True))
    figures = (seconds, cpu, memory, filed_s, filed_cpu)
    return dict(zip(FIELDS, (experiments, *(f"{figure:.3g}" for figure in figures), told), strict=True))


def command(words: Sequence[str], bytecode: str) -> tuple[tuple[float, float, float], str]:
    """Wall seconds, CPU seconds, peak MiB; and the output. Modules are compiled by the first and kept, as usual."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    line = [sys.executable, "-m", "runner.compare", *words]
    begun = time.perf_counter()
    environment["PYTHONPYCACHEPREFIX"] = bytecode
    child = subprocess.Popen(line, cwd=store.ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode in (0, 4), printed
    return (time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), printed


def append(row: dict[str, object], path: Path) -> None:
    fresh = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*FIELDS, *MACHINE])
        if fresh:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    sys.exit(main())
