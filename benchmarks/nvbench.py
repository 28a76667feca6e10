"""Our timing loop and NVBench's on the same GPU, the same compiled kernel, the same buffers and the same stream.

    python benchmarks/nvbench.py [--out benchmarks/nvbench_h200] [--gpu h200_sxm] [--processes 10]
    python benchmarks/nvbench.py --table-only      # the page again, from what was measured

Needs ``pip install cuda-bench`` (NVBench's Python package). Each of ``--processes`` fresh processes prepares every case
once as a worker does and then measures it cold by three loops, in an order that turns from process to process:

* ``runner``: this repository's, which empties the caches by reading;
* ``runner_memset``: the same with NVBench's flush, a ``memset`` of exactly the L2 cache, to see what the flush does;
* ``nvbench``: ``State.exec`` of cuda-bench, batched measurement off.

All have the same stopping rule (``RULE``). The short cases are then measured by our loop in ``--processes`` sets
of ``TRIALS`` processes, which prepare nothing else, and the median of each set is taken, as ``measure.trials`` does.

Exit code 0 when medians agree (``AGREE``; or do so once the flush is the same), the spread of our median over processes
(of a short case over the sets of trials) is within ``SPREAD``, that over single processes not above NVBench's, and we
take no longer.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

RULE = {"max_rsd": 0.005, "min_time_s": 0.1, "max_time_s": 15.0, "min_samples": 10}
"""0.5 % relative deviation over 0.1 s of device time, or a settled spread; 15 s at most. NVBench's own defaults but for
the 0.1 s (0.5 s there), which ten processes of short kernels would turn into a quarter of an hour."""
AGREE = ((20.0, 0.01), (0.0, 0.03))
"""Kernels longer than so many microseconds: medians no further apart than this share."""
SPREAD = 0.01
"""Most spread (relative standard deviation) of our medians from run to run."""
TRIALS = 4
"""Processes of a set."""
WORSE = 0.99
"""Our spread counts as larger than NVBench's where the ratio of their variances passes this quantile of the F
distribution: of ten medians a standard deviation is known to a quarter only."""
TOOLS = ("runner", "runner_memset", "nvbench")


@dataclass(frozen=True)
class Case:
    """One variant of one experiment."""

    name: str
    words: tuple[str, ...]
    variant: str
    short: bool = False
    """It takes so little, below 20 us, that where a process places code and memory moves it by more than ``SPREAD``."""


CASES = (
    Case("fused norm and GELU", ("kernel=fusion",), "fused", short=True),
    Case("argmax of a vocabulary", ("kernel=sampler",), "argmax", short=True),
    Case("int8 KV scan, 4k", ("kernel=kv_quant", "shape.context=4096"), "q8", short=True),
    Case("attention MHA, 4k", ("kernel=gqa_decode",), "mha"),
    Case("fp32 KV scan, 32k", ("kernel=kv_quant", "shape.context=32768"), "fp32"),
    Case("fp32 KV scan, 128k", ("kernel=kv_quant", "shape.context=131072"), "fp32"),
    Case("copy of 1 GiB", ("kernel=ceilings",), "copy"),
)


def main() -> int:
    options = parse(sys.argv[1:])
    if options.run is not None:
        return measured(options.run, options.trial, options.gpu, options.result)
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if not options.table_only:
        for trial, run in itertools.product(range(1 + TRIALS), range(options.processes)):
            begin = time.monotonic()
            line = [sys.executable, __file__, "--run", str(run), "--trial", str(trial), "--gpu", options.gpu]
            code = subprocess.run([*line, "--result", str(out / f"run_{run}_{trial}.json")], check=False).returncode
            print(f"run {run}, trial {trial}: exit code {code} in {time.monotonic() - begin:.1f} s", flush=True)
            if code:
                return 1
    documents = [json.loads(path.read_text()) for path in out.glob("run_*.json")]
    documents.sort(key=lambda document: (document["about"]["run"], document["about"]["trial"]))
    if not documents:
        print(f"error: {out} holds no run_*.json", file=sys.stderr)
        return 2
    rows = summarised(documents)
    problems = list(judged(rows))
    write(out, documents, rows, problems)
    print((out / "README.md").read_text())
    return 1 if problems else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "nvbench_h200", help="folder written to")
    parser.add_argument("--gpu", default="h200_sxm", help="option of the gpu group that is here")
    parser.add_argument("--processes", type=int, default=10, help="fresh processes that measure every case")
    parser.add_argument("--table-only", action="store_true", help="write the page of what is there")
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--trial", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def measured(run: int, trial: int, gpu: str, result: Path) -> int:
    """One process, into ``result``: every case by every loop, or as a trial, from 1 on, the short ones by ours."""
    from runner.backend.open import open_backend
    from runner.measure.flush import FUNCTION, Flusher
    from runner.measure.sm_clock import FUNCTION as STAMP
    from runner.measure.sm_clock import SmClock

    backend = open_backend("cuda")
    device = backend.open(0)
    prepared = [Prepared(backend, device, case, gpu) for case in CASES if case.short or trial == 0]
    stream = prepared[0].stream
    modules = prepared[0].modules
    flusher = Flusher(device, modules["flush"].function(FUNCTION), stream)
    cycles = SmClock(device, modules["flush"].function(STAMP), stream)
    memset = MemsetFlusher(device)
    order = ["runner"] if trial else [TOOLS[(run + place) % len(TOOLS)] for place in range(len(TOOLS))]
    rows: list[dict[str, Any]] = []
    for tool in order:
        if tool == "nvbench":
            rows += by_nvbench(prepared)
        else:
            rows += [by_runner(tool, one, flusher if tool == "runner" else memset, cycles) for one in prepared]
    from runner.backend import nvml
    from runner.result import clock, commit

    checkout = commit.checkout(ROOT)
    about = {
        "run": run,
        "trial": trial,
        "device": device.info.name,
        "driver": device.info.driver,
        "cuda": device.info.cuda,
        "state": nvml.snapshots([device.info.uuid]),
        "date": clock.now(),
        "commit": checkout.commit,
        "dirty": checkout.dirty,
        "order": order,
    }
    result.write_text(json.dumps({"about": about, "rows": rows}, indent=1))
    return 0


class Prepared:
    """A case on the device, as a worker prepares it: allocated, filled, its kernels loaded."""

    def __init__(self, backend: Any, device: Any, case: Case, gpu: str) -> None:
        from runner.build.api import build, requests
        from runner.build.model import CompileError
        from runner.execute.planning import roots
        from runner.plan.planner import make_plan
        from runner.plan.target import target_of
        from runner.worker.experiment import Experiment

        config = composed(*case.words, f"gpu={gpu}", f"variants=[{case.variant}]")
        plan, _ = make_plan(config, target_of(config.gpu), roots(()))
        wanted = requests(plan)
        built = build(wanted.values())
        programs = {}
        for unit, request in wanted.items():
            program = built[request]
            if isinstance(program, CompileError):
                raise SystemExit(f"{case.name}: {program}")
            programs[unit] = program.path
        self.case = case
        self.experiment = Experiment(backend, [device], plan, programs, {})
        self.experiment.prepare()
        self.workload = self.experiment._loaded()
        self.workload.reset(case.variant)
        self.stream: Any = self.experiment._streams[0]
        self.modules = self.experiment._modules[0]

    def step(self) -> None:
        self.workload.step(self.case.variant)

    def __cuda_stream__(self) -> tuple[int, int]:
        """So that NVBench measures on the stream on which the step is enqueued."""
        return 0, self.stream.handle


def composed(*words: str) -> Any:
    """The config that these words of a command line stand for."""
    from hydra import version
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra._internal.utils import create_config_search_path
    from hydra.core.utils import setup_globals

    from runner import paths
    from runner.config.compose import Composer
    from runner.config.register import register
    from runner.config.resolvers import register_resolvers
    from runner.config.study import expand

    version.setbase("1.3")
    register()
    register_resolvers()
    setup_globals()
    composer = Composer(ConfigLoaderImpl(create_config_search_path(str(paths.conf_dir()))), [])
    (draft,) = expand(composer, list(words), sweep=False).points
    return draft.config


class MemsetFlusher:
    """NVBench's way to empty the cache: as many bytes as the L2 has, overwritten."""

    def __init__(self, device: Any) -> None:
        self.nbytes = device.info.l2_bytes
        self._buffer = device.allocate(self.nbytes)

    def flush(self, stream: Any) -> None:
        stream.fill(self._buffer, 0)


