"""Markdown tables and text that stays text."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FORMATTING = re.compile(r"[\\|*<`]|(?<!\w)_|_(?!\w)")
"""An underscore within a word formats nothing."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, told: bool = False) -> str:
    """A table whose first ``left`` columns, and the last one if ``told``, are text and whose others are figures; empty
    without rows."""
    if not rows:
        return ""
    texts = {*range(left), *([len(head) - 1] if told else [])}
    rule = "|" + "|".join(" --- " if number in texts else " ---: " for number in range(len(head))) + "|"
    return "\n".join([line(head), rule, *(line(row) for row in rows)])


def line(cells: Sequence[str]) -> str:
    """One row; what would break it or turn into formatting is escaped."""
    return "| " + " | ".join(escape(cell) for cell in cells) + " |"


def escape(text: str) -> str:
    """What would break a table or turn into formatting."""
    return _FORMATTING.sub(r"\\\g<0>", " ".join(text.split()))


def bullets(sentences: Sequence[str]) -> str:
    """A list; empty without sentences."""
    return "\n".join(f"* {escape(sentence)}" for sentence in sentences)


def code(commands: Sequence[str]) -> str:
    """Commands as they are, one a line; empty without any."""
    return "\n".join(["```bash", *commands, "```"]) if commands else ""


def joined(parts: Sequence[str]) -> str:
    """Paragraphs, without the empty ones, as a file's text."""
    return "\n\n".join(part for part in parts if part) + "\n"
