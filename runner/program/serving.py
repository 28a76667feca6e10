"""A server while it is under load: started, waited for, stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from runner.plan.model import CommandPlan
from runner.program.process import Process
from runner.program.ready import check_free, wait_ready


@contextmanager
def serving(
    command: CommandPlan,
    timeout_s: float,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """A server that can take load; it must be so within ``timeout_s``. Left running at the end only to be killed: see
    ``stop``. Raises ``ProgramFailed``."""
    ready = command.ready
    assert ready is not None
    check_free(ready)
    watch = ready.value if ready.kind == "output" else ""
    with Process(command, command.argv, prefix=prefix, environment=environment, watch=watch) as server:
        wait_ready(ready, server, timeout_s)
        yield server


def stop(command: CommandPlan, server: Process) -> list[str]:
    """SIGTERM, then SIGKILL for a server that does not end within ``command.stop_s``; returns a warning for that."""
    server.terminate(group=command.shell)
    if server.wait(command.stop_s):
        return []
    server.end()
    return [f"the server did not end within command.stop_s={command.stop_s:g} of SIGTERM and was killed"]
