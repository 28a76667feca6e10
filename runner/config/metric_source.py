"""Where a program's output holds a metric: a regular expression with one group, or a path into JSON.

A path is ``$``, then ``.name``, ``["any name"]`` and ``[0]`` in any number: ``$.results[0].tokens_per_s``.
"""

from __future__ import annotations

import re

_STEP = re.compile(r'\.([A-Za-z_][\w-]*)|\["([^"]*)"\]|\[\'([^\']*)\'\]|\[(-?\d+)\]')


def is_path(source: str) -> bool:
    """Whether ``source`` is a JSON path; otherwise it is a regular expression."""
    return source == "$" or source.startswith(("$.", "$["))


def json_path(source: str) -> list[str | int]:
    """Keys and indices in the order they are followed. Raises ``ValueError`` naming what is not understood.

    >>> json_path('$.results[0]["p 99"]')
    ['results', 0, 'p 99']
    """
    steps: list[str | int] = []
    place = 1
    while place < len(source):
        match = _STEP.match(source, place)
        if match is None:
            raise ValueError(f'not a JSON path from {source[place:]!r} on; steps are .name, ["any name"] and [0]')
        name = next((text for text in match.groups()[:3] if text is not None), None)
        steps.append(int(match[4]) if name is None else name)
        place = match.end()
    return steps


def expression(source: str) -> re.Pattern[str]:
    """The regular expression, ``^`` and ``$`` at lines. Raises ``ValueError`` unless it has exactly one group."""
    try:
        pattern = re.compile(source, re.MULTILINE)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    if pattern.groups != 1:
        raise ValueError(f"has {pattern.groups} groups; exactly one must hold the number, e.g. ([0-9.]+) tok/s")
    return pattern
