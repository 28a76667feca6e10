"""What the runner itself costs: a sweep of 200 small host experiments, beside scripts that start a process for each.

    python benchmarks/sweep_overhead.py [--experiments 200] [--out benchmarks/sweep_overhead]

The same experiments (``kv_quant``, one context length each) are run in five ways:

* ``sweep``: one command with ``-m`` and tracking off;
* ``sweep, MLflow``: the same, filed every two seconds in a SQLite store that exists already;
* ``store alone``: a script that files as many runs of the same size in that store with MLflow's own client;
* ``command each``: a shell loop's way, ``python -m runner`` for every experiment;
* ``bare script each``: a process that imports NumPy, computes the same scan and prints its time. No compiler, no
  check, no record: what starting a process costs at the least.

The last two are run for fewer experiments, since each costs the same. "Own time" is what the measuring loops
took, as each result says; everything else is overhead. Compilation and the device's ceilings are done once, before.
Writes ``<out>.md`` and ``<out>.csv``.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 256
"""Context of the last experiment; the others count down from it, so that no two are equal."""
EXPERIMENT = ("kernel=kv_quant", "variants=[fp32]", "shape=smoke", "scale=smoke", "gpu=host")
MEASURE = ("measure=fixed", "measure.fixed=5", "measure.host.modes=[hot]", "measure.hot_batch_time_s=0.002")
BARE = """
import sys, time
import numpy as np
T = int(sys.argv[1])
rng = np.random.default_rng(0)
q = rng.random((2, 2, 64), np.float32)
k, v = (rng.random((2, 2, T, 64), np.float32) for _ in range(2))
begin = time.perf_counter()
for _ in range(5):
    scores = np.einsum("bhd,bhtd->bht", q, k)
    out = np.einsum("bht,bhtd->bhd", scores, v)
print(time.perf_counter() - begin)
"""

STORE = """
import sys
from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient
client = MlflowClient(sys.argv[1])
experiment = client.create_experiment("store alone")
for number in range(int(sys.argv[3])):
    run = client.create_run(experiment, tags={f"tag{at}": "some text" for at in range(40)}).info.run_id
    metrics = [Metric(f"metric{at}", number + at, 0, 0) for at in range(15)]
    client.log_batch(run, metrics=metrics, params=[Param(f"param{at}", str(number)) for at in range(16)])
    client.log_artifact(run, sys.argv[2])
    client.set_terminated(run)
