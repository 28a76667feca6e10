"""A config as a result keeps it, made a ``Config`` again: typed and checked like a composed one, without composing it.

Option files may have changed since; what a result keeps is what was run.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from runner.config.check import check
from runner.config.errors import ConfigError, from_exception
from runner.config.load import to_experiment
from runner.config.option_file import typed_option
from runner.config.schema import Config, Kernel
from runner.config.secrets import MASK, redact_config

_BEFORE_VALUE = re.compile(r"(\\*)\$\{")


@dataclass(frozen=True)
class Restored:
    config: Config
    described: bool
    """The document holds the whole description of the family; otherwise it is that of the option files."""
    changed: tuple[str, ...] = ()
    """Keys of the family that have other values in the option files of today; all where they have no such family."""
    supplied: tuple[str, ...] = ()
    """Keys whose secret value was taken from the environment."""


def restored(
    document: Mapping[str, Any], uri: str, environment: Mapping[str, str], folders: Sequence[Path]
) -> Restored:
    """``document``: ``Result.config``, or what ``config.yaml`` holds. ``uri`` stands in for the store that it names,
    whose password is not kept. ``folders`` of option files are searched for the family, the first one wins.

    Raises ``ConfigError`` for a secret that ``environment`` does not have, and for all that a composed config is
    refused for.
    """
    plain = copy.deepcopy(dict(document))
    kernel, tracking = plain.get("kernel"), plain.get("tracking") or {}
    if not isinstance(kernel, dict) or not kernel.get("name") or not isinstance(tracking, dict):
        raise ConfigError("the result keeps no config that could be run: kernel.name is missing")
    plain["tracking"] = {**tracking, "uri": uri}
    supplied = _supply(plain, environment)
    described = "variants" in kernel
    today = _as_of_today(plain, folders)
    if not described:
        if today is None:
            raise ConfigError(f"kernel={kernel['name']}: the result does not describe it, and no option is called so")
        _refuse_masked(kernel, "kernel")
        check(today)
        return Restored(today, False, (), supplied)
    then = _experiment(_typed(plain))
    changed = _changed(then.kernel, None if today is None else today.kernel)
    if today is None or changed:
        _refuse_masked(kernel, "kernel")
        chosen = then
    else:  # the same but for secrets, which the option file still has
        _refuse_masked(kernel["params"], "kernel.params")
        chosen = today
    check(chosen)
    return Restored(chosen, True, changed, supplied)


def _experiment(merged: DictConfig) -> Config:
    try:
        return to_experiment(merged)
    except ConfigError as error:
        raise ConfigError(f"the config of the result: {error}") from error


def _typed(plain: Mapping[str, Any]) -> DictConfig:
    """With the types of the schema, and its defaults for keys that are younger than the document."""
    try:
        return cast(DictConfig, OmegaConf.merge(OmegaConf.structured(Config), OmegaConf.create(_escaped(plain))))
    except OmegaConfBaseException as error:
        raise ConfigError(f"the config of the result does not fit this runner: {from_exception(error)}") from error


def _as_of_today(plain: Mapping[str, Any], folders: Sequence[Path]) -> Config | None:
    """The config with the family as the option files describe it, at the document's parameters; None where they have
    none of that name."""
    family = typed_option(folders, "kernel", str(plain["kernel"]["name"]), Kernel)
    if family is None:
        return None
    merged = _typed({**plain, "kernel": {}})
    family.params = _escaped(plain["kernel"].get("params") or {})
    merged.kernel = family
    return _experiment(merged)


def _changed(then: Kernel, today: Kernel | None) -> tuple[str, ...]:
    names = [field.name for field in dataclasses.fields(Kernel) if field.name != "params"]
    if today is None:
        return tuple(names)
    old, new = (redact_config(dataclasses.asdict(one)) for one in (then, today))
    return tuple(name for name in names if old[name] != new[name])


def _supply(plain: dict[str, Any], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Puts variables back that are masked; whatever else is masked is refused. In place; the keys."""
    command = plain.get("command")
    groups = {"environment": plain.get("environment")}
    groups["command.environment"] = command.get("environment") if isinstance(command, dict) else None
    supplied: list[str] = []
    for key, variables in groups.items():
        if not isinstance(variables, dict):
            continue
        for name, value in variables.items():
            if not isinstance(value, str) or MASK not in value:
                continue
            if name not in environment:
                raise ConfigError(f"{key}.{name}: the result does not keep its value, which is secret: set {name} here")
            variables[name] = environment[name]
            supplied.append(f"{key}.{name}")
    _refuse_masked({name: value for name, value in plain.items() if name not in ("kernel", *groups)})
    return tuple(supplied)


def _refuse_masked(value: Any, prefix: str = "") -> None:
    for key, text in _texts(value, prefix):
        if MASK in text and not key.startswith("command.environment."):
            raise ConfigError(
                f"{key}={text}: the result does not keep what is secret, shown as {MASK}: give the command again "
                "that made it (`repeat` in its result.json)"
            )


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Every text below ``value`` under its dotted key."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{key}[{index}]")
    elif isinstance(value, str):
        yield key, value


def _escaped(value: Any) -> Any:
    """The same for OmegaConf, which would take ``${…}`` for a reference: what a result keeps is resolved, and a text
    that holds one (a shell's line, say) means it."""
    if isinstance(value, Mapping):
        return {name: _escaped(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    if isinstance(value, str):
        return _BEFORE_VALUE.sub(lambda found: 2 * found[1] + r"\${", value)
    return value
