"""``allocator`` on the host backend: odd sizes, no pool, and bytes reserved and used."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from runner.backend.base import Buffer, Unsupported
from runner.backend.host.device import HostDevice
from runner.backend.host.stream import HostStream
from runner.config.errors import ConfigError
from runner.result.model import Status
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import plan

VARIANTS = ["malloc_free", "prealloc_pool", "malloc_async"]


@pytest.mark.parametrize(
    "params",
    [
        {"N": 1, "iters": 1, "slots": 1},
        {"N": 1023, "iters": 3, "slots": 8},
        {"N": 4099, "iters": 7, "slots": 2},
        {"MB": 1, "iters": 2, "slots": 3},
    ],
)
def test_every_variant_passes(params: dict[str, int]) -> None:
    made, outcomes, left_out = hosted("allocator", params)
    assert (list(outcomes), messages(outcomes), left_out) == (VARIANTS, {}, {})
    nbytes = int(made.symbols["blocks"]) * 4096
    held = {"malloc_free": 0, "prealloc_pool": params["slots"] * nbytes, "malloc_async": 0}  # waiting empties the pool
    for name, outcome in outcomes.items():
        found = outcome.metrics
        assert (outcome.units_per_step, found["used_bytes"]) == (params["iters"], nbytes)
        assert found["reserved_bytes"] == held[name]
        assert found["alloc_first_us"] >= 0 and 0 <= found["alloc_us"] <= found["alloc_us_p99"]


def test_without_a_pool_the_variant_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: HostStream, nbytes: int) -> Buffer:
        raise Unsupported("device 0 has no memory pool")

    monkeypatch.setattr(HostStream, "allocate", refuse)
    _, outcomes, _ = hosted("allocator", {"N": 100, "iters": 2})
    assert [outcomes[name].status for name in VARIANTS] == [Status.PASSED, Status.PASSED, Status.SKIPPED]
    assert outcomes["malloc_async"].message == "device 0 has no memory pool"


def test_a_decode_step_allocates_as_its_variant_says(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []

    def spy(owner: type, label: str) -> None:
        real: Callable[..., Any] = owner.allocate  # type: ignore[attr-defined]

        def call(self: Any, nbytes: int) -> Any:
            seen.append((label, nbytes))
            return real(self, nbytes)

        monkeypatch.setattr(owner, "allocate", call)

    spy(HostDevice, "malloc")
    spy(HostStream, "async")
    _, outcomes, _ = hosted("allocator", {"N": 3000, "iters": 5, "slots": 2})
    loops = 4  # two checks, a warm-up and one sample
    asked = [label for label, nbytes in seen if nbytes == 3 * 4096][1:]  # the first are the activations
    assert messages(outcomes) == {}
    assert asked == ["malloc"] * 5 * loops + ["async"] * 5 * loops


def test_defaults_and_bytes() -> None:
    made = plan("allocator")
    assert (made.symbols["elements"], made.symbols["iters"]) == (16777216, 100)
    assert made.buffer("pool").elements == 8 * 16777216
    for variant in made.variants:
        assert variant.bytes_read == 100 * (64 << 20)
        assert variant.bytes_written == 100 * ((64 << 20) + 4 * 16384)


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ({"MB": 0}, "MB=0: must be at least 1"),
        ({"N": -5}, "N=-5: must be at least 0"),
        ({"iters": 0}, "iters=0: must be at least 1"),
        ({"slots": 0}, "slots=0: must be at least 1"),
    ],
)
def test_bad_parameters_are_refused(params: dict[str, int], key: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"kernel.params.{key}")):
        plan("allocator", params)
