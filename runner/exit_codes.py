"""Exit codes of every command; ``docs/configuration.md`` explains them to users."""

from __future__ import annotations

PASSED = 0
"""Everything passed, or was skipped for a stated reason."""
FAILED = 1
"""Some experiment failed, or a job was lost."""
REFUSED = 2
"""The configuration is refused; nothing ran."""
REGRESSION = 3
"""Of a comparison or a study's gate: something is slower, by more than noise."""
AMBIGUOUS = 4
"""Of a comparison or a gate: nothing is slower for sure, but something could not be told."""
INCOMPARABLE = 5
"""Of a comparison: something was not measured alike, or did not pass, on one of the sides. Of a gate:
nothing compares."""
INTERRUPTED = 130
"""Ctrl-C; what was finished is kept."""
