"""``multi_gpu_p2p`` on virtual devices: every form, every pair, and copies that go wrong."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.backend.host.stream import HostStream
from runner.config.errors import ConfigError
from runner.plan.errors import PlanError
from runner.plan.planner import make_plan
from runner.workload import multi_gpu_p2p, peers
from runner.workload.peers import Access
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import H200, HOST, SOURCES, config, plan

VARIANTS = ["copy", "copy_both", "read", "read_both", "overlap", "overlap_read"]
SMALL = {"N": 1027, "calls": 2, "compute": 3}


def test_every_variant_passes_and_says_what_it_hides() -> None:
    made, outcomes, left_out = hosted("multi_gpu_p2p", SMALL)
    assert (list(outcomes), messages(outcomes), left_out) == (VARIANTS, {}, {})
    assert [check.name for check in outcomes["copy"].checks] == ["p2p_copy"]
    assert [check.name for check in outcomes["overlap"].checks] == ["overlap_copy", "overlap_compute"]
    for name, outcome in outcomes.items():
        assert outcome.metrics["direct_access"] == 1.0
        assert ("overlap" in outcome.metrics) == name.startswith("overlap")
        assert 0.0 <= outcome.metrics.get("overlap", 0.0) <= 1.0
    assert made.variant("copy_both").report["link_bytes"] == 2 * made.variant("copy").report["link_bytes"] == 16432


def test_the_matrix_has_every_pair_and_its_file_says_how_each_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RUNNER_HOST_DEVICES", "3")
    written: list[Path] = []
    real = multi_gpu_p2p.PeerCopies.metrics

    def metrics(self: multi_gpu_p2p.PeerCopies, variant: str) -> Any:
        self.record(variant, tmp_path)
        written.append(tmp_path / multi_gpu_p2p.MATRIX)
        return real(self, variant)

    monkeypatch.setattr(multi_gpu_p2p.PeerCopies, "metrics", metrics)
    _, outcomes, _ = hosted("multi_gpu_p2p", {**SMALL, "src": 2, "dst": 0}, devices=3, variants=["copy", "read_both"])
    assert messages(outcomes) == {}
    pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
    for outcome in outcomes.values():
        assert all(outcome.metrics[f"gbps_{a}_{b}"] > 0 for a, b in pairs)
    rows = list(csv.DictReader(written[0].open(encoding="utf-8")))
    assert [(int(row["source"]), int(row["target"])) for row in rows] == pairs
    assert {(row["direct_access"], row["trial"], row["bytes"]) for row in rows} == {("1", "sound", "4108")}
    assert all(float(row["gbps"]) >= 0 for row in rows)


def test_a_copy_that_drops_its_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., None] = HostStream.copy

    def lossy(self: HostStream, target: Any, source: Any, nbytes: int, *offsets: int) -> None:
        real(self, target, source, nbytes - 4, *offsets)

    monkeypatch.setattr(HostStream, "copy", lossy)
    _, outcomes, _ = hosted("multi_gpu_p2p", SMALL, variants=["copy", "read"])
    assert list(messages(outcomes)) == ["copy"]
    assert "1 of 1027" in outcomes["copy"].message


@pytest.mark.parametrize(
    ("found", "status", "message"),
    [
        (Access(True, "a kernel's reads: 3 words arrived wrong"), "INCORRECT", "from device 0 to device 1: a kernel"),
        (Access(True, "its trial did not end within 20 s"), "INCORRECT", "did not end within 20 s"),
        (Access(False), "SKIPPED", "devices 0 and 1 cannot address each other's memory"),
    ],
)
def test_a_pair_that_is_not_sound_ends_without_a_number(
    found: Access, status: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_TRIED", {})
    monkeypatch.setattr(peers, "tried", lambda pairs, program: {peers._key(*pair): found for pair in pairs})
    _, outcomes, _ = hosted("multi_gpu_p2p", SMALL, variants=["copy", "read"])
    assert outcomes["read"].status.value == status and message in outcomes["read"].message
    assert outcomes["read"].series == []
    # Without direct access a copy goes through host memory, and says so.
    assert outcomes["copy"].status.value == ("PASSED" if not found.direct else "INCORRECT")
    assert bool(outcomes["copy"].series) == (not found.direct)


def test_one_device_is_a_reason_to_skip() -> None:
    wanted = config("multi_gpu_p2p")
    wanted.devices = [0]
    made, left_out = make_plan(wanted, HOST, [SOURCES])
    assert made.variants == () and list(left_out) == VARIANTS
    assert left_out["copy"].startswith("needs two devices, such as devices=[0,1]")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"src": 1}, "src and dst name two devices"),
        ({"dst": 2}, "src and dst are positions in devices"),
    ],
)
def test_positions_that_are_no_pair_are_refused(params: dict[str, int], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        make_plan(config("multi_gpu_p2p", params), H200, [SOURCES])


@pytest.mark.parametrize(
    ("params", "key"), [({"MB": 0}, "MB=0: must be at least 1"), ({"calls": 65}, "calls=65: must be at most 64")]
)
def test_bad_parameters_are_refused(params: dict[str, int], key: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"kernel.params.{key}")):
        plan("multi_gpu_p2p", params)
