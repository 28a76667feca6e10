"""What a plan refuses: one message that names the key, the value and what would be allowed."""

from __future__ import annotations

from runner.config.errors import ConfigError


class PlanError(ConfigError):
    """The experiment cannot work as configured; nothing was compiled or allocated."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        self.key = key
        super().__init__(f"{key}={value}: {allowed}")


class TooLarge(PlanError):
    """The experiment needs more memory than the device has."""


class FamilyError(ConfigError):
    """The family's own YAML is wrong: an unknown name in an expression, a buffer that does not exist, ..."""
