"""Puts ``experiments/`` of this repository on Hydra's search path, as the config group of that name."""

from __future__ import annotations

import os
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from runner import paths
from runner.config.register import register
from runner.config.resolvers import register_resolvers

GROUP = "experiments"


class StudySource(ConfigSource):
    """One folder of YAML files seen as one config group.

    Adding the folder's parent instead (Hydra's ``file://``) would turn every folder of the repository into a group.
    """

    @staticmethod
    def scheme() -> str:
        return "studies"

    def _file(self, config_path: str) -> Path | None:
        group, _, name = self._normalize_file_name(config_path).partition("/")
        return Path(self.path) / name if group == GROUP and name else None

    def load_config(self, config_path: str) -> ConfigResult:
        file = self._file(config_path)
        if file is None or not file.is_file():
            raise ConfigLoadError(f"Config not found: {config_path}")
        text = file.read_text(encoding="utf-8")
        return ConfigResult(
            config=OmegaConf.create(text) if text.strip() else OmegaConf.create(),
            path=self.full_path(),
            provider=self.provider,
            header=self._get_header_dict(text),
        )

    def available(self) -> bool:
        return os.path.isdir(self.path)

    def is_group(self, config_path: str) -> bool:
        return config_path in ("", GROUP)

    def is_config(self, config_path: str) -> bool:
        file = self._file(config_path)
        return file is not None and file.is_file()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        if config_path == "":
            return [] if results_filter == ObjectType.CONFIG else [GROUP]
        if config_path != GROUP or results_filter == ObjectType.GROUP:
            return []
        return sorted(file.stem for file in Path(self.path).glob("*.yaml"))


class StudySearchPath(SearchPathPlugin):
    """Adds the folder; ``hydra.searchpath`` and ``--config-dir`` add further ones in Hydra's own way."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        register()
        register_resolvers()
        folder = paths.experiments_dir()
        if folder is not None:
            search_path.append("experiments", f"{StudySource.scheme()}://{folder}")
