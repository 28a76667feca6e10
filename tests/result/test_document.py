"""The result document: exact round trips, refusals that name the key, atomic files, and its schema."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from runner.result import schema
from runner.result.document import DocumentError, from_dict, read, read_id, to_dict, write, write_text
from runner.result.model import CheckResult, Quality, Result, Series, Status
from tests.synthetic import result


def variety() -> list[Result]:
    """Results of every kind: full, failed, refused, with each status and quality."""
    found = [result(), Result(id="a", kernel="k", variant="v", status=Status.INVALID_CONFIG, message="no")]
    found += [result(status=status, message="said") for status in Status]
    found += [result(quality=quality) for quality in Quality]
    return found


@pytest.mark.parametrize("made", variety(), ids=lambda r: f"{r.status.value}-{r.quality.value}")
def test_a_result_survives_the_round_trip(made: Result, weird_path: Path) -> None:
    assert from_dict(json.loads(json.dumps(to_dict(made), allow_nan=False))) == made
    assert read(write(made, weird_path / "job" / "q8")) == made


@pytest.mark.parametrize("made", variety(), ids=lambda r: f"{r.status.value}-{r.quality.value}")
def test_documents_obey_the_schema(made: Result) -> None:
    jsonschema.Draft202012Validator(schema.schema()).validate(to_dict(made))


def test_the_schema_refuses_what_is_no_result() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(schema.PATH.read_text(encoding="utf-8")))
    jsonschema.Draft202012Validator.check_schema(validator.schema)
    for change in ({"status": "FINE"}, {"metrics": {"time_us": "fast"}}, {"schema_version": 3}, {"extra": 1}):
        assert not validator.is_valid(to_dict(result()) | change), change


def test_the_schema_file_is_up_to_date_and_describes_every_field() -> None:
    assert schema.PATH.read_text(encoding="utf-8") == schema.text(), "run: python -m runner.result.schema"
    document = schema.schema()
    for part in (document, *document["$defs"].values()):
        for name, field in part["properties"].items():
            assert len(field["description"]) > 5, name


def test_figures_that_are_not_finite_are_never_written() -> None:
    made = result(
        metrics={"time_us": 1.0, "gbps": math.nan, "tflops": math.inf},
        checks=[CheckResult("c", False, max_abs_err=math.inf, max_rel_err=math.nan, l2_err=0.5)],
        samples=[Series("cold", "host_clock", [1.0, math.nan, 2.0])],
        params={"alpha": -math.inf},
    )
    document = to_dict(made)
    json.dumps(document, allow_nan=False)
    assert document["metrics"] == {"time_us": 1.0}
    assert document["checks"][0]["max_abs_err"] is None
    assert document["checks"][0]["max_rel_err"] is None
    assert document["samples"][0]["samples_us"] == [1.0, 2.0]
    assert document["params"] == {"alpha": "-inf"}


def test_numpy_scalars_and_paths_become_plain_values() -> None:
    made = result(params={"T": np.int64(4096), "scale": np.float32(0.5), "file": Path("/a/b")})
    assert to_dict(made)["params"] == {"T": 4096, "scale": 0.5, "file": "/a/b"}


def test_a_value_json_cannot_hold_is_named() -> None:
    with pytest.raises(DocumentError, match=r"environment\.handle: a object cannot be written"):
        to_dict(result(environment={"handle": object()}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 0}, "schema_version=0 is older than the one this runner reads"),
        ({"schema_version": 3}, "schema_version=3 is newer"),
        ({"status": "FINE"}, "status: 'FINE' is none of PASSED"),
        ({"metrics": {"time_us": "fast"}}, "metrics.time_us: expected float, found 'fast'"),
        ({"metrics": {"time_us": 10**400}}, "metrics.time_us: expected float, found 1000"),
        ({"metrics": {"time_us": math.inf}}, "metrics.time_us: expected float, found inf"),
        ({"started": "yesterday"}, "started: 'yesterday' is no time"),
        ({"started": "99999-01-01T00:00:00Z"}, "started: '99999-01-01T00:00:00Z' is no time"),
        ({"profile": {"started": "12"}}, "profile.started: '12' is no time"),
        ({"baseline": 1}, "baseline: expected bool, found 1"),
        ({"params": []}, "params: expected dict"),
        ({"checks": [{"name": "c"}]}, r"key checks\[0\]\.passed is missing"),
        ({"profile": {"stat": "OK"}}, "unknown key profile.stat"),
        ({"extra": 1}, "unknown key extra"),
        ({"samples": [{"mode": "cold", "method": "m", "samples_us": [True]}]}, r"samples_us\[0\]"),
    ],
)
def test_wrong_documents_are_refused_with_the_key(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        from_dict(to_dict(result()) | change)


def test_a_missing_key_takes_its_default_unless_it_is_required() -> None:
    document = to_dict(result())
    del document["warnings"]
    assert from_dict(document).warnings == []
    del document["variant"]
    with pytest.raises(DocumentError, match="key variant is missing"):
        from_dict(document)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_json_knows_no_number_for_is_refused(tmp_path: Path, number: str) -> None:
    path = write(result(), tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace('"time_us": ', f'"gbps_hot": {number}, "time_us": '))
    with pytest.raises(DocumentError, match=f"result.json: {number} is no number in JSON"):
        read(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema_version": "x"}', "\udcff", "[" * 100_000])
def test_reading_something_else_names_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DocumentError, match=r"result\.json"):
        read(path)
    with pytest.raises(DocumentError, match="No such file"):
        read(tmp_path / "none.json")


def test_writing_replaces_the_file_at_once_and_leaves_nothing_else(tmp_path: Path) -> None:
    write(result(message="old"), tmp_path)
    write(result(message="new"), tmp_path)
    assert read(tmp_path / "result.json").message == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "no space left; free some"), (errno.EACCES, "Permission denied")],
)
def test_a_disk_that_refuses_gives_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str
) -> None:
    write(result(message="old"), tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(DocumentError, match=message):
        write(result(message="new"), tmp_path)
    monkeypatch.undo()
    assert read(tmp_path / "result.json").message == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_half_a_letter_costs_no_result(tmp_path: Path) -> None:
    assert read(write(dataclasses.replace(result(), message="at \udcff"), tmp_path)).message == "at ?"


def test_every_field_of_the_model_is_written() -> None:
    assert list(to_dict(result())) == [field.name for field in dataclasses.fields(Result)]


def test_a_file_in_the_place_of_a_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(DocumentError, match=r"cannot write .*taken/result\.json: (File exists|Not a directory)"):
        write_text(tmp_path / "taken" / "result.json", "{}")


def test_the_id_is_read_from_any_layout(tmp_path: Path) -> None:
    path = write(result(id='a "b" \\ c'), tmp_path)
    assert read_id(path) == 'a "b" \\ c'
    path = write(result(index=3), tmp_path)
    assert read_id(path) == result(index=3).id
    path.write_text(json.dumps(to_dict(result(index=4)), indent=2))
    assert read_id(path) == result(index=4).id
    for text in ("{", "[]", '{"kernel": "x"}'):
        path.write_text(text)
        with pytest.raises(DocumentError, match="it has no id"):
            read_id(path)
