"""Runs as a table with one row for each: which columns, of which type, in which order. ``docs/store.md`` lists them.

pyarrow is imported here, when a table is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from runner.record.filed import Filed

if TYPE_CHECKING:
    import pyarrow

Kind = Literal["text", "flag", "time"]
Source = Literal["run", "param", "tag"]

FIXED: tuple[tuple[str, Kind, Source, str], ...] = (
    ("run_id", "text", "run", "run_id"),
    ("result_id", "text", "tag", "result_id"),
    ("experiment_id", "text", "tag", "experiment_id"),
    ("sweep_id", "text", "tag", "sweep_id"),
    ("study", "text", "tag", "study"),
    ("kernel", "text", "param", "kernel"),
    ("variant", "text", "param", "variant"),
    ("baseline", "flag", "tag", "baseline"),
    ("model", "text", "param", "model"),
    ("shape", "text", "param", "shape"),
    ("gpu", "text", "param", "gpu"),
    ("backend", "text", "param", "backend"),
    ("phase", "text", "tag", "phase"),
    ("status", "text", "tag", "status"),
    ("quality", "text", "tag", "quality"),
    ("flags", "text", "tag", "flags"),
    ("time_method", "text", "tag", "time_method"),
    ("time_mode", "text", "tag", "time_mode"),
    ("message", "text", "tag", "message"),
    ("warnings", "text", "tag", "warnings"),
    ("bound", "text", "tag", "bound"),
    ("bound_confidence", "text", "tag", "bound_confidence"),
    ("profile_status", "text", "tag", "profile_status"),
    ("profile_tool", "text", "tag", "profile_tool"),
    ("started", "time", "run", "started"),
    ("ended", "time", "run", "ended"),
    ("git_commit", "text", "tag", "git_commit"),
    ("git_branch", "text", "tag", "git_branch"),
    ("git_dirty", "flag", "tag", "git_dirty"),
    ("host", "text", "tag", "host"),
    ("user", "text", "tag", "user"),
    ("device_name", "text", "tag", "device_name"),
    ("gpu_uuid", "text", "tag", "gpu_uuid"),
    ("driver", "text", "tag", "driver"),
    ("cuda", "text", "tag", "cuda"),
    ("fingerprint", "text", "tag", "fingerprint"),
    ("overrides", "text", "tag", "overrides"),
    ("repeat", "text", "tag", "repeat"),
    ("artifacts", "text", "run", "artifacts"),
)
"""Name, type, and where it comes from. Always there, in this order, whatever is selected."""
_NAMED = frozenset(key for _, _, source, key in FIXED if source == "param")


class Table:
    """Collects runs in columns, and writes them. A batch takes as much memory as its values."""

    def __init__(self) -> None:
        self.rows = 0
        self._batches: list[dict[str, pyarrow.Array]] = []

    def add(self, runs: Iterable[Filed]) -> None:
        """Appends a batch."""
        import pyarrow

        batch = list(runs)
        self.rows += len(batch)
        made: dict[str, Any] = {
            name: pyarrow.array([_value(run, kind, source, key) for run in batch], type_of(kind))
            for name, kind, source, key in FIXED
        }
        for label, kind, values in (
            ("params", pyarrow.string(), [run.params for run in batch]),
            ("metrics", pyarrow.float64(), [run.metrics for run in batch]),
        ):
            for key in sorted({key for each in values for key in each} - (_NAMED if label == "params" else set())):
                made[f"{label}.{key}"] = pyarrow.array([_at(each, key) for each in values], kind)
        self._batches.append(made)

    def write(self, file: BinaryIO, form: Literal["csv", "parquet"]) -> None:
        """Everything, batch by batch. Raises ``OSError``."""
        import pyarrow
        from pyarrow import csv, parquet

        schema = self._schema()
        writer: Any = (csv.CSVWriter if form == "csv" else parquet.ParquetWriter)(file, schema)
        with writer:
            for batch in self._batches:
                length = len(batch["run_id"])
                writer.write_table(
                    pyarrow.table(
                        [
                            batch[field.name].cast(field.type) if field.name in batch
                            else pyarrow.nulls(length, field.type)
                            for field in schema
                        ],
                        schema=schema,
                    )
                )  # fmt: skip

    def _schema(self) -> pyarrow.Schema:
        """Fixed columns, then parameters, then metrics. A parameter is a number where all its values are."""
        import pyarrow

        text: dict[str, bool] = {}
        for batch in self._batches:
            for name, values in batch.items():
                text[name] = text.get(name, False) or not _numbers(values)
        more = sorted(set(text) - {name for name, *_ in FIXED}, key=lambda name: (name.startswith("metrics."), name))
        return pyarrow.schema(
            [(name, type_of(kind)) for name, kind, *_ in FIXED]
            + [(name, pyarrow.string() if text[name] else pyarrow.float64()) for name in more]
        )


def form_of(path: Path) -> Literal["csv", "parquet"]:
    """By the file's ending. Raises ``ValueError``."""
    if path.suffix == ".csv":
        return "csv"
    if path.suffix == ".parquet":
        return "parquet"
    raise ValueError(f"out={path}: must end in .parquet or .csv")


def type_of(kind: Kind) -> Any:
    """pyarrow's type of such a column."""
    import pyarrow

    return {"text": pyarrow.string(), "flag": pyarrow.bool_(), "time": pyarrow.timestamp("ms", tz="UTC")}[kind]


def _value(run: Filed, kind: Kind, source: Source, key: str) -> Any:
    """None for what a run does not say."""
    if source == "run":
        return getattr(run, key) or None
    text = (run.params if source == "param" else run.tags).get(key)
    return text == "true" if kind == "flag" and text is not None else text


def _at(values: Mapping[str, Any], key: str) -> Any:
    return values.get(key)


def _numbers(values: pyarrow.Array) -> bool:
    """True for numbers, and for text that is nothing else."""
    import pyarrow

    if not pyarrow.types.is_string(values.type):
        return True
    return all(text is None or is_number(text) for text in values.unique().to_pylist())


def is_number(text: str) -> bool:
    """True where a double says the same: it is finite, and its digits are those of the text.

    >>> [is_number(text) for text in ("4096", "0.5", "1e-05", "007", "1.50", "nan", "18446744073709551615")]
    [True, True, True, False, False, False, False]
    """
    try:
        value = float(text)
    except ValueError:
        return False
    if not math.isfinite(value):
        return False
    return text == repr(value) or (value.is_integer() and text == str(int(value)))
