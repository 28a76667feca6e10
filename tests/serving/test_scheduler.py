"""Who shares a pass: order, budgets, whole and chunked prompts, and what happens when pages run out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.config.errors import ConfigError
from runner.serving.batch import StepBatch
from runner.serving.figures import metrics
from runner.serving.pages import PagePool
from runner.serving.prompts import prompt_ids
from runner.serving.scheduler import POLICIES, Scheduler
from runner.serving.synthetic import Synthetic, synthetic
from runner.serving.trace import Request, ordered
from tests.serving.modelled import VOCAB, expected, requests, served


def shape(batch: StepBatch) -> list[tuple[int, str, int, int]]:
    """(request, phase, first position, tokens) of its chunks."""
    return [(chunk.request, chunk.phase, chunk.first, len(chunk.ids)) for chunk in batch.chunks]


def test_chunked_decodes_first_and_fills_up_with_pieces_of_prompts() -> None:
    _, engine = served(requests((0, 10, 3), (0, 20, 2)), "chunked", max_tokens=16, slots=4)
    assert [shape(batch) for batch in engine.batches] == [
        [(0, "prefill", 0, 10), (1, "prefill", 0, 6)],
        [(0, "decode", 10, 1), (1, "prefill", 6, 14)],
        [(0, "decode", 11, 1), (1, "decode", 20, 1)],
    ]
    assert [batch.rows for batch in engine.batches] == [1, 2, 2]


def test_monolithic_has_decodes_wait_for_whole_prompts() -> None:
    _, engine = served(requests((0, 10, 3), (0.001, 20, 2)), "monolithic", max_tokens=16, slots=4)
    assert [shape(batch) for batch in engine.batches] == [
        [(0, "prefill", 0, 10)],
        [(1, "prefill", 0, 20)],
        [(0, "decode", 10, 1), (1, "decode", 20, 1)],
        [(0, "decode", 11, 1)],
    ]


def test_monolithic_computes_several_prompts_at_once_as_far_as_they_fit() -> None:
    _, engine = served(requests((0, 10, 1), (0, 6, 1), (0, 1, 1)), "monolithic", max_tokens=16, slots=4)
    assert [shape(batch) for batch in engine.batches] == [
        [(0, "prefill", 0, 10), (1, "prefill", 0, 6)],
        [(2, "prefill", 0, 1)],
    ]


def test_static_admits_none_until_all_have_ended() -> None:
    _, engine = served(requests((0, 10, 2), (0, 8, 1), (0.001, 4, 1)), "static", max_tokens=16, slots=4)
    assert [shape(batch) for batch in engine.batches] == [
        [(0, "prefill", 0, 10)],
        [(1, "prefill", 0, 8)],
        [(0, "decode", 10, 1)],
        [(2, "prefill", 0, 4)],
    ]


def test_the_youngest_gives_its_pages_and_comes_back_before_those_that_wait() -> None:
    # Seven pages of four tokens; each request needs four at its end.
    trace = requests((0, 8, 8), (0, 8, 8), (0, 8, 8))
    found, engine = served(trace, "chunked", max_tokens=64, pages=7, page=4, slots=3)
    preempted = [request for batch in engine.batches for request in batch.preempted]
    assert preempted == [1] and [one.preempted for one in found.requests] == [0, 1, 0]
    admitted = [request for batch in engine.batches for request, _ in batch.admitted]
    assert admitted == [0, 1, 1, 2]
    assert [one.tokens.tolist() for one in found.requests] == [expected(request) for request in trace]


def test_nothing_overtakes_the_one_that_waits_longest() -> None:
    trace = requests((0, 64, 20), (0.001, 64, 2), (0.002, 1, 1))
    found, _ = served(trace, "chunked", max_tokens=64, pages=6, page=16, slots=3)
    starts = [one.started_s for one in found.requests]
    assert starts == sorted(starts) and starts[1] > found.requests[0].token_s[-1] - 1e-9


LENGTHS = st.tuples(st.floats(0, 0.2), st.integers(1, 40), st.integers(1, 12), st.integers(0, 40), st.integers(0, 1))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(LENGTHS, min_size=1, max_size=12),
    st.sampled_from(POLICIES),
    st.integers(4, 40),
    st.integers(13, 40),
    st.integers(1, 4),
    st.booleans(),
)
def test_every_request_gets_exactly_its_tokens_from_its_own_history(
    lengths: list[tuple[float, int, int, int, int]],
    policy: str,
    max_tokens: int,
    pages: int,
    slots: int,
    share: bool,
) -> None:
    trace = ordered(
        Request(0, arrival, prompt, output, min(shared, prompt), group)
        for arrival, prompt, output, shared, group in lengths
    )
    found, engine = served(trace, policy, max_tokens, pages, page=4, slots=slots, share=share)
    for one in found.requests:
        assert one.tokens.tolist() == expected(one.request)
        assert (one.token_s[1:] > one.token_s[:-1]).all() and one.queued_s >= 0
    for batch in engine.batches:
        slots_used = [chunk.slot for chunk in batch.chunks]
        assert len(set(slots_used)) == len(slots_used) <= slots
        total = batch.tokens("prefill") + batch.tokens("decode")
        whole = policy != "chunked" and len(batch.chunks) == 1
        assert 1 <= total <= max_tokens or whole
    decoded = sum(one.request.output - 1 for one in found.requests)
    recomputing = sum(one.preempted for one in found.requests)
    assert decoded - recomputing <= sum(step.decode for step in found.steps) <= decoded
    if not recomputing:
        prompts = sum(request.prompt for request in trace)
        assert sum(step.prefill for step in found.steps) + sum(one.shared for one in found.requests) == prompts


def test_a_long_prompt_holds_up_decodes_unless_it_is_chunked() -> None:
    # The engine spends two thirds of its time on long prompts: some 1 in 15 tokens waits for a whole one.
    short, long = [(0.1 * i, 32, 40) for i in range(36)], [(0.05 + 0.3 * i, 2048, 4) for i in range(12)]
    trace = requests(*short, *long)
    monolithic, chunked = (metrics(served(trace, policy)[0]) for policy in ("monolithic", "chunked"))
    whole_ms, piece_ms = 5 + 0.1 * 2048, 5 + 0.1 * 256
    assert monolithic["itl_ms_p95"] > whole_ms and chunked["itl_ms_p95"] < piece_ms + 1
    assert monolithic["itl_ms_max"] > whole_ms and chunked["itl_ms_max"] < piece_ms + 1
    for found in (monolithic, chunked):
        assert found["itl_ms_p95_beside_prefill"] > 2 * found["itl_ms_p95_decode_only"]
    # The price: a long prompt in pieces shares its passes.
    assert monolithic["prefill_ms_p50_prompt_le_2048"] < chunked["prefill_ms_p50_prompt_le_2048"]


def test_static_batches_have_less_throughput_and_a_later_first_token() -> None:
    trace = synthetic(Synthetic(60, math.inf, (16, 256), (1, 80), seed=3))
    static, continuous = (metrics(served(trace, policy, slots=8)[0]) for policy in ("static", "chunked"))
    assert static["output_tokens_per_s"] < 0.8 * continuous["output_tokens_per_s"]
    assert static["ttft_ms_p50"] > 1.2 * continuous["ttft_ms_p50"]


def test_a_shared_beginning_is_computed_once() -> None:
    trace = synthetic(Synthetic(40, 10.0, (300, 400), (4, 16), shared=256, seed=5))
    shared, _ = served(trace, "chunked")
    alone, _ = served(trace, "chunked", share=False)
    with_sharing, without = metrics(shared), metrics(alone)
    assert with_sharing["shared_tokens"] >= 0.9 * 39 * 256 and without["shared_tokens"] == 0
    assert with_sharing["prefill_tokens"] + with_sharing["shared_tokens"] == without["prefill_tokens"]
    assert with_sharing["ttft_ms_p50"] < without["ttft_ms_p50"]
    pairs = zip(shared.requests, alone.requests, strict=True)
    assert all(one.tokens.tolist() == other.tokens.tolist() for one, other in pairs)


def make(policy: str = "chunked", max_tokens: int = 8) -> Scheduler:
    pool = PagePool(pages=4, page=4, slots=8, pages_per_slot=3)
    return Scheduler(policy, max_tokens, pool, lambda request: prompt_ids(request, VOCAB, 0))


@pytest.mark.parametrize(
    ("policy", "max_tokens", "said"),
    [
        ("chunky", 8, "policy=chunky: no such policy; did you mean 'chunked'?"),
        ("static", 7, "max_tokens=7: must be at least 8, one for every sequence of a pass"),
    ],
)
def test_what_cannot_work_is_refused(policy: str, max_tokens: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        make(policy, max_tokens)


def test_a_request_that_never_fits_is_named() -> None:
    make().check(requests((0, 8, 5)))
    said = r"request 1: prompt=8, output=6: needs room for 13 tokens; one sequence can have 12 \(3 pages of 4\)"
    with pytest.raises(ConfigError, match=said):
        make().check(requests((0, 1, 1), (1, 8, 6)))


def test_an_engine_that_samples_another_number_of_tokens_is_refused() -> None:
    scheduler = make()
    scheduler.submit(Request(0, 0.0, 3, 2))
    batch = scheduler.plan()
    assert batch is not None
    with pytest.raises(ValueError, match="sampled 2 tokens where the pass asked for 1"):
        scheduler.apply(batch, [1, 2])


def test_the_largest_pass() -> None:
    trace = requests((0, 20, 5), (0, 3, 2))
    assert [make(policy).largest_step(trace) for policy in POLICIES] == [24, 24, 8]
    assert make("static", 64).largest_step(trace) == 64


def test_nothing_to_do() -> None:
    assert make().plan() is None
