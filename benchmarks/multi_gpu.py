"""Every pair of a machine's GPUs, and the all-reduce over 2, 4 and 8 of them against NCCL, in under ten minutes.

    python benchmarks/multi_gpu.py [--out benchmarks/multi_gpu_h200] [--devices 8] [--only p2p-large,allreduce-2-small]
    python benchmarks/multi_gpu.py --table-only      # page and plots again, from the runs that are there

Runs one sweep after another into ``<out>/runs/<name>`` (one that came to its end there is kept), then writes
``<out>/README.md``, what the terminal showed, ``p2p.csv``, ``allreduce.csv``, ``exchanges.csv`` and plots. NCCL is
measured where it is installed, without NVLink multicast. Exit code 0 when everything passed (or was skipped for a
reason) and, on GPUs linked by NVLink, the targets below are met.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KIB, MIB = 1 << 10, 1 << 20
RANKS = (2, 4, 8)
COPY_GBPS = 375.0
"""Least rate of a copy of 256 MiB one way over NVLink 4 (its 18 links carry 450)."""
BOTH_WAYS = 1.8
"""Least gain of both ways at once."""
TARGET_BYTES = 256 * MIB
SMALL_BYTES = 32 * KIB
"""Payload at which an all-reduce in a graph must be faster than NCCL's."""
OWN = ("one_shot_graph", "one_shot_push_graph", "two_shot_graph")
FORMS = ("copy", "copy_both", "read", "read_both")
ALL_REDUCES = (
    "bidirectional",
    "one_shot",
    "one_shot_graph",
    "one_shot_push",
    "one_shot_push_graph",
    "two_shot",
    "two_shot_graph",
    "nccl",
    "nccl_graph",
)
COMMON = ("measure=quick", "measure.modes=[cold]", "measure.max_time_s=0.4", "tracking=none", "-m")


@dataclass(frozen=True)
class Run:
    """One sweep."""

    name: str
    devices: int
    arguments: tuple[str, ...]


