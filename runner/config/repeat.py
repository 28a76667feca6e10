"""The command that runs one experiment again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from runner.config.secrets import redact_overrides


def repeat_command(overrides: Sequence[str], options: Sequence[str] = ()) -> str:
    """A line for a POSIX shell, without secrets (``***`` stands for one).

    ``overrides`` are lines in Hydra's grammar, as a ``Point`` carries them; ``options`` further arguments
    (``--config-dir …``).
    """
    return shlex.join(["python", "-m", "runner", *options, *redact_overrides(overrides)])