def by_runner(tool: str, one: Prepared, flusher: Any, clock: Any) -> dict[str, Any]:
    from runner.measure.loop import measure
    from runner.measure.settings import MeasureSettings

    settings = MeasureSettings(modes=("cold",), **RULE)  # type: ignore[arg-type]
    begin = time.perf_counter()
    (series,) = measure([one.stream], one.step, settings, host_timed=False, flush=[flusher], clocks=[clock])
    wall_s = time.perf_counter() - begin
    return row(tool, one.case, series.samples_us, wall_s, series.stop_reason)


def by_nvbench(prepared: Sequence[Prepared]) -> list[dict[str, Any]]:
    """Every case by ``cuda.bench``, whose samples are read from the files that it writes."""
    import cuda.bench as bench

    cases = {one.case.name: one for one in prepared}

    def cold(state: Any) -> None:
        one = cases[state.get_string("case")]
        state.set_stream(one)
        state.exec(lambda launch: one.step(), batched=False)

    benchmark = bench.register(cold)
    benchmark.add_string_axis("case", list(cases))
    benchmark.set_stopping_criterion("stdrel")
    benchmark.set_criterion_param_float64("max-noise", RULE["max_rsd"])
    benchmark.set_criterion_param_float64("min-time", RULE["min_time_s"])
    benchmark.set_timeout(RULE["max_time_s"])
    benchmark.set_min_samples(int(RULE["min_samples"]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nvbench.json"
        with quiet():
            bench.run_all_benchmarks(["nvbench", "--devices", "0", "--jsonbin", str(path)])
        return list(rows_of(path, {name: one.case for name, one in cases.items()}))


@contextmanager
def quiet() -> Iterator[None]:
    """NVBench prints its own tables on the process's standard output."""
    import os

    sys.stdout.flush()
    kept, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(null)


def rows_of(path: Path, cases: dict[str, Case]) -> Iterator[dict[str, Any]]:
    """What NVBench wrote, one row a state."""
    from cuda.bench.results import BenchmarkResult

    for benchmark in BenchmarkResult.from_json(path).values():
        for state in benchmark:
            if state.is_skipped or state.samples is None:
                raise SystemExit(f"NVBench skipped {state.state_name}: {state.skip_reason}")
            samples_us = [value * 1e6 for value in state.samples]
            wall_s = float(state.summaries["nv/cold/walltime"].value)
            yield row("nvbench", cases[state.point["case"]], samples_us, wall_s, "")


def row(tool: str, case: Case, samples_us: Sequence[float], wall_s: float, reason: str) -> dict[str, Any]:
    return {
        "tool": tool,
        "case": case.name,
        "median_us": statistics.median(samples_us),
        "rsd": rsd(samples_us),
        "samples": len(samples_us),
        "wall_s": wall_s,
        "stopped": reason,
    }


def summarised(documents: Sequence[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Case → tool → median of the processes' medians, their spread, samples and time of one process; and the spread of
    the medians of sets of trials."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for case in CASES:
        for tool in TOOLS:
            of = [
                {**document["about"], **one}
                for document in documents
                for one in document["rows"]
                if (one["case"], one["tool"]) == (case.name, tool)
            ]
            singles = [one for one in of if one["trial"] == 0]
            if not singles:
                continue
            medians = [one["median_us"] for one in singles]
            middle = statistics.median(medians)
            found.setdefault(case.name, {})[tool] = {
                "processes": len(singles),
                "median_us": middle,
                "range": (max(medians) - min(medians)) / middle,
                "rsd": rsd(medians),
                "samples": statistics.median(one["samples"] for one in singles),
                "wall_s": statistics.median(one["wall_s"] for one in singles),
            }
            sets: dict[int, list[float]] = {}
            for one in of:
                if one["trial"]:
                    sets.setdefault(one["run"], []).append(one["median_us"])
            if sets and all(len(taken) == TRIALS for taken in sets.values()):
                found[case.name][tool]["trials_rsd"] = rsd([statistics.median(taken) for taken in sets.values()])
    return found


def rsd(values: Sequence[float]) -> float:
    """Relative standard deviation of a sample."""
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else 0.0


def judged(rows: dict[str, dict[str, dict[str, float]]]) -> Iterator[str]:
    """What is not as it should be, one line each."""
    from scipy.stats import f

    freedom = max(1, min(int(tools["runner"]["processes"]) for tools in rows.values()) - 1)
    most = math.sqrt(f.ppf(WORSE, freedom, freedom))
    for case, tools in rows.items():
        ours, theirs = tools["runner"], tools["nvbench"]
        allowed = next(share for above, share in AGREE if theirs["median_us"] > above)
        same_flush = tools["runner_memset"]["median_us"] / theirs["median_us"] - 1
        if abs(ours["median_us"] / theirs["median_us"] - 1) > allowed and abs(same_flush) > allowed:
            yield f"{case}: medians differ by more than {allowed:.0%}, also with the same flush ({same_flush:+.1%})"
        spread = ours.get("trials_rsd", ours["rsd"])
        if spread > SPREAD:
            yield f"{case}: our medians spread by {spread:.2%} from run to run"
        if ours["rsd"] > theirs["rsd"] * most:
            yield f"{case}: our medians spread by {ours['rsd']:.2%}, NVBench's by {theirs['rsd']:.2%}"
    ours_s, theirs_s = (sum(tools[tool]["wall_s"] for tools in rows.values()) for tool in ("runner", "nvbench"))
    if ours_s > theirs_s:
        yield f"all cases take {ours_s:.2f} s, NVBench {theirs_s:.2f} s"


def write(out: Path, documents: Sequence[dict[str, Any]], rows: dict[str, Any], problems: Sequence[str]) -> None:
    """The page, and every process's figures as CSV."""
    about = documents[0]["about"]
    processes = len({document["about"]["run"] for document in documents})
    clocks = ", ".join(f"{k} {about['state'][k]}" for k in ("sm_clock_mhz", "memory_clock_mhz") if k in about["state"])
    ours_s, theirs_s = (sum(tools[tool]["wall_s"] for tools in rows.values()) for tool in ("runner", "nvbench"))
    lines = [
        "# Our timing loop beside NVBench's on an H200",
        "",
        f"* device: {about['device']}, driver {about['driver']}, CUDA {about['cuda']}; clocks as found: {clocks}",
        f"* date: {about['date'][:10]}, commit {about['commit']}{' with changes' if about['dirty'] else ''}",
        f"* {processes} processes, each with every case by every loop; NVBench is `cuda-bench` 0.3.0",
        f"* then {processes} sets of {TRIALS} processes, in which our loop takes the short cases alone",
        f"* stopping rule of all: {RULE['max_rsd']:.1%} over {RULE['min_time_s']:g} s of device time, or settled",
        "",
        "Written by `benchmarks/nvbench.py`. The kernel, its buffers, the stream and the process are the same for all.",
        "A median is that of the processes' medians; the spread is their relative standard deviation, and in brackets",
        f"their largest less their smallest; with trials, that of the medians of sets of {TRIALS}.",
        "",
        "| case | runner | NVBench | difference | its flush | spread | with trials | NVBench's | time | NVBench's |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case, tools in rows.items():
        ours, same, theirs = (tools[tool] for tool in TOOLS)
        cells = [case, f"{ours['median_us']:.2f} µs", f"{theirs['median_us']:.2f} µs"]
        cells += [f"{one['median_us'] / theirs['median_us'] - 1:+.2%}" for one in (ours, same)]
        single, peer = (f"{one['rsd']:.2%} ({one['range']:.2%})" for one in (ours, theirs))
        cells += [single, f"{ours['trials_rsd']:.2%}" if "trials_rsd" in ours else "", peer]
        cells += [f"{one['wall_s']:.2f} s" for one in (ours, theirs)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"All cases: {ours_s:.2f} s a process, NVBench {theirs_s:.2f} s.", ""]
    lines += [f"* not as it should be: {problem}" for problem in problems]
    (out / "README.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    with (out / "processes.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = ("tool", "case", "median_us", "rsd", "samples", "wall_s", "stopped")
        writer.writerow(["run", "trial", *names])
        for document in documents:
            place = [document["about"][name] for name in ("run", "trial")]
            writer.writerows([*place, *(one[name] for name in names)] for one in document["rows"])


if __name__ == "__main__":
    sys.exit(main())
