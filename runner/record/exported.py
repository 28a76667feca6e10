"""Tables that ``runner.export`` wrote, read back as runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from runner.record.columns import FIXED, form_of, is_number, type_of
from runner.record.filed import Filed
from runner.result.names import plain

NEEDED = ("run_id", "kernel", "variant", "backend", "status", "quality", "metrics.time_us")
"""Without these it is another program's table."""


_DECIMAL = re.compile(r"-?(0|[1-9]\d*)(\.\d*[1-9])?")


def runs(path: Path) -> Iterator[Filed]:
    """Its rows; columns that an older export lacks are as unknown. Raises ``ValueError`` with one line that names the
    file: for another ending, what is not such a table, and what cannot be read."""
    table = _table(path)
    missing = [name for name in NEEDED if name not in table.column_names]
    if missing:
        raise ValueError(f"{path}: is no table of python -m runner.export: it has no column {missing[0]}")
    for batch in table.to_batches():
        yield from map(_run, batch.to_pylist())


def _table(path: Path) -> Any:
    import pyarrow
    from pyarrow import csv, parquet

    try:
        if form_of(path) == "parquet":
            return parquet.read_table(path)
        with path.open("rb") as file:
            names = pyarrow.csv.open_csv(file).schema.names
        kinds = {name: type_of(kind) for name, kind, *_ in FIXED}
        kinds |= {name: pyarrow.string() for name in names if name.startswith("params.")}
        kinds |= {name: pyarrow.float64() for name in names if name.startswith("metrics.")}
        how = csv.ConvertOptions(column_types=kinds, strings_can_be_null=True, quoted_strings_can_be_null=False)
        return csv.read_csv(path, convert_options=how)
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"cannot read {path}: {' '.join(str(error).split())}") from None


def _run(row: dict[str, Any]) -> Filed:
    parts: dict[str, dict[str, Any]] = {"params": {}, "metrics": {}}
    for name, value in row.items():
        head, dot, key = name.partition(".")
        if dot and head in parts and value is not None:
            parts[head][key] = value
    params = {key: _text(value) for key, value in parts["params"].items()}
    tags = {"kind": "result"}
    for name, _, source, key in FIXED:
        value = row.get(name)
        if value is not None and source == "param":
            params[key] = str(value)
        elif value is not None and source == "tag":
            tags[key] = plain(value)
    started = row.get("started")
    return Filed(
        run_id=str(row["run_id"]),
        params=params,
        metrics=parts["metrics"],
        tags=tags,
        started=round(started.timestamp() * 1000) if started is not None else 0,
        artifacts=row.get("artifacts") or "",
    )


def _text(value: Any) -> str:
    """A parameter as it was filed: in a table of numbers it is a double, which CSV spells as a plain decimal."""
    text = repr(value) if isinstance(value, float) else str(value)
    number = is_number(text) or (bool(_DECIMAL.fullmatch(text)) and Decimal(text) == Decimal(repr(float(text))))
    return plain(float(text)) if number else text
