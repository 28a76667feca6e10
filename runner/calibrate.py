"""``python -m runner.calibrate data=<csv> [model=<option>] [engine=<name>] [out=<file or folder>]``: how far an
engine stays from the datasheet, fitted to measured times.

The CSV has a row for each load; ``runner/estimate/measured.py`` names its columns. Each engine, model, GPU and
precision in it gets constants of its own, which are tried on every configuration that was left out of the fit.
``model`` is the option of the ``model`` group that the file's model is, where its name does not say so. ``out`` is a
YAML file (one engine), or a folder that gets one for each; ``kernel=estimate estimate.efficiency=<file>`` reads it.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import OmegaConf

from runner import command_line, streams
from runner.config.errors import ConfigError, choose_from, unknown_option
from runner.config.schema import Estimate, Model
from runner.estimate import architecture, calibration, fitting, measured, precision
from runner.estimate.calibration import Calibration, Errors
from runner.estimate.fitting import Case, Check
from runner.estimate.measured import Row
from runner.estimate.model import Architecture, Efficiency, Machine, Precision
from runner.execute.estimating import machine_of
from runner.execute.targets import known_gpus
from runner.exit_codes import PASSED, REFUSED
from runner.paths import conf_dir, given
from runner.plan.errors import PlanError

USAGE = "usage: python -m runner.calibrate data=<csv> [model=<option>] [engine=<name>] [out=<file or folder>]"
_OPTIONS = ("data", "model", "engine", "out")
_KV = ("float8", "bfloat16")
"""How engines store the KV cache where they are not told; of the two the one that the data do not contradict."""
_OTHER = "bfloat16"
_WORST = 5
"""Rows shown."""


@dataclass(frozen=True)
class Group:
    """Rows of one engine, model, GPU and precision, with all that was found out about them."""

    calibration: Calibration
    checks: list[Check]
    """Every fitted row, predicted from a fit without its configuration."""
    cases: list[Case]
    refuted: dict[str, int]
    """KV precision that was tried → rows whose measured TTFT contradicts it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fits, prints and writes; the exit code."""
    return command_line.run(__doc__, USAGE, arguments, _parse, _calibrate, refused=(ConfigError, PlanError, ValueError))


def _calibrate(options: dict[str, str]) -> int:
    grouped = _grouped(options)
    paths = _targets(options["out"], grouped)
    groups = [_group(rows, options["model"], Path(options["data"]).name) for rows in grouped]
    for group in groups:
        print("\n".join(_report(group)), end="\n\n")
    try:
        for path, group in zip(paths, groups, strict=bool(paths)):
            calibration.write(group.calibration, path)
            print(f"wrote {path}: python -m runner kernel=estimate estimate.efficiency={path}")
    except OSError as error:
        streams.complain(f"cannot write {error.filename}: {error.strerror}")
        return REFUSED
    return PASSED


def _parse(words: Sequence[str]) -> dict[str, str]:
    options = dict.fromkeys(_OPTIONS, "")
    for word in words:
        key, equals, value = word.partition("=")
        if key not in options or not equals or not value:
            raise ValueError(f"{word}: known are {', '.join(f'{name}=…' for name in _OPTIONS)}")
        options[key] = value
    if not options["data"]:
        raise ValueError("data= is missing: the CSV file of measured times")
    return options


def _grouped(options: dict[str, str]) -> list[list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    rows = measured.read(given(options["data"]))
    engines = sorted({row.engine for row in rows})
    if options["engine"] and options["engine"] not in engines:
        raise ConfigError(f"engine={options['engine']}: not in the data; {choose_from(options['engine'], engines)}")
    for row in rows:
        if row.engine == (options["engine"] or row.engine):
            groups.setdefault((row.engine, row.model, row.gpu, row.precision), []).append(row)
    if options["model"] and len({row.model for found in groups.values() for row in found}) > 1:
        raise ConfigError(f"model={options['model']}: the data hold several models; leave it out")
    return [groups[key] for key in sorted(groups)]


def _group(rows: list[Row], chosen: str, data: str) -> Group:
    first = rows[0]
    model = chosen or _option_of(first.model)
    arch, machine = architecture.of(_model(model)), _machine(first.gpu)
    weights = precision.of(first.precision)
    tried = {kv: _cases(rows, arch, machine, weights, precision.of(kv)) for kv in _KV}
    refuted = {kv: len(fitting.contradictions(cases)) for kv, cases in tried.items()}
    fits = {kv: cases for kv, cases in tried.items() if all(case.load.slots for case in fitting.usable(cases))}
    if not fits:
        raise ConfigError(f"{first.engine}: {model} with {weights.name} weights does not fit where it was measured")
    kv = min(fits, key=lambda name: (refuted[name], _KV.index(name)))
    cases = fits[kv]
    used = fitting.usable(cases)
    try:
        efficiency = fitting.fit(used)
        checks = fitting.left_out(used, efficiency)
    except ValueError as error:
        raise ConfigError(f"{first.engine}: {error}") from error
    within = fitting.check(used, efficiency)
    errors = Errors(
        tpot=fitting.tpot_percent(within),
        ttft=fitting.ttft_percent(within),
        tpot_left_out=fitting.tpot_percent(checks),
        ttft_left_out=fitting.ttft_percent(checks),
    )
    found = Calibration(
        engine=first.engine,
        model=model,
        gpu=first.gpu,
        weights=weights.name,
        kv=kv,
        data=data,
        date=datetime.datetime.now(datetime.timezone.utc).date(),
        rows=len(used),
        rows_left_out=len(rows) - len(used),
        errors=errors,
        efficiency=efficiency,
    )
    return Group(found, checks, cases, refuted)


def _cases(rows: list[Row], arch: Architecture, machine: Machine, weights: Precision, kv: Precision) -> list[Case]:
    settings = Estimate()
    reserve, share = int(settings.reserve_gb * 1e9), settings.memory_share
    return fitting.cases(rows, arch, machine, weights, kv, precision.of(_OTHER), reserve, share)


def _option_of(name: str) -> str:
    option = measured.model_option(name)
    if not option:
        raise ConfigError(
            f"model_path={name}: not known by that name; say which option of the model group it is: model=…"
        )
    return option


def _model(name: str) -> Model:
    """An option of the installed ``conf/model``."""
    paths = {path.stem: path for path in sorted((conf_dir() / "model").glob("*.yaml"))}
    if name not in paths:
        raise unknown_option("model", name, list(paths))
    model = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Model), OmegaConf.load(paths[name])))
    assert isinstance(model, Model)
    return model


def _machine(name: str) -> Machine:
    known = {key: gpu for key, gpu in known_gpus().items() if gpu.bandwidth_gbps}
    if name not in known:
        raise ConfigError(f"system={name}: no option of the gpu group with a datasheet; {choose_from(name, known)}")
    return machine_of(known[name])


def _targets(out: str, groups: list[list[Row]]) -> list[Path]:
    """A file for each group; none where nothing is to be written. Refused before the fits, which take seconds."""
    if not out:
        return []
    path = given(out)
    if path.suffix in (".yaml", ".yml"):
        if len(groups) > 1:
            names = ", ".join(dict.fromkeys(rows[0].engine for rows in groups))
            raise ConfigError(
                f"out={out}: one file for {len(groups)} fits ({names}); choose one with engine=, or name a folder"
            )
        return [path]
    if os.path.isfile(path):
        raise ConfigError(f"out={out}: is a file; name a folder, or a file that ends in .yaml")
    return [path / f"{_stem(rows[0])}.yaml" for rows in groups]


def _stem(row: Row) -> str:
    """A file's name, safe whatever the data hold."""
    parts = (row.engine, row.model.rsplit("/", 1)[-1], row.precision, row.gpu)
    return re.sub(r"[^a-z0-9.]+", "_", "_".join(parts).lower()).strip("._")


