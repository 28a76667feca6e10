"""One clear message for everything a user can get wrong: the key, the value, what is allowed, the nearest name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, get_args, get_origin

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf._utils import split_key
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)

from runner.config.secrets import redact_overrides, redact_text

EXPECTED = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
"""What a value of a type is called."""
_SEVERAL = {int: "integers", float: "numbers", str: "words"}
_LISTED = 16
"""More names than this are not listed in a message; the nearest is enough."""


class ConfigError(Exception):
    """The configuration is refused; exit code 2. The message is all the user needs, free of secrets."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that ``name`` is most likely a slip of; empty when none is close."""
    names = list(known)
    lowered = {candidate.lower(): candidate for candidate in names}
    found = difflib.get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.55)
    return lowered[found[0]] if found else ""


def choose_from(name: str, known: Iterable[str], prefix: str = "") -> str:
    """``did you mean 'decode'? known: …``, shortened where the list is long."""
    names = list(known)
    near = nearest(name, names)
    parts = [f"did you mean '{prefix}{near}'?"] if near else []
    if len(names) <= _LISTED or not near:
        parts.append(f"known: {', '.join(names) if names else 'none'}")
    return " ".join(parts)


def unknown_option(group: str, option: str, options: Sequence[str]) -> ConfigError:
    """A group has no such option."""
    return ConfigError(f"{group}={option}: no such option; {choose_from(option, options)}")


def no_kernel(families: Sequence[str], kernel: DictConfig) -> ConfigError:
    """No family was chosen, the chosen one (``kernel``) has no name, or there are none to choose from."""
    if kernel.variants:
        known = ", ".join(map(str, kernel.variants))
        return ConfigError(f"kernel: the chosen family (variants {known}) has no name: add name: … to its YAML file")
    if not families:
        return ConfigError("kernel: no family is installed (conf/kernel is empty)")
    return ConfigError(f"kernel: choose a family, e.g. kernel={families[0]}; known: {', '.join(families)}")


def from_override(override: Override, error: Exception, cfg: DictConfig, groups: Sequence[str]) -> ConfigError:
    """What went wrong while ``override`` was applied to ``cfg``."""
    line = redact_overrides([str(override.input_line)])[0]
    cause = _cause(error)
    key = override.key_or_group
    if isinstance(cause, (ConfigKeyError, ConfigAttributeError)) or override.package is not None:
        return ConfigError(f"{line}: {_unknown_key(_first_unknown(key, override.value(), cfg), cfg, groups)}")
    if isinstance(cause, ValidationError) or _other_kind(key, override.value(), cfg):
        return ConfigError(f"{line}: {_wrong_type(key, override.value(), cfg, cause or error)}")
    return ConfigError(f"{line}: {_first_line(cause or error)}")


def from_resolution(error: OmegaConfBaseException) -> ConfigError:
    """A value that is missing, or whose ``${…}`` cannot be resolved."""
    key = getattr(error, "full_key", None) or "config"
    if isinstance(error, MissingMandatoryValue):
        return ConfigError(f"{key}: has no value; give one with {key}=…")
    if isinstance(error, InterpolationResolutionError):
        return ConfigError(f"{key}: cannot be resolved: {_first_line(error)}")
    return ConfigError(f"{key}: {_first_line(error)}")


def from_exception(error: Exception) -> ConfigError:
    """Any other exception of Hydra, OmegaConf or the YAML parser, as one readable message."""
    if isinstance(error, ConfigError):
        return error
    cause = _cause(error)
    message = " ".join(part.strip() for part in str(error).splitlines() if part.strip())
    if cause is not None and str(cause) not in str(error):
        message = f"{message} {_first_line(cause)}".strip()
    return ConfigError(redact_text(message or type(error).__name__))


def was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C lies behind ``error``: OmegaConf, interrupted in mid-copy, fails on the half-made config."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _cause(error: BaseException | None) -> OmegaConfBaseException | None:
    while error is not None:
        if isinstance(error, OmegaConfBaseException):
            return error
        error = error.__cause__
    return None


def a_list(kind: Any, key: str, value: Any, shown: str) -> str:
    """What a list of the type ``kind`` must be, where ``value`` is none: the value in brackets, if that would do."""
    element = next(iter(get_args(kind)), str)
    if type(value) is element:
        return f"a list, e.g. {key}=[{shown}]"
    return f"a list of {_SEVERAL[element]}" if element in _SEVERAL else "a list"


def _first_line(error: Exception) -> str:
    return redact_text(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)


def _unknown_key(key: str, cfg: DictConfig, groups: Sequence[str]) -> str:
    """Names the part of ``key`` that does not exist, and what does beside it."""
    node: Any = cfg
    prefix = ""
    for part in split_key(key):
        if not isinstance(node, DictConfig) or node._is_none() or node._is_missing():
            return f"'{prefix.rstrip('.')}' has no keys below it"
        child = node._get_node(part, validate_access=False)
        if child is None:
            known = [str(name) for name in node]
            if not prefix:
                known = sorted({*known, *groups})
                return f"no such key or group '{part}'; {choose_from(part, known)}"
            text = f"no such key '{prefix}{part}'; {choose_from(part, known, prefix)}"
            free = not OmegaConf.get_type(node) or OmegaConf.get_type(node) is dict
            if free and prefix != "kernel.params.":
                text += f" (a new one is added with +{key}=…)"
            return text
        node = child
        prefix += f"{part}."
    return f"'{key}' cannot be set"


def _first_unknown(key: str, value: Any, cfg: DictConfig) -> str:
    """The key that does not exist: ``key`` itself, or one of those that ``{…}`` sets below it."""
    node = OmegaConf.select(cfg, key, throw_on_missing=False) if isinstance(value, dict) else None
    if isinstance(node, DictConfig):
        for name, below in value.items():
            if node._get_node(name, validate_access=False) is None:
                return f"{key}.{name}"
            deeper = _first_unknown(f"{key}.{name}", below, cfg)
            if deeper != f"{key}.{name}":
                return deeper
    return key


def _other_kind(key: str, value: Any, cfg: DictConfig) -> bool:
    """Whether ``{…}`` was given for a list (or null in its place), or ``[…]`` for a section."""
    node = OmegaConf.select(cfg, key, throw_on_missing=False)
    return isinstance(value, list if isinstance(node, DictConfig) else dict)


def _wrong_type(key: str, value: Any, cfg: DictConfig, cause: Exception) -> str:
    parts = split_key(key)
    parent = OmegaConf.select(cfg, ".".join(parts[:-1])) if len(parts) > 1 else cfg
    if len(parts) > 1 and not isinstance(parent, (DictConfig, ListConfig)):
        return f"'{'.'.join(parts[:-1])}' is one value and has no keys below it"
    node = parent._get_node(parts[-1], validate_access=False) if isinstance(parent, DictConfig) else None
    if node is None:
        return _first_line(cause)
    kind = node._metadata.ref_type
    if isinstance(node, ListConfig) or get_origin(kind) is list or kind is list:
        return f"must be {a_list(kind, key, value, str(value))}"
    if isinstance(node, DictConfig):
        names = ", ".join(map(str, node))
        some = f"must be keys with values, e.g. {key}.<name>=<value>"
        return f"'{key}' has keys of its own; set those: {names}" if names else some
    if value is None:
        return f"must be {EXPECTED.get(kind, 'given')}, not null"
    expected = EXPECTED.get(kind)
    return f"must be {expected}" if expected else _first_line(cause)
