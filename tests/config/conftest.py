"""A loader over the repository's ``conf/`` and a test family."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.utils import setup_globals

from runner import paths
from runner.config.compose import Composer
from runner.config.register import register
from runner.config.resolvers import register_resolvers

FAMILY = Path(__file__).parent / "family"


@pytest.fixture(scope="session")
def family_dir() -> Path:
    """A user's own config folder: one family, two studies, a shape."""
    return FAMILY


@pytest.fixture(scope="session")
def loader() -> ConfigLoaderImpl:
    version.setbase("1.3")
    register()
    register_resolvers()
    setup_globals()
    return ConfigLoaderImpl(create_config_search_path(str(paths.conf_dir())))


@pytest.fixture(scope="session")
def composer(loader: ConfigLoaderImpl, family_dir: Path) -> Composer:
    return Composer(loader, [f"hydra.searchpath=[file://{family_dir}]"])
