"""A filed run as a judgement looks at it."""

from __future__ import annotations

import contextlib

from runner.record.filed import Filed, Only
from runner.record.removal import local_folder
from runner.result import document
from runner.result.document import DocumentError
from runner.result.model import Quality, Status
from runner.verdict import of_result
from runner.verdict.model import Measured

LOOKED_AT = Only(
    tags=(
        *("kind", "status", "quality", "time_method", "time_mode", "flags", "device_name", "message", "fingerprint"),
        *("git_commit", "git_dirty", "driver", "result_id", "sweep_id", "experiment_id", "overrides"),
    ),
    metrics=of_result.METRICS,
)
"""All that ``of_run`` asks of a run."""


def of_run(run: Filed) -> Measured | None:
    """What the run's parameters, metrics and tags say; None for a run that holds no result, or is still being filed.

    Of a run that was filed before these said how it was timed, its ``result.json`` does, where that is on this machine.
    """
    tags, params = run.tags, run.params
    if tags.get("kind", "result") != "result" or run.status == "RUNNING":
        return None
    try:
        status, quality = Status(tags.get("status", "")), Quality(tags.get("quality", ""))
    except ValueError:
        return None
    figures = of_result.figures(run.metrics)
    method, mode = tags.get("time_method", ""), tags.get("time_mode", "")
    flags = tuple(flag for flag in tags.get("flags", "").split(", ") if flag)
    if status is Status.PASSED and figures["time_us"] and not method:
        with contextlib.suppress(DocumentError):  # elsewhere or gone: then it stays unknown, and the verdict says so
            older = _document(run)
            figures = {**_older_figures(older), **{key: value for key, value in figures.items() if value is not None}}
            method, mode, flags = older.method, older.mode, older.flags
    return Measured(
        configuration=of_result.configuration(params),
        kernel=params.get("kernel", ""),
        variant=params.get("variant", ""),
        backend=params.get("backend", ""),
        status=status,
        device=tags.get("device_name", ""),
        method=method,
        mode=mode,
        quality=quality,
        flags=flags,
        message=tags.get("message", ""),
        **figures,
        fingerprint=tags.get("fingerprint", ""),
        commit=tags.get("git_commit", ""),
        dirty=tags.get("git_dirty") == "true",
        driver=tags.get("driver", ""),
        run_id=run.run_id,
        result_id=tags.get("result_id", ""),
        sweep_id=tags.get("sweep_id", ""),
        experiment_id=tags.get("experiment_id", ""),
        started=run.started,
        overrides=tags.get("overrides", ""),
    )


def _document(run: Filed) -> Measured:
    folder = local_folder(run) if run.artifacts else None
    if folder is None:
        raise DocumentError(f"run {run.run_id} has no {document.FILE_NAME} here")
    return of_result.measured(document.read(folder / document.FILE_NAME))


def _older_figures(older: Measured) -> dict[str, object]:
    return {"low": older.low, "high": older.high, "q1": older.q1, "q3": older.q3}
