"""A device of the host backend for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.backend.host import HostBackend
from runner.backend.host.device import HostDevice


@pytest.fixture
def backend() -> Iterator[HostBackend]:
    made = HostBackend(devices=2)
    yield made
    for ordinal in range(2):
        made.open(ordinal).close()


@pytest.fixture
def device(backend: HostBackend) -> HostDevice:
    return backend.open(0)
