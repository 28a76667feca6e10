"""How the store grows: 10,000 experiments recorded, and what recording, searching, exporting and resuming cost then.

    python benchmarks/store.py record --name sqlite [--uri sqlite:////tmp/store.db] [--counts 1000 2500 5000 10000]
    python benchmarks/store.py record --name postgresql --uri postgresql://user@127.0.0.1:5432/mlflow
    python benchmarks/store.py ask --name sqlite --uri sqlite:////tmp/store.db
    python benchmarks/store.py report

``record`` runs one real experiment on the host backend and files it again and again, each time as another experiment
with an id, a context, times and a fingerprint of its own, through what a sweep files with: ``result.json`` and its
folder on disk, ``Recorder``, one sweep of 250 experiments after another, each with its summary run. Every sweep has a
commit of its own, so that two commits are 500 runs. At each count it asks:

* ``query``: the 250 runs of one sweep, as ``runner.record.search`` reads them;
* ``page``: the newest 100 runs through MLflow's client, as its user interface asks;
* ``export``: ``python -m runner.export`` of two commits, and of everything; wall time with Python's start, peak memory;
* ``resume``: what 1,000 fingerprints have, in one question, and beside it in a question for each (of 20);
* ``size``: of the database.

Each is the best of three, since others may use the machine; ``ask`` asks again of a store that is there. Rows are
appended to ``benchmarks/store/store.csv``; ``report`` makes ``README.md``, from ``about.md``, and ``store.png``.

Wall times are those of whatever else the machine does, too; CPU times of the process that files stand beside them.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psutil

from runner.config.schema import Tracking
from runner.record import fields, search
from runner.record.location import Location, locate
from runner.record.recorder import Recorder
from runner.record.spool import Sweep, SweepStatus
from runner.result import clock
from runner.result.document import read, write
from runner.result.model import Result

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "benchmarks" / "store"
PER_SWEEP = 250
RESUMED = 1000
ASKED_ONE_BY_ONE = 20
EXPERIMENT = ("kernel=kv_quant", "variants=[fp32]", "shape=smoke", "gpu=host", "measure=quick", "tracking=none")
FIELDS = (
    "store", "experiments", "record_ms", "record_cpu_ms", "write_ms", "runs_per_s", "rss_mib", "query_ms", "page_ms",
    "export_two_s", "export_two_cpu_s", "export_two_mib", "export_all_s", "export_all_cpu_s", "export_all_mib",
    "resume_ms", "resume_each_ms", "database_mib",
    "machine", "system", "date", "commit",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record")
    record.add_argument("--name", required=True)
    record.add_argument("--uri", default="")
    record.add_argument("--counts", type=int, nargs="+", default=[1000, 2500, 5000, 10000])
    record.add_argument("--out", type=Path, default=OUT)
    ask = commands.add_parser("ask")
    ask.add_argument("--name", required=True)
    ask.add_argument("--uri", required=True)
    ask.add_argument("--out", type=Path, default=OUT)
    report = commands.add_parser("report")
    report.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    if arguments.command == "report":
        write_report(arguments.out)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if arguments.command == "ask":
            ask_again(arguments.name, locate(arguments.uri), place, arguments.out / "store.csv")
            return 0
        location = locate(arguments.uri or f"sqlite:///{place}/mlflow.db", place)
        for row in measure(arguments.name, location, arguments.counts, place):
            print("  ".join(f"{key}={value}" for key, value in row.items() if key in FIELDS[:18]), flush=True)
            append(row, arguments.out / "store.csv")
    return 0


def measure(name: str, location: Location, counts: Sequence[int], place: Path) -> Iterable[dict[str, object]]:
    """A row for each count. The store must be empty."""
    template = real_result(place / "template")
    made: list[Result] = []
    process = psutil.Process()
    writing = filing = working = 0.0
    since = 0
    for count in counts:
        while len(made) < count:
            begun = time.perf_counter()
            folder, results, folders = spooled(
                template, len(made), min(PER_SWEEP, count - len(made)), place / "multirun"
            )
            between, cpu = time.perf_counter(), time.process_time()
            file(location, folder, results, folders)
            writing, filing = writing + between - begun, filing + time.perf_counter() - between
            working += time.process_time() - cpu
            made += [dataclasses.replace(result, config={}, samples=[], events=[]) for result in results]
        new = count - since
        row: dict[str, object] = {
            "store": name,
            "experiments": count,
            "record_ms": 1e3 * filing / new,
            "record_cpu_ms": 1e3 * working / new,
            "write_ms": 1e3 * writing / new,
            "runs_per_s": new / filing,
            "rss_mib": process.memory_info().rss / 2**20,
        }
        row |= asked(location, [fields.tags(result) for result in made], place)
        yield {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()} | machine()
        writing = filing = working = 0.0
        since = count


def ask_again(name: str, location: Location, place: Path, path: Path) -> None:
    """Replaces what reading cost in the row of that store and count."""
    from runner.record import reading
    from runner.record.selection import Selection

    runs = [run for batch in reading.runs(location, Selection(kernels=("kv_quant",))) for run in batch]
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    answers = asked(location, [run.tags for run in runs], place)
    for row in rows:
        if (row["store"], row["experiments"]) == (name, str(len(runs))):
            row |= {key: f"{value:.4g}" for key, value in answers.items()}
            print(row)
    path.unlink()
    for row in rows:
        append(dict(row), path)


def asked(location: Location, made: Sequence[Mapping[str, str]], place: Path) -> dict[str, float]:
    """What reading costs now; ``made`` are the tags of all results."""
    from mlflow import MlflowClient

    kernel, sweep = "kv_quant", made[len(made) // 2]["sweep_id"]
    commits = sorted({tags["git_commit"] for tags in made})
    two = f"commit={commits[0]},{commits[-1]}"
    step = max(1, len(made) // RESUMED)
    digests = [tags["fingerprint"] for tags in made[::step]][:RESUMED]
    client = MlflowClient(location.uri)
    family = client.get_experiment_by_name(kernel)
    assert family is not None

    found: list[int] = []
    answers: dict[str, float] = {
        "query_ms": timed(lambda: found.append(len(search.newest(location, kernel, tags={"sweep_id": sweep})))),
        "page_ms": timed(
            lambda: client.search_runs([family.experiment_id], order_by=["attributes.start_time DESC"], max_results=100)
        ),
        "resume_ms": timed(lambda: found.append(len(search.by_tag(location, kernel, "fingerprint", digests)))),
        "resume_each_ms": timed(
            lambda: [search.newest(location, kernel, tags={"fingerprint": one}) for one in digests[:ASKED_ONE_BY_ONE]],
            1,
        )
        / ASKED_ONE_BY_ONE,
    }
    assert set(found) == {PER_SWEEP, len(digests)}, found
    for label, words, expected in (("two", [two], 2 * PER_SWEEP), ("all", [], len(made))):
        tries = [export([f"out={place}/{label}.parquet", *words], location) for _ in range(3)]
        assert all(f": {expected} runs" in printed for _, printed in tries), tries
        seconds, cpu, memory = (min(values) for values in zip(*(figures for figures, _ in tries), strict=True))
        answers |= {f"export_{label}_s": seconds, f"export_{label}_cpu_s": cpu, f"export_{label}_mib": memory}
    answers["database_mib"] = size(location) / 2**20
    return answers


def real_result(folder: Path) -> Path:
    """The folder of one experiment that was run here."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-m", "runner", *EXPERIMENT],
        cwd=folder,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (found,) = folder.rglob("result.json")
    return found.parent


