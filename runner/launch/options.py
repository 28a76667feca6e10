"""The options of a launcher, ``hydra.launcher.…``, checked before anything is submitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from runner.config.errors import EXPECTED, ConfigError, a_list, choose_from
from runner.config.secrets import redact_config, redact_text

T = TypeVar("T")


def read(kind: type[T], launcher: str, given: Mapping[str, Any]) -> T:
    """The options as the dataclass ``kind``. Raises ``ConfigError`` naming key, value and what is allowed."""
    schema = OmegaConf.structured(kind)
    kinds = get_type_hints(kind)
    known = list(kinds)
    for key, value in given.items():
        plain = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
        shown = _shown(key, plain)
        if key not in known:
            raise ConfigError(
                f"hydra.launcher.{key}={shown}: hydra/launcher={launcher} has no such option; {choose_from(key, known)}"
            )
        try:
            schema = OmegaConf.merge(schema, {key: plain})
        except OmegaConfBaseException as error:
            raise ConfigError(
                f"hydra.launcher.{key}={shown}: must be {_expected(kinds[key], key, plain, shown)}"
            ) from error
    assert isinstance(schema, DictConfig)
    made: Any = OmegaConf.to_object(schema)
    assert isinstance(made, kind)
    return made


def _shown(key: str, value: Any) -> str:
    """The value without secrets; all of it is one where the key says so."""
    masked = redact_config({key: value})[key]
    return redact_text(str(masked))


def _expected(kind: Any, key: str, value: Any, shown: str) -> str:
    members = [member for member in get_args(kind) if member is not type(None)]
    null = ", or null" if type(None) in get_args(kind) else ""
    one = members[0] if null else kind
    if get_origin(one) is list:
        return f"{a_list(one, f'hydra.launcher.{key}', value, shown)}{null}"
    if get_origin(one) is dict:
        return f"a mapping, e.g. hydra.launcher.{key}={{name: {shown}}}{null}"
    return f"{EXPECTED.get(one, 'of another type')}{null}"


def at_least(key: str, value: float | None, least: float) -> None:
    """Raises ``ConfigError`` for a number that is too small; None passes."""
    if value is not None and not value >= least:  # NaN is not
        raise ConfigError(f"hydra.launcher.{key}={value}: must be at least {least}")
