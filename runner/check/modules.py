"""Loading a family's reference module and its functions."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


class BadReference(ValueError):
    """The reference cannot be loaded, or what it answers cannot be the truth."""


def function(reference: str, name: str, signature: str) -> Any:
    """A function of a dotted module, or of the ``.py`` at an absolute path. Raises ``BadReference``."""
    found = optional(reference, name)
    if not callable(found):
        raise BadReference(f"reference {reference} has no function {signature}")
    return found


def optional(reference: str, name: str) -> Any | None:
    """Like ``function``; None where the module has nothing of that name."""
    module = _load_file(Path(reference)) if reference.endswith(".py") else _load_module(reference)
    return getattr(module, name, None)


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise BadReference(f"reference module {name!r} does not exist") from error
        raise BadReference(f"reference module {name!r} needs {error.name!r}, which is not installed") from error
    except Exception as error:
        raise BadReference(f"reference module {name!r} fails while loading: {error!r}") from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_absolute() or not path.is_file():
        raise BadReference(f"reference {path} must be the absolute path of an existing .py file")
    # Two families may both bring a reference.py: the name holds the path's hash.
    name = f"runner_reference_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadReference(f"reference {path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses in the file look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise BadReference(f"reference {path} fails while loading: {error!r}") from error
    return module
