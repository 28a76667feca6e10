"""Plain numbers."""

from __future__ import annotations

import doctest

from runner.result import names


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(names).failed == 0
