"""The clocks of an experiment's GPUs while it is measured and crosschecked: ``measure.lock_clocks``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runner.backend.clock_lock import ClockError, locked
from runner.config.errors import ConfigError
from runner.execute.planning import Experiment
from runner.worker import locks


@contextmanager
def locked_clocks(experiment: Experiment, on_event: Callable[[str, str], None]) -> Iterator[None]:
    """Takes the devices' locks and then locks their clocks, where the experiment asks for it: no other experiment runs
    on a GPU whose clock this one has changed. The driver does so, not the worker, for a worker may die.

    Raises ``ConfigError`` where the clocks cannot be locked, before anything has run, and where they cannot be let go.
    """
    mhz = experiment.settings.lock_clocks
    if not mhz or experiment.plan is None:
        yield
        return
    with locks.hold(experiment.devices, lambda lock: on_event("waiting", lock)):
        experiment.held = True
        try:
            with locked([device.uuid for device in experiment.devices], mhz):
                yield
        except ClockError as error:
            raise ConfigError(f"measure.lock_clocks={mhz}: {error}") from error
        finally:
            experiment.held = False
