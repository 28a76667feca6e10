"""A config as YAML text without secrets, quickly: sections that points share are written out once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import yaml

from runner.config.schema import Config
from runner.config.secrets import redact_config

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_KEPT = 64
_texts: dict[int, tuple[Any, str]] = {}
"""id of a section → the section (so that the id stays its own) and its text."""


def config_yaml(config: Config) -> str:
    """The whole config; ``kernel`` last, since it is long."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    sections = {name: value for name, value in values.items() if dataclasses.is_dataclass(value)}
    loose = {name: redact_config(value, name) for name, value in values.items() if name not in sections}
    parts = [_section(name, value) for name, value in sections.items() if name != "kernel"]
    return "".join([*parts, _text(loose), _kernel(config)])


def plain_config(config: Config) -> dict[str, Any]:
    """The config as plain containers, without secrets. Of the family only its name, phase and parameters: its
    description is in ``config.yaml``, and the same for all points."""
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name == "kernel":
            plain["kernel"] = {key: redact_config(getattr(value, key), key) for key in ("name", "phase", "params")}
        else:
            plain[field.name] = redact_config(_plain(value), field.name)
    return plain


def _section(name: str, value: Any) -> str:
    return _remembered(value, lambda: _text({name: redact_config(dataclasses.asdict(value))}))


def _kernel(config: Config) -> str:
    """Parameters change from point to point, the family's long description does not."""
    values = {field.name: getattr(config.kernel, field.name) for field in dataclasses.fields(config.kernel)}
    large = {name: value for name, value in values.items() if name != "params" and isinstance(value, (dict, list))}
    small = {name: value for name, value in values.items() if name not in large}
    parts = [_remembered(value, partial(_indented, {name: value})) for name, value in large.items()]
    return "".join(["kernel:\n", _indented(small), *parts])


def _indented(values: dict[str, Any]) -> str:
    plain = {name: redact_config(_plain(value), name) for name, value in values.items()}
    return "".join(f"  {line}\n" for line in _text(plain).splitlines())


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _remembered(value: Any, write: Callable[[], str]) -> str:
    kept = _texts.get(id(value))
    if kept is not None and kept[0] is value:
        return kept[1]
    if len(_texts) >= _KEPT:
        _texts.clear()
    _texts[id(value)] = (value, write())
    return _texts[id(value)][1]


def _text(plain: Any) -> str:
    return str(yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))
