"""Composition, once per choice of groups; points are then variations of what was composed.

Hydra composes every job of a sweep from the files, twice. Here ``Composer`` asks Hydra once for each choice of
groups, and ``Head.point`` applies a point's values to that with Hydra's own function, so with the same checks.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import IConfigRepository
from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf, flag_override
from omegaconf._utils import split_key
from omegaconf.errors import OmegaConfBaseException

from runner.config.errors import (
    ConfigError,
    choose_from,
    from_exception,
    from_override,
    no_kernel,
    unknown_option,
)
from runner.config.load import build, build_field, resolved, resolved_params, section_names
from runner.config.model_file import ReadModel, fill_in
from runner.config.overrides import parse
from runner.config.scale import SECTIONS, cap_params, cap_sections
from runner.config.schema import Config, Kernel

CONFIG_NAME = "config"


class Composer:
    """Asks Hydra for base configs and remembers them."""

    def __init__(
        self,
        loader: ConfigLoader,
        hydra_overrides: Sequence[str] = (),
        master: DictConfig | None = None,
        read_model: ReadModel | None = None,
    ) -> None:
        """``hydra_overrides`` are the user's ``hydra.…`` lines; ``master`` hands on its resolver cache (``now``);
        without ``read_model`` the files that ``model`` names are not opened."""
        self.loader = loader
        self._read_model = lru_cache(maxsize=None)(read_model) if read_model else None
        self._hydra_overrides = list(hydra_overrides)
        self._master = master
        self._bases: dict[tuple[str, ...], DictConfig] = {}
        self._heads: dict[tuple[tuple[str, ...], tuple[str, ...]], Head] = {}
        self._repository: IConfigRepository | None = None

    def options(self, group: str) -> list[str]:
        """Options of a group, from all search paths."""
        return self._files().get_group_options(group, ObjectType.CONFIG)

    def groups(self) -> list[str]:
        """Names of the top-level groups."""
        return self._files().get_group_options("", ObjectType.GROUP)

    def is_group_choice(self, override: Override) -> bool:
        """Whether the override chooses an option (``shape=decode``) rather than a value."""
        is_value = not override.is_sweep_override() and isinstance(override.value(), dict)
        return not is_value and self._files().group_exists(override.key_or_group)

    def head(self, choices: Sequence[str], fixed: Sequence[str]) -> Head:
        """The config for these group choices with the values that do not change applied."""
        key = (tuple(choices), tuple(fixed))
        if key not in self._heads:
            cfg = copy.deepcopy(self._base(tuple(choices)))
            for line in fixed:
                self.apply(parse(line), cfg)
            self.fill_in(cfg, fixed)
            self._heads[key] = Head(cfg, self, fixed)
        return self._heads[key]

    def fill_in(self, cfg: DictConfig, lines: Sequence[str]) -> None:
        """The figures of a model that comes from a file. Raises ``ConfigError``."""
        if self._read_model is not None:
            fill_in(cfg, self._read_model, lines)

    def _files(self) -> IConfigRepository:
        """The option files. Hydra's loader copies all of its sources for each question; this asks once."""
        if self._repository is None:
            search_path = [line for line in self._hydra_overrides if line.startswith("hydra.searchpath")]
            assert isinstance(self.loader, ConfigLoaderImpl)
            _, self._repository = self.loader._parse_overrides_and_create_caching_repo(CONFIG_NAME, search_path)
        return self._repository

    def _base(self, choices: tuple[str, ...]) -> DictConfig:
        if choices not in self._bases:
            self._bases[choices] = self._composed(choices)
        return self._bases[choices]

    def _composed(self, choices: tuple[str, ...]) -> DictConfig:
        """From the files, without Hydra's own part."""
        self.check_choices(choices)
        try:
            cfg = self.loader.load_configuration(
                config_name=CONFIG_NAME,
                overrides=[*self._hydra_overrides, *choices],
                run_mode=RunMode.RUN,
                validate_sweep_overrides=False,
            )
        except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, OSError) as error:
            raise from_exception(error) from error
        if self._master is not None:
            OmegaConf.copy_cache(from_config=self._master, to_config=cfg)
        with flag_override(cfg, ["struct", "readonly"], [False, False]):
            del cfg["hydra"]
        return cfg

    def check_choices(self, lines: Sequence[str]) -> None:
        """Raises ``ConfigError`` for an option that its group does not have."""
        for override in map(parse, lines):
            if override.is_delete():
                continue
            value = override.value()
            group = override.key_or_group
            for option in value if isinstance(value, list) else [value]:
                if str(option) not in self.options(group):
                    raise unknown_option(group, "null" if option is None else str(option), self.options(group))

    def apply(self, override: Override, cfg: DictConfig) -> None:
        """Applies one value in place. Raises ``ConfigError``."""
        first = split_key(override.key_or_group)[0]
        if (override.is_add() or override.is_force_add()) and first not in section_names():
            known = choose_from(first, section_names())
            raise ConfigError(f"{override.input_line}: nothing can be added to the root; {known}")
        try:
            ConfigLoaderImpl._apply_overrides_to_config([override], cfg)
        except (HydraException, OmegaConfBaseException) as error:
            raise from_override(override, error, cfg, self.groups()) from error


