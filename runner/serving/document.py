"""A served trace as one JSON file, for a process that did not serve it itself."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from runner.result.document import DocumentError, parsed, write_text
from runner.serving.served import Record, Served, Step
from runner.serving.trace import Request

VERSION = 1
FILE_NAME = "served.json"


def write(served: Served, path: Path) -> None:
    """Raises ``DocumentError`` where it cannot be written."""
    document = {
        "version": VERSION,
        "requests": [_record(one) for one in served.requests],
        "steps": [asdict(step) for step in served.steps],
    }
    write_text(path, json.dumps(document, allow_nan=False))


def read(path: Path) -> Served:
    """What ``write`` wrote, to the last bit. Raises ``DocumentError`` for anything else, naming the file."""
    try:
        document = parsed(path.read_bytes())
        if document["version"] != VERSION:
            raise DocumentError(f"{path}: version={document['version']!r}: must be {VERSION}")
        requests = tuple(_read_record(one) for one in document["requests"])
        return Served(requests, tuple(Step(**step) for step in document["steps"]))
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror}") from error
    except DocumentError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise DocumentError(f"{path}: is no served trace: {error}") from error


def _record(one: Record) -> dict[str, Any]:
    return {
        "request": asdict(one.request),
        "started_s": one.started_s,
        "token_s": one.token_s.tolist(),
        "tokens": one.tokens.tolist(),
        "shared": one.shared,
        "preempted": one.preempted,
    }


def _read_record(one: dict[str, Any]) -> Record:
    arrays = {"token_s": np.array(one["token_s"], np.float64), "tokens": np.array(one["tokens"], np.int32)}
    return Record(**{**one, **arrays, "request": Request(**one["request"])})
