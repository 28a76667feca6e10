"""Where lines for the user go."""

from __future__ import annotations

import pytest

from runner.report.terminal import NARROWEST, Terminal


@pytest.mark.parametrize(("columns", "width"), [("0", NARROWEST), ("5", NARROWEST), ("60", 60)])
def test_a_width_that_no_table_fits_is_not_taken(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert Terminal().width == width
