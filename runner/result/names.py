"""Parameters as people read them: which are the family's own, and numbers without decoration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runner.config.check_command import OWN_METRICS

_TOLD = ("weights", "bound_prefill", "bound_decode", "level", "kernels_from")
"""Of an estimate: what its variant is named after, and what it found and how."""
GROUP_KEYS = ("argv", "dtype", "variant", "kernel", "gpu", "model", "shape", "backend", "seed", *_TOLD)
"""Entries of ``Result.params`` that are no dimension of the family."""


def printed(params: Mapping[str, Any], metrics: Iterable[str]) -> list[str]:
    """Names of the metrics that a program of the user printed; none for a family of kernels, which has no ``argv``."""
    return [name for name in metrics if name not in OWN_METRICS] if "argv" in params else []


def plain(value: Any) -> str:
    """A value as text: whole numbers without a point, truth values in lower case.

    >>> plain(4096.0), plain(0.5), plain(True)
    ('4096', '0.5', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)
