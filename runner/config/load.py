"""Composed config → plain ``schema.Config``, resolved. Attribute access costs nothing there; in OmegaConf it does."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Callable, Collection, Iterable
from functools import cache, lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from runner.config.errors import ConfigError, choose_from, from_resolution
from runner.config.schema import Config

T = TypeVar("T")

_REFERENCE = re.compile(r"^\$\{([A-Za-z_]+)\.([A-Za-z_]+)\}$")
"""One value of another section: ``${model.head_dim}``."""


def to_experiment(cfg: DictConfig | Config) -> Config:
    """Every ``${…}`` resolved, every missing value refused (``ConfigError``). A ``Config`` passes through."""
    if isinstance(cfg, Config):
        return cfg
    _check_names("config", [str(name) for name in cfg], section_names())
    plain = {name: resolved(cfg, name) for name in section_names()}
    return build(Config, plain)


@lru_cache(maxsize=1)
def section_names() -> tuple[str, ...]:
    """The top-level keys: ``kernel``, ``shape``, …"""
    return tuple(field.name for field in dataclasses.fields(Config))


def resolved(parent: DictConfig, name: str) -> Any:
    """The plain value of one key of ``parent``, interpolations resolved."""
    try:
        value = parent[name]
        if OmegaConf.is_config(value):
            return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
        return value
    except OmegaConfBaseException as error:
        raise from_resolution(error) from error


def resolved_params(cfg: DictConfig) -> dict[str, Any]:
    """The kernel's parameters by letter. Almost all are plain references (``${shape.batch}``), which are followed
    here: OmegaConf parses its grammar anew for each of them, a millisecond a time."""
    params: dict[str, Any] = {}
    try:
        for letter in cfg.kernel.params:
            node = cfg.kernel.params._get_node(letter)
            plain = _REFERENCE.match(str(node._value())) if node._is_interpolation() else None
            params[str(letter)] = cfg[plain[1]][plain[2]] if plain else resolved(cfg.kernel.params, letter)
    except OmegaConfBaseException as error:
        raise from_resolution(error) from error
    return params


def build(cls: type[T], plain: dict[str, Any]) -> T:
    """A dataclass of the schema from plain containers of the right types (OmegaConf has checked them)."""
    kind: Any = cls
    made = _maker(kind)(plain)
    assert isinstance(made, cls)
    return made


def _check_names(section: str, names: Iterable[str], known: Collection[str]) -> None:
    """``+shape.foo=1`` gets past OmegaConf, which takes a plus for consent."""
    for name in names:
        if name not in known:
            raise ConfigError(f"{section}: '{name}' is not one of its keys; {choose_from(name, known)}")


def build_field(cls: type, name: str, plain: Any) -> Any:
    """One field's value of a schema dataclass."""
    return _maker(_hints(cls)[name])(plain)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


@cache
def _maker(kind: Any) -> Callable[[Any], Any]:
    """What turns a plain value into the schema's type ``kind``."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        makers = {name: _maker(hint) for name, hint in _hints(kind).items()}

        def make(plain: dict[str, Any]) -> Any:
            _check_names(kind.__name__.lower(), plain, makers)
            return kind(**{name: makers[name](value) for name, value in plain.items()})

        return make
    origin, args = get_origin(kind), get_args(kind)
    if origin is list:
        item = _item(args[0])
        return lambda plain: [item(value) for value in plain]
    if origin is dict:
        item = _item(args[1])
        return lambda plain: {key: item(value) for key, value in plain.items()}
    if origin in (Union, types.UnionType):
        inner = _maker(next(arg for arg in args if arg is not type(None)))
        return lambda plain: None if plain is None else inner(plain)
    return lambda plain: plain


def _item(kind: Any) -> Callable[[Any], Any]:
    """What turns an item of a list or mapping into ``kind``. OmegaConf lets containers in where plain values belong."""
    if kind not in (str, int, float):
        return _maker(kind)

    def make(plain: Any) -> Any:
        if isinstance(plain, (list, dict)):
            wanted = {str: "text", int: "an integer", float: "a number"}[kind]
            raise ConfigError(f"{plain} stands where {wanted} is expected: quote it, or leave the brackets out")
        return plain

    return make
