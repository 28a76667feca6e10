"""Letters beside long names, and plain numbers."""

from __future__ import annotations

import doctest

from runner.result import names


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(names).failed == 0


def test_a_long_name_needs_the_letter_right_before_it_with_the_same_value() -> None:
    short = names.short_names({"T": 4096, "context": 8192, "H": 16, "dtype": "int8", "seed": 16})
    assert short == {"T": "T", "context": "context", "H": "H", "dtype": "dtype", "seed": "seed"}
    assert names.short_names({"D": 0, "seed": 0})["seed"] == "seed"