def p2p(name: str, devices: int, sizes: Sequence[int], calls: int) -> Run:
    """Every pair in four forms, at each number of bytes."""
    floats = ",".join(str(size // 4) for size in sizes)
    chosen = (f"kernel.params.N={floats}", f"kernel.params.calls={calls}", f"variants=[{','.join(FORMS)}]")
    return Run(name, devices, ("kernel=multi_gpu_p2p", *chosen))


def all_reduce(name: str, devices: int, sizes: Sequence[int], calls: int, variants: Sequence[str]) -> Run:
    floats = ",".join(str(size // 4) for size in sizes)
    chosen = (f"kernel.params.N={floats}", f"kernel.params.calls={calls}", f"variants=[{','.join(variants)}]")
    return Run(name, devices, ("kernel=tp_allreduce", *chosen))


def runs_of(devices: int) -> list[Run]:
    """What a machine with so many GPUs is asked."""
    made = [
        p2p("p2p-small", devices, [4 * KIB, 32 * KIB, 256 * KIB, 2 * MIB], 16),
        p2p("p2p-large", devices, [16 * MIB, 64 * MIB, TARGET_BYTES, 512 * MIB, 1024 * MIB], 8 if devices < 8 else 4),
        Run("p2p-overlap", 2, ("kernel=multi_gpu_p2p", "variants=[overlap,overlap_read]", "kernel.params.MB=256")),
    ]
    for ranks in RANKS:
        if ranks <= devices:
            small, large = [4 * KIB, SMALL_BYTES, 256 * KIB, MIB], [8 * MIB, 64 * MIB, 512 * MIB]
            made.append(all_reduce(f"allreduce-{ranks}-small", ranks, small, 64, ALL_REDUCES))
            made.append(all_reduce(f"allreduce-{ranks}-large", ranks, large, 4, ALL_REDUCES))
    hidden = ("overlap", "decode_exposed", "decode_hidden")
    made.append(all_reduce("decode", min(devices, 8), [SMALL_BYTES, MIB], 32, hidden))
    ops = "kernel.params.op=all_gather,reduce_scatter,all_to_all,migrate_pages,migrate_prefix"
    made.append(Run("exchanges", min(devices, 8), ("kernel=collectives", ops)))
    return made


class Refused(Exception):
    """``runner`` refuses the words of a run; the message is its own."""


def main() -> int:
    options = parse(sys.argv[1:])
    out = options.out.resolve()
    devices = options.devices or (devices_there(out / "runs") if options.table_only else gpus())
    if devices < 2:
        print(f"multi_gpu.py needs two GPUs; there {'is one' if devices == 1 else 'are none'} here")
        return 2
    there = runs_of(devices)
    if missing := [name for name in options.only if name not in [run.name for run in there]]:
        print(f"--only: {', '.join(missing)}: needs more than the {devices} devices there are")
        return 2
    chosen = [run for run in there if not options.only or run.name in options.only]
    begin = time.monotonic()
    for run in chosen:
        if not options.table_only:
            try:
                print(execute(run, options, out / "runs"), flush=True)
            except Refused as refused:  # the page that is there stays
                print(f"{run.name}: {refused}")
                return 2
            except OSError as error:
                print(f"--out={options.out}: cannot be written: {error.strerror}")
                return 2
    took = time.monotonic() - begin
    found = {run.name: results(out / "runs" / run.name) for run in chosen}
    problems = [problem for run in chosen for problem in judge(run, found[run.name])]
    write(out, chosen, found, problems, devices)
    print(f"{len(chosen)} runs in {took:.0f} s; {out / 'README.md'}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "multi_gpu_h200", help="folder written to")
    parser.add_argument("--devices", type=int, default=0, help="how many GPUs, from the first on; 0 = all there are")
    parser.add_argument("--gpu", default="auto", help="option of the gpu group; host tries the script without one")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="only these runs, by commas")
    parser.add_argument("--more", default="", help="further overrides of every run, by blanks")
    parser.add_argument("--table-only", action="store_true", help="write the page of the runs that are there")
    options = parser.parse_args(arguments)
    names = [run.name for run in runs_of(max(RANKS))]
    if options.devices < 0 or options.devices == 1:
        parser.error(f"--devices {options.devices}: must be at least 2, or 0 for all there are")
    for name in options.only:
        if name not in names:
            parser.error(f"--only: {name!r} is not one of {', '.join(names)}")
    return options


def gpus() -> int:
    """GPUs that the driver lists."""
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return 0
    return listing.count("UUID: GPU")


def devices_there(runs: Path) -> int:
    """Of the run over all GPUs that is there."""
    found = results(runs / "p2p-small")
    return len(found[0]["environment"]["devices"]) if found else 0


def execute(run: Run, options: argparse.Namespace, runs: Path) -> str:
    """Runs one sweep unless all of its results are there, and says how it went. Raises ``Refused`` and ``OSError``."""
    folder = runs / run.name
    if ended(folder):
        return f"{run.name}: kept"
    runs.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    where = (f"gpu={options.gpu}", f"devices=[{','.join(map(str, range(run.devices)))}]", f"hydra.sweep.dir={folder}")
    command = [sys.executable, "-m", "runner", *run.arguments, *where, *COMMON, *options.more.split()]
    with (runs / f"{run.name}.txt").open("w", encoding="utf-8") as log:
        done = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode == 2:
        said = (runs / f"{run.name}.txt").read_text(encoding="utf-8").splitlines()
        raise Refused(next((line for line in said if line.startswith("error: ")), "refused"))
    return f"{run.name}: exit code {done.returncode} in {time.monotonic() - begin:.0f} s"


def ended(folder: Path) -> bool:
    """Whether a sweep came to its end there: one that was cut short has some of its results."""
    try:
        return bool(json.loads((folder / "sweep.json").read_text(encoding="utf-8"))["status"] == "FINISHED")
    except (OSError, ValueError):
        return False


def results(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("result.json"))]


def judge(run: Run, found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What is not as it should be, one line each."""
    if not found:
        yield f"{run.name}: no results"
    for result in found:
        if result["status"] not in ("PASSED", "SKIPPED"):
            size = result["params"].get("N", "")
            yield f"{run.name} {result['variant']} N={size}: {result['status']}: {result['message']}"
    if run.name == "p2p-large" and any(map(linked, found)):
        yield from judge_copies(found)
    if run.name.startswith("allreduce") and run.name.endswith("small"):
        yield from judge_all_reduce(run, found)


def met(found: dict[str, list[dict[str, Any]]]) -> str:
    """What was held against, where nothing failed."""
    each = [result for results in found.values() for result in results]
    if not any(linked(result) for result in each):
        return "Nothing failed. There is no NVLink between these devices, which the targets are for."
    nccl = any(passed(result) and result["variant"] == "nccl_graph" for result in each)
    compared = f"a kernel faster than NCCL's at 32 KiB in a graph{'' if nccl else ' (NCCL was not measured)'}"
    copied = f"{COPY_GBPS:.0f} GB/s or more one way at 256 MiB, {BOTH_WAYS} times that or more both ways"
    return f"Met: {copied}, {compared}."


def linked(result: dict[str, Any]) -> bool:
    return bool(result["metrics"].get("nvlinks", 0) > 0)


def judge_copies(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The targets of a copy of 256 MiB between GPUs that are linked."""
    rates = {r["variant"]: r["metrics"]["gbps_link"] for r in found if passed(r) and size_of(r) == TARGET_BYTES}
    one, both = rates.get("copy", 0.0), rates.get("copy_both", 0.0)
    if one < COPY_GBPS:
        yield f"p2p-large: a copy of 256 MiB runs at {one:.0f} GB/s, below {COPY_GBPS:.0f}"
    if both < BOTH_WAYS * one:
        yield f"p2p-large: both ways at {both:.0f} GB/s are less than {BOTH_WAYS} times one way at {one:.0f}"


def judge_all_reduce(run: Run, found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Where NCCL was measured, the best kernel must be faster than it at the small payload."""
    times = {r["variant"]: r["metrics"]["call_us"] for r in found if passed(r) and size_of(r) == SMALL_BYTES}
    own = min((times[name] for name in OWN if name in times), default=float("inf"))
    if "nccl_graph" in times and own >= times["nccl_graph"]:
        yield f"{run.name}: 32 KiB in a graph take {own:.2f} µs, NCCL takes {times['nccl_graph']:.2f}"


def passed(result: dict[str, Any]) -> bool:
    return bool(result["status"] == "PASSED")


def size_of(result: dict[str, Any]) -> int:
    """Bytes of one copy, or of the payload of one device; the step of ``p2p-overlap`` gives MiB."""
    params = result["params"]
    return int(params["N"]) * 4 if params["N"] else int(params["MB"]) * MIB


def p2p_rows(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for every size, form and pair."""
    rows = []
    for result in filter(passed, found):
        pairs = {re.fullmatch(r"gbps_(\d+)_(\d+)", name): rate for name, rate in result["metrics"].items()}
        for match, rate in pairs.items():
            if match:
                pair = {"source": int(match[1]), "target": int(match[2])}
                rows.append({"bytes": size_of(result), "form": result["variant"], **pair, "gbps": round(rate, 2)})
    return sorted(rows, key=lambda row: (row["bytes"], FORMS.index(row["form"]), row["source"], row["target"]))


def call_rows(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for every result of exchanges between all devices."""
    rows = []
    for result in filter(passed, found):
        metrics, params = result["metrics"], result["params"]
        row = {"ranks": int(metrics["ranks"]), "op": params.get("op", "all_reduce"), "variant": result["variant"]}
        row["bytes"] = int(metrics.get("payload_bytes", metrics.get("exchange_bytes", 0)))
        for name in ("call_us", "algbw_gbps", "busbw_gbps", "time_us_rsd", "overlap", "layer_us", "moved_bytes"):
            row[name] = round(metrics[name], 4) if name in metrics else ""
        rows.append(row)
    return sorted(rows, key=lambda row: (row["op"], row["ranks"], row["bytes"], row["variant"]))


def write(
    out: Path, runs: Sequence[Run], found: dict[str, list[dict[str, Any]]], problems: Sequence[str], devices: int
) -> None:
    """The page, the tables as CSV, what the terminals showed, and the plots."""
    out.mkdir(parents=True, exist_ok=True)
    copies = p2p_rows([r for name in ("p2p-small", "p2p-large") for r in found.get(name, ())])
    sums = call_rows([r for name, each in found.items() if name.startswith("allreduce") for r in each])
    hidden = call_rows(found.get("decode", ()))
    others = call_rows(found.get("exchanges", ()))
    for name, rows in (("p2p", copies), ("allreduce", sums), ("decode", hidden), ("exchanges", others)):
        table(out / f"{name}.csv", rows)
    plots(out, copies, sums)
    first = next((result for each in found.values() for result in each), None)
    lines = [f"# Copies and collectives between {devices} GPUs", "", *where(first)]
    lines += ["Written by `benchmarks/multi_gpu.py`. Each command: `python -m runner … " + " ".join(COMMON) + "`.", ""]
    lines += [f"* `{' '.join(run.arguments)}`, {run.devices} devices" for run in runs]
    lines += ["", *copy_lines(copies), *overlap_lines(found.get("p2p-overlap", ())), *sum_lines(sums)]
    lines += [*hidden_lines(hidden), *other_lines(others), *skipped(found), "", "## Against the targets", ""]
    lines += [f"* {problem}" for problem in problems] or [met(found)]
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for run in runs:
        log = out / "runs" / f"{run.name}.txt"
        if log.is_file():
            text = log.read_text(encoding="utf-8").replace(str(out / "runs"), "outputs").replace(str(ROOT), ".")
            shown = "\n".join(line.rstrip() for line in text.splitlines())
            (out / log.name).write_text(shown + "\n", encoding="utf-8")


def table(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def where(result: dict[str, Any] | None) -> list[str]:
    if result is None:
        return []
    environment = result["environment"]
    state = environment.get("gpu_state", {})
    clocks = ", ".join(f"{name} {state[name]}" for name in ("sm_clock_mhz", "memory_clock_mhz") if name in state)
    lines = [
        f"* devices: {len(environment['devices'])} × {environment['device'].get('name', '')}",
        f"* driver {environment['driver']}",
        f"* CUDA {environment['cuda']}, nvcc {environment.get('nvcc', '')}; clocks as found: {clocks}",
        f"* date: {result['started'][:10]}, commit {environment['git_commit']}",
        "",
    ]
    topology = environment.get("topology", "")
    return [*lines, "```text", topology.rstrip(), "```", ""] if topology else lines


def copy_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The least and the greatest pair at every size, and the matrix of one size."""
    if not rows:
        return []
    lines = ["## Copies between pairs, GB/s", "", "Least and greatest of all ordered pairs; both ways counts both.", ""]
    lines += [line(["size", *FORMS]), line(["---:"] * (1 + len(FORMS)))]
    for size in sorted({row["bytes"] for row in rows}):
        cells = [named(size)]
        for form in FORMS:
            rates = [row["gbps"] for row in rows if (row["bytes"], row["form"]) == (size, form)]
            cells.append(f"{min(rates):.1f} to {max(rates):.1f}" if rates else "–")
        lines.append(line(cells))
    return [*lines, "", "![GB/s over the size of a copy](p2p.png)", "", *matrix(rows)]


def matrix(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rates from row to column, by the copy engine, at 256 MiB or the largest size there is."""
    sizes = {row["bytes"] for row in rows}
    size = TARGET_BYTES if TARGET_BYTES in sizes else max(sizes)
    rates = {(r["source"], r["target"]): r["gbps"] for r in rows if (r["bytes"], r["form"]) == (size, "copy")}
    places = sorted({place for pair in rates for place in pair})
    lines = [f"From row to column, {named(size)} by the copy engine:", "", line(["", *map(str, places)])]
    lines.append(line(["---:"] * (1 + len(places))))
    for a in places:
        lines.append(line([f"**{a}**", *(f"{rates[a, b]:.0f}" if (a, b) in rates else "–" for b in places)]))
    return [*lines, ""]


def overlap_lines(found: Sequence[dict[str, Any]]) -> list[str]:
    said = "`overlap` is the share of the shorter of the two that the longer one hides."
    lines = ["## Copies beside a kernel", "", said, ""]
    lines += [line(["form", "copies alone", "kernel alone", "together", "overlap"]), line(["---"] + ["---:"] * 4)]
    for result in filter(passed, found):
        metrics = result["metrics"]
        times = [us(metrics[name]) for name in ("moving_us", "computing_us", "together_us")]
        lines.append(line([result["variant"], *times, f"{metrics.get('overlap', 0.0):.2f}"]))
    return [*lines, ""]


def sum_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Time of a call and bus bandwidth by ranks and payload."""
    if not rows:
        return []
    lines = ["## All-reduce", "", "Time of one call, and below it the bandwidth of each link (`busbw`) in GB/s.", ""]
    for ranks in sorted({row["ranks"] for row in rows}):
        of = {(row["variant"], row["bytes"]): row for row in rows if row["ranks"] == ranks}
        sizes = sorted({size for _, size in of})
        lines += [f"### {ranks} GPUs", "", line(["variant", *map(named, sizes)]), line(["---"] + ["---:"] * len(sizes))]
        for name in ALL_REDUCES:
            of_name = [of.get((name, size)) for size in sizes]
            if any(of_name):
                cells = [f"{us(row['call_us'])}<br>{row['busbw_gbps']:.1f}" if row else "–" for row in of_name]
                lines.append(line([name, *cells]))
        lines.append("")
    return [*lines, "![Time of a call over the payload](allreduce.png)", ""]


def hidden_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = ["## A decode step's all-reduces", "", line(["variant", "payload", "layer and all-reduce", "overlap"])]
    lines.append(line(["---", "---:", "---:", "---:"]))
    for row in rows:
        each = us(row["layer_us"] or row["call_us"])
        lines.append(line([row["variant"], named(row["bytes"]), each, f"{row['overlap']:.2f}"]))
    return [*lines, ""]


def other_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = ["## Other exchanges", "", line(["op", "variant", "payload", "call", "busbw GB/s"])]
    lines.append(line(["---", "---", "---:", "---:", "---:"]))
    for row in rows:
        cells = [row["op"], row["variant"], named(row["bytes"]), us(row["call_us"]), f"{row['busbw_gbps']:.1f}"]
        lines.append(line(cells))
    return [*lines, ""]


def skipped(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Why something was not measured, once for each reason."""
    reasons = {(r["variant"], r["message"]) for each in found.values() for r in each if r["status"] == "SKIPPED"}
    return [f"* not measured: {variant}: {message}" for variant, message in sorted(reasons)]


def plots(out: Path, copies: Sequence[dict[str, Any]], sums: Sequence[dict[str, Any]]) -> None:
    """``p2p.png``: the median pair. ``allreduce.png``: a panel for each number of GPUs."""
    from statistics import median

    from runner.report.plots import COLOURS, MANY, MARKERS, blank

    if copies:
        figure = blank(8, 5)
        panel = figure.add_subplot()
        for at, form in enumerate(FORMS):
            sizes = sorted({row["bytes"] for row in copies if row["form"] == form})
            rates = [median(r["gbps"] for r in copies if (r["bytes"], r["form"]) == (s, form)) for s in sizes]
            panel.plot(sizes, rates, marker=MARKERS[at], color=COLOURS[at], label=form)
        axis(panel, sorted({row["bytes"] for row in copies}), "bytes of a copy", "GB/s, median pair")
        figure.savefig(out / "p2p.png", dpi=130)
    ranks = sorted({row["ranks"] for row in sums})
    if ranks:
        figure = blank(6 * len(ranks), 5)
        for place, count in enumerate(ranks):
            panel = figure.add_subplot(1, len(ranks), place + 1)
            rows = [row for row in sums if row["ranks"] == count]
            for at, name in enumerate(name for name in ALL_REDUCES if any(row["variant"] == name for row in rows)):
                points = sorted((row["bytes"], row["call_us"]) for row in rows if row["variant"] == name)
                style = "--" if name.startswith("nccl") else "-"
                colour, mark = MANY[at % len(MANY)], MARKERS[at % len(MARKERS)]
                panel.plot(*zip(*points, strict=True), marker=mark, color=colour, linestyle=style, label=name)
            axis(panel, sorted({row["bytes"] for row in rows}), f"payload, {count} GPUs", "µs a call")
            panel.set_yscale("log")
        figure.savefig(out / "allreduce.png", dpi=130)


def axis(panel: Any, sizes: Sequence[int], below: str, beside: str) -> None:
    panel.set_xscale("log", base=2)
    panel.set_xticks(sizes, [named(size) for size in sizes], rotation=45)
    panel.minorticks_off()
    panel.set_xlabel(below)
    panel.set_ylabel(beside)
    panel.grid(alpha=0.3)
    panel.legend(fontsize=8)


def named(size: int) -> str:
    """Bytes with the unit they are a whole number of."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


def us(time_us: float) -> str:
    return f"{time_us:.2f} µs" if time_us < 1000 else f"{time_us / 1000:.2f} ms"


def line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
