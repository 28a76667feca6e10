"""An earlier result's exact config, run again: what will be executed, why to ask first, and the run itself."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from runner.backend.nvml import detect
from runner.config.errors import ConfigError
from runner.config.grammar import line_of
from runner.config.overrides import parse
from runner.config.points import Point, new_sweep_id, write_inputs
from runner.config.schema import Config, Gate, Kernel
from runner.config.secrets import redact_argv, redact_config, redact_shell, redact_text
from runner.config.stored import Restored, restored
from runner.execute import command
from runner.execute.differences import differences, same_code
from runner.execute.planning import roots
from runner.paths import conf_dir, project_dir
from runner.record import spool
from runner.record.originals import Original
from runner.result import document
from runner.result.environment import collect
from runner.result.model import Result


@dataclass(frozen=True)
class Repeat:
    """Variants of one experiment, as they were run."""

    originals: tuple[Original, ...]
    point: Point
    restored: Restored

    @property
    def first(self) -> Result:
        """What they share is in each of them."""
        return self.originals[0].result


def prepare(originals: Sequence[Original], uri: str) -> list[Repeat]:
    """The experiments that the results are of, each with those variants alone. Nothing is written. ``uri``: the store
    they are filed in; empty = the default one.

    Raises ``ConfigError`` naming the result whose config cannot be run.
    """
    groups: dict[str, list[Original]] = {}
    for one in originals:
        groups.setdefault(one.result.experiment_id or one.result.id, []).append(one)
    sweep_id, now = new_sweep_id(), datetime.now()
    place = Path("outputs" if len(groups) == 1 else "multirun", f"{now:%Y-%m-%d}", f"{now:%H-%M-%S-%f}-{os.getpid()}")
    folder = place.absolute()
    repeats = []
    for number, group in enumerate(groups.values()):
        try:
            made, options = _restored(group[0], uri)
        except ConfigError as error:
            raise ConfigError(f"{group[0].where}: {error}") from error
        variants = [one.result.variant for one in group if one.result.variant]
        config = _once_more(made.config, variants)
        folders = tuple(_folders(options))
        point = Point(
            config,
            tuple(_lines(group[0].result, config, uri)),
            folder if len(groups) == 1 else folder / str(number),
            number,
            sweep_id,
            tuple(options),
            folders,
        )
        repeats.append(Repeat(tuple(group), point, made))
    return repeats


def run(repeats: Sequence[Repeat], line: str) -> tuple[int, list[Result]]:
    """Runs them as one command, filed and printed like any; its exit code and the results, in the order in which they
    lie on disk. ``line``: the command that the sweep is filed under. Raises ``ConfigError`` where nothing can be
    written."""
    points = [one.point for one in repeats]
    sweep_id = points[0].sweep_id
    folder = points[0].folder if len(points) == 1 else points[0].folder.parent
    for point in points:
        write_inputs(point)
    code = command.run(points, [], sweep_id, folder, line=line)
    found = [document.read(path) for path in spool.results(folder)]
    return code, [result for result in found if result.sweep_id == sweep_id]


def shown(one: Repeat) -> list[str]:
    """What it will execute, without secrets, for somebody who has to say yes to it."""
    config, kernel = one.point.config, one.point.config.kernel
    lines = [f"{one.point.config.kernel.name} {', '.join(config.variants or [one.first.variant])} of {_origin(one)}"]
    if kernel.kind == "command":
        given = config.command
        lines.append(f"program: {redact_shell(given.shell) if given.shell else shlex.join(redact_argv(given.argv))}")
        if given.load:
            lines.append(f"load: {shlex.join(redact_argv(given.load))}")
        lines.append(f"in: {given.folder or Path.cwd()}")
    else:
        lines += _sources(kernel, one.point.config_dirs)
    values = ", ".join(f"{key}={value}" for key, value in redact_config(kernel.params).items())
    if values:
        lines.append(f"parameters: {values}")
    for key, variables in (("environment", config.environment), ("command.environment", config.command.environment)):
        lines += [f"{key}: {name}={value}" for name, value in redact_config(variables, key).items()]
    lines += [f"{key}: from this shell, since the result does not keep what is secret" for key in one.restored.supplied]
    return lines


def differing(one: Repeat) -> list[str]:
    """How the code and the machine of now differ from those of then, as far as is known before anything runs."""
    now = collect(project_dir())
    states = detect() if _on_cuda(one.first) else []
    chosen = [states[number] for number in one.point.config.devices if number < len(states)]
    if chosen:
        now |= {"devices": [{"name": state.name, "uuid": state.uuid} for state in chosen], "driver": chosen[0].driver}
    return differences(one.first.environment, now)


def reasons(one: Repeat) -> list[str]:
    """Why to ask before it is executed; nothing where this checkout made it and it runs nothing but this checkout's."""
    config, made = one.point.config, one.restored
    found = []
    if not same_code(one.first.environment, collect(project_dir())):
        found.append("it was not made by the code of this checkout")
    if made.changed:
        found.append(f"its kernel={config.kernel.name} is described otherwise than here ({', '.join(made.changed)})")
    if not made.described:
        found.append(f"it does not keep the description of kernel={config.kernel.name}: that of today is taken")
    if one.point.config_dirs:
        found.append(f"it uses options and sources in {', '.join(map(str, one.point.config_dirs))}")
    if config.kernel.kind == "command":
        found.append("it runs a program, which no checkout vouches for")
    if config.environment:
        found.append("it sets variables of the environment")
    return found


