"""Every profiler over four families, and what the diagnosis makes of what each saw.

    python benchmarks/profilers.py [--out benchmarks/profilers_h200] [--gpu auto] [--only sync,sanitizers-sync]
    python benchmarks/profilers.py --table-only      # the page again, from the runs that are there

Runs one command after another into ``<out>/runs/<name>`` (one whose results are there is kept), then writes
``<out>/README.md``, what the terminal showed, and the tables and diagnoses of each variant. Exit code 0 when every
profiler delivered, no sanitizer found anything in a sound kernel, each planted fault was found, and each expected bound
was named.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLES = ("kernels", "gaps", "gap_causes", "counters")
FAMILIES = ("kv_quant", "fusion", "sync", "cuda_graph_decode")
COMMON = ("measure=quick", "tracking=none")
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")


@dataclass(frozen=True)
class Run:
    """One command."""

    name: str
    arguments: tuple[str, ...]
    bounds: tuple[tuple[str, str], ...] = ()
    """Variant → the bound that is expected of it."""
    faults: tuple[str, ...] = ()
    """Variants in which a sanitizer must find something."""


LONG = ("kernel=kv_quant", "shape.context=65536", "variants=[fp32,q8]")
TOOLS = "profiler.tools=[nsys,ncu,timeline,monitor]"
RUNS = (
    Run("kv_quant", (*LONG, TOOLS, "profiler.duration_s=1", "profiler.launch_count=5"), (("fp32", "memory"),)),
    Run("fusion", ("kernel=fusion", TOOLS, "profiler.duration_s=1"), (("separate", "launches"),)),
    Run(
        "sync",
        ("kernel=sync", TOOLS, "profiler.duration_s=1", "profiler.launch_count=3"),
        (("sync_each_step", "host_sync"), ("blocking_readback", "host_sync")),
    ),
    Run(
        "cuda_graph_decode",
        ("kernel=cuda_graph_decode", TOOLS, "profiler.steps=3", "profiler.duration_s=1", "profiler.launch_count=6"),
        (("eager", "launches"),),
    ),
    Run(
        "profiling_ranges",
        ("kernel=profiling_ranges", "profiler=ncu"),
        (("fma_chain", "compute"), ("saxpy", "memory")),
    ),
    *(
        Run(f"sanitizers-{family}", (f"kernel={family}", "scale=smoke", f"profiler.tools=[{','.join(SANITIZERS)}]"))
        for family in FAMILIES
    ),
    Run(
        "unsafe",
        ("--config-dir", str(ROOT / "tests" / "families"), "kernel=unsafe", f"profiler.tools=[{','.join(SANITIZERS)}]"),
        faults=("out_of_bounds", "race", "unset", "barrier"),
    ),
    Run("no-profiler", LONG),
)


def main() -> int:
    options = parse(sys.argv[1:])
    out = options.out.resolve()
    chosen = [run for run in RUNS if not options.only or run.name in options.only]
    for run in chosen:
        if not options.table_only:
            print(execute(run, options.gpu, out / "runs"), flush=True)
    found = {run.name: results(out / "runs" / run.name) for run in chosen}
    problems = [problem for run in chosen for problem in judge(run, found[run.name])]
    write(out, chosen, found)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "profilers_h200", help="folder written to")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="only these runs, by commas")
    parser.add_argument("--gpu", default="auto", help="option of the gpu group")
    parser.add_argument("--table-only", action="store_true", help="write the page of the runs that are there")
    options = parser.parse_args(arguments)
    names = [run.name for run in RUNS]
    for name in options.only:
        if name not in names:
            parser.error(f"--only: {name!r} is not one of {', '.join(names)}")
    return options


def execute(run: Run, gpu: str, runs: Path) -> str:
    """Runs one command unless its results are there, and says how it went."""
    folder = runs / run.name
    if results(folder):
        return f"{run.name}: kept"
    runs.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    command = [sys.executable, "-m", "runner", *run.arguments, *COMMON, f"gpu={gpu}", f"hydra.run.dir={folder}"]
    with (runs / f"{run.name}.txt").open("w", encoding="utf-8") as log:
        done = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, check=False)
    return f"{run.name}: exit code {done.returncode} in {time.monotonic() - begin:.0f} s"


def results(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/result.json"))]


def judge(run: Run, found: Sequence[dict[str, Any]]) -> list[str]:
    """What is not as it should be, one line each."""
    if not found:
        return [f"{run.name}: no results"]
    problems = []
    bounds = dict(run.bounds)
    for result in found:
        who = f"{run.name} {result['variant']}"
        profile = result["profile"]
        if profile["status"] not in ("OK", "OFF"):
            problems.append(f"{who}: profile {profile['status']}: {profile['reason']}")
        if bool(profile["findings"]) != (result["variant"] in run.faults):
            problems.append(f"{who}: {len(profile['findings'])} findings")
        expected = bounds.get(result["variant"])
        if expected and result["diagnosis"]["bound"] != expected:
            problems.append(f"{who}: bound by {result['diagnosis']['bound'] or 'nothing known'}, not {expected}")
    return problems


def write(out: Path, runs: Sequence[Run], found: dict[str, list[dict[str, Any]]]) -> None:
    """The page, what the terminals showed, and the tables beside it."""
    out.mkdir(parents=True, exist_ok=True)
    first = next((result for each in found.values() for result in each), None)
    lines = ["# Every profiler over four families, and what the diagnosis makes of it", "", *_where(first)]
    lines += ["Written by `benchmarks/profilers.py`. Each command: `python -m runner … " + " ".join(COMMON) + "`.", ""]
    lines += [f"* `{_shown(run)}`" for run in runs] + ["", *_bounds(runs, found), "", *_times(found), ""]
    lines += [*_findings(runs, found), ""]
    (out / "README.md").write_text("\n".join(lines), encoding="utf-8")
    for run in runs:
        log = out / "runs" / f"{run.name}.txt"
        if log.is_file():
            text = re.sub(re.escape(str(out / "runs")), "outputs", log.read_text(encoding="utf-8"))
            shown = "\n".join(line.rstrip() for line in text.replace(str(ROOT), ".").splitlines())
            (out / log.name).write_text(shown + "\n", encoding="utf-8")
        if run.bounds:
            for result in found[run.name]:
                _keep(out / "runs" / run.name / result["variant"], out, f"{run.name}-{result['variant']}")


def _where(result: dict[str, Any] | None) -> list[str]:
    if result is None:
        return []
    environment = result["environment"]
    state = environment.get("gpu_state", {})
    clocks = ", ".join(f"{name} {state[name]}" for name in ("sm_clock_mhz", "memory_clock_mhz") if name in state)
    return [
        f"* device: {environment['device'].get('name', '')}, driver {environment['driver']}",
        f"* CUDA {environment['cuda']}, nvcc {environment.get('nvcc', '')}; clocks as found: {clocks}",
        f"* date: {result['started'][:10]}, commit {environment['git_commit']}",
        "",
    ]


def _shown(run: Run) -> str:
    return " ".join(run.arguments).replace(str(ROOT) + "/", "")


def _bounds(runs: Sequence[Run], found: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = [
        "## Bounds",
        "",
        "| run | variant | time of the timed run | profile | bound | expected | how sure | first evidence |",
        "| --- | --- | ---: | --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        for result in found[run.name] if run.bounds else ():
            diagnosis, profile = result["diagnosis"], result["profile"]
            evidence = next((cause["evidence"][0] for cause in diagnosis["causes"] if cause["evidence"]), "")
            tools = ", ".join(tool.split(" ")[0] for tool in profile["tool"].split(", "))
            cells = [
                run.name,
                result["variant"],
                _time(result["metrics"].get("time_us")),
                f"{tools}: {profile['status']}",
                diagnosis["bound"],
                dict(run.bounds).get(result["variant"], ""),
                diagnosis["confidence"],
                evidence,
            ]
            lines.append(_row(cells))
    return lines


def _times(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """The same variants with and without profilers, where both were run."""
    plain = {result["variant"]: result for result in found.get("no-profiler", ())}
    lines = [
        "## Times with and without profilers",
        "",
        "The times are those of the timed run, which ends before a profiler starts.",
        "",
        "| variant of kv_quant | profiler=none | with profilers |",
        "| --- | ---: | ---: |",
    ]
    for result in found.get("kv_quant", ()):
        if result["variant"] in plain:
            times = [_time(each["metrics"].get("time_us"), 2) for each in (plain[result["variant"]], result)]
            lines.append(_row([result["variant"], *times]))
    return lines


def _findings(runs: Sequence[Run], found: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = [
        "## Sanitizers",
        "",
        "`unsafe` is a family with faults on purpose (`tests/families`).",
        "",
        "| run | variant | status | profile | findings |",
        "| --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        if run.name != "unsafe" and not run.name.startswith("sanitizers-"):
            continue
        for result in found[run.name]:
            profile = result["profile"]
            said = "; ".join(f"{each['kind']} {each['where']} ({each['count']}×)" for each in profile["findings"])
            lines.append(_row([run.name, result["variant"], result["status"], profile["status"], said or "none"]))
    return lines


def _keep(folder: Path, out: Path, name: str) -> None:
    """Copies a variant's diagnosis and tables."""
    files = {f"{name}-diagnosis.md": folder / "diagnosis.md"}
    for table in TABLES:
        files |= {f"{name}-{table}.csv": path for path in folder.glob(f"*_{table}.csv")}
    for target, source in files.items():
        if source.is_file():
            shutil.copyfile(source, out / target)


def _time(us: float | None, digits: int = 1) -> str:
    if us is None:
        return "–"
    return f"{us:.{digits}f} µs" if us < 1000 else f"{us / 1000:.2f} ms"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
