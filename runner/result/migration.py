"""Result documents of older schemas, brought to the present one.

A version is added where a field came that readers rely on. What an older document cannot say is left at the field's
default, and what follows from its samples is worked out again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.result.metrics import main_series, times
from runner.result.model import Series
from runner.result.statistics import summarise


def migrated(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A document of the present schema; one that is of no version known here is given back as it is.

    A document that is not well formed may come back half migrated: its reader says what is wrong with it.
    """
    if document.get("schema_version") == 1:
        return _from_1(document)
    return document


def _from_1(document: Mapping[str, Any]) -> dict[str, Any]:
    """Version 2 added the interval and quartiles of the median, and the flags of the series."""
    found = {**document, "schema_version": 2}
    try:
        main = main_series([Series(**item) for item in document["samples"]])
        if main is not None and document["status"] == "PASSED":
            found["metrics"] = {**times(main), **document["metrics"]}
            found["flags"] = list(summarise(main.samples_us).flags)
    except (KeyError, TypeError, ValueError):
        pass
    return found