"""


@dataclass
class Way:
    """One way of running the list."""

    name: str
    experiments: int
    wall_s: float
    own_s: float
    """Time within the measuring loops, all experiments together."""
    memory_mib: list[float] = field(default_factory=list)
    """Resident memory of the command and its children, sampled ten times a second."""

    @property
    def overhead_ms(self) -> float:
        """Per experiment."""
        return (self.wall_s - self.own_s) / self.experiments * 1e3

    @property
    def growth_mib(self) -> float | None:
        """Peak of the third quarter over the peak of the second: the first is the start, the last plots the report."""
        part = len(self.memory_mib) // 4
        quarters = [max(self.memory_mib[at * part : (at + 1) * part]) for at in (1, 2)] if part > 1 else []
        return quarters[1] - quarters[0] if quarters else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=200)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "sweep_overhead")
    arguments = parser.parse_args()
    count = arguments.experiments
    if not 10 <= count <= LARGEST - 8:
        parser.error(f"--experiments={count}: must be 10 to {LARGEST - 8}")
    with tempfile.TemporaryDirectory(prefix="sweep-overhead-") as name:
        folder = Path(name)
        store = f"tracking.uri=sqlite:///{folder / 'store' / 'mlflow.db'}"
        contexts = list(range(LARGEST - count + 1, LARGEST + 1))
        runner(folder / "warm", [contexts[0]], [store])
        ways = [
            runner(folder / "sweep", contexts, ["tracking=none"], "sweep"),
            runner(folder / "mlflow", contexts, [store, "tracking.every_s=2"], "sweep, MLflow"),
            store_alone(folder, store.removeprefix("tracking.uri="), count),
            command_each(folder / "each", contexts[: max(1, count // 20)]),
            bare_each(contexts[: max(1, count // 4)]),
        ]
    write(arguments.out, ways)
    print(arguments.out.with_suffix(".md").read_text(encoding="utf-8"))
    return 0


def runner(folder: Path, contexts: Sequence[int], further: Sequence[str], name: str = "") -> Way:
    """One command for all contexts."""
    folder.mkdir(parents=True)
    sweep = f"shape.context=range({contexts[0]},{contexts[-1] + 1})"
    line = [sys.executable, "-m", "runner", *EXPERIMENT, *MEASURE, sweep, *further, "-m"]
    begin = time.perf_counter()
    process = subprocess.Popen(line, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    memory: list[float] = []
    watcher = threading.Thread(target=watch, args=(process, memory))
    watcher.start()
    output, _ = process.communicate()
    wall = time.perf_counter() - begin
    watcher.join()
    if process.returncode != 0:
        sys.exit(f"{' '.join(line)} ended with code {process.returncode}:\n{output.decode()}")
    return Way(name, len(contexts), wall, own_time(folder, len(contexts)), memory)


def store_alone(folder: Path, uri: str, count: int) -> Way:
    """What MLflow itself takes for as many runs, each with one result document, importing it included."""
    document = next((folder / "sweep").rglob("result.json"))
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", STORE, uri, str(document), str(count)], check=True, stderr=subprocess.DEVNULL)
    return Way("store alone", count, time.perf_counter() - begin, 0.0)


def command_each(folder: Path, contexts: Sequence[int]) -> Way:
    """One command for each context."""
    ways = [runner(folder / str(context), [context], ["tracking=none"]) for context in contexts]
    return Way("command each", len(ways), sum(way.wall_s for way in ways), sum(way.own_s for way in ways))


def bare_each(contexts: Sequence[int]) -> Way:
    """A process that imports NumPy and computes for each context."""
    own, begin = 0.0, time.perf_counter()
    for context in contexts:
        line = [sys.executable, "-c", BARE, str(context)]
        own += float(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    return Way("bare script each", len(contexts), time.perf_counter() - begin, own)


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def watch(process: subprocess.Popen[bytes], memory: list[float]) -> None:
    """Adds the resident memory of the process and its children until it ends."""
    while process.poll() is None:
        try:
            parent = psutil.Process(process.pid)
            family = [parent, *parent.children(recursive=True)]
            memory.append(sum(member.memory_info().rss for member in family) / 2**20)
        except psutil.NoSuchProcess:
            continue
        time.sleep(0.1)


def own_time(folder: Path, expected: int) -> float:
    """Seconds in the measuring loops, from the results below ``folder``; all must have passed."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in folder.rglob("result.json")]
    passed = [result for result in results if result["status"] == "PASSED"]
    if len(passed) != expected:
        sys.exit(f"{len(passed)} of {expected} experiments passed in {folder}")
    return float(sum(series["wall_s"] for result in passed for series in result["samples"]))


def write(out: Path, ways: Sequence[Way]) -> None:
    """``<out>.md`` and ``<out>.csv``."""
    header = ["way", "experiments", "total s", "own time s", "overhead ms each", "memory MiB", "growth MiB"]
    rows = [
        [
            way.name,
            str(way.experiments),
            f"{way.wall_s:.2f}",
            f"{way.own_s:.2f}",
            f"{way.overhead_ms:.1f}",
            f"{max(way.memory_mib):.0f}" if way.memory_mib else "",
            f"{way.growth_mib:+.1f}" if way.growth_mib is not None else "",
        ]
        for way in ways
    ]
    facts = about()
    lines = ["# Overhead of a sweep", "", "Written by `benchmarks/sweep_overhead.py`, which says what is compared.", ""]
    lines += [f"* {name}: {value}" for name, value in facts.items()]
    lines += [f"* each experiment: `{' '.join([*EXPERIMENT, *MEASURE])}`", ""]
    lines += ["| " + " | ".join(row) + " |" for row in [header, ["---"] + ["---:"] * (len(header) - 1), *rows]]
    out.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with out.with_suffix(".csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*header, *facts])
        writer.writerows([*row, *facts.values()] for row in rows)


def about() -> dict[str, str]:
    """Where and when."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    commit = git("rev-parse", "--short=10", "HEAD") + ("-dirty" if git("status", "--porcelain") else "")
    return {
        "machine": f"{model}, {len(os.sched_getaffinity(0))} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit,
    }


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
