"""Any plain value written as an override comes back the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.config.errors import ConfigError
from runner.config.grammar import element, line_of, parse_value
from runner.config.overrides import alternatives, parse

TEXT = st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), max_size=20)
SCALARS = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False), TEXT)
VALUES: Any = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), inner, max_size=3),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_values_come_back(value: Any) -> None:
    back = parse_value(line_of("a.b", value))
    assert back == value and type(back) is type(value)


@pytest.mark.parametrize(
    "text", ["true", "null", "1", "1e3", "", " a ", "a,b", "a=b", "a(b)", "it's", "\\", "C:\\x\\", "é"]
)
def test_text_that_looks_like_something_else(text: str) -> None:
    assert parse_value(line_of("k", text)) == text
    assert parse_value(line_of("k", [text])) == [text]


@pytest.mark.parametrize(
    ("value", "written"),
    [("decode", "decode"), (8192, "8192"), (None, "null"), (True, "true"), ([1, "a"], "[1,a]")],
)
def test_plain_values_are_written_plainly(value: Any, written: str) -> None:
    assert element(value) == written


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a=1,2", ["a=1", "a=2"]),
        ("a=range(1,4)", ["a=1", "a=2", "a=3"]),
        ("a=choice(x,y)", ["a=x", "a=y"]),
        ("a=[1,2]", ["a=[1,2]"]),
        ("a='x,y'", ["a='x,y'"]),
        ("+a=1,2", ["+a=1", "+a=2"]),
    ],
)
def test_sweeps_are_walked(line: str, expected: list[str]) -> None:
    assert alternatives(parse(line)) == expected


def test_an_interval_is_refused() -> None:
    with pytest.raises(ConfigError, match="no values to walk"):
        alternatives(parse("a=interval(0,1)"))


def test_bad_grammar_names_the_override_and_the_way_out() -> None:
    with pytest.raises(ConfigError, match=r"^a=b=c: not a valid override .* quote"):
        parse("a=b=c")


def test_bad_grammar_does_not_print_a_secret() -> None:
    with pytest.raises(ConfigError) as error:
        parse("tracking.uri=http://u:hunter2=x@h")
    assert "hunter2" not in str(error.value)
