"""What makes two experiments the same: their fingerprint is equal when a result of one can stand for the other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from runner.build.api import identity
from runner.build.model import CompileError
from runner.execute.planning import Experiment
from runner.plan import wire
from runner.plan.model import Plan
from runner.result.model import SCHEMA_VERSION

MEASURING = (
    *("backend", "build", "check", "estimate", "execute", "measure", "plan", "profile", "program", "references"),
    *("result", "serving", "timeline", "weights", "worker", "workload"),
)
"""Packages of ours whose code decides what a result says; what files, prints and composes is left out."""


def of(experiment: Experiment) -> dict[str, str]:
    """By variant 64 hexadecimal digits over the plan and the variant, how it is measured and profiled, the programs'
    sources, flags and compilers, the kind of device and its driver, files that the family reads, the measuring code and
    the schema of results. Nothing for an experiment that has no plan, or cannot be compiled for lack of a compiler or a
    source: its result will say so.

    Folders count for nothing: the same checkout elsewhere gives the same, and so does the same kind of GPU.
    """
    plan, config = experiment.plan, experiment.config
    if plan is None:
        return {}
    try:
        programs = {unit: identity(request) for unit, request in experiment.requests.items()}
    except CompileError:
        return {}
    profiler = {key: value for key, value in asdict(config.profiler).items() if key != "timeout_s"}
    shared = {
        "family": asdict(config.kernel),
        "plan": _placeless(plan),
        "programs": programs,
        "settings": asdict(experiment.settings),
        "trials": config.measure.trials,
        "crosscheck": config.measure.crosscheck,
        "profiler": profiler,
        "environment": config.environment,
        "devices": [[info.name, info.arch, info.driver, info.cuda] for info in experiment.devices],
        "files": sorted(_files({**plan.params, "reference": plan.reference, "weights": config.model.weights})),
        "code": code(),
        "schema": SCHEMA_VERSION,
    }
    common = _digest(shared)
    return {variant.name: _digest([common, asdict(variant)]) for variant in plan.variants}


@lru_cache(maxsize=1)
def code() -> str:
    """Digest of the measuring code."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for package in MEASURING:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _placeless(plan: Plan) -> dict[str, Any]:
    """A plan without places, and without what another choice of its variants changes: that follows from the family."""
    plain = wire.to_dict(replace(plan, source="", reference="", baseline="", buffers=(), prepare=(), variants=()))
    if plain["companion"]:
        plain["companion"] |= {"source": "", "reference": "", "devices": len(plan.devices)}
    if plan.command is not None:  # which GPUs a program sees is a place
        plain["command"]["environment"].pop("CUDA_VISIBLE_DEVICES", None)
    return plain | {"devices": len(plan.devices)}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _files(named: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Name, size and time of change of every file that a value names."""
    for value in named.values():
        path = Path(value) if isinstance(value, str) and value else None
        try:
            if path is not None and path.is_file():
                stat = path.stat()
                yield path.name, stat.st_size, stat.st_mtime_ns
        except (OSError, ValueError):  # no path after all: too long, or with a null
            continue
