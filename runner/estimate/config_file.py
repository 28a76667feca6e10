"""A ``config.json`` as typed fields, which remember what they were asked for, so that the rest is known."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from runner.config.errors import ConfigError
from runner.config.small_file import content

SIZE_LIMIT = 1 << 20
"""Bytes; such files have a few thousand."""
NUMBER_LIMIT = 2**31 - 1
UNKNOWN_LIMIT = 40
"""A file with more keys that nobody understands describes something else."""
_SHOWN = 80
"""Longer values are cut in messages."""


class Fields:
    """The top level of a ``config.json``. ``null`` counts as absent."""

    def __init__(self, file: str, values: dict[str, Any]) -> None:
        self.file = file
        self.notes: list[str] = []
        self._values = values
        self._asked: set[str] = set()

    def get(self, key: str) -> Any:
        """The value as it stands; ``None`` where there is none."""
        self._asked.add(key)
        return self._values.get(key)

    def has(self, key: str) -> bool:
        """Whether the key stands in the file, even with ``null``."""
        return key in self._values

    def integer(self, *names: str, least: int = 1, most: int = NUMBER_LIMIT, default: int | None = None) -> int:
        """A whole number under one of ``names``, all of which mean the same; required without ``default``."""
        found: int | None = None
        for key in names:
            value = self.get(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise self.wrong(key, f"a whole number from {least} to {most}")
            if found is not None and value != found:
                raise self.wrong(key, f"{found}, as {names[0]} says")
            found = value
        if found is None:
            found = default
        if found is None:
            raise self.missing(" or ".join(names), f"a whole number, {least} or more")
        return found

    def real(self, key: str, default: float) -> float:
        """A number above 0."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise self.wrong(key, "a number above 0")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def text(self, key: str) -> str:
        """Empty where absent."""
        value = self.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong(key, "a text")
        return value

    def items(self, key: str, kind: type) -> list[Any]:
        """A list of ``kind``; empty where absent."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or any(type(item) is not kind for item in value):
            raise self.wrong(key, f"a list of {'texts' if kind is str else 'whole numbers'}")
        return value

    def only(self, key: str, allowed: Any, why: str) -> None:
        """Refuse any value but ``allowed`` (absent is fine)."""
        value = self.get(key)
        if value is not None and (type(value) is not type(allowed) or value != allowed):
            raise self.wrong(key, f"{_shown(allowed)}: {why}")

    def unasked(self, irrelevant: Collection[str]) -> list[str]:
        """A sentence for each key that was not asked for and is not known to leave the sizes alone."""
        left = set(self._values) - self._asked - set(irrelevant)
        unknown = sorted(key for key in left if self._values[key] is not None)
        if len(unknown) > UNKNOWN_LIMIT:
            raise self.wrong(
                unknown[0], f"at most {UNKNOWN_LIMIT} keys that are not understood; {len(unknown)} stand in this file"
            )
        return [
            f"{_shown(key)}: {_shown(self._values[key])} was not understood: what it adds is not in the figures"
            for key in unknown
        ]

    def wrong(self, key: str, allowed: str) -> ConfigError:
        return ConfigError(f"{self.file}: {key}={_shown(self._values.get(key))}: {allowed}")

    def missing(self, key: str, allowed: str) -> ConfigError:
        return ConfigError(f"{self.file}: {key} is missing: {allowed}")


def load(path: Path) -> Fields:
    """The fields of ``path``. ``ConfigError`` where it is no JSON object of a sensible size."""
    file = str(path)
    wanted = "a Hugging Face config.json, its folder, or a .gguf file"
    raw = content(path, file, SIZE_LIMIT, wanted, "a config.json has a few thousand")
    try:
        values = json.loads(raw, object_pairs_hook=_object)
    except RecursionError as error:
        raise ConfigError(f"{file}: nested too deeply: a config.json has a few levels") from error
    except ValueError as error:  # no JSON, no UTF-8, a number of thousands of digits, a key given twice
        raise ConfigError(f"{file}: not a config.json: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{file}: not a config.json: a JSON object at the top, not {_shown(values)}")
    return Fields(file, values)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key, number in Counter(key for key, _ in pairs).items() if number > 1)
        raise ValueError(f"the key {_shown(twice)} stands there twice")
    return made


def _shown(value: Any) -> str:
    """As JSON, cut where long; ASCII, so that no control character reaches a terminal."""
    if isinstance(value, str) and len(value) > _SHOWN:
        return json.dumps(value[:_SHOWN]) + "…"
    if isinstance(value, (dict, list)) and len(value) > _SHOWN:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)} entries"
    try:
        written = json.dumps(value)
    except (RecursionError, ValueError):
        return "a value too large to show"
    return written if len(written) <= _SHOWN else written[:_SHOWN] + "…"
