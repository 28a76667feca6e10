"""An option of a group that was not composed: its YAML, with what its ``defaults`` bring in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from runner.config.errors import ConfigError, from_exception

_HERE, _SELF = "@_here_", "_self_"


def option(folders: Sequence[Path], group: str, name: str) -> DictConfig | None:
    """``name`` of ``group`` from the first of ``folders`` that has it, values of other sections unresolved; None where
    none has. Of ``defaults`` it knows what families use, ``<part>@_here_`` before ``_self_``: the file's own keys win.

    Raises ``ConfigError`` for a file that cannot be read, and for a part that is in none of the folders.
    """
    path = next((path for path in (folder / group / f"{name}.yaml" for folder in folders) if path.is_file()), None)
    if path is None:
        return None
    try:
        own = OmegaConf.load(path)
    except (yaml.YAMLError, OmegaConfBaseException, OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {from_exception(error)}") from error
    if not isinstance(own, DictConfig):
        raise ConfigError(f"{path}: must hold keys and values, not a list")
    parts = [str(part).removesuffix(_HERE) for part in own.pop("defaults", []) if part != _SELF]
    found = [(part, option(folders, group, part)) for part in parts]
    for part, read in found:
        if read is None:
            raise ConfigError(f"{path}: defaults: there is no {part}.yaml in {group}/")
    return cast(DictConfig, OmegaConf.merge(*(read for _, read in found if read is not None), own))


def typed_option(folders: Sequence[Path], group: str, name: str, schema: type) -> DictConfig | None:
    """``option``, with the types and defaults of the dataclass ``schema``. Raises ``ConfigError`` also for a key or a
    value that does not fit these."""
    found = option(folders, group, name)
    try:
        return None if found is None else cast(DictConfig, OmegaConf.merge(OmegaConf.structured(schema), found))
    except OmegaConfBaseException as error:
        raise ConfigError(f"{group}={name}: {from_exception(error)}") from error