def spooled(template: Path, first: int, number: int, root: Path) -> tuple[Path, list[Result], list[Path]]:
    """One sweep on disk as a command leaves it: its folder, its results and theirs."""
    real = read(template / "result.json")
    sweep = f"sweep-{first:06d}"
    results, folders = [], []
    started = datetime(2026, 1, 1, tzinfo=timezone.utc)
    for index in range(first, first + number):
        commit = hashlib.sha1(sweep.encode()).hexdigest()
        fingerprint = hashlib.sha256(f"{index}".encode()).hexdigest()
        result = dataclasses.replace(
            real,
            id=str(uuid.uuid4()),
            experiment_id=str(uuid.uuid4()),
            sweep_id=sweep,
            params={**real.params, "T": 16 + index, "context": 16 + index},
            metrics={key: value * (1 + index % 97 / 1000) for key, value in real.metrics.items()},
            environment={**real.environment, "git_commit": commit, "fingerprint": fingerprint},
            started=clock.written(started + timedelta(seconds=index)),
        )
        folder = root / sweep / str(index - first) / result.variant
        write(result, folder)
        results.append(result)
        folders.append(folder)
    return root / sweep, results, folders


def file(location: Location, folder: Path, results: Sequence[Result], folders: Sequence[Path]) -> None:
    """As a sweep does at its end: the results and the summary."""
    settings = Tracking(enabled=True, uri=location.uri)
    recorder = Recorder(settings, folder, Sweep.begin(results[0].sweep_id, experiments=len(results)))
    for result, place in zip(results, folders, strict=True):
        recorder.add(result, place)
    lines = recorder.finish(SweepStatus.FINISHED)
    assert f"{len(results)} runs filed" in lines[0], lines


def export(words: Sequence[str], location: Location) -> tuple[tuple[float, float, float], str]:
    """Wall seconds, CPU seconds, peak MiB; and the output of one export."""
    command = [sys.executable, "-m", "runner.export", f"uri={location.uri}", *words]
    begun = time.perf_counter()
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, printed
    return (seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), printed


