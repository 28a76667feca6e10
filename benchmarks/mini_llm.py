"""A whole decoder on one GPU: its time per token beside the floor, and beside the sum of its measured kernels.

    python benchmarks/mini_llm.py [--out benchmarks/mini_llm_h200] [--gpu auto] [--only llama3_8b-bf16,…]
    python benchmarks/mini_llm.py --table-only --gpu h200_sxm     # the page again, on any machine, from the runs there

Runs, for each model and format of the weights, ``kernel=layer_ops`` (each operator by itself) and ``kernel=mini_llm``
(the decoder) into ``<out>/runs``; a run whose results are there is kept. Then, which needs no GPU, ``kernel=estimate
estimate.efficiency=measured`` from the first and beside the second, and ``<out>/README.md``. The floor of a step is
what it must read over the read ceiling of ``kernel=ceilings``, measured in the same session. Exit code 0 when all was
measured, the 8B model decodes at no less than 75 % of its floor, and every estimate is within 10 % of the TPOT and 20
% of the TTFT.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROMPT, STEPS = 128, 16
CONTEXT = PROMPT + (STEPS + 1) // 2 + 1
"""What a decode step sees on average, to within a token."""
COMMON = ("measure=quick", "tracking=none")
FLOOR_SHARE, TPOT_ERROR, TTFT_ERROR = 0.75, 0.10, 0.20
HELD_TO_FLOOR = "llama3_8b"
FIGURES = ("ttft_ms", "tpot_ms")


@dataclass(frozen=True)
class Case:
    """A model with its weights in one format."""

    model: str
    weights: str

    @property
    def name(self) -> str:
        return f"{self.model}-{self.weights}"

    @property
    def sizes(self) -> tuple[str, ...]:
        return f"model={self.model}", f"kernel.params.weights={self.weights}", f"kernel.params.prompt={PROMPT}"

    def kernels(self) -> tuple[str, ...]:
        """Each operator alone."""
        return "kernel=layer_ops", *self.sizes, f"kernel.params.context={CONTEXT}", "measure.modes=[cold]"

    def decoder(self) -> tuple[str, ...]:
        """The decoder; the text of ``graph`` holds that of ``prefill``, so it is judged first."""
        return "kernel=mini_llm", *self.sizes, f"kernel.params.steps={STEPS}", "variants=[graph,prefill]"

    def estimate(self, gpu: str, runs: Path) -> tuple[str, ...]:
        formats = (f"estimate.weights={self.weights}", "estimate.kv=bf16")
        given = (f"estimate.kernels={runs / self.name}-kernels", f"estimate.measured={runs / self.name}")
        shape = ("shape.batch=1", f"shape.prompt={PROMPT}", f"shape.output={STEPS}")
        wanted = ("kernel=estimate", "estimate.efficiency=measured", f"model={self.model}", f"gpu={gpu}")
        return *wanted, *shape, *formats, *given, "tracking=none"


CASES = (
    Case("llama3_8b", "bf16"),
    Case("qwen2_5_0_5b", "bf16"),
    Case("qwen2_5_0_5b", "w8a16"),
    Case("llama3_8b", "w8a16"),
)
"""In the order in which they run."""


def main() -> int:
    options = parse(sys.argv[1:])
    out = options.out.resolve()
    runs = out / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    chosen = [case for case in CASES if not options.only or case.name in options.only]
    if not options.table_only:
        commands: dict[str, tuple[str, ...]] = {"ceilings": ("kernel=ceilings", "variants=[read]")}
        for case in chosen:
            commands |= {f"{case.name}-kernels": case.kernels(), case.name: case.decoder()}
        for name, arguments in commands.items():
            print(execute(name, (*arguments, *COMMON, f"gpu={options.gpu}"), runs), flush=True)
        if options.no_table:
            return 0
    read_gbps = found(runs / "ceilings")["read"]["metrics"]["gbps"]
    rows, problems = [], []
    for case in chosen:
        made = execute(f"{case.name}-estimate", case.estimate(options.gpu, runs), runs)
        print(made, flush=True)
        try:
            rows.append(measured(case, runs, read_gbps))
        except KeyError as error:
            problems.append(f"{case.name}: {error} was not measured")
    problems += [problem for row in rows for problem in judge(row)]
    write(out, runs, rows, read_gbps, problems)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "mini_llm_h200", help="folder written to")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="only these, by commas")
    parser.add_argument("--gpu", default="auto", help="option of the gpu group")
    parser.add_argument("--table-only", action="store_true", help="write the page of the runs that are there")
    parser.add_argument("--no-table", action="store_true", help="measure, and leave the page to --table-only")
    options = parser.parse_args(arguments)
    names = [case.name for case in CASES]
    for name in options.only:
        if name not in names:
            parser.error(f"--only: {name!r} is not one of {', '.join(names)}")
    return options


def execute(name: str, arguments: Sequence[str], runs: Path) -> str:
    """Runs one command unless its results are there, and says how it went."""
    folder = runs / name
    if found(folder):
        return f"{name}: kept"
    begin = time.monotonic()
    command = [sys.executable, "-m", "runner", *arguments, f"hydra.run.dir={folder}"]
    with (runs / f"{name}.txt").open("w", encoding="utf-8") as log:
        done = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, check=False)
    return f"{name}: exit code {done.returncode} in {time.monotonic() - begin:.0f} s"


def found(folder: Path) -> dict[str, dict[str, Any]]:
    """Variant → its result, of those that passed."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/result.json"))]
    results += [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("result.json"))]
    return {result["variant"]: result for result in results if result["status"] == "PASSED"}


