"""What a file of weights is refused with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runner.config.errors import ConfigError

INSTALL = "pip install 'gpu-kernel-runner[weights]'"
"""What brings the packages that are asked for only where a file needs them."""


class WeightsError(ConfigError, ValueError):
    """A file that does not hold what is asked of it; the message names the file.

    A ``ConfigError`` where an experiment is planned, a ``ValueError`` in a worker, which reports it as the variant's.
    """


@contextmanager
def as_weights_error() -> Iterator[None]:
    """Raises what the readers of a model's figures refuse as ``WeightsError``."""
    try:
        yield
    except WeightsError:
        raise
    except ConfigError as error:
        raise WeightsError(str(error)) from error
