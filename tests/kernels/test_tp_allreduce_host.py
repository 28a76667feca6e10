"""``tp_allreduce`` on 2, 4 and 8 virtual devices: sums, replays, devices that never come, and what is hidden."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.backend.host.stream import HostStream
from runner.plan.errors import PlanError
from runner.plan.planner import make_plan
from runner.workload import mailboxes
from tests.kernels import hosted as hosting
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import H200, SOURCES, config, plan

WITHOUT_NCCL = [name for name in plan("tp_allreduce", {"N": 64}).variants if "nccl" not in name.name]
VARIANTS = [variant.name for variant in WITHOUT_NCCL]


@pytest.mark.parametrize(
    ("devices", "params"),
    [
        (2, {"N": 4, "calls": 3, "compute": 1}),
        (2, {"N": 6148, "calls": 2, "compute": 2, "blocks": 3}),
        (3, {"N": 1028, "calls": 2, "compute": 3}),
    ],
)
def test_every_variant_adds_up(devices: int, params: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_HOST_DEVICES", str(devices))
    _, outcomes, left_out = hosted("tp_allreduce", params, devices)
    assert left_out == {}
    assert {name for name, outcome in outcomes.items() if outcome.status.value == "SKIPPED"} == {"nccl", "nccl_graph"}
    assert outcomes["nccl"].message == "NCCL needs GPUs"
    assert set(messages(outcomes)) == {"nccl", "nccl_graph"}
    for name in VARIANTS:
        sums = [check.name for check in outcomes[name].checks if check.name.rpartition("_gpu")[0] != "overlap_compute"]
        assert [int(sum_.rpartition("_gpu")[2]) for sum_ in sums] == list(range(devices))
        assert ("overlap" in outcomes[name].metrics) == (name == "overlap" or name.startswith("decode"))


@pytest.mark.parametrize("devices", [4, 8])
def test_more_devices(devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_HOST_DEVICES", str(devices))
    chosen = ["bidirectional", "one_shot_graph", "one_shot_push", "two_shot_graph", "decode_hidden"]
    _, outcomes, _ = hosted("tp_allreduce", {"N": 260, "calls": 2, "compute": 1}, devices, chosen)
    assert messages(outcomes) == {}


def test_sums_are_the_same_bits_on_every_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_HOST_DEVICES", "3")
    _, outcomes, _ = hosted("tp_allreduce", {"N": 1024, "calls": 1, "compute": 1}, 3, ["one_shot", "two_shot"])
    for outcome in outcomes.values():
        assert len({(check.max_abs_err, check.l2_err) for check in outcome.checks}) == 1


def test_a_device_that_never_comes_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of a wait, and not the limit of the worker, ends it."""
    monkeypatch.setattr(mailboxes, "LIMIT_MS", 200)
    real: Callable[..., None] = HostStream.launch

    def launch(self: HostStream, function: Any, *rest: Any, **how: Any) -> None:
        if not (function.name == "one_shot_kernel" and self.device.info.ordinal == 1):
            real(self, function, *rest, **how)

    monkeypatch.setattr(HostStream, "launch", launch)
    begin = time.monotonic()
    _, outcomes, _ = hosted("tp_allreduce", {"N": 64, "calls": 1, "compute": 1}, variants=["one_shot"])
    assert outcomes["one_shot"].status.value == "RUNTIME_ERROR"
    assert "device 1 did not come to the meeting" in outcomes["one_shot"].message
    assert time.monotonic() - begin < 20


def test_a_peer_that_is_left_out_of_the_sum_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., None] = HostStream.copy

    def lossy(self: HostStream, target: Any, source: Any, nbytes: int, *args: int, **offsets: int) -> None:
        if self.device.info.ordinal == 0:
            real(self, target, source, nbytes, *args, **offsets)

    monkeypatch.setattr(HostStream, "copy", lossy)
    _, outcomes, _ = hosted("tp_allreduce", {"N": 64, "calls": 1}, variants=["bidirectional"])
    assert outcomes["bidirectional"].status.value == "INCORRECT"
    assert "bidirectional_allreduce_gpu1" in outcomes["bidirectional"].message
    assert "bidirectional_allreduce_gpu0" not in outcomes["bidirectional"].message


STAGE = "each_quad(quads, [&](long long i) { mine[i] = input[i]; });"
ADDED = "mine[i] = sum;"
SENT = "if (p != own) {\n                uint4* to"
ARRIVED = "return one >> 32 == flag && two >> 32 == flag;"
CALLS = 9
STALE = {
    "of the first calls": {
        "all_reduce.cuh": {
            STAGE: f"if ((call - 1) % {CALLS} < 2) {STAGE}",
            ADDED: f"if ((call - 1) % {CALLS} < 1) {ADDED}",
            SENT: SENT.replace("p != own", f"p != own && (call - 1) % {CALLS} < 2"),
        },
        "peers.cuh": {ARRIVED: "return one >> 32 && two >> 32;"},
    },
    "of the call before": {"all_reduce.cuh": {"(mailboxes.of[p]) + half + i": "(mailboxes.of[p]) + (room - half) + i"}},
}


@pytest.mark.parametrize(
    ("stale", "kernels"),
    [("of the first calls", ["one_shot", "two_shot", "one_shot_push"]), ("of the call before", ["one_shot"])],
)
def test_what_peers_left_in_earlier_calls_is_found(
    stale: str, kernels: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels that take what their peers left in other calls of the same step."""
    sources = tmp_path / "cuda_src"
    shutil.copytree(SOURCES, sources)
    for file, changes in STALE[stale].items():
        text = (sources / "common" / file).read_text()
        for right, wrong in changes.items():
            assert text.count(right) == 1
            text = text.replace(right, wrong)
        (sources / "common" / file).write_text(text)
    monkeypatch.setattr(hosting, "SOURCES", sources)
    chosen = [*kernels, *(f"{kernel}_graph" for kernel in kernels)]
    _, outcomes, _ = hosted("tp_allreduce", {"N": 64, "calls": CALLS, "compute": 1}, variants=chosen)
    assert {name: outcome.status.value for name, outcome in outcomes.items()} == dict.fromkeys(chosen, "INCORRECT")


def test_bandwidths_by_arithmetic() -> None:
    wanted = config("tp_allreduce", {"N": 8192})
    wanted.devices = list(range(4))
    made, left_out = make_plan(wanted, H200, [SOURCES])
    report = made.variant("one_shot_graph").report
    assert (report["payload_bytes"], report["ranks"], report["bus_factor"]) == (32768, 4, 1.5)
    assert made.symbols["meeting_blocks"] == 8 and left_out == {}
    assert made.buffer("partial_gpu0").dims == (8192 + 2 * 64,)
    assert made.symbols["mailbox_words"] == 4096 + 2 * 8192 + 2048 + 4 * 4 * 8192


def test_pushes_are_for_small_payloads() -> None:
    _, left_out = make_plan(config("tp_allreduce", {"MB": 2}), H200, [SOURCES])
    assert list(left_out) == ["one_shot_push", "one_shot_push_graph"]
    assert "payloads of up to 1 MiB" in left_out["one_shot_push"]


def test_nine_devices_are_refused() -> None:
    wanted = config("tp_allreduce")
    wanted.devices = list(range(9))
    with pytest.raises(PlanError, match="8 devices at most"):
        make_plan(wanted, H200, [SOURCES])
