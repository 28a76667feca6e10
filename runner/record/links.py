"""Addresses of MLflow's own pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote, urlsplit, urlunsplit

from runner.record.location import Location

UI_PORT = 5000
COMPARE_LIMIT = 60
"""Most runs in one compare link: beyond that the page is unreadable and the address too long for a tag."""


def base(location: Location) -> str:
    """Address of the UI: the server itself without any user name, or where ``python -m runner.ui`` serves."""
    if location.kind != "server":
        return f"http://127.0.0.1:{UI_PORT}"
    parts = urlsplit(location.uri)
    return urlunsplit((parts.scheme, parts.netloc.rsplit("@", 1)[-1], parts.path.rstrip("/"), "", ""))


def compare(location: Location, run_ids: Sequence[str], experiments: Sequence[str]) -> str:
    """The page that compares these runs; empty below two runs."""
    if len(run_ids) < 2:
        return ""
    runs = quote(json.dumps(list(run_ids[:COMPARE_LIMIT]), separators=(",", ":")), safe="")
    ids = quote(json.dumps(list(experiments), separators=(",", ":")), safe="")
    return f"{base(location)}/#/compare-runs?runs={runs}&experiments={ids}"


def run(location: Location, experiment_id: str, run_id: str) -> str:
    """The page of one run."""
    return f"{base(location)}/#/experiments/{experiment_id}/runs/{run_id}"
