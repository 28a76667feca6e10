"""A result that was kept, whole: found by the id of its run or its own, or as a file, with the config that was run."""

from __future__ import annotations

import os
import re
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from runner.paths import given
from runner.record import reading, removal, spool
from runner.record.artifacts import CONFIG
from runner.record.filed import Filed
from runner.record.location import Location
from runner.record.mlflow_store import MlflowStore
from runner.record.selection import Selection
from runner.result import document
from runner.result.model import Result

_RUN_ID = re.compile(r"[0-9a-f]{32}")
MEANS = "the id of a run (32 hexadecimal digits), the id of a result (a UUID), or a result.json or its folder"


class NotFound(ValueError):
    """There is no such run, result or file; one line that says where it was looked for."""


@dataclass(frozen=True)
class Original:
    """``config``: the whole of it where ``config.yaml`` of the same experiment was kept too, else ``result.config``."""

    result: Result
    config: Mapping[str, Any]
    where: str
    """What it was found as: ``run 5d0c…``, or a path."""

    @classmethod
    def of(cls, result: Result, where: str, written: str = "") -> Original:
        """``written``: the text of ``config.yaml``; one of another experiment, which came later into the same folder,
        stands for nothing."""
        try:
            whole = yaml.safe_load(written)
        except yaml.YAMLError:  # half of one
            whole = None
        return cls(result, whole if _belongs(whole, result.config) else result.config, where)


def find(word: str, location: Location) -> Original:
    """Raises ``NotFound``, ``DocumentError`` for a document that cannot be read, and ``TrackingUnavailable``."""
    path = given(word)
    if os.path.exists(path):
        return of_file(path)
    if not reading.exists(location) and (_RUN_ID.fullmatch(word) or _is_uuid(word)):
        raise NotFound(f"{word}: there is no store at {location.shown}: give uri=")
    if _RUN_ID.fullmatch(word):
        found = [run for batch in reading.runs(location, Selection(runs=(word,))) for run in batch]
        kind = "run"
    elif _is_uuid(word):
        wanted = Selection(tags={"result_id": (word.lower(),)})
        found = [run for batch in reading.runs(location, wanted) for run in batch]
        kind = "result"
    else:
        raise NotFound(f"{word}: give {MEANS}; there is no such path")
    if not found:
        raise NotFound(f"{word}: {location.shown} has no such {kind}")
    return of_run(location, found[0])


def of_file(path: Path) -> Original:
    """The result at ``path``, or the only one in or below a folder. Raises ``NotFound`` and ``DocumentError``."""
    files = spool.results(path) if path.is_dir() else [path]
    if len(files) != 1:
        count = f"{len(files)} results lie" if files else "no result lies"
        raise NotFound(f"{path}: {count} in it or below it; name the folder of one, {document.FILE_NAME} in it")
    result = document.read(files[0])
    folder = files[0].parent
    return Original.of(result, str(files[0]), _text(folder.parent if result.variant else folder))


def of_run(location: Location, run: Filed) -> Original:
    """What was filed in ``run``. Raises ``NotFound`` for one that holds no result, ``DocumentError`` and
    ``TrackingUnavailable``."""
    where = f"run {run.run_id}"
    if run.tags.get("kind") != "result":
        raise NotFound(f"{where} of {location.shown} holds no result: it is a command's summary, or somebody else's")
    local = removal.local_folder(run) if location.artifacts else None
    if local is not None:
        if not (local / document.FILE_NAME).is_file():
            raise NotFound(f"{where}: its {document.FILE_NAME} is not in {local}: another machine has it")
        return Original.of(document.read(local / document.FILE_NAME), where, _text(local))
    store = MlflowStore(location)
    store.open()
    with tempfile.TemporaryDirectory() as place:
        path = store.download(run, document.FILE_NAME, Path(place))
        if path is None:
            raise NotFound(f"{where}: it has no {document.FILE_NAME} among its files")
        store.download(run, CONFIG, Path(place))
        return Original.of(document.read(path), where, _text(Path(place)))


def _text(folder: Path) -> str:
    try:
        return (folder / CONFIG).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):  # an earlier version filed none
        return ""


def _belongs(whole: Any, config: Mapping[str, Any]) -> bool:
    """Whether ``whole`` says what the result's own, shorter config says."""
    if not isinstance(whole, dict) or not isinstance(whole.get("kernel"), dict):
        return False
    shorter = {key: whole["kernel"].get(key) for key in config.get("kernel", {})}
    return {**whole, "kernel": shorter} == dict(config)


def _is_uuid(word: str) -> bool:
    try:
        return str(uuid.UUID(word)) == word.lower()
    except ValueError:
        return False
