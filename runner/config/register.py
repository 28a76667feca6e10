"""Makes the typed schema known to Hydra."""

from __future__ import annotations

from hydra.core.config_store import ConfigStore

from runner.config.schema import Config

SCHEMA = "runner_schema"
"""First entry of the defaults list in ``conf/config.yaml``."""


def register() -> None:
    """Stores the schema. Idempotent; called by the search-path plugin, so also for other users of the config."""
    ConfigStore.instance().store(name=SCHEMA, node=Config, provider="runner")
