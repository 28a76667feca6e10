"""A prompt as token ids: written as such, or as text where the model's file brings a tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

from runner.weights import tokenizer
from runner.weights.errors import WeightsError

TEXT_LIMIT = 1 << 20
"""Characters."""
_SHOWN = 40


def prompt_ids(text: str, path: str = "", vocab: int | None = None, key: str = "prompt") -> list[int]:
    """The tokens of ``text``, at least one.

    ``[1, 2, 3]`` are ids already and need no file; anything else is turned into tokens by the tokenizer of the model at
    ``path``, which puts its own first token before it where it has one. With ``vocab`` no id may reach that number.
    ``WeightsError`` names the prompt (``key`` is what it is called there), or the file and what it lacks.
    """
    where = f"{key}={shown(text)}"
    if len(text) > TEXT_LIMIT:
        raise WeightsError(f"{where}: {len(text)} characters: at most {TEXT_LIMIT}")
    ids = _written(text, where)
    if ids is None:
        if not path:
            raise WeightsError(
                f"{where}: token ids, [1,2,3], or a text with model.weights=<file>, which has a tokenizer"
            )
        ids = list(tokenizer.load(Path(path)).encode(text).ids)
    if not ids:
        raise WeightsError(f"{where}: at least one token")
    for token in ids:
        if vocab is not None and token >= vocab:
            raise WeightsError(f"{where}: token {token}: the model has those from 0 to {vocab - 1}")
    return ids


def shown(text: str) -> str:
    """A text as an error quotes it: its beginning."""
    return f"{text[:_SHOWN]!r}{'…' if len(text) > _SHOWN else ''}"


def _written(text: str, where: str) -> list[int] | None:
    """The ids of a list; None for a text, which may begin with a bracket too."""
    if not text.lstrip().startswith("["):
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or not all(type(one) is int and one >= 0 for one in values):
        raise WeightsError(f"{where}: a list of token ids, whole numbers from 0 on")
    return values
