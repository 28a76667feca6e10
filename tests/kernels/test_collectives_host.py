"""``collectives`` on virtual devices: every exchange in every form, odd sizes, and rows that go astray."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runner.backend.host.stream import HostStream
from runner.references import collectives as reference
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import plan

SMALL = {"N": 1028, "T": 7, "H": 12, "experts": 6, "top_k": 2, "context": 40, "page": 8, "K": 1, "D": 4, "calls": 2}
OPS = ["all_gather", "reduce_scatter", "all_to_all", "migrate_pages", "migrate_prefix"]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("devices", [2, 3])
def test_every_variant_passes(op: str, devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_HOST_DEVICES", str(devices))
    _, outcomes, left_out = hosted("collectives", {**SMALL, "op": op}, devices)
    assert left_out == {}
    assert set(messages(outcomes)) == {"nccl", "nccl_graph"}
    assert {outcomes[name].message for name in ("nccl", "nccl_graph")} == {"NCCL needs GPUs"}
    checked = [check.name for check in outcomes["copy"].checks]
    each = [f"copy_exchange_gpu{place}" for place in range(devices)]
    assert checked == (["copy_exchange"] if op.startswith("migrate") else each)
    moved = outcomes["copy"].metrics["moved_bytes"]
    if op in ("all_gather", "reduce_scatter"):
        assert moved == devices * (devices - 1) * 4 * 1028
    if op.startswith("migrate"):
        assert moved == 4 * 40 * 2 * 4
    assert ("imbalance" in outcomes["copy"].metrics) == (op == "all_to_all")


@pytest.mark.parametrize("op", ["reduce_scatter", "all_to_all"])
def test_eight_devices(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_HOST_DEVICES", "8")
    params = {**SMALL, "N": 64, "op": op, "experts": 8, "blocks": 3}
    _, outcomes, _ = hosted("collectives", params, 8, ["copy", "read_graph"])
    assert messages(outcomes) == {}


def test_a_page_in_the_wrong_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., None] = HostStream.copy

    def shifted(self: HostStream, target: Any, source: Any, nbytes: int, to: int = 0, of: int = 0) -> None:
        real(self, target, source, nbytes, to, (of // nbytes ^ 1) * nbytes)

    monkeypatch.setattr(HostStream, "copy", shifted)
    _, outcomes, _ = hosted("collectives", {**SMALL, "op": "migrate_pages", "context": 80}, variants=["copy", "read"])
    assert list(messages(outcomes)) == ["copy"]
    assert outcomes["copy"].status.value == "INCORRECT"


def test_every_token_goes_to_each_of_its_experts_once() -> None:
    symbols = {"op": "all_to_all", "devices": 3, "n": 4, "T": 50, "H": 8, "experts": 7, "top_k": 3}
    got = [reference.moves(symbols, 5, device) for device in range(3)]
    assert sum(len(each) for each in got) == 3 * 50 * 3
    for source in range(3):
        chosen = reference.routes(symbols, 5, source)
        assert all(len(set(row)) == 3 for row in chosen.tolist()) and chosen.max() < 7
        received = np.array([first // 8 for each in got for peer, first, _, _ in each if peer == source])
        assert (np.bincount(received, minlength=50) == 3).all()
    for each in got:
        assert [to for _, _, to, _ in each] == [8 * slot for slot in range(len(each))]


def test_moves_are_split_where_they_are_long() -> None:
    wanted = list(reference.split([(1, 100, 200, 2 * reference.CHUNK + 4)]))
    assert wanted == [
        (1, 100, 200, reference.CHUNK),
        (1, 100 + reference.CHUNK, 200 + reference.CHUNK, reference.CHUNK),
        (1, 100 + 2 * reference.CHUNK, 200 + 2 * reference.CHUNK, 4),
    ]


@pytest.mark.parametrize("op", OPS)
def test_bytes(op: str) -> None:
    made = plan("collectives", {"op": op, "MB": 1, "T": 8, "H": 64, "context": 64, "page": 16, "K": 2, "D": 8})
    moved = {"all_to_all": 4 * 8 * 2 * 64, "migrate_pages": 4 * 64 * 2 * 16, "migrate_prefix": 4 * 64 * 2 * 16}
    assert made.variant("read").report["exchange_bytes"] == moved.get(op, 2 << 20)