def _on_cuda(result: Result) -> bool:
    devices = result.environment.get("devices")
    return isinstance(devices, list) and any(device.get("backend") == "cuda" for device in devices)


def _restored(one: Original, uri: str) -> tuple[Restored, list[str]]:
    options = _options(one.result.repeat)
    folders = (*_folders(options), conf_dir())
    return restored(one.config, uri, os.environ, folders), options


def _once_more(config: Config, variants: list[str]) -> Config:
    """Without what is about the command that it was a part of, and not about the experiment."""
    return replace(
        config,
        variants=variants if config.kernel.kind == "cuda" and variants else config.variants,
        resume=False,
        retry="",
        dry_run=False,
        compare_to="",
        study=replace(config.study, gate=Gate()),
    )


def _lines(result: Result, config: Config, uri: str) -> list[str]:
    """Overrides that give the repeated experiment."""
    replaced = {"variants": config.variants, "tracking.uri": uri or None}
    kept = [line for line in result.overrides if line.lstrip("+").partition("=")[0] not in (*replaced, "compare_to")]
    return [*kept, *(line_of(key, value) for key, value in replaced.items() if value is not None)]


def _options(repeat: str) -> list[str]:
    """Of a repeat's command line those that name folders of options: ``--config-dir …`` and ``hydra.searchpath=…``."""
    try:
        words = shlex.split(repeat)
    except ValueError:  # cut off: a tag is bounded
        return []
    found: list[str] = []
    for word, following in pairwise([*words, ""]):
        if word == "--config-dir":
            found += [word, following]
        elif word.startswith("hydra.searchpath="):
            found.append(word)
    return found


def _folders(options: Sequence[str]) -> list[Path]:
    found: list[str] = []
    for word, following in pairwise([*options, ""]):
        if word == "--config-dir":
            found.append(following)
        elif word.startswith("hydra.searchpath="):
            value: Any = parse(word).value()
            found += [str(place) for place in (value if isinstance(value, list) else [value])]
    places = [urlsplit(place) for place in found if not place.startswith("pkg:")]
    return [Path(unquote(place.path)).expanduser().absolute() for place in places]


def _origin(one: Repeat) -> str:
    result = one.first
    environment: Mapping[str, Any] = result.environment
    device = environment.get("device")
    commit = str(environment.get("git_commit") or "")[:12]
    parts = [
        result.started[:16].replace("T", " "),
        f"commit {commit}{' with uncommitted changes' if environment.get('git_dirty') else ''}" if commit else "",
        str(environment.get("hostname") or ""),
        str(device.get("name") or "") if isinstance(device, Mapping) else "",
    ]
    return f"{one.originals[0].where} ({', '.join(filter(None, parts))})"


def _sources(kernel: Kernel, config_dirs: Sequence[Path]) -> list[str]:
    """The family's own code, as it will be found."""
    lines = []
    reference = kernel.reference or f"runner.references.{kernel.name}"
    for what, name in (("source", kernel.source), ("reference", reference if kernel.source else "")):
        if not name:
            continue
        places = [folder / name for folder in roots(config_dirs)]
        there = next((place.resolve() for place in places if place.is_file()), None)
        lines.append(f"{what}: {there or name}")
    target = kernel.workload.get("_target_")
    if target:
        lines.append(f"workload: {target}")
    return [redact_text(line) for line in lines]
