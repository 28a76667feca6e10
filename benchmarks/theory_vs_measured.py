"""Theory beside measurement: every load of a measured CSV, estimated at three levels.

    python benchmarks/theory_vs_measured.py [--data tests/data/measured_….csv] [--out benchmarks/calibration_h200]

``--out`` holds the fitted constants of each engine (``python -m runner.calibrate``); an engine's KV cache is stored as
its file says. Writes ``theory_vs_measured.md`` there: the mean absolute percentage error of each level and engine, and
the loads of few requests one by one with the main reason that the ideal roofline is off; and a plot of that level.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from runner.config.schema import Estimate as Settings
from runner.config.schema import Model
from runner.estimate import architecture, beside, calibration, measured, precision
from runner.estimate.estimate import estimate
from runner.estimate.measured import Row
from runner.estimate.model import Compared, Efficiency, Estimate, Parallel, Work
from runner.execute.estimating import machine_of, model_efficiency
from runner.execute.targets import known_gpus
from runner.paths import conf_dir
from runner.report.markdown import joined, table
from runner.report.numbers import digits
from runner.report.theory import PLOT, write_plot

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data" / "measured_llama_3_1_70b_fp8_h200.csv"
OUT = ROOT / "benchmarks" / "calibration_h200"
PAGE = "theory_vs_measured.md"
LEVELS = ("ideal", "model", "calibrated")
FIGURES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "tokens_per_s": "tokens/s"}
FEW, LENGTH = 4, 1024
"""Requests in flight, and tokens of prompt and output, of the loads that are shown one by one."""


@dataclass(frozen=True)
class Load:
    """A row with its estimates, level by level."""

    row: Row
    made: dict[str, Estimate]

    def compared(self, level: str, figure: str) -> Compared:
        (found,) = (one for one in self.made[level].compared if one.figure == figure)
        return found


def loads(data: Path, constants: Path) -> list[Load]:
    """Every row of ``data`` whose engine has constants. Raises ``ConfigError``, ``OSError``."""
    settings = Settings()
    fitted = {}
    for path in sorted(constants.glob("*.yaml")):
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
        fitted[said["engine"]] = (said["kv"], calibration.read(path))
    found = []
    for row in measured.read(data):
        if row.engine in fitted:
            kv, constants_of = fitted[row.engine]
            levels = (Efficiency(), model_efficiency(settings), constants_of)
            made = {name: _beside(row, kv, level, settings) for name, level in zip(LEVELS, levels, strict=True)}
            found.append(Load(row, made))
    return found


def _beside(row: Row, kv: str, efficiency: Efficiency, settings: Settings) -> Estimate:
    work = Work(
        row.concurrency,
        row.prompt,
        row.output,
        weights=precision.of(row.precision),
        kv=precision.of(kv),
        other=precision.of(settings.other),
    )
    arch = architecture.of(_model(measured.model_option(row.model)))
    machine = machine_of(known_gpus()[row.gpu])
    reserve = int(settings.reserve_gb * 1e9)
    made = estimate(arch, work, Parallel(tensor=row.tensor), machine, efficiency, reserve, settings.memory_share)
    found = beside.of_load(row.engine, "", row.ttft_s, row.tpot_s, row.concurrency, row.output)
    return beside.compared(made, [found], model_efficiency(settings))


def _model(name: str) -> Model:
    found: Any = OmegaConf.merge(OmegaConf.structured(Model), OmegaConf.load(conf_dir() / "model" / f"{name}.yaml"))
    made = OmegaConf.to_object(found)
    assert isinstance(made, Model)
    return made


def mape(those: Sequence[Load], level: str, figure: str) -> float:
    """Mean absolute percentage error of the theory, of what was measured."""
    errors = [abs(1 / one.compared(level, figure).ratio - 1) for one in those]
    return 100 * sum(errors) / len(errors)


def errors_table(found: Sequence[Load]) -> str:
    rows = []
    for engine in sorted({one.row.engine for one in found}):
        those = [one for one in found if one.row.engine == engine]
        for level in LEVELS:
            figures = [f"{mape(those, level, figure):.1f} %" for figure in FIGURES]
            rows.append([engine, level, str(len(those)), *figures])
    return table(["engine", "level", "loads", *FIGURES.values()], rows, left=2)


def few_table(found: Sequence[Load]) -> str:
    """The loads of ``FEW`` requests of ``LENGTH`` tokens each way, ordered by engine and GPUs."""
    few = [one for one in found if (one.row.concurrency, one.row.prompt, one.row.output) == (FEW, LENGTH, LENGTH)]
    rows = []
    for one in sorted(few, key=lambda load: (load.row.engine, load.row.tensor)):
        for figure, title in FIGURES.items():
            ideal = one.compared("ideal", figure)
            theories = []
            for level in LEVELS:
                beside_it = one.compared(level, figure)
                theories += [digits(beside_it.theoretical), f"{beside_it.ratio:.2f}×"]
            rows.append([one.row.engine, str(one.row.tensor), title, digits(ideal.measured), *theories, ideal.reason])
    levels = [word for level in LEVELS for word in (level, "ratio")]
    return table(["engine", "TP", "figure", "measured", *levels, "main reason"], rows, left=3, told=True)


def page(found: Sequence[Load], data: Path) -> str:
    return joined(
        [
            "# Theory beside measurement on an H200",
            f"`python benchmarks/theory_vs_measured.py` wrote this page from `{data.name}` (NVIDIA's measurements, see "
            "[README.md](README.md); nothing was measured here) and from the constants in this folder. Times are of a "
            "server that keeps its requests in flight, ms. Tokens/s are output tokens of all requests, which neither "
            "side measured: requests · output / (TTFT + (output − 1) · TPOT).",
            "* `ideal`: the datasheet's rates, a bound.\n"
            "* `model`: `estimate.efficiency=model` with its default constants, the same for every engine.\n"
            "* `calibrated`: the constants fitted to these very loads, so an error in sample; README.md has that of "
            "loads left out.",
            "## Mean absolute error of the theory, per cent of the measured",
            errors_table(found),
            f"## {FEW} requests in flight, prompt and output {LENGTH:,} tokens",
            "The ratio is measured over theoretical. TPOT holds the prefills of requests that replace finished ones, "
            "a step alone is shorter. The reason is that of the ideal roofline: what `model` adds to it, the largest "
            "first, and how far that is from what was measured.",
            few_table(found),
            f"![Measured over theoretical, ideal roofline, every load]({PLOT})",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    found = loads(options.data, options.out)
    if not found:
        print(f"error: {options.out} holds constants of no engine in {options.data}", file=sys.stderr)
        return 2
    (options.out / PAGE).write_text(page(found, options.data), encoding="utf-8")
    write_plot([one.made["ideal"] for one in found], options.out)
    print(f"wrote {options.out / PAGE} and {PLOT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
