"""Served traces that the variants of an experiment left: tables and plots beside each, and one plot of all."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from runner.report import serving
from runner.result.document import DocumentError
from runner.result.model import Result, Status
from runner.serving import document, tables
from runner.serving.served import Served

NAME = "served"
"""What the tables are called."""


def write(results: Sequence[Result], folder: Path) -> None:
    """Writes into the variants' folders below the experiment's ``folder``; what is there becomes artifacts of each.

    The plot of all variants lies in the experiment's own folder too; a tracker files those of the variants. Raises
    ``DocumentError``.
    """
    runs = {
        made.variant: document.read(path)
        for made in results
        if made.status is Status.PASSED and (path := folder / made.variant / document.FILE_NAME).is_file()
    }
    if not runs:
        return
    try:
        title = f"{results[0].kernel} {results[0].model} on {results[0].gpu or results[0].backend}"
        together = serving.write(runs, folder, f"{title}, by policy") if len(runs) > 1 else []
        for made in results:
            if made.variant in runs:
                made.artifacts += _beside(runs[made.variant], made.variant, folder, title, together)
    except OSError as error:
        raise DocumentError(f"{folder}: cannot be written: {error.strerror}") from error


def _beside(served: Served, variant: str, folder: Path, title: str, together: Sequence[str]) -> list[str]:
    """The names of all files of one variant."""
    own = folder / variant
    written = [document.FILE_NAME, *tables.write(served, own, NAME), *serving.write({variant: served}, own, title)]
    for name in together:
        shutil.copyfile(folder / name, own / name)
    return [*written, *together]