def _report(group: Group) -> list[str]:
    found, errors = group.calibration, group.calibration.errors
    tried = ", ".join(f"{kv} {count}" for kv, count in group.refuted.items())
    lines = [
        f"{found.engine}: {found.model}, {found.weights} weights on {found.gpu}",
        f"  rows: {found.rows} fitted of {len(group.cases)}; {found.rows_left_out} waited for KV space "
        f"(TTFT of {fitting.QUEUED_TTFT_S:g} s and more)",
        f"  KV cache: {found.kv} (rows whose TTFT contradicts it: {tried})",
        f"  constants: {_constants(found.efficiency)}",
        "  mean absolute error, %    in sample  configuration left out",
        f"    TPOT                    {errors.tpot:9.1f}  {errors.tpot_left_out:22.1f}",
        f"    TTFT                    {errors.ttft:9.1f}  {errors.ttft_left_out:22.1f}",
    ]
    limits = fitting.at_bound(found.efficiency)
    if limits:
        lines.append(f"  at the limit of what is allowed: {', '.join(limits)}; the data do not fix it, or want more")
    for what in ("tpot", "ttft"):
        lines.append(f"  worst {what.upper()}, configuration left out")
        ranked = sorted(group.checks, key=lambda one: -abs(getattr(one, f"{what}_error")))
        for one in ranked[:_WORST]:
            there, here = getattr(one.row, f"{what}_s"), getattr(one.served, f"{what}_s")
            lines.append(
                f"    {one.row.shown}: measured {there * 1e3:.4g} ms, "
                f"predicted {here * 1e3:.4g} ms ({getattr(one, f'{what}_error'):+.0%})"
            )
    return lines + _waiting(group)


def _waiting(group: Group) -> list[str]:
    """Rows that waited, as measured or as predicted."""
    lines = []
    for case in group.cases:
        if case.waited or case.load.queues:
            if case.load.slots:
                seen = case.load.served(group.calibration.efficiency)
                said = f"predicted {seen.ttft_s:.4g} s, of which {seen.waiting_s:.4g} s wait"
            else:
                said = "predicted not to fit"
            lines.append(
                f"    {case.row.shown}: {case.load.slots} slots; TTFT measured {case.row.ttft_s:.4g} s, {said}"
            )
    return ["  waiting for KV space, as measured or as predicted", *lines] if lines else []


def _constants(efficiency: Efficiency) -> str:
    return ", ".join(f"{key} {getattr(efficiency, key):.4g}" for key in calibration.RANGES)


if __name__ == "__main__":
    sys.exit(main())
