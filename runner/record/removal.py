"""Whether a run's files may be removed. A database may name any folder of this machine; only a run's own goes."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from runner.record.filed import Filed
from runner.record.location import Location

ELSEWHERE = "with files outside the store's folder of artifacts"
ON_A_SERVER = "with files on the server's own disk (prune there, with uri= of its database)"
"""Reasons that a run stays."""


def obstacle(location: Location, run: Filed) -> str:
    """Why a run's files are not removed by this process; empty when they may be.

    What lies in an object store, or behind a server that hands files out itself, is removed by name through it. A
    folder must be ``<folder of artifacts>/…/<run id>/artifacts``, links followed; a server's is none of ours, even
    where a folder of that name is here.
    """
    folder = local_folder(run)
    if folder is None:
        return ""
    if not location.artifacts:
        return ON_A_SERVER
    resolved, root = folder.resolve(), Path(location.artifacts).resolve()
    own = resolved.parts[-2:] == (run.run_id, "artifacts") and root in resolved.parent.parents
    return "" if own else ELSEWHERE


def local_folder(run: Filed) -> Path | None:
    """Where a run's files lie on this machine; None where another scheme says otherwise."""
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", run.artifacts):
        return Path(run.artifacts)
    parts = urlsplit(run.artifacts)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
