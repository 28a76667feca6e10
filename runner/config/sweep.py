"""What our Hydra plugins do: from a command's overrides to points, and from points to an exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from runner.config.alone import claim
from runner.config.compose import Composer
from runner.config.errors import ConfigError
from runner.config.model_file import ReadModel
from runner.config.overrides import of_hydra
from runner.config.points import Point, Skipped, new_sweep_id, origin, results_folder, write_inputs, write_sweep
from runner.config.secrets import redact_uri
from runner.config.study import Draft, expand

__all__ = ["ConfigError", "Planned", "given_points", "plan_sweep", "sweep_id_of"]

SWEEP_ID = "RUNNER_SWEEP_ID"
"""Variable by which jobs of another launcher know their sweep."""


OF_A_COMMAND = ("dry_run", "resume", "retry", "tracking.enabled", "tracking.uri", "tracking.every_s")
"""Keys that every point of a command has the same value of."""


@dataclass(frozen=True)
class Planned:
    """A sweep that is composed and checked."""

    sweep_id: str
    folder: Path
    lines: tuple[str, ...]
    points: tuple[Point, ...]
    skipped: tuple[Skipped, ...]

    @property
    def dry_run(self) -> bool:
        return any(point.config.dry_run for point in self.points)

    def write(self) -> None:
        """The sweep's and each point's inputs; a dry run leaves no files. Raises ``ConfigError``."""
        if self.dry_run:
            return
        with results_folder(self.folder):
            claim(self.folder, (point.folder for point in self.points))
        write_sweep(self.folder, self.sweep_id, self.lines, self.points, self.skipped)
        for point in self.points:
            write_inputs(point)


def plan_sweep(loader: ConfigLoader, master: DictConfig, lines: Sequence[str], read_model: ReadModel) -> Planned:
    """Expands a command under ``-m``. ``master`` is Hydra's config of the sweep. Raises ``ConfigError``."""
    # ${hydra:…} in a user's option is resolved against the running command.
    HydraConfig.instance().set_config(master)
    composer = Composer(loader, of_hydra(master.hydra), master, read_model)
    expansion = expand(composer, lines, sweep=True)
    folder = Path(str(master.hydra.sweep.dir)).absolute()
    identity = new_sweep_id()
    points = _placed(master, folder, identity, expansion.points, 0)
    _check_alike(points)
    return Planned(identity, folder, tuple(lines), points, expansion.skipped)


def given_points(
    loader: ConfigLoader, master: DictConfig, jobs: Sequence[Sequence[str]], first: int, read_model: ReadModel
) -> Planned:
    """Points of jobs that another sweeper chose."""
    HydraConfig.instance().set_config(master)
    composer = Composer(loader, of_hydra(master.hydra), master, read_model)
    drafts: list[Draft] = []
    skipped: list[Skipped] = []
    for lines in jobs:
        own = [line for line in lines if not line.lstrip("+~").startswith("hydra")]
        expansion = expand(composer, own, sweep=False)
        drafts += expansion.points
        skipped += expansion.skipped
    folder = Path(str(master.hydra.sweep.dir)).absolute()
    identity = new_sweep_id()
    points = _placed(master, folder, identity, drafts, first)
    _check_alike(points)
    return Planned(identity, folder, tuple(master.hydra.overrides.task), points, tuple(skipped))


def sweep_id_of(hydra: DictConfig) -> str:
    """The id a launcher's job was given, or a new one. ``hydra`` is Hydra's own part of the job's config."""
    given = hydra.job.env_set.get(SWEEP_ID)
    return str(given) if given else new_sweep_id()


def _check_alike(points: Sequence[Point]) -> None:
    """Raises ``ConfigError`` where points differ in what holds for a command as a whole."""
    for key in OF_A_COMMAND:
        values = list(dict.fromkeys(attrgetter(key)(point.config) for point in points))
        if len(values) > 1:
            shown = ",".join(redact_uri(value) if isinstance(value, str) else json.dumps(value) for value in values)
            raise ConfigError(f"{key}={shown}: holds for a whole command, so it cannot be swept over; give one value")


def _placed(master: DictConfig, folder: Path, identity: str, drafts: Sequence[Draft], first: int) -> tuple[Point, ...]:
    """Gives every point its number and folder (``hydra.sweep.subdir``)."""
    options, folders = origin(master.hydra)
    points: list[Point] = []
    used: set[str] = set()
    for number, draft in enumerate(drafts, start=first):
        subdir = _subdir(master, number)
        if subdir in used:
            raise ConfigError(
                f"hydra.sweep.subdir={subdir}: the same folder for several points; it must hold ${{hydra.job.num}}"
            )
        used.add(subdir)
        points.append(Point(draft.config, draft.overrides, folder / subdir, number, identity, options, folders))
    return tuple(points)


def _subdir(master: DictConfig, number: int) -> str:
    # The default without OmegaConf, whose grammar takes milliseconds.
    if master.hydra.sweep._get_node("subdir")._value() == "${hydra.job.num}":
        return str(number)
    with read_write(master.hydra), open_dict(master.hydra.job):
        master.hydra.job.num = number
        master.hydra.job.id = str(number)
    return str(OmegaConf.select(master, "hydra.sweep.subdir"))
