"""Where results are filed, and what distributes the jobs of a sweep."""

from __future__ import annotations

import importlib.metadata

from runner.doctor.model import Answer, Probe, broken, missing, ok
from runner.record import probe
from runner.record.location import Location, TrackingUnavailable, locate
from runner.record.mlflow_store import MlflowStore

_LAUNCHERS = {"joblib": "hydra-joblib-launcher", "slurm": "submitit", "ray": "ray"}
"""Launcher, which is also the name of our extra → what it needs."""


def probes(uri: str) -> list[Probe]:
    return [
        Probe("Hydra launchers", "jobs of a sweep on several GPUs, cores or machines", launchers),
        Probe("MLflow store", "keeps and compares results", lambda: store(uri), needed=True, limit_s=90),
    ]


def launchers() -> Answer:
    found, absent = ["local", "gpus"], []
    for name, package in _LAUNCHERS.items():
        try:
            found.append(f"{name} ({package} {importlib.metadata.version(package)})")
        except importlib.metadata.PackageNotFoundError:
            absent.append(name)
    return ok(", ".join(found), f"for more: pip install '.[{','.join(absent)}]'" if absent else "")


def store(uri: str) -> Answer:
    """The store is opened; a SQLite file that is not there yet is not made, only found possible."""
    try:
        location = locate(uri)
        version = importlib.metadata.version("mlflow")
        if location.kind == "sqlite" and not location.database.is_file():
            probe.check(location)
            return ok(f"MLflow {version}; {location.shown} will be made by the first run")
        MlflowStore(location).open()
    except importlib.metadata.PackageNotFoundError:
        return missing("mlflow is not installed", "pip install -e .")
    except TrackingUnavailable as error:
        return broken(str(error), _mend(uri))
    return ok(f"MLflow {version}; {location.shown}{_artifacts(location)}")


def _artifacts(location: Location) -> str:
    return f", artifacts in {location.artifacts}" if location.artifacts else ""


def _mend(uri: str) -> str:
    again = "python -m runner.doctor tracking.uri=…"
    return (
        f"mend the store and ask again: {again}; tracking=none runs without one"
        if uri
        else (f"name another store with tracking.uri= ({again} tries it), or run with tracking=none")
    )
