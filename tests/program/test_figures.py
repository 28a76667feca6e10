"""Metrics out of what programs print."""

from __future__ import annotations

import pytest

from runner.program.figures import medians, value


@pytest.mark.parametrize(
    ("source", "stdout", "stderr", "expected"),
    [
        ("([0-9.]+) tok/s", "1.5 tok/s\n2.5 tok/s\n", "9 tok/s", 2.5),
        ("([0-9.]+) tok/s", "nothing", "9 tok/s", 9),
        ("^loss (.+)$", "x loss 1\nloss 2e-3\nend", "", 2e-3),
        ("$.a", 'log\n{"a": 1}\n{"a": 2}\nbye\n', "", 2),
        ("$.a", '{broken\n{"a": 1}\n{broken\n', "", 1),
        ("$.a.b", '{\n "a": {\n  "b": 3.5\n }\n}\n', "", 3.5),
        ("$[1].x", '[{"x": 1}, {"x": 2}]', "", 2),
        ("$[-1]", "[1, 2, 4]", "", 4),
        ('$["p 99"]["ms"]', '{"p 99": {"ms": 7}}', "", 7),
        ("$", "12", "", 12),
    ],
)
def test_a_value_is_the_last_one_printed(source: str, stdout: str, stderr: str, expected: float) -> None:
    assert value(source, stdout, stderr) == expected


@pytest.mark.parametrize(
    ("source", "stdout", "words"),
    [
        ("([0-9.]+) tok/s", "no rate", "nothing in the output matches"),
        ("speed (.*)", "speed fast", "matched 'fast', which is not a number"),
        ("$.a", "no json", "holds no JSON document"),
        ("$.a.b", '{"a": [1]}', "there is no 'b' in [1]"),
        ("$.a[3]", '{"a": [1]}', "there is no 3 in [1]"),
        ("$.a", '{"a": "12"}', 'is "12", not a number'),
        ("$.a", '{"a": true}', "is true, not a number"),
        ("x=(.*)", "x=nan", "x=(.*) gives nan, which is no measurement"),
        ("x=(.*)", "x=1e999", "gives inf, which is no measurement"),
        ("$.a", '{"a": NaN}', "gives nan, which is no measurement"),
        ("$.a", '{"a": 1' + 400 * "0" + "}", "gives inf, which is no measurement"),
        ("$.a", '{"a": null}', "is null, not a number"),
    ],
)
def test_what_is_missing_is_said(source: str, stdout: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        value(source, stdout, "")
    assert words in str(caught.value)


def test_a_run_that_did_not_print_it_is_counted() -> None:
    found, warnings = medians({"x": "x=([0-9]+)"}, [("x=1", ""), ("", ""), ("x=3", "")])
    assert found == {"x": 2}
    assert warnings == ["metric x was not found in 1 of 3 runs: nothing in the output matches x=([0-9]+)"]


def test_what_no_run_printed_is_absent_and_never_zero() -> None:
    found, warnings = medians({"x": "x=([0-9]+)"}, [("", ""), ("", "")])
    assert found == {}
    assert warnings == ["metric x was not found: nothing in the output matches x=([0-9]+)"]
