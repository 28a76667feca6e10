"""A backend on the pretended machine of ``fake_driver``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.backend.cuda.backend import CudaBackend
from runner.backend.cuda.device import CudaDevice
from tests.backend.cuda.fake_driver import Driver, libraries


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def backend(driver: Driver) -> Iterator[CudaBackend]:
    made = CudaBackend(libraries(driver))
    yield made
    driver.fail.clear()
    made.close()


@pytest.fixture
def device(backend: CudaBackend) -> CudaDevice:
    return backend.open(0)
