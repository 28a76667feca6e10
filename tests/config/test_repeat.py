"""The repeat command survives the shell and Hydra's grammar."""

from __future__ import annotations

import shlex
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.config.grammar import line_of, parse_value
from runner.config.repeat import repeat_command
from tests.config.test_grammar import VALUES


def test_a_plain_command_stays_plain() -> None:
    command = repeat_command(["kernel=kv_quant", "shape.context=4096"])
    assert command == "python -m runner kernel=kv_quant shape.context=4096"


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, max_size=3))
def test_round_trip_through_shell_and_grammar(values: list[object]) -> None:
    lines = [line_of(f"k{index}", value) for index, value in enumerate(values)]
    words = shlex.split(repeat_command(lines))
    assert words[:3] == ["python", "-m", "runner"]
    parsed = OverridesParser.create().parse_overrides(words[3:])
    assert [override.key_or_group for override in parsed] == [f"k{index}" for index in range(len(values))]


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), max_size=20))
def test_harmless_text_comes_back_unchanged(text: str) -> None:
    if "@" in text or "=" in text:
        return
    word = shlex.split(repeat_command([line_of("k", text)]))[3]
    assert parse_value(word) == text


def test_no_secret_is_printed(weird_path: Path) -> None:
    lines = [line_of("tracking.uri", "postgresql://u:it's $HOME@h/db"), "+environment.HF_TOKEN=hunter2"]
    command = repeat_command(lines, ["--config-dir", str(weird_path)])
    assert "HOME@" not in command and "hunter2" not in command
    words = shlex.split(command)
    assert words[3:5] == ["--config-dir", str(weird_path)]
    assert parse_value(words[5]) == "postgresql://u:***@h/db"
