"""The trace that an experiment's parameters ask for: read from a file, or drawn from the seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from runner.config.errors import ConfigError
from runner.serving import trace_file
from runner.serving.synthetic import Synthetic, synthetic
from runner.serving.trace import Trace

FILE = "trace"
"""The parameter that names a file; empty = the trace is drawn."""
KEY = f"kernel.params.{FILE}"


class Parameters(Protocol):
    """``trace`` and the keys of ``figures``, by name: a plan's symbols, or what a reference sees of them."""

    def __getitem__(self, name: str, /) -> Any: ...


def of(parameters: Parameters, seed: int) -> Trace:
    """The trace. Raises ``ConfigError`` for a file that cannot be read, or is no longer the one that was planned."""
    if parameters[FILE]:
        path = Path(parameters[FILE])
        found = trace_file.read(path, KEY)
        if any(parameters[name] != value for name, value in figures(found).items()):
            raise ConfigError(f"{KEY}={path}: has changed since the experiment was planned; start it again")
        return found
    return synthetic(
        Synthetic(
            requests=parameters["requests"],
            rate=parameters["rate"] or math.inf,
            prompt=(parameters["prompt_low"], parameters["prompt"]),
            output=(parameters["output_low"], parameters["steps"]),
            shared=parameters["shared"],
            groups=parameters["groups"],
            seed=seed,
        )
    )


def figures(trace: Trace) -> dict[str, int | float]:
    """What would have to be asked of a drawn trace for one of this size: the parameters that a file stands for."""
    last_s = trace[-1].arrival_s
    return {
        "requests": len(trace),
        "rate": (len(trace) - 1) / last_s if last_s > 0 else 0.0,
        "prompt_low": min(one.prompt for one in trace),
        "prompt": max(one.prompt for one in trace),
        "output_low": min(one.output for one in trace),
        "steps": max(one.output for one in trace),
        "shared": max(one.shared for one in trace),
        "groups": len({one.group for one in trace}),
    }


def filled_in(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with those that the file gives, and its absolute path; as they are where none is named.

    Raises ``ConfigError`` for a file that is no trace.
    """
    if not parameters[FILE]:
        return dict(parameters)
    try:
        path = Path(str(parameters[FILE])).expanduser().absolute()
    except RuntimeError as error:  # the home of a user that does not exist
        raise ConfigError(f"{KEY}={parameters[FILE]}: {error}") from error
    return {**parameters, **figures(trace_file.read(path, KEY)), FILE: str(path)}
