"""Exit codes of every command; ``docs/configuration.md`` explains them to users."""

from __future__ import annotations

PASSED = 0
"""Everything passed, or was skipped for a stated reason."""
FAILED = 1
"""Some experiment failed, or a job was lost."""
REFUSED = 2
"""The configuration is refused; nothing ran."""
INTERRUPTED = 130
"""Ctrl-C; what was finished is kept."""
