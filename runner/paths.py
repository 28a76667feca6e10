"""Where the files beside the code are: in a checkout next to the package, in a wheel inside it."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path | None:
    """The data folder ``name``; the wheel's copy is looked for first, as a wheel has nothing beside it."""
    for parent in (PACKAGE, PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    return None


def _required(name: str) -> Path:
    folder = _folder(name)
    if folder is None:
        raise FileNotFoundError(
            f"the folder '{name}' is missing: looked in {PACKAGE} and {PACKAGE.parent}; the installation is incomplete"
        )
    return folder


def given(word: str) -> Path:
    """The path that a user's word names; ``~nobody`` stays as it is written. Whether it is there is for ``os.path`` to
    say: ``exists``, ``isfile`` and ``isdir`` take also what is too long for a name, which ``Path``'s do not."""
    return Path(os.path.expanduser(word))


def conf_dir() -> Path:
    """Config groups, ``config.yaml`` at the top."""
    return _required("conf")


def cuda_src_dir() -> Path:
    """Kernel sources, ``common/`` and ``host/`` beside them."""
    return _required("cuda_src")


def experiments_dir() -> Path | None:
    """Named studies, or None where none are installed."""
    return _folder("experiments")


def project_dir() -> Path:
    """Where the default store belongs: the checkout, or the working directory of an installed package."""
    beside = PACKAGE.parent
    return beside if (beside / "conf" / "config.yaml").is_file() else Path.cwd()
