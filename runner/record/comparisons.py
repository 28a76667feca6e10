"""A comparison as a run of the tracker: the sides, the counts, and its files."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from runner.record import fields, links
from runner.record.filed import Filed
from runner.record.location import Location
from runner.record.mlflow_store import MlflowStore
from runner.verdict.model import Comparison

EXPERIMENT = "comparisons"


def file(location: Location, comparison: Comparison, folder: Path, command: str) -> str:
    """Files it with the files in ``folder``, and says at which address its page is. Raises ``TrackingUnavailable``."""
    store = MlflowStore(location)
    store.open()
    run_id = store.file_folder(EXPERIMENT, _run(comparison, folder, command), folder)
    return links.run(location, store.experiment_id(EXPERIMENT), run_id)


def _run(comparison: Comparison, folder: Path, command: str) -> Filed:
    now = round(1000 * time.time())
    rules = comparison.rules
    metrics = {f"count_{verdict.value.lower()}": float(count) for verdict, count in comparison.counts.items()}
    effects = [one.effect for one in comparison.judged if one.effect is not None]
    if effects:
        metrics |= {"effect_worst": max(effects), "effect_best": min(effects)}
    tags = {
        "kind": "comparison",
        "repeat": command,
        "host": socket.gethostname(),
        "mlflow.note.content": fields.cut((folder / "table.md").read_text(encoding="utf-8"), fields.TAG_LENGTH),
        "mlflow.user": fields.user(),
        "mlflow.source.name": "runner.compare",
        "mlflow.source.type": "LOCAL",
    }
    return Filed(
        run_id="",
        params={
            "baseline": fields.cut(comparison.baseline, fields.PARAM_LENGTH),
            "candidate": fields.cut(comparison.candidate, fields.PARAM_LENGTH),
            "tolerance": f"{rules.tolerance:g}",
            "alpha": f"{rules.alpha:g}",
            "across_gpus": str(rules.across_gpus).lower(),
        },
        metrics=metrics,
        tags=tags,
        started=now,
        ended=now,
        name=f"{comparison.candidate} against {comparison.baseline}"[: fields.NAME_LENGTH],
        status="FINISHED",
    )
