"""A point: one experiment of a command, ready to be planned, with the folder its files go to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig

from runner.config.dump import config_yaml
from runner.config.errors import ConfigError
from runner.config.overrides import of_hydra
from runner.config.repeat import repeat_command
from runner.config.schema import Config
from runner.config.secrets import redact_overrides
from runner.config.study import Skipped

CONTINUING = ("resume", "retry")
"""Keys by which a command leaves out what an earlier one has done: the experiment is the same without them."""

__all__ = ["CONTINUING", "Point", "Skipped", "new_sweep_id", "origin", "results_folder", "write_inputs"]


@dataclass(frozen=True)
class Point:
    """``config`` is plain, resolved, checked and scaled; its sections are shared between points: do not write to it."""

    config: Config
    overrides: tuple[str, ...]
    """Lines in Hydra's grammar that give this experiment again; may hold secrets."""
    folder: Path
    """Absolute; exists once the point's inputs are written."""
    number: int = 0
    """Place in the sweep, from 0."""
    sweep_id: str = ""
    """Shared by the points of one command."""
    options: tuple[str, ...] = ()
    """Further arguments a repeat needs (``--config-dir …``)."""
    config_dirs: tuple[Path, ...] = ()
    """Folders of the user's own options, where a family's source and reference may lie."""

    @property
    def shown(self) -> tuple[str, ...]:
        """``overrides`` without secrets, for titles, tables and logs, and without ``CONTINUING``."""
        return tuple(redact_overrides(self._own))

    @property
    def repeat(self) -> str:
        """The command that runs this experiment again, without secrets."""
        return repeat_command(self._own, self.options)

    @property
    def _own(self) -> list[str]:
        return [line for line in self.overrides if line.lstrip("+").partition("=")[0] not in CONTINUING]


def new_sweep_id() -> str:
    """Sortable by time, unique on a machine: ``20250131-142355-123456-4242``."""
    return f"{datetime.now():%Y%m%d-%H%M%S-%f}-{os.getpid()}"


def origin(hydra: DictConfig) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """From Hydra's own config: arguments that a repeat needs besides overrides, and the user's config folders."""
    options: list[str] = []
    folders: list[Path] = []
    for source in hydra.runtime.config_sources:
        if source.schema == "file" and source.provider not in ("main", "hydra"):
            folders.append(Path(source.path).resolve())
        if source.provider == "command-line":
            options += ["--config-dir", str(source.path)]
    options += [line for line in of_hydra(hydra) if line.startswith("hydra.searchpath")]
    return tuple(options), tuple(folders)


def write_inputs(point: Point) -> None:
    """``config.yaml`` and ``overrides.yaml`` in the point's folder, without secrets. Raises ``ConfigError``."""
    with results_folder(point.folder):
        point.folder.mkdir(parents=True, exist_ok=True)
        (point.folder / "config.yaml").write_text(config_yaml(point.config), encoding="utf-8")
        (point.folder / "overrides.yaml").write_text(_listed(redact_overrides(point.overrides)), encoding="utf-8")


@contextmanager
def results_folder(folder: Path | str) -> Iterator[None]:
    """Says what to do when nothing can be written where the results belong. Raises ``ConfigError``."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{error.filename or folder}: results cannot be written there: {error.strerror or error}; run the command "
            "in another folder, or name one with hydra.run.dir=… (with -m: hydra.sweep.dir=…)"
        ) from error


def write_sweep(
    folder: Path, sweep_id: str, lines: Sequence[str], points: Sequence[Point], skipped: Sequence[Skipped]
) -> None:
    """``multirun.yaml`` in the sweep's folder: what was asked for, run and left out, without secrets.
    Raises ``ConfigError``."""
    document: dict[str, Any] = {
        "sweep_id": sweep_id,
        "overrides": redact_overrides(lines),
        "points": {point.number: redact_overrides(point.overrides) for point in points},
        "skipped": [{"overrides": redact_overrides(s.overrides), "reason": s.reason} for s in skipped],
    }
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    with results_folder(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "multirun.yaml").write_text(text, encoding="utf-8")


def _listed(lines: Sequence[str]) -> str:
    return str(yaml.safe_dump(list(lines), allow_unicode=True, default_flow_style=False))
