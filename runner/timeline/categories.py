"""Sorts kernels into categories by ordered rules on their names, ``categories.yaml``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).with_name("categories.yaml")
USER_FILE = "categories.yaml"
"""In a folder of the user's own options: rules that are asked before ours."""
CATEGORIES = (
    "matmul", "attention", "norm", "rope", "elementwise", "sampler", "quantise", "reduction", "moe", "memcpy", "memset",
    "communication", "other",
)  # fmt: skip
"""Those of our rules; rules of a user may add more. ``other``: no rule matches."""


class Categories:
    """Rules of the files in ``extra``, in this order, before our own.

    Raises ``ValueError`` naming the file and the rule that is wrong.
    """

    def __init__(self, extra: Sequence[Path] = ()) -> None:
        self._rules = [rule for path in (*extra, RULES) for rule in _rules(path)]
        self._known: dict[tuple[str, str], str] = {}

    def of(self, name: str, signature: str = "") -> str:
        """Category of a kernel. ``signature``: its declaration with template arguments, where that is known."""
        key = (name, signature)
        if key not in self._known:
            texts = (name, signature) if signature else (name,)
            matching = (category for category, rule in self._rules if any(map(rule.search, texts)))
            self._known[key] = next(matching, "other")
        return self._known[key]


def user_rules(folders: Sequence[Path]) -> tuple[Path, ...]:
    """The rules' files in ``folders``, found to be right. Raises ``ValueError`` as ``Categories`` does."""
    files = tuple(path for folder in folders if (path := folder / USER_FILE).is_file())
    Categories(files)
    return files


@lru_cache(maxsize=8)
def _rules(path: Path) -> list[tuple[str, re.Pattern[str]]]:
    try:
        entries: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: no valid YAML ({error})") from error
    if not isinstance(entries, list):
        raise ValueError(f"{path}: expected a list of rules, each with category and match")
    return [_rule(path, number, entry) for number, entry in enumerate(entries, start=1)]


def _rule(path: Path, number: int, entry: Any) -> tuple[str, re.Pattern[str]]:
    if not isinstance(entry, dict) or set(entry) != {"category", "match"}:
        raise ValueError(f"{path}, rule {number}: expected exactly the keys category and match, got {entry!r}")
    category, match = entry["category"], entry["match"]
    patterns = match if isinstance(match, list) else [match]
    if not isinstance(category, str) or not patterns or not all(isinstance(p, str) and p for p in patterns):
        raise ValueError(f"{path}, rule {number}: category is a word, match one regular expression or a list of them")
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{path}, rule {number}: match={pattern!r} is no regular expression ({error})") from error
    return category, re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)