class Head:
    """One choice of groups. What no point changes is converted once and shared by the points' configs."""

    def __init__(self, cfg: DictConfig, composer: Composer, fixed: Sequence[str] = ()) -> None:
        """``fixed``: the lines that are applied to ``cfg`` already."""
        self.cfg = cfg
        self._fixed = tuple(fixed)
        self._composer = composer
        self._volatile = {path for path in _paths(cfg) if _has_interpolation(_node(cfg, path))}
        self._kept: dict[str, Any] = {}
        self._capped = cap_sections(cfg, SECTIONS, bound=False)
        self._scaled = bool(cfg.scale.shape) or bool(cfg.scale.model)

    def require_kernel(self) -> None:
        """Raises ``ConfigError`` naming the families when none was chosen."""
        if OmegaConf.is_missing(self.cfg.kernel, "name"):
            raise no_kernel(self._composer.options("kernel"), self.cfg.kernel)

    @cached_property
    def study(self) -> dict[str, Any]:
        """The study's section as plain containers."""
        return dict(resolved(self.cfg, "study"))

    @cached_property
    def own_grid(self) -> dict[str, Any]:
        """The grid that the chosen shape carries."""
        return dict(resolved(self.cfg.shape, "sweep")) if "sweep" in self.cfg.shape else {}

    def point(self, values: Sequence[str]) -> tuple[Config, bool]:
        """The config with ``values`` applied and scaled, and whether scaling capped anything.

        The sections that ``values`` touch are copied before and put back afterwards: the head stays what it is.
        """
        overrides = [parse(line) for line in values]
        touched = {_path_of(override.key_or_group) for override in overrides}
        if "scale" in touched:
            raise ConfigError("scale: its caps cannot be swept; choose them once, e.g. scale.shape.batch=4")
        if self._scaled:
            touched |= self._volatile & set(SECTIONS)
        saved = self._swap_in_copies(touched)
        try:
            for override in overrides:
                self._composer.apply(override, self.cfg)
            if "model" in touched:
                self._composer.fill_in(self.cfg, [*self._fixed, *values])
            capped = self._scaled and cap_sections(self.cfg, touched)
            config = self._convert(touched)
        finally:
            for parent, key, node in saved:
                parent.__dict__["_content"][key] = node
        if config.scale.params:
            params = cap_params(config.kernel.params, config.kernel.declare)
            capped = capped or params != config.kernel.params
            config.kernel = dataclasses.replace(config.kernel, params=params)
        return config, capped or self._capped

    def _swap_in_copies(self, touched: set[str]) -> list[tuple[DictConfig, str, Any]]:
        saved: list[tuple[DictConfig, str, Any]] = []
        # A parent before its children: 'kernel' is copied whole, then 'kernel.params' within the copy.
        for path in sorted(touched):
            parent, key = _parent(self.cfg, path)
            node = parent._get_node(key)
            if node is None:
                continue  # applying the override will say that there is no such key
            saved.append((parent, key, node))
            parent.__dict__["_content"][key] = copy.deepcopy(node)
        return saved[::-1]

    def _convert(self, touched: set[str]) -> Config:
        fresh = touched | self._volatile
        sections: dict[str, Any] = {}
        for name in section_names():
            sections[name] = self._kernel(fresh) if name == "kernel" else self._section(name, fresh)
        return Config(**sections)

    def _section(self, name: str, fresh: set[str]) -> Any:
        if name not in fresh and name in self._kept:
            return self._kept[name]
        made = build_field(Config, name, resolved(self.cfg, name))
        if name not in fresh:
            self._kept[name] = made
        return made

    def _kernel(self, fresh: set[str]) -> Kernel:
        """The family's description is large and the same for every point: only its parameters are made anew."""
        self.require_kernel()
        if "kernel" in fresh:
            return build(Kernel, resolved(self.cfg, "kernel"))
        parts: dict[str, Any] = {}
        for field in dataclasses.fields(Kernel):
            path = f"kernel.{field.name}"
            if path in fresh or path not in self._kept:
                if field.name == "params":
                    made = resolved_params(self.cfg)
                else:
                    made = build_field(Kernel, field.name, resolved(self.cfg.kernel, field.name))
                if path not in fresh:
                    self._kept[path] = made
            else:
                made = self._kept[path]
            parts[field.name] = made
        return Kernel(**parts)


def _paths(cfg: DictConfig) -> list[str]:
    """The units that are kept or made anew: top-level sections, and within ``kernel`` its keys."""
    names = [str(name) for name in cfg if name != "kernel"]
    return names + [f"kernel.{name}" for name in cfg.kernel]


def _path_of(key: str) -> str:
    parts = split_key(key)
    if parts[0] == "kernel" and len(parts) > 1:
        return f"kernel.{parts[1]}"
    return parts[0]


def _parent(cfg: DictConfig, path: str) -> tuple[DictConfig, str]:
    first, _, second = path.partition(".")
    return (cfg.kernel, second) if second else (cfg, first)


def _node(cfg: DictConfig, path: str) -> Any:
    parent, key = _parent(cfg, path)
    return parent._get_node(key)


def _has_interpolation(node: Any) -> bool:
    if node is None or node._is_missing() or node._is_none():
        return False
    if node._is_interpolation():
        return True
    if isinstance(node, DictConfig):
        return any(_has_interpolation(node._get_node(key)) for key in node)
    if isinstance(node, ListConfig):
        return any(_has_interpolation(node._get_node(index)) for index in range(len(node)))
    return False
