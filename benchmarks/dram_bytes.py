"""Declared bytes against counted ones: what each family says a step must move, and what the GPU's counters saw.

    python benchmarks/dram_bytes.py [--out benchmarks/dram_bytes_h200] [--families kv_quant,fusion] [--gpu auto]
    python benchmarks/dram_bytes.py --table-only --out benchmarks/dram_bytes_h200     # from the runs that are there

Every family runs at sizes far above the L2. When a kernel ends, up to 60 MB of what it wrote lie in the L2 of an H200
and have not been counted, so arrays written are of 1.2 GB where the family allows it; arrays that are only read are
of half a gigabyte, and the L2 is emptied before each kernel. Only arrays that the device fills are enlarged. Nsight
Compute counts the bytes between L2 and memory in one pass (``profiler.sections=traffic``), one process a command.
Results stay in ``<out>/runs/<point>``, what the command printed in ``<out>/runs/<point>.txt``; a point whose results
are there is not run again.

Writes ``<out>/dram_bytes.csv`` and ``<out>/README.md``: per variant declared and counted bytes each way, declared over
counted, and the reason where they differ by more than 5 % (``traffic`` of the variant in ``conf/kernel/``). Exit code 0
when every variant was counted and none differs without a reason.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

ROOT = Path(__file__).resolve().parent.parent
TOLERANCE = 0.05
COMMON = (
    "tracking=none",
    "measure=fixed",
    "measure.fixed=1",
    "measure.warmup=0",
    "measure.modes=[cold]",
    "profiler=ncu",
    "profiler.sections=traffic",
    "profiler.reports=experiment",
    "profiler.launch_count=0",
)


@dataclass(frozen=True)
class Point:
    """One command: a family at sizes far above the L2."""

    family: str
    params: tuple[str, ...]
    """``<letter>=<value>`` of ``kernel.params``."""
    variants: tuple[str, ...] = ()
    """Those that are far above the L2 at these sizes; empty = all."""

    @property
    def name(self) -> str:
        """Of its folder; several points of a family differ in their variants."""
        return "-".join([self.family, *self.variants[:1]])

    def overrides(self, gpu: str) -> list[str]:
        """The command line."""
        chosen = [f"variants=[{','.join(self.variants)}]"] if self.variants else []
        sizes = [f"kernel.params.{param}" for param in self.params]
        return [f"kernel={self.family}", f"gpu={gpu}", *sizes, *chosen, *COMMON]


POINTS = (
    Point("allocator", ("MB=2048", "iters=2", "slots=2")),
    Point("ceilings", ("MB=4096",), ("copy", "read", "write")),  # the others are arithmetic
    Point(
        "chunked_prefill",
        ("prefillMB=4096", "chunks=2", "decodeN=536870912", "decode_steps=2", "prefill_compute=4", "decode_compute=4"),
    ),
    Point("cuda_graph_decode", ("B=81920", "H=4096", "steps=2")),
    Point("decode_roofline", ("N=65536", "K=8192")),
    Point("fusion", ("B=327680", "H=4096")),
    Point("gqa_decode", ("B=64", "T=8192", "QH=32", "KVH=8", "D=128")),
    Point("host_transfer", ("MB=1536", "chunks=2", "compute=1")),
    Point("kv_cache", ("B=40", "T=8192", "H=8", "D=128", "page=16"), ("BSHD", "BHSD", "Paged")),
    Point("kv_cache", ("B=65536", "T=2", "H=32", "D=128", "page=2"), ("append_BSHD", "append_BHSD", "append_Paged")),
    Point("kv_quant", ("B=32", "H=8", "T=8192", "D=128")),
    Point("logits_processor", ("B=1024", "V=524288")),
    Point("mini_llm", ("L=2", "V=65536", "prompt=1", "steps=1")),
    Point("moe_routing", ("T=81920", "H=4096", "E=8", "K=1")),
    Point("paged_kv_decode", ("B=32", "T=8192", "H=8", "D=128", "page=16")),
    # Requests that share pages copy them one after another: for the copies, none do.
    Point(
        "prefix_cache", ("B=128", "prefix=8192", "H=8", "D=128", "page=16", "share=1"), ("no_cache", "alias", "copy")
    ),
    Point(
        "prefix_cache", ("B=256", "prefix=1048576", "H=1", "D=1", "page=1", "hit=100", "share=64"), ("table_update",)
    ),
    Point("profiling_ranges", ("N=536870912", "iters=64")),
    Point("quant_decode", ("N=65536", "K=16384", "group=128")),
    Point("ragged_batch", ("Bmax=64", "active=37", "Tmax=16384", "H=8", "D=128")),
    Point("rope_layout", ("B=128", "T=1024", "H=32", "D=128")),
    Point("sampler", ("B=1024", "V=524288")),
    Point("spec_decode", ("N=201326592", "windows=1", "draft=2", "accept=2")),
    Point("streams", ("S=2", "N=536870912", "steps=2", "compute=4")),
    Point("sync", ("N=536870912", "steps=2")),
)
"""In the order of the table. Within 60 GB of memory each."""

VERSIONS = {"driver": "driver", "CUDA": "cuda", "nvcc": "nvcc"}
CLOCKS = ("sm_clock_mhz", "memory_clock_mhz")
COLUMNS = (
    "family",
    "variant",
    "sizes",
    "declared_read",
    "declared_written",
    "counted_read",
    "counted_written",
    "declared_over_counted",
    "reason",
)


def main() -> int:
    options = parse(sys.argv[1:])
    chosen = [point for point in POINTS if not options.families or point.family in options.families]
    out = options.out.resolve()
    runs = out / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    if not options.table_only:
        begin = time.monotonic()
        with ThreadPoolExecutor(options.jobs) as pool:
            for number, line in enumerate(pool.map(lambda point: run(point, options.gpu, runs), chosen), 1):
                print(f"[{number}/{len(chosen)} {time.monotonic() - begin:4.0f} s] {line}", flush=True)
    rows: list[dict[str, str]] = []
    facts: list[dict[str, str]] = []
    for point in chosen:
        for result in results(runs / point.name):
            rows.append(row(point, result))
            facts.append(facts_of(result))
    write(out, rows, facts)
    unexplained = [one for one in rows if not one["reason"] and differs(one)]
    missing = [point.name for point in chosen if not list(results(runs / point.name))]
    for one in unexplained:
        print(f"no reason: {one['family']} {one['variant']}: {one['declared_over_counted'] or 'not counted'}")
    for name in missing:
        print(f"no results: {name}; see {runs / name}.txt")
    print(f"{len(rows)} variants in {out / 'README.md'}")
    return 1 if unexplained or missing else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "dram_bytes_h200", help="folder written to")
    parser.add_argument("--families", type=lambda text: text.split(","), default=[], help="only these, by commas")
    parser.add_argument("--gpu", default="auto", help="option of the gpu group")
    parser.add_argument("--jobs", type=int, default=2, help="commands at once: one compiles while one has the GPU")
    parser.add_argument("--table-only", action="store_true", help="make the table of the runs that are there")
    options = parser.parse_args(arguments)
    known = {point.family for point in POINTS}
    for family in options.families:
        if family not in known:
            parser.error(f"--families: {family!r} is not one of {', '.join(sorted(known))}")
    return options


def run(point: Point, gpu: str, runs: Path) -> str:
    """Runs one point unless it has results, and says how it went."""
    folder = runs / point.name
    if list(results(folder)):
        return f"{point.name}: kept"
    begin = time.monotonic()
    command = [sys.executable, "-m", "runner", *point.overrides(gpu), f"hydra.run.dir={folder}"]
    log = folder.with_name(f"{folder.name}.txt")
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, check=False)
    found = list(results(folder))
    counted = sum("counted_dram_bytes" in result["profile"]["metrics"] for result in found)
    problems = {result["message"] or result["profile"]["reason"] for result in found} - {""}
    words = f"{point.name}: {counted} of {len(found)} counted in {time.monotonic() - begin:.0f} s"
    if done.returncode:
        words += f", exit code {done.returncode}, see {log}"
    return "; ".join([words, *sorted(problems)])


def results(folder: Path) -> Iterator[dict[str, Any]]:
    """Those of one point that ran, in the family's order."""
    found = {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*/result.json")}
    family = folder.name.split("-")[0]
    yield from (found[name] for name in variants(family) if name in found)


def variants(family: str) -> dict[str, str]:
    """Variant → its stated reason, from the family's YAML."""
    spec: Any = OmegaConf.load(ROOT / "conf" / "kernel" / f"{family}.yaml")
    return {str(name): str(variant.get("traffic", "")) for name, variant in spec.variants.items()}


def row(point: Point, result: dict[str, Any]) -> dict[str, str]:
    """One line of the table; what was not counted is empty, and then the reason is the profile's."""
    declared, counted = result["metrics"], result["profile"]["metrics"]
    one = {
        "family": point.family,
        "variant": result["variant"],
        "sizes": " ".join(point.params),
        "declared_read": figure(declared.get("bytes_read")),
        "declared_written": figure(declared.get("bytes_written")),
        "counted_read": figure(counted.get("dram_bytes_read")),
        "counted_written": figure(counted.get("dram_bytes_written")),
        "declared_over_counted": figure(counted.get("declared_over_counted"), "{:.4f}"),
        "reason": "",
    }
    if differs(one):
        one["reason"] = variants(point.family)[result["variant"]]
    if result["status"] != "PASSED":
        one["reason"] = f"{result['status']}: {result['message']}"
    return one


def figure(value: float | None, form: str = "{:.0f}") -> str:
    return "" if value is None else form.format(value)


def differs(one: dict[str, str]) -> bool:
    """Whether declared and counted bytes are more than 5 % apart, or were not counted."""
    ratio = one["declared_over_counted"]
    return not ratio or abs(float(ratio) - 1) > TOLERANCE


def facts_of(result: dict[str, Any]) -> dict[str, str]:
    """Where and when a run was made."""
    environment = result["environment"]
    state = environment.get("gpu_state", {})
    return {
        "GPU": environment.get("device", {}).get("name", ""),
        **{name: str(environment.get(key, "")) for name, key in VERSIONS.items()},
        "clocks": ", ".join(f"{name} {state[name]}" for name in CLOCKS if name in state),
        "date": result["started"][:10],
        "commit": environment.get("git_commit", "") + (" with changes" if environment.get("git_dirty") else ""),
    }


def write(out: Path, rows: Sequence[dict[str, str]], facts: Sequence[dict[str, str]]) -> None:
    """The table as CSV and as Markdown."""
    with (out / "dram_bytes.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    within = sum(not differs(one) for one in rows)
    lines = [
        "# Declared bytes against counted DRAM bytes",
        "",
        f"Written by `benchmarks/dram_bytes.py`: {len(rows)} variants, {within} within {TOLERANCE:.0%}. Gigabytes "
        "(1e9) of one step; counted by Nsight Compute, one pass a kernel, the L2 emptied before each.",
        "",
        *(f"* {name}: {', '.join(sorted({fact[name] for fact in facts}))}" for name in (facts[0] if facts else ())),
        f"* each family: `python -m runner kernel=… {' '.join(COMMON)}`, with the sizes as `kernel.params.…`",
        "",
        "| family | variant | sizes | declared read | written | counted read | written | declared / counted | reason |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for one in rows:
        amounts = [f"{float(one[name]) / 1e9:.3f}" if one[name] else "–" for name in COLUMNS[3:7]]
        ratio = one["declared_over_counted"] or "–"
        cells = [one["family"], one["variant"], one["sizes"], *amounts, ratio, one["reason"]]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
