"""The loop: when requests are seen, what is written down, and what a real clock adds."""

from __future__ import annotations

import pytest

from runner.config.errors import ConfigError
from runner.serving.batch import StepBatch
from runner.serving.clock import RealClock, VirtualClock
from runner.serving.drive import run
from runner.serving.pages import PagePool
from runner.serving.prompts import prompt_ids
from runner.serving.scheduler import Scheduler
from tests.serving.modelled import VOCAB, requests, served


def test_times_of_a_request_alone() -> None:
    # Passes of 5 ms and 0.1 ms a token: 20 tokens, then one at a time.
    found, _ = served(requests((3.0, 20, 3)), "chunked")
    (one,) = found.requests
    assert one.token_s.tolist() == pytest.approx([0.007, 0.0121, 0.0172])
    assert (one.ttft_s, one.queued_s, one.prefill_s) == pytest.approx((0.007, 0, 0.007))
    assert (one.tpot_s, one.whole_s, found.duration_s) == pytest.approx((0.0051, 0.0172, 0.0172))
    assert [(step.prefill, step.decode, step.kind, step.left) for step in found.steps] == [
        (20, 0, "prefill", 1),
        (0, 1, "decode", 1),
        (0, 1, "decode", 0),
    ]


def test_one_token_has_no_time_per_token() -> None:
    assert served(requests((0, 4, 1)), "static")[0].requests[0].tpot_s is None


def test_an_arrival_within_a_pass_is_seen_after_it() -> None:
    found, _ = served(requests((0, 50, 2), (0.004, 10, 1)), "chunked")
    first, second = found.requests
    assert second.started_s == pytest.approx(0.010) and second.queued_s == pytest.approx(0.006)
    assert [(step.active, step.waiting) for step in found.steps] == [(1, 0), (2, 0)]
    assert found.steps[1].kind == "mixed" and first.token_s[-1] == second.token_s[-1]


def test_an_idle_engine_waits_for_the_next_arrival() -> None:
    found, _ = served(requests((0, 10, 1), (0.1 + 0.2, 10, 1), (7.0, 10, 1)), "monolithic")
    assert [step.start_s for step in found.steps] == pytest.approx([0, 0.3, 7.0])
    assert [one.queued_s for one in found.requests] == pytest.approx([0, 0, 0], abs=1e-9)


def test_no_requests() -> None:
    assert served((), "static")[0].duration_s == 0


def test_what_is_computed_again_is_counted() -> None:
    found, _ = served(requests((0, 8, 8), (0, 8, 8)), "chunked", pages=7, page=4, slots=2, share=False)
    again = sum(step.recomputed for step in found.steps)
    assert found.requests[1].preempted == 1
    assert again > 8 and sum(step.prefill for step in found.steps) == 16 + again + 1


class Zeros:
    """Samples token 0, at once."""

    def step(self, batch: StepBatch) -> list[int]:
        return [0] * batch.rows


def scheduler() -> Scheduler:
    return Scheduler("chunked", 64, PagePool(64, 4, 4, 16), lambda request: prompt_ids(request, VOCAB, 0))


def test_a_request_that_never_fits_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="request 1"):
        run(requests((0, 1, 1), (1, 64, 2)), scheduler(), Zeros(), VirtualClock())


def test_a_real_clock_waits() -> None:
    found = run(requests((0, 9, 2), (0.03, 9, 2)), scheduler(), Zeros(), RealClock())
    assert found.requests[1].token_s[0] >= 0.03
    assert [one.tokens.tolist() for one in found.requests] == [[0, 0], [0, 0]]
    assert all(step.end_s >= step.start_s for step in found.steps)
