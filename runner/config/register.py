"""Makes the typed schema known to Hydra."""

from __future__ import annotations

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from runner.config.schema import Config

SCHEMA = "runner_schema"
"""First entry of the defaults list in ``conf/config.yaml``."""
_OPEN = ("environment", "command.environment", "command.metrics")


def register() -> None:
    """Stores the schema. Idempotent; called by the search-path plugin, so also for other users of the config."""
    ConfigStore.instance().store(name=SCHEMA, node=_schema(), provider="runner")


def _schema() -> DictConfig:
    """The schema, with mappings whose keys are the user's own left open: ``environment.NAME=1`` needs no plus."""
    schema = OmegaConf.structured(Config)
    assert isinstance(schema, DictConfig)
    for key in _OPEN:
        OmegaConf.set_struct(OmegaConf.select(schema, key), False)
    return schema
