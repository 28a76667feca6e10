"""Is the verdict right on a GPU? The same code against itself ten times, and against a kernel slowed on purpose.

    python benchmarks/verdicts.py [--out benchmarks/verdicts_h200] [--gpu auto] [--again 10]
    python benchmarks/verdicts.py --table-only      # the page again, from what was measured

Measures ``SWEEP`` once as the baseline and ``--again`` more times, each a command of its own, then once from a copy of
this checkout whose fp32 scan spins for ``SPIN`` cycles before it starts, about 3 % at 32k tokens. Each is compared with
the baseline by ``runner.compare``. Exit code 0 when no repetition gives a SLOWER and the slowed kernel is found.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SWEEP = ("kernel=kv_quant", "shape.context=8192,16384,32768", "variants=[fp32,fp16,q8]", "measure.modes=[cold]")
SLOWED, AT = "fp32", 32768
"""The variant that is slowed, and the context at which it must be found."""
SPIN = 4000
"""Cycles that every block of it waits before it begins, 2 us; all its blocks are on the GPU at once."""
PARTS = ("runner", "conf", "cuda_src", "hydra_plugins", "experiments", "pyproject.toml")
"""What a copy of the checkout needs."""
COMPARED = (0, 3, 4, 5)
"""Exit codes with which ``runner.compare`` says a verdict."""
ENTRY = "kv_scan_fp32_kernel("
WAIT = f"    for (const long long until = clock64() + {SPIN}; clock64() < until;) {{}}\n"


def main() -> int:
    options = parse(sys.argv[1:])
    out = options.out.resolve()
    runs = out / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    if not options.table_only:
        names = ["baseline", *(f"again_{number}" for number in range(1, options.again + 1))]
        for name in names:
            print(measured(name, ROOT, runs, options.gpu), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            slowed_copy(Path(folder))
            print(measured("slowed", Path(folder), runs, options.gpu), flush=True)
    candidates = sorted((path.name for path in runs.iterdir() if path.is_dir() and path.name != "baseline"), key=order)
    comparisons = {name: compared(runs, name) for name in candidates}
    problems = list(judged(comparisons))
    write(out, runs, comparisons, problems)
    print((out / "README.md").read_text())
    return 1 if problems else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "verdicts_h200", help="folder written to")
    parser.add_argument("--gpu", default="auto", help="option of the gpu group")
    parser.add_argument("--again", type=int, default=10, help="how often the same code is measured again")
    parser.add_argument("--table-only", action="store_true", help="write the page of what is there")
    return parser.parse_args(arguments)


def order(name: str) -> tuple[bool, int]:
    head, _, number = name.partition("_")
    return head != "again", int(number or 0)


def measured(name: str, checkout: Path, runs: Path, gpu: str) -> str:
    """Runs the sweep with a checkout's code into ``runs/<name>``, unless it is there."""
    folder = runs / name
    if folder.exists():
        return f"{name}: kept"
    begin = time.monotonic()
    line = [sys.executable, "-m", "runner", *SWEEP, f"gpu={gpu}", "tracking=none", "-m", f"hydra.sweep.dir={folder}"]
    path = os.pathsep.join([str(checkout), os.environ.get("PYTHONPATH", "")])
    with (runs / f"{name}.txt").open("w", encoding="utf-8") as log:
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(line, cwd=checkout, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False)
    shutil.rmtree(folder / "report", ignore_errors=True)  # plots and pages of each command, 5 MB, which nobody compares
    return f"{name}: exit code {done.returncode} in {time.monotonic() - begin:.0f} s"


def slowed_copy(folder: Path) -> None:
    """This checkout's code in ``folder``, with one kernel slowed."""
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    path = folder / "cuda_src" / "kv_quant.cu"
    text = path.read_text(encoding="utf-8")
    begin = text.index("{\n", text.index(ENTRY)) + 2
    path.write_text(text[:begin] + WAIT + text[begin:], encoding="utf-8")


