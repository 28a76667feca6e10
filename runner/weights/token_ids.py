"""Given token ids: a file of them, or a text for the tokenizer of the model's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.weights.errors import WeightsError
from runner.weights.prompt import TEXT_LIMIT, prompt_ids, shown

SUFFIXES = (".json", ".npy", ".txt", ".ids")
"""What names a file even where there is none: a slip in its name is no text."""
_ALLOWED = "a file of token ids (a JSON list, one on each line, or .npy) or of text, [1,2,3], or a text"

Ids = npt.NDArray[np.int64]


def located(text: str) -> str:
    """``text``, where it names a file as that file's absolute path. Raises ``WeightsError`` for a file that is not
    there."""
    try:
        path = Path(text).expanduser()
        if path.is_file():
            return str(path.absolute())
    except (OSError, ValueError, RuntimeError):  # too long for a name, a zero in it, a user that does not exist
        return text
    if path.suffix in SUFFIXES and not any(letter.isspace() for letter in text):
        raise WeightsError(f"kernel.params.text={text}: no such file; allowed are {_ALLOWED}")
    return text


def token_ids(text: str, model: str, vocab: int) -> Ids:
    """The tokens that ``text`` gives, (N,), N > 0, each below ``vocab``.

    It is a file's path, a written list, or a text; a text, and a file of text, is turned into tokens by the tokenizer
    of the weights at ``model``. ``WeightsError`` names the key, the value and what is allowed.
    """
    path = located(text)
    try:
        is_file = Path(path).is_file()
    except (OSError, ValueError):
        is_file = False
    where = f"kernel.params.text={path if is_file else shown(text)}"
    ids = _of_file(Path(path), where, model) if is_file else np.array(_of_text(text, model), np.int64)
    if not len(ids):
        raise WeightsError(f"{where}: at least one token")
    for wrong in (int(ids.min()), int(ids.max())):
        if not 0 <= wrong < vocab:
            raise WeightsError(f"{where}: token {wrong}: the model has those from 0 to {vocab - 1}")
    return ids


def _of_text(text: str, model: str) -> list[int]:
    return prompt_ids(text, model, key="kernel.params.text")


def _of_file(path: Path, where: str, model: str) -> Ids:
    if path.suffix == ".npy":
        return _array(path, where)
    try:
        if path.stat().st_size > 4 * TEXT_LIMIT:
            raise WeightsError(f"{where}: more than {4 * TEXT_LIMIT} bytes; a longer list may be a .npy file")
        content = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WeightsError(f"{where}: cannot be read: {error}; allowed are {_ALLOWED}") from error
    words = content.split()
    if words and all(word.isascii() and word.isdigit() for word in words):
        try:
            return np.array([int(word) for word in words], np.int64)
        except (OverflowError, ValueError) as error:
            raise WeightsError(f"{where}: a number that is no token id: {error}") from error
    if content and not content.startswith("[") and not model:
        raise WeightsError(f"{where}: neither a list of token ids, nor is there model.weights=<file> with a tokenizer")
    try:
        return np.array(_of_text(content, model) if content else [], np.int64)
    except (WeightsError, OverflowError) as error:
        raise WeightsError(f"{where}: {error}") from error


def _array(path: Path, where: str) -> Ids:
    try:
        found: Any = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise WeightsError(f"{where}: not a .npy file of numbers: {error}") from error
    if not isinstance(found, np.ndarray) or found.ndim != 1 or found.dtype.kind not in "iu":
        what = f"{found.dtype} of shape {list(found.shape)}" if isinstance(found, np.ndarray) else type(found).__name__
        raise WeightsError(f"{where}: {what}: whole numbers in one dimension")
    return found.astype(np.int64)
