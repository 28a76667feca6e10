"""A model's file → the ``model`` section, by what the file is."""

from __future__ import annotations

from pathlib import Path

from runner.config.schema import Model
from runner.estimate import gguf_header, hf

_MAGIC = b"GGUF"
_WEIGHTS = (".safetensors", ".safetensors.index.json")


def read(path: Path) -> Model:
    """The model that a GGUF file, a ``config.json``, a folder with one, or safetensors beside one describe.

    ``ConfigError`` names the file, the key, its value and what would be accepted.
    """
    return gguf_header.read(path) if is_gguf(path) else hf.read(config_of(path))


def config_of(path: Path) -> Path:
    """The ``config.json`` that describes ``path``: in the folder, beside the weights, or the file itself."""
    if path.is_dir():
        return path / "config.json"
    return path.with_name("config.json") if path.name.endswith(_WEIGHTS) else path


def is_gguf(path: Path) -> bool:
    """By its first bytes. A file that cannot be read is left to the reader, which says so."""
    try:
        if path.is_file():
            with path.open("rb") as file:
                return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        pass
    return path.suffix.lower() == ".gguf"