def measured(case: Case, runs: Path, read_gbps: float) -> dict[str, Any]:
    """A row of the page. Raises ``KeyError`` naming what is missing."""
    decoder = found(runs / case.name)
    (estimate,) = found(runs / f"{case.name}-estimate").values() or [None]
    if estimate is None:
        raise KeyError(f"{case.name}-estimate")
    figures = decoder["graph"]["metrics"]
    tpot_ms = figures["tpot_us"] / 1e3
    floor_ms = figures["bytes_per_token"] / (read_gbps * 1e6)
    return {
        "case": case,
        "result": decoder["graph"],
        "floor_ms": floor_ms,
        "share": floor_ms / tpot_ms,
        "measured": {"tpot_ms": tpot_ms, "ttft_ms": decoder["prefill"]["metrics"]["ttft_ms"]},
        "kernels": {figure: estimate["metrics"][figure] for figure in FIGURES},
        "p50_us": figures["tpot_us_p50"],
        "p99_us": figures["tpot_us_p99"],
        "bytes": figures["bytes_per_token"],
    }


def judge(row: dict[str, Any]) -> Iterator[str]:
    """What is not as it should be."""
    name = row["case"].name
    if row["case"].model == HELD_TO_FLOOR and row["share"] < FLOOR_SHARE:
        yield f"{name}: {row['share']:.1%} of the floor, not {FLOOR_SHARE:.0%}"
    for figure, limit in (("tpot_ms", TPOT_ERROR), ("ttft_ms", TTFT_ERROR)):
        error = row["kernels"][figure] / row["measured"][figure] - 1
        if abs(error) > limit:
            yield f"{name}: the estimate's {figure} is off by {error:+.1%}, more than {limit:.0%}"


def write(out: Path, runs: Path, rows: Sequence[dict[str, Any]], read_gbps: float, problems: Sequence[str]) -> None:
    lines = ["# A decoder on an H200: the floor, the sum of its kernels, and what it takes", ""]
    if rows:
        lines += _where(rows[0]["result"])
    lines += [
        f"* read ceiling in the same session: {read_gbps:.0f} GB/s (`kernel=ceilings`)",
        "",
        f"Written by `benchmarks/mini_llm.py`. Batch 1, prompts of {PROMPT} tokens, {STEPS} tokens decoded by a graph",
        "each, KV cache in bf16. The floor is what a step must read (weights, and the cache at its mean length) over",
        "the read ceiling.",
        "",
        "| model | weights | read a token | floor | TPOT | of the floor | p50 | p99 |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        cells = [row["case"].model, row["case"].weights, f"{row['bytes'] / 1e9:.3f} GB", f"{row['floor_ms']:.3f} ms"]
        cells += [f"{row['measured']['tpot_ms']:.3f} ms", f"{row['share']:.1%}"]
        cells += [f"{row[key] / 1e3:.3f} ms" for key in ("p50_us", "p99_us")]
        lines.append(_row(cells))
    lines += [
        "",
        "## Measured kernels beside the decoder",
        "",
        "`kernel=estimate estimate.efficiency=measured`: the operators of `kernel=layer_ops`, each measured by itself,",
        "are added up.",
        "",
        "| model | weights | figure | sum of kernels | measured | off by |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        for figure in FIGURES:
            made, seen = row["kernels"][figure], row["measured"][figure]
            cells = [row["case"].model, row["case"].weights, figure.removesuffix("_ms").upper()]
            lines.append(_row([*cells, f"{made:.3f} ms", f"{seen:.3f} ms", f"{made / seen - 1:+.1%}"]))
    aims = f"{FLOOR_SHARE:.0%} of the floor for {HELD_TO_FLOOR}, and estimates within {TPOT_ERROR:.0%} (TPOT) and "
    lines += ["", "## Short of the aims", "", f"{aims}{TTFT_ERROR:.0%} (TTFT) for all.", ""]
    lines += [f"* {problem}" for problem in problems] or ["Nothing."]
    lines += ["", "## Operators", "", "Time of a call, with cold caches, in µs.", ""]
    lines += _operators(rows, runs)
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for row in rows:
        for name in (row["case"].name, f"{row['case'].name}-kernels", f"{row['case'].name}-estimate"):
            log = runs / f"{name}.txt"
            if log.is_file():
                text = log.read_text(encoding="utf-8").replace(str(runs), "outputs").replace(str(ROOT), ".")
                (out / log.name).write_text("\n".join(map(str.rstrip, text.splitlines())) + "\n", encoding="utf-8")


def _operators(rows: Sequence[dict[str, Any]], runs: Path) -> list[str]:
    sets = [found(runs / f"{row['case'].name}-kernels") for row in rows]
    names = list(dict.fromkeys(name for each in sets for name in sorted(each)))
    lines = [_row(["operator", *(row["case"].name for row in rows)]), _row(["---", *("---:" for _ in rows)])]
    for name in names:
        figures = [each[name]["metrics"] if name in each else {} for each in sets]
        times = [one.get("call_us", one.get("time_us")) for one in figures]
        lines.append(_row([name, *("–" if one is None else f"{one:.1f}" for one in times)]))
    return lines


def _where(result: dict[str, Any]) -> list[str]:
    environment = result["environment"]
    state = environment.get("gpu_state", {})
    clocks = ", ".join(f"{name} {state[name]}" for name in ("sm_clock_mhz", "memory_clock_mhz") if name in state)
    changed = " with changes" if environment.get("git_dirty") else ""
    return [
        f"* device: {environment['device'].get('name', '')}, driver {environment['driver']}",
        f"* CUDA {environment['cuda']}, nvcc {environment.get('nvcc', '')}; clocks as found: {clocks}",
        f"* date: {result['started'][:10]}, commit {environment['git_commit']}{changed}",
    ]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
