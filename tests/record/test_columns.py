"""Runs as a table: columns, types, and both forms."""

from __future__ import annotations

import doctest
import io
from pathlib import Path

import pytest
from pyarrow import csv, parquet

from runner.record import columns
from runner.record.columns import FIXED, Table
from runner.record.filed import Filed


def run(run_id: str, params: dict[str, str], metrics: dict[str, float], **tags: str) -> Filed:
    return Filed(run_id, {"kernel": "kv_quant", **params}, metrics, tags, 1_772_366_400_000)


@pytest.fixture
def table() -> Table:
    made = Table()
    made.add([run("a", {"T": "4096", "dtype": "int8"}, {"time_us": 1.5}, baseline="true", git_dirty="false")])
    made.add([run("b", {"T": "0.5", "alpha": "1"}, {}), run("c", {"T": "1000", "dtype": "7"}, {"gbps": 2.0})])
    return made


def test_parquet_has_fixed_columns_then_parameters_then_metrics(table: Table) -> None:
    stream = io.BytesIO()
    table.write(stream, "parquet")
    read = parquet.read_table(io.BytesIO(stream.getvalue()))
    names = [name for name, *_ in FIXED]
    assert read.column_names == [*names, "params.T", "params.alpha", "params.dtype", "metrics.gbps", "metrics.time_us"]
    types = {field.name: str(field.type) for field in read.schema}
    assert types["params.T"] == types["params.alpha"] == types["metrics.gbps"] == "double"
    assert (types["params.dtype"], types["run_id"], types["baseline"]) == ("string", "string", "bool")
    assert types["started"] == types["ended"] == "timestamp[ms, tz=UTC]"
    rows = read.to_pylist()
    assert [row["run_id"] for row in rows] == ["a", "b", "c"]
    assert [row["params.T"] for row in rows] == [4096.0, 0.5, 1000.0]
    assert [row["params.dtype"] for row in rows] == ["int8", None, "7"]
    assert [row["metrics.time_us"] for row in rows] == [1.5, None, None]
    assert (rows[0]["baseline"], rows[0]["git_dirty"], rows[1]["baseline"]) == (True, False, None)
    assert rows[0]["started"].isoformat() == "2026-03-01T12:00:00+00:00" and rows[0]["ended"] is None
    assert rows[0]["kernel"] == "kv_quant"


def test_csv_says_the_same(table: Table) -> None:
    stream = io.BytesIO()
    table.write(stream, "csv")
    read = csv.read_csv(io.BytesIO(stream.getvalue()))
    assert read.num_rows == table.rows == 3
    assert read["params.T"].to_pylist() == [4096.0, 0.5, 1000.0]
    assert stream.getvalue().splitlines()[1].startswith(b'"a",')


@pytest.mark.parametrize(
    "text", ["007", "nan", "inf", "-inf", "1e400", "1e3", "1.50", "+5", "18446744073709551615", "9007199254740993"]
)
def test_what_a_double_would_change_stays_text(text: str) -> None:
    made = Table()
    made.add([run("a", {"seed": "1", "T": "4096"}, {})])
    made.add([run("b", {"seed": text, "T": "1e-05"}, {})])
    stream = io.BytesIO()
    made.write(stream, "parquet")
    read = parquet.read_table(io.BytesIO(stream.getvalue()))
    assert read["params.seed"].to_pylist() == ["1", text]
    assert read["params.T"].to_pylist() == [4096.0, 1e-05]


def test_the_examples_hold() -> None:
    assert doctest.testmod(columns).failed == 0


def test_the_ending_names_the_form() -> None:
    assert columns.form_of(Path("a/b.parquet")) == "parquet"
    with pytest.raises(ValueError, match=r"out=x\.xlsx: must end in \.parquet or \.csv"):
        columns.form_of(Path("x.xlsx"))
