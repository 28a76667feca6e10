"""Names of ranges and report files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

LONGEST = 180
"""Bytes of a report's name without suffix; a table's suffix is added, and a file system allows 255."""
_COMMIT = 10
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def range_name(phase: str, kernel: str, variant: str) -> str:
    """``decode/kv_quant/q8``."""
    return f"{phase}/{kernel}/{variant}"


def shape_label(shape: str, letters: Mapping[str, float | int | str]) -> str:
    """``long_ctx-B1-T4096``: the shape's name and this experiment's values, so that reports of a sweep
    differ."""
    return "-".join([shape, *(f"{letter}{value}" for letter, value in letters.items())])


def report_name(
    *,
    model: str,
    gpu: str,
    phase: str,
    kernel: str,
    variant: str,
    shape: str,
    commit: str,
    dirty: bool = False,
) -> str:
    """``model_gpu_phase_kernel_variant_shape_commit``, safe as a file name anywhere.

    Two variants of an experiment never share a name: where a character had to be replaced or the end cut
    off, a hash of the whole is added.
    """
    short = (commit[:_COMMIT] or "nocommit") + ("-dirty" if dirty else "")
    fields = [model, gpu, phase, kernel, variant, shape, short]
    safe = [_UNSAFE.sub("-", text).strip("-.") or "none" for text in fields]
    name = "_".join(safe)
    if safe == fields and len(name) <= LONGEST:
        return name
    digest = hashlib.sha256("\0".join(fields).encode()).hexdigest()[:8]
    tail = f"_{safe[-1]}_{digest}"
    return "_".join(safe[:-1])[: LONGEST - len(tail)] + tail
