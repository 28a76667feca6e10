"""Traces from files: what is read, and the one error that names what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.config.errors import ConfigError
from runner.serving import trace_file
from runner.serving.trace import MOST_OUTPUT, Request

HEADER = "arrival_s,prompt,output"


def written(folder: Path, *lines: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_requests_are_ordered_and_begin_at_zero(tmp_path: Path) -> None:
    path = written(tmp_path, "prompt,note,arrival_s,output", "7,x,12.5,3", "", " 9 ,y,10,4", "5,z,10.0,1")
    assert trace_file.read(path) == (Request(0, 0.0, 9, 4), Request(1, 0.0, 5, 1), Request(2, 2.5, 7, 3))


def test_json_lines_say_the_same(tmp_path: Path) -> None:
    rows = [
        {"arrival_s": 1, "prompt": 8, "output": 2, "shared": 4, "group": 1, "model": ["any"]},
        {"arrival_s": 1.5, "prompt": 6, "output": 1},
    ]
    path = written(tmp_path, *map(json.dumps, rows), name="trace.jsonl")
    lines = [",".join((HEADER, "shared,group")), "1,8,2,4,1", "1.5,6,1,0,0"]
    assert trace_file.read(path) == trace_file.read(written(tmp_path, *lines))
    assert trace_file.read(path)[0] == Request(0, 0.0, 8, 2, 4, 1)


def test_windows_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(f"\ufeff{HEADER}\r\n0,1,2\r\n".encode())
    assert trace_file.read(path) == (Request(0, 0.0, 1, 2),)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("x,1,1", "arrival_s=x: must be seconds from 0 to 1e+09"),
        ("nan,1,1", "arrival_s=nan: must be seconds"),
        ("-1,1,1", "arrival_s=-1: must be seconds"),
        ("1e99,1,1", "arrival_s=1e99: must be seconds"),
        ("0,0,1", "prompt=0: must be a whole number from 1 to 1048576"),
        ("0,1.5,1", "prompt=1.5: must be a whole number"),
        ("0,,1", "prompt=: must be a whole number"),
        ("0,1,-4", "output=-4: must be a whole number"),
        ("0,1," + "9" * 3000, f"output={'9' * 40}…: must be a whole number"),
        ("0,1,1048577", "output=1048577: must be a whole number from 1 to 1048576"),
        ("0,1", "has 2 cells where the header has 3"),
        ("0,1,1,1", "has 4 cells where the header has 3"),
        ('0,1,"1', "is no line of a CSV file"),
        ("0,1," + "1" * 5000, "longer than 4096 characters"),
    ],
)
def test_a_bad_row_is_refused_with_its_line_and_column(tmp_path: Path, row: str, said: str) -> None:
    path = written(tmp_path, HEADER, "0,1,1", row)
    with pytest.raises(ConfigError) as caught:
        trace_file.read(path)
    assert f"{path}, line 3: {said}" in str(caught.value)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("[1]", "[1]: must be an object with arrival_s, prompt, output"),
        ('{"arrival_s": 0}', "has no prompt, output; needed are"),
        ('{"arrival_s": true, "prompt": 1, "output": 1}', "arrival_s=True: must be seconds"),
        ('{"arrival_s": NaN, "prompt": 1, "output": 1}', "arrival_s=nan: must be seconds"),
        ('{"arrival_s": 1' + "0" * 400 + ', "prompt": 1, "output": 1}', "must be seconds"),
        ('{"arrival_s": 0, "prompt": 1.0, "output": 1}', "prompt=1.0: must be a whole number"),
        ('{"arrival_s": 0, "prompt": false, "output": 1}', "prompt=False: must be a whole number"),
        ('{"arrival_s": 0, "prompt": [], "output": 1}', "prompt=[]: must be a whole number"),
        ('{"arrival_s": 0, "prompt": 3, "output": 1, "shared": 4}', "shared=4: must be a whole number from 0 to 3"),
        ('{"arrival_s": 0', "is not JSON"),
        ("[" * 4000, ""),
    ],
)
def test_a_bad_object_is_refused_with_its_line_and_key(tmp_path: Path, row: str, said: str) -> None:
    path = written(tmp_path, '{"arrival_s": 0, "prompt": 1, "output": 1}', row, name="trace.jsonl")
    with pytest.raises(ConfigError) as caught:
        trace_file.read(path)
    assert f"{path}, line 2: " in str(caught.value) and said in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["arrival_s,prompt"], "has no column output; needed are arrival_s, prompt, output"),
        ([HEADER + ",prompt"], "column prompt is there twice"),
        ([HEADER], "has no requests"),
        ([], "has no requests"),
    ],
)
def test_a_file_without_what_is_needed(tmp_path: Path, lines: list[str], said: str) -> None:
    path = written(tmp_path, *lines)
    with pytest.raises(ConfigError) as caught:
        trace_file.read(path, "kernel.params.trace")
    assert str(caught.value).startswith(f"kernel.params.trace={path}: {said}")


def test_no_file_and_no_text(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(ConfigError, match="no such file: a CSV with columns arrival_s"):
            trace_file.read(path)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(ConfigError, match="is not text in UTF-8"):
        trace_file.read(binary)


def test_a_file_is_read_as_far_as_it_may_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "MOST_REQUESTS", 2)
    path = written(tmp_path, HEADER, *["0,1,1"] * 3)
    with pytest.raises(ConfigError, match="line 4: request 3: a trace has at most 2"):
        trace_file.read(path)
    monkeypatch.setattr(trace_file, "SIZE_LIMIT", 20)
    with pytest.raises(ConfigError, match="larger than 20 bytes"):
        trace_file.read(path)


def test_outputs_are_limited_together(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, *["0,1,1048576"] * 17)
    with pytest.raises(ConfigError, match=f"line 18: output=1048576: a trace has at most {MOST_OUTPUT} output tokens"):
        trace_file.read(path)
