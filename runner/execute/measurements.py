"""``estimate.measured=<path>``: what was measured of the load of an estimate, from a result or from a CSV of loads."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

from runner.config.errors import ConfigError, choose_from
from runner.config.schema import Config
from runner.estimate import measured, precision
from runner.estimate.beside import FIGURES, Measurement, of_load
from runner.estimate.measured import Row
from runner.estimate.model import Estimate, Work
from runner.execute import decoder_runs
from runner.execute.kernel_sets import Found
from runner.execute.result_files import below
from runner.paths import given
from runner.result import document
from runner.result.document import FILE_NAME, DocumentError
from runner.result.model import Result, Status


def measurements(config: Config, made: Estimate) -> list[Measurement]:
    """Nothing where none is asked for. Raises ``ConfigError`` naming the file and what was looked for in it."""
    settings = config.estimate
    if not settings.measured:
        return []
    path = given(settings.measured)
    where = f"estimate.measured={settings.measured}"
    filed = decoder_runs.in_store(settings.measured, config, made)
    if filed is None and not os.path.exists(path):
        raise ConfigError(
            f"{where}: no such file; needed is a {FILE_NAME}, the folder of one, a CSV of loads, "
            f"{decoder_runs.STORE} or {decoder_runs.RUN}<id>"
        )
    if filed is None and not path.is_dir() and path.suffix != ".json":
        if made.kernels is not None:
            raise ConfigError(
                f"{where}: its rows are of a server, whose times estimate.efficiency=measured does not tell; use "
                "ideal, model or a file of constants"
            )
        return _of_rows(settings.engine, where, path, made)
    if settings.engine:
        raise ConfigError(f"estimate.engine={settings.engine}: chooses rows of a CSV, and {where} is a result")
    found = filed if filed is not None else _decoder_results(where, path)
    if found:
        return decoder_runs.measurements(where, found, made, _cause)
    return [_of_result(where, path)]


def _decoder_results(where: str, path: Path) -> list[Found]:
    """The variants of this repository's own decoder at ``path`` or in the folders in it; nothing where it is the result
    of another program."""
    own = path / FILE_NAME if path.is_dir() else path
    files = [own] if own.is_file() else sorted(path.glob(f"*/{FILE_NAME}"))
    found = [one for file in files for one in below(where, file)]
    return [one for one in found if one.result.kernel == decoder_runs.DECODER]


def _of_result(where: str, path: Path) -> Measurement:
    """The figures that a run measured, with the first cause of its diagnosis."""
    file = _result_file(where, path) if path.is_dir() else path
    try:
        found = document.read(file)
    except DocumentError as error:
        raise ConfigError(f"{where}: {error}") from error
    if "fits" in found.metrics:
        raise ConfigError(f"{where}: is an estimate; needed is a run that measured {_listed(FIGURES)}")
    if found.status is not Status.PASSED:
        raise ConfigError(f"{where}: the run ended as {found.status.value}; needed is one that passed")
    figures = {name: found.metrics[name] for name in FIGURES if 0 < found.metrics.get(name, 0.0) < math.inf}
    if not figures:
        there = ", ".join(sorted(found.metrics)) or "none"
        raise ConfigError(f"{where}: has no metric {_listed(FIGURES)} above 0; its metrics are {there}")
    return Measurement(_name(found.variant or found.kernel), str(path), figures, served=False, cause=_cause(found))


def _result_file(where: str, folder: Path) -> Path:
    """The folder's own result, or that of its only variant."""
    if (folder / FILE_NAME).is_file():
        return folder / FILE_NAME
    found = sorted(folder.glob(f"*/{FILE_NAME}"))
    if len(found) > 1:
        raise ConfigError(f"{where}: holds several results; name one of {', '.join(one.parent.name for one in found)}")
    if not found:
        raise ConfigError(f"{where}: holds no {FILE_NAME}, nor does a folder in it")
    return found[0]


def _cause(result: Result) -> str:
    if not result.diagnosis.causes:
        return ""
    first = result.diagnosis.causes[0]
    evidence = f": {first.evidence[0].rstrip('.')}" if first.evidence else ""
    return f"{first.bound.replace('_', ' ')} ({first.confidence}){evidence}"


def _of_rows(engine: str, where: str, path: Path, made: Estimate) -> list[Measurement]:
    """One for each engine that has a row of exactly this load."""
    rows = measured.read(path, "estimate.measured")
    engines = sorted({row.engine for row in rows})
    if engine and engine not in engines:
        raise ConfigError(f"estimate.engine={engine}: not in {path}; {choose_from(engine, engines)}")
    of = [row for row in rows if row.engine == (engine or row.engine)]
    alike = [row for row in of if _same_model(row, made)]
    wanted = (
        f"model {made.architecture.name}, gpu {made.machine.name}, weights {made.work.weights.name}, prompt "
        f"{made.work.prompt}, output {made.work.output}, batch {made.work.batch}, tensor {made.parallel.tensor}"
        + (f", engine {engine}" if engine else "")
    )
    if not alike:
        have = sorted({f"{row.model} with {row.precision} weights on {row.gpu}" for row in of})
        raise ConfigError(f"{where}: no row for {wanted}; it has {'; '.join(have)}")
    if made.parallel.pipeline > 1 or made.parallel.expert > 1 or _unlike(made.work):
        raise ConfigError(
            f"{where}: its rows are of plain serving; estimate.pipeline, expert, prefix_share and speculative must be "
            "left at their defaults"
        )
    found = [row for row in alike if _load(row) == _asked(made)]
    if not found:
        nearest = min(alike, key=lambda row: _distance(row, made))
        raise ConfigError(f"{where}: no row for {wanted}; the nearest of its {len(alike)} has {nearest.shown}")
    twice = [name for name in engines if sum(row.engine == name for row in found) > 1]
    if twice:
        raise ConfigError(f"{where}: has several rows of {twice[0]} for {wanted}; keep one")
    if not made.metrics["max_batch"]:
        raise ConfigError(
            f"{where}: was measured, but not one request fits by this estimate: see estimate.kv, memory_share and "
            "reserve_gb"
        )
    return [of_load(_name(row.engine), path.name, row.ttft_s, row.tpot_s, row.concurrency, row.output) for row in found]


def _same_model(row: Row, made: Estimate) -> bool:
    name = made.architecture.name.lower()
    called = row.model.rsplit("/", 1)[-1].lower()
    try:
        weights = precision.of(row.precision).name
    except ConfigError:  # a precision of other rows
        return False
    return name in (called, measured.model_option(row.model)) and (row.gpu, weights) == (
        made.machine.name,
        made.work.weights.name,
    )


def _unlike(work: Work) -> bool:
    return bool(work.prefix_share or work.speculative)


def _load(row: Row) -> tuple[int, int, int, int]:
    return row.prompt, row.output, row.concurrency, row.tensor


def _asked(made: Estimate) -> tuple[int, int, int, int]:
    return made.work.prompt, made.work.output, made.work.batch, made.parallel.tensor


def _distance(row: Row, made: Estimate) -> float:
    return sum(abs(math.log(one / other)) for one, other in zip(_load(row), _asked(made), strict=True))


def _name(text: str) -> str:
    """As it may stand in the name of a metric."""
    return re.sub(r"\W+", "_", text)


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
