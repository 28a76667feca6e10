"""``kernel=command``: a program of the user as a plan. Looks where the program is, and starts nothing."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from runner.config.schema import Command, Config
from runner.config.secrets import redact_argv, redact_shell
from runner.paths import given
from runner.plan.bare import make_bare_plan
from runner.plan.errors import PlanError
from runner.plan.model import CommandPlan, Plan, ReadyPlan, Target

_SHELL = "/bin/sh"
_NAMED = 60
"""Longest name made from a file name."""
_FILED = re.compile(r"^(?:shape\.|model\.|(?:command\.)?environment\.|command\.(?=folder$|repeat$|warmup$))(\w+)$")
"""Override keys whose values are filed as parameters: they tell the points of a sweep apart."""


def make_command_plan(config: Config, target: Target, overrides: Sequence[str]) -> Plan:
    """``overrides``: the lines by which the point was composed, free of secrets; what they set becomes parameters.

    Raises ``PlanError`` for a folder or a program that is not there.
    """
    touched = {line.lstrip("+").partition("=")[0].partition(".")[0] for line in overrides}
    command = _command(config)
    return make_bare_plan(
        config,
        target,
        config.command.name or _name(config.command),
        {"argv": command.shown, **_params(overrides)},
        # A program knows nothing of the groups' defaults: they count where the user chose them.
        model=config.model.name if "model" in touched else "",
        shape=config.shape.name if "shape" in touched else "",
        devices=config.devices,
        command=command,
    )


def _command(config: Config) -> CommandPlan:
    command = config.command
    environment = {**config.environment, **command.environment}
    folder = _folder(command.folder)
    search = environment.get("PATH", os.environ.get("PATH", os.defpath))
    shell = not command.argv
    argv = (_SHELL, "-c", command.shell) if shell else _found("command.argv", command.argv, folder, search)
    return CommandPlan(
        argv=argv,
        shown=redact_shell(command.shell) if shell else shlex.join(redact_argv(command.argv)),
        folder=str(folder),
        environment=environment,
        warmup=command.warmup,
        repeat=command.repeat,
        metrics=dict(command.metrics),
        shell=shell,
        ready=_ready(command),
        load=_found("command.load", command.load, folder, search) if command.load else (),
        stop_s=command.stop_s,
    )


def _folder(name: str) -> Path:
    folder = given(name).absolute()
    if not os.path.isdir(folder):
        raise PlanError("command.folder", name, f"there is no folder {folder}")
    return folder


def _found(key: str, argv: Sequence[str], folder: Path, search: str) -> tuple[str, ...]:
    """``argv`` with the program's absolute path. Links stay: a virtual environment's Python knows itself by its own."""
    program = os.path.expanduser(argv[0])
    if os.sep in program:
        path = folder / program
        if not os.path.exists(path):
            raise PlanError(key, f"[{program},…]", f"there is no program {path}")
        if not path.is_file() or not os.access(path, os.X_OK):
            mend = "name its interpreter before it, or make it executable (chmod +x)"
            raise PlanError(key, f"[{program},…]", f"{path} is no executable file: {mend}")
        return (str(path), *argv[1:])
    found = shutil.which(program, path=search)
    if found is None:
        searched = ", ".join(filter(None, search.split(os.pathsep)))
        raise PlanError(key, f"[{program},…]", f"there is no program '{program}' on the PATH; searched: {searched}")
    return (os.path.abspath(found), *argv[1:])


def _ready(command: Command) -> ReadyPlan | None:
    ready = command.ready
    if ready.port:
        return ReadyPlan("port", str(ready.port), ready.timeout_s)
    if ready.url:
        return ReadyPlan("url", ready.url, ready.timeout_s)
    return ReadyPlan("output", ready.output, ready.timeout_s) if ready.output else None


def _name(command: Command) -> str:
    """Of the program, safe as a folder's name."""
    words = command.argv or command.shell.split()
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(words[0]).name).strip("-.")
    return safe[:_NAMED] or "program"


def _params(overrides: Sequence[str]) -> dict[str, float | int | str]:
    found: dict[str, float | int | str] = {}
    for line in overrides:
        key, _, value = line.lstrip("+").partition("=")
        match = _FILED.match(key)
        if match:
            found[match[1]] = _number(value)
    return found


def _number(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("'\"")
