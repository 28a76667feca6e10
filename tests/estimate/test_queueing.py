from __future__ import annotations

from dataclasses import replace

import pytest

from runner.estimate import precision, queueing, times
from runner.estimate.model import Efficiency, Machine, Parallel, Work
from runner.estimate.queueing import Load
from tests.estimate.models import named

H200 = Machine(
    name="h200_sxm",
    bandwidth_gbps=4800,
    memory_bytes=143771 * 2**20,
    tflops={"float32": 67, "float16": 989, "bfloat16": 989, "float8": 1979, "int8": 1979},
    nvlink_gbps=900,
)
EFFICIENCY = Efficiency("model", "test", 0.95, 0.6, 50.0, 2.0, 40.0, request_us=5e4, prefills_ahead=0.06)


def loaded(concurrency: int, prompt: int = 1024, output: int = 8192, kv: str = "float8", tensor: int = 1) -> Load:
    fp8, bf16 = precision.of("float8"), precision.of("bfloat16")
    work = Work(concurrency, prompt, output, weights=fp8, kv=precision.of(kv), other=bf16)
    return queueing.load(named("llama3_70b"), work, Parallel(tensor), H200, int(2e9), 0.9)


def test_the_measured_loads_queue_where_they_did() -> None:
    """70B in fp8 on one H200: 32 requests of 9,216 tokens had their first token after 449 ms, 64 after 79.5 s.

    Of the wait only the order is held: neither the slots of that engine nor the length of its test are known.
    """
    few, many = loaded(32), loaded(64)
    assert not few.queues and many.queues
    assert 32 <= few.slots == many.slots < 64
    assert few.served(EFFICIENCY).waiting_s == 0
    assert few.served(EFFICIENCY).ttft_s == pytest.approx(0.449, rel=0.25)
    assert 0.5 < many.served(EFFICIENCY).ttft_s / 79.5 < 2


def test_in_16_bits_the_measured_32_would_have_queued() -> None:
    assert loaded(32, kv="bfloat16").queues


def test_more_gpus_hold_more() -> None:
    assert not loaded(64, tensor=2).queues


def test_only_as_many_as_have_a_slot_run() -> None:
    many = loaded(64)
    assert many.work.batch == many.slots and many.concurrency == 64
    full = loaded(many.slots)
    assert many.served(EFFICIENCY).tpot_s == pytest.approx(full.served(EFFICIENCY).tpot_s)


def test_a_request_waits_as_long_as_littles_law_says() -> None:
    """Throughput is slots / holding time whatever the queue, so a request stays concurrency / throughput in all."""
    many = loaded(64)
    seen = many.served(EFFICIENCY)
    holding = seen.ttft_s - seen.waiting_s + many.work.output * seen.tpot_s
    assert seen.waiting_s + holding == pytest.approx(64 * holding / many.slots)


def test_a_single_request_waits_for_nobody() -> None:
    """TTFT is its prefill and the fixed time, TPOT its step."""
    one = loaded(1)
    seen = one.served(EFFICIENCY)
    prefill = times.phase_s(one.prefill, one.arch, one.work, one.parallel, one.machine, EFFICIENCY)
    step = times.phase_s(one.decode, one.arch, one.work, one.parallel, one.machine, EFFICIENCY)
    assert seen.ttft_s == pytest.approx(0.05 + prefill)
    assert seen.tpot_s == pytest.approx(step)


def test_the_prefills_of_the_others_hold_a_step_up() -> None:
    eight = loaded(8, prompt=8192, output=1024)
    alone = replace(eight.work, batch=1)
    prefill = times.phase_s(eight.prefill, eight.arch, alone, eight.parallel, eight.machine, EFFICIENCY)
    step = times.phase_s(eight.decode, eight.arch, eight.work, eight.parallel, eight.machine, EFFICIENCY)
    seen = eight.served(EFFICIENCY)
    assert seen.tpot_s == pytest.approx(step + prefill * 7 / 1024)
    assert seen.ttft_s == pytest.approx(0.05 + prefill * (1 + 0.06 * 7))


def test_accepted_drafts_shorten_a_token() -> None:
    plain = loaded(1)
    work = replace(plain.work, speculative=3, acceptance=0.7)
    drafted = queueing.load(plain.arch, work, plain.parallel, H200, int(2e9), 0.9)
    step = times.phase_s(drafted.decode, drafted.arch, work, drafted.parallel, H200, EFFICIENCY)
    assert drafted.served(EFFICIENCY).tpot_s == pytest.approx(step / 2.533, rel=1e-3)


def test_a_load_of_which_not_one_fits_is_refused() -> None:
    none = loaded(4, prompt=2_000_000)
    assert none.slots == 0 and none.queues
    with pytest.raises(ValueError, match="not one request fits"):
        none.served(EFFICIENCY)
