"""A profile's tables as CSV files, in the columns of ``runner.result.model``."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from runner.result.model import CallUse, CategoryUse, GapCause, GapUse, KernelUse, Profile

_GAP_COLUMNS = [field.name for field in fields(GapUse) if field.name != "causes"]
_CAUSE_COLUMNS = ["range", "device", *(field.name for field in fields(GapCause))]


def write_tables(profile: Profile, folder: Path, name: str) -> list[str]:
    """Writes ``<name>_<table>.csv`` into ``folder`` for each table that has rows, and returns the file names.

    Tables: ``kernels``, ``categories``, ``calls``, ``gaps`` and ``gap_causes``. Raises ``OSError``.
    """
    causes = [
        {"range": gap.range, "device": gap.device, **asdict(cause)} for gap in profile.gaps for cause in gap.causes
    ]
    tables: dict[str, tuple[list[str], list[dict[str, Any]]]] = {
        "kernels": (_columns(KernelUse), [asdict(row) for row in profile.kernels]),
        "categories": (_columns(CategoryUse), [asdict(row) for row in profile.categories]),
        "calls": (_columns(CallUse), [asdict(row) for row in profile.calls]),
        "gaps": (_GAP_COLUMNS, [{column: getattr(gap, column) for column in _GAP_COLUMNS} for gap in profile.gaps]),
        "gap_causes": (_CAUSE_COLUMNS, causes),
    }
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for table, (columns, rows) in tables.items():
        if rows:
            path = folder / f"{name}_{table}.csv"
            _write(path, columns, rows)
            written.append(path.name)
    return written


def _columns(kind: type[KernelUse] | type[CategoryUse] | type[CallUse]) -> list[str]:
    return [field.name for field in fields(kind)]


def _write(path: Path, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