def compared(runs: Path, name: str) -> dict[str, Any]:
    """The comparison of one sweep with the baseline, as ``runner.compare`` writes it."""
    folder = runs.parent / "comparisons" / name
    words = [f"baseline={runs / 'baseline'}", f"candidate={runs / name}", f"out={folder}", "file=false"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "runner.compare", *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    file = folder / "comparison.json"
    if done.returncode not in COMPARED:  # the file, if there is one, is an older one's
        raise SystemExit(f"{name}: no comparison (exit code {done.returncode}): {done.stderr}")
    return {"exit_code": done.returncode, "text": done.stdout, **json.loads(file.read_text(encoding="utf-8"))}


def judged(comparisons: dict[str, dict[str, Any]]) -> Iterator[str]:
    """What is not as it should be, one line each."""
    for name, comparison in comparisons.items():
        for pair in comparison["pairs"]:
            if name != "slowed" and pair["verdict"] == "SLOWER":
                yield f"{name}: {label(pair)} is called SLOWER"
            if name == "slowed" and target(pair) and pair["verdict"] != "SLOWER":
                yield f"slowed: {label(pair)} is called {pair['verdict']}"
            if name == "slowed" and pair["variant"] != SLOWED and pair["verdict"] == "SLOWER":
                yield f"slowed: {label(pair)}, which was left alone, is called SLOWER"
    if not any(map(target, comparisons.get("slowed", {}).get("pairs", ()))):
        yield f"slowed: {SLOWED} T={AT} was not compared"


def target(pair: dict[str, Any]) -> bool:
    return pair["variant"] == SLOWED and int(pair["params"]["T"]) == AT


def label(pair: dict[str, Any]) -> str:
    return f"{pair['variant']} T={pair['params']['T']}"


def write(out: Path, runs: Path, comparisons: dict[str, dict[str, Any]], problems: Sequence[str]) -> None:
    """The page, and every verdict as CSV."""
    example = json.loads(next(iter(sorted((runs / "baseline").rglob("result.json")))).read_text(encoding="utf-8"))
    environment = example["environment"]
    state = environment.get("gpu_state", {})
    clocks = ", ".join(f"{name} {state[name]}" for name in ("sm_clock_mhz", "memory_clock_mhz") if name in state)
    same = [c for name, c in comparisons.items() if name != "slowed"]
    counts = Counter(pair["verdict"] for comparison in same for pair in comparison["pairs"])
    effects = [abs(pair["effect"]) for comparison in same for pair in comparison["pairs"] if pair["effect"] is not None]
    counted = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
    lines = [
        "# Verdicts on an H200: the same code against itself, and a kernel slowed by 3 %",
        "",
        f"* device: {environment['device'].get('name', '')}, driver {environment['driver']}",
        f"* CUDA {environment['cuda']}; clocks as found: {clocks}",
        f"* date: {example['started'][:10]}, commit {environment['git_commit']}",
        f"* `python -m runner {' '.join(SWEEP)}`, standard rules, a command of its own each time",
        "",
        "Written by `benchmarks/verdicts.py`.",
        "",
        f"The same code {len(same)} times against the first: {counted}; largest change {max(effects, default=0):.2%}.",
        "",
        f"## `{SLOWED}` slowed by {SPIN} cycles",
        "",
        "| variant | context | effect | 95 % interval | verdict |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for pair in comparisons.get("slowed", {}).get("pairs", ()):
        interval = f"{pair['low']:+.2%} … {pair['high']:+.2%}" if pair.get("low") is not None else ""
        effect = f"{pair['effect']:+.2%}" if pair["effect"] is not None else ""
        lines.append(f"| {pair['variant']} | {pair['params']['T']} | {effect} | {interval} | {pair['verdict']} |")
    lines += ["", *(f"* not as it should be: {problem}" for problem in problems)]
    (out / "README.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    with (out / "verdicts.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["candidate", "variant", "context", "effect", "low", "high", "verdict", "reason"])
        for name, comparison in comparisons.items():
            for pair in comparison["pairs"]:
                figures = [pair["effect"], pair["low"], pair["high"], pair["verdict"], pair["reason"]]
                writer.writerow([name, pair["variant"], pair["params"]["T"], *figures])


if __name__ == "__main__":
    sys.exit(main())
