"""``chunked_prefill`` on the host backend: odd sizes, the order of a schedule, and its latencies."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from runner.backend.host.stream import HostStream
from runner.config.errors import ConfigError
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import plan

VARIANTS = ["monolithic", "chunked", "priority"]
SMALL = {"prefillN": 40, "decodeN": 8, "prefill_compute": 1, "decode_compute": 1}


@pytest.mark.parametrize(
    "params",
    [
        {"prefillN": 1, "chunks": 16, "decodeN": 1, "decode_steps": 1, "prefill_compute": 0, "decode_compute": 0},
        {"prefillN": 4099, "chunks": 3, "decodeN": 1027, "decode_steps": 7, "prefill_compute": 3, "decode_compute": 2},
        {"prefillN": 1025, "chunks": 16, "decodeN": 5, "decode_steps": 5, "prefill_compute": 2, "decode_compute": 3},
        {"prefillN": 64, "chunks": 1, "decodeN": 4, "decode_steps": 3, "prefill_compute": 1, "decode_compute": 1},
    ],
)
def test_every_variant_passes(params: dict[str, int]) -> None:
    _, outcomes, left_out = hosted("chunked_prefill", params)
    assert (list(outcomes), messages(outcomes), left_out) == (VARIANTS, {}, {})
    for name, outcome in outcomes.items():
        found = outcome.metrics
        assert [check.name for check in outcome.checks] == [f"{name}_prefill", f"{name}_decode"]
        assert 0 < found["decode_us_p50"] <= found["decode_us_p95"] <= found["decode_us_p99"]
        assert found["first_decode_us"] > 0 and found["prefill_us"] > 0 and found["prefill_gbps"] > 0
        assert ("priority" in found) == (name == "priority")
    assert outcomes["monolithic"].metrics["first_decode_us"] > outcomes["monolithic"].metrics["prefill_us"]
    assert outcomes["priority"].metrics["priority"] > 0


def order(variant: str, monkeypatch: pytest.MonkeyPatch, **params: int) -> list[tuple[str, int, int]]:
    """(p or d, first element or step, priority of the stream) of every launch of the first checked step."""
    seen: list[tuple[str, int, int]] = []
    real: Callable[..., None] = HostStream.launch

    def launch(self: HostStream, function: Any, grid: Any, block: Any, shared: int, arguments: Any, **how: Any) -> None:
        if function.name in ("prefill_work_kernel", "decode_step_kernel"):
            which = 2 if function.name == "prefill_work_kernel" else 3
            seen.append((function.name[0], int(arguments[which]), min(1, self.priority)))
        real(self, function, grid, block, shared, arguments, **how)

    monkeypatch.setattr(HostStream, "launch", launch)
    _, outcomes, _ = hosted("chunked_prefill", {**SMALL, **params})
    assert messages(outcomes) == {}
    starts = [index for index, entry in enumerate(seen) if entry[:2] == ("p", 0)]
    first = starts[len(starts) // 3 * VARIANTS.index(variant)]  # each variant ran as many steps as the others
    following = [start for start in starts if start > first]
    return seen[first : following[0] if following else None]


def test_monolithic_decodes_after_the_whole_prefill(monkeypatch: pytest.MonkeyPatch) -> None:
    made = order("monolithic", monkeypatch, chunks=2, decode_steps=3)
    assert made == [("p", 0, 0), ("d", 0, 0), ("d", 1, 0), ("d", 2, 0)]


def test_chunked_spreads_the_decode_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    made = order("chunked", monkeypatch, chunks=2, decode_steps=3)
    assert made == [("p", 0, 0), ("d", 0, 0), ("p", 20, 0), ("d", 1, 0), ("d", 2, 0)]


def test_priority_decodes_on_another_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    made = order("priority", monkeypatch, chunks=2, decode_steps=3)
    assert made == [("p", 0, 0), ("d", 0, 1), ("p", 20, 0), ("d", 1, 1), ("d", 2, 1)]


def test_a_decode_step_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., None] = HostStream.launch

    def launch(self: HostStream, function: Any, grid: Any, block: Any, shared: int, arguments: Any, **how: Any) -> None:
        if function.name != "decode_step_kernel" or arguments[3] != 2:
            real(self, function, grid, block, shared, arguments, **how)

    monkeypatch.setattr(HostStream, "launch", launch)
    _, outcomes, _ = hosted("chunked_prefill", {**SMALL, "decode_steps": 4})
    assert set(messages(outcomes)) == set(VARIANTS)
    assert "[chunked_decode]" in outcomes["chunked"].message and "_prefill]" not in outcomes["chunked"].message


def test_defaults_are_the_texts() -> None:
    made = plan("chunked_prefill")
    assert made.symbols["elements"] == 8388608
    for variant in made.variants:
        assert variant.bytes_moved == 2 * (32 << 20) + 8 * 65536 * 32
        assert variant.flops == 2 * 8388608 * 64 + 3 * 65536 * 32 * 16


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ({"prefillMB": 0}, "prefillMB=0: must be at least 1"),
        ({"chunks": 17}, "chunks=17: must be at most 16"),
        ({"chunks": 0}, "chunks=0: must be at least 1"),
        ({"decodeN": 0}, "decodeN=0: must be at least 1"),
        ({"decode_steps": 0}, "decode_steps=0: must be at least 1"),
        ({"prefill_compute": -1}, "prefill_compute=-1: must be at least 0"),
        ({"decode_compute": -1}, "decode_compute=-1: must be at least 0"),
    ],
)
def test_bad_parameters_are_refused(params: dict[str, int], key: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"kernel.params.{key}")):
        plan("chunked_prefill", params)