def timed(action: Callable[[], object], times: int = 3) -> float:
    """Milliseconds of the fastest: the others waited for whoever else uses the machine."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begun)
    return 1e3 * min(taken)


def size(location: Location) -> int:
    """Bytes of the database."""
    if location.kind == "sqlite":
        return sum(path.stat().st_size for path in location.database.parent.glob(f"{location.database.name}*"))
    import sqlalchemy

    with sqlalchemy.create_engine(location.uri).connect() as connection:
        return int(connection.execute(sqlalchemy.text("select pg_database_size(current_database())")).scalar_one())


def append(row: dict[str, object], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def machine() -> dict[str, object]:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    commit = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {
        "machine": f"{model}, {os.cpu_count()} cores, {round(psutil.virtual_memory().total / 2**30)} GiB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit.stdout.strip(),
    }


def write_report(folder: Path) -> None:
    """``README.md`` and ``store.png`` of the rows in ``store.csv``."""
    with (folder / "store.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    head = ["store", "experiments", *(label for label, *_ in SHOWN)]
    table = [head, ["---", *["---:"] * (len(head) - 1)]]
    table += [[row["store"], f"{int(row['experiments']):,}", *(_shown(row, *how[1:]) for how in SHOWN)] for row in rows]
    facts = [f"* {key}: {', '.join(sorted({row[key] for row in rows}))}" for key in ("machine", "system", "commit")]
    facts.append(f"* date: {min(row['date'] for row in rows)} to {max(row['date'] for row in rows)}")
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    text = (folder / "about.md").read_text(encoding="utf-8")
    page = text.replace("<facts>", "\n".join(facts)).replace("<table>", "\n".join(lines))
    page = page.replace("<compared>", _compared(folder / "compare.csv"))
    (folder / "README.md").write_text(page, encoding="utf-8")
    _plot(rows, folder / "store.png")


SHOWN = (
    ("recording, ms a run (CPU)", "record_cpu_ms", 1.0),
    ("recording, ms a run (wall)", "record_ms", 1.0),
    ("memory, MiB", "rss_mib", 1.0),
    ("one sweep, ms", "query_ms", 1.0),
    ("page of 100, ms", "page_ms", 1.0),
    ("1,000 fingerprints at once, ms", "resume_ms", 1.0),
    ("one by one, s", "resume_each_ms", RESUMED / 1e3),
    ("export of two commits, s (CPU)", "export_two_cpu_s", 1.0),
    ("s (wall)", "export_two_s", 1.0),
    ("export of all, s (CPU)", "export_all_cpu_s", 1.0),
    ("s (wall)", "export_all_s", 1.0),
    ("MiB", "export_all_mib", 1.0),
    ("database, MiB", "database_mib", 1.0),
)
"""Heading, column and factor of what the page shows."""


def _compared(path: Path) -> str:
    """A table of what ``benchmarks/compare.py`` has measured, each row with its own date and commit."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    head = ["experiments", "compare, s (CPU)", "s (wall)", "MiB", "with filing, s (CPU)", "s (wall)", "date", "commit"]
    keys = ("compare_cpu_s", "compare_s", "compare_mib", "filed_cpu_s", "filed_s", "date", "commit")
    table = [
        head,
        ["---:"] * len(head),
        *([f"{int(row['experiments']):,}", *(row[key] for key in keys)] for row in rows),
    ]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in table)


def _shown(row: dict[str, str], column: str, factor: float) -> str:
    return f"{float(row[column]) * factor:.3g}"


def _plot(rows: Sequence[dict[str, str]], path: Path) -> None:
    """Against the number of experiments, one line for each store; a straight line through 0 is linear growth."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    panels = (
        ("record_cpu_ms", "recording one run, CPU ms"),
        ("resume_ms", "1,000 fingerprints at once, ms"),
        ("query_ms", "one sweep of 250 runs, ms"),
        ("export_two_cpu_s", "export of two commits, CPU s"),
        ("export_all_cpu_s", "export of everything, CPU s"),
        ("export_all_mib", "its peak memory, MiB"),
    )
    figure, axes = pyplot.subplots(2, 3, figsize=(12, 6.5), layout="constrained")
    for axis, (column, title) in zip(axes.flat, panels, strict=True):
        for store in dict.fromkeys(row["store"] for row in rows):
            own = [row for row in rows if row["store"] == store]
            counts = [int(row["experiments"]) for row in own]
            axis.plot(counts, [float(row[column]) for row in own], "o-", label=store)
        axis.set(title=title, xlabel="experiments in the store", xlim=(0, None), ylim=(0, None))
        axis.grid(alpha=0.3)
    axes.flat[0].legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
