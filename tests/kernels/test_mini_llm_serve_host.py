"""``mini_llm_serve`` on the host backend: every policy gives the texts that each request has alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runner.backend.host import HostBackend
from runner.check.verify import Verifier
from runner.config.errors import ConfigError
from runner.execute import traces
from runner.measure.settings import MeasureSettings
from runner.plan.model import Plan
from runner.plan.planner import make_plan
from runner.result.model import Status
from runner.serving import document, source
from runner.serving.served import Served
from runner.worker.experiment import Experiment
from runner.worker.protocol import Outcome, ProfileRequest
from runner.workload import paged_engine
from runner.workload.capture import captured
from runner.workload.mini_llm_serve import scheduler
from runner.workload.paged_engine import PagedEngine
from tests.kernels.hosted import messages, programs
from tests.kernels.plans import H200, HOST, SOURCES, config, plan

POLICIES = ["static", "monolithic", "chunked", "chunked_shared"]
SMALL: dict[str, Any] = {
    **{"L": 1, "h": 24, "H": 4, "KVH": 2, "D": 6, "I": 40, "V": 97, "bias": True, "tied": False},
    **{"weights": "fp32", "kv": "fp32", "B": 3, "page": 4, "max_tokens": 8},
    **{"requests": 7, "rate": 0.0, "prompt_low": 9, "prompt": 40, "output_low": 2, "steps": 6, "shared": 9},
}
ONCE = MeasureSettings(fixed=1, warmup=0)


@contextmanager
def prepared(made: Plan) -> Iterator[Experiment]:
    device = HostBackend().open(0)
    experiment = Experiment(HostBackend(), [device], made, programs(made), {})
    experiment.prepare()
    try:
        yield experiment
    finally:
        experiment.close()
        device.close()


def served(made: Plan, folder: Path) -> tuple[dict[str, Outcome], dict[str, Served]]:
    """The outcome of every variant, and what it left."""
    with prepared(made) as experiment:
        outcomes = {one.name: experiment.run(one.name, ONCE, folder / one.name)[0] for one in made.variants}
    return outcomes, {name: document.read(folder / name / document.FILE_NAME) for name in outcomes}


def texts(found: Served) -> list[list[int]]:
    return [one.tokens.tolist() for one in found.requests]


def test_every_policy_gives_the_same_texts(tmp_path: Path) -> None:
    made = plan("mini_llm_serve", SMALL, HOST)
    outcomes, left = served(made, tmp_path)
    assert (list(outcomes), messages(outcomes)) == (POLICIES, {})
    assert all(one.checks[0].rows_checked == SMALL["requests"] for one in outcomes.values())
    assert all(len(one.series[0].samples_us) == 1 for one in outcomes.values())
    alone = texts(left["static"])
    assert all(texts(left[name]) == alone for name in POLICIES)
    figures = {name: one.metrics for name, one in outcomes.items()}
    assert figures["chunked"]["steps_mixed"] > 0 == figures["monolithic"]["steps_mixed"]
    assert max(step.prefill + step.decode for step in left["chunked"].steps) == SMALL["max_tokens"]
    assert max(step.prefill for step in left["monolithic"].steps) > SMALL["max_tokens"]
    saved = figures["chunked"]["prefill_tokens"] - figures["chunked_shared"]["prefill_tokens"]
    assert saved == figures["chunked_shared"]["shared_tokens"] > 0
    assert figures["monolithic"]["ttft_ms_p50"] > 0 and figures["monolithic"]["requests"] == SMALL["requests"]


def test_requests_that_lose_their_pages_lose_nothing_else(tmp_path: Path) -> None:
    """Pages for little more than the longest sequence: the youngest have to give theirs back."""
    roomy = plan("mini_llm_serve", {**SMALL, "prompt": 12, "steps": 12, "output_low": 10}, HOST)
    tight = plan("mini_llm_serve", {**SMALL, "prompt": 12, "steps": 12, "output_low": 10, "pool": 9}, HOST)
    (_, wanted), (outcomes, left) = served(roomy, tmp_path / "roomy"), served(tight, tmp_path / "tight")
    assert messages(outcomes) == {}
    for name, one in outcomes.items():
        assert one.metrics["preemptions"] > 0 and one.metrics["recomputed_tokens"] > 0, name
        assert texts(left[name]) == texts(wanted[name])


@pytest.mark.parametrize("kv", ["bf16", "int8"])
def test_passes_of_many_tokens_and_narrow_caches(kv: str, tmp_path: Path) -> None:
    sizes = {**SMALL, "weights": "bf16", "kv": kv, "max_tokens": 24, "requests": 5, "steps": 4}
    outcomes, left = served(plan("mini_llm_serve", sizes, HOST), tmp_path)
    assert messages(outcomes) == {}
    assert max(step.prefill for step in left["chunked"].steps) > 16


def test_a_trace_from_a_file_arrives_as_it_says(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("arrival_s,prompt,output\n3,4,3\n3.2,30,2\n3.3,5,1\n")
    read = traces.read(config("mini_llm_serve", {**SMALL, "trace": str(file)}))
    made, left_out = make_plan(read, HOST, [SOURCES])
    assert list(left_out) == ["chunked_shared"] and made.params["prompt_high"] == 30
    traces.check(made, ONCE, 60.0)
    _, left = served(made, tmp_path)
    for one in left.values():
        assert [record.request.arrival_s for record in one.requests] == pytest.approx([0, 0.2, 0.3])
        assert [len(record.tokens) for record in one.requests] == [3, 2, 1]
        assert all(record.queued_s >= 0 for record in one.requests) and one.duration_s > 0.3


def test_a_token_that_is_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = PagedEngine.step

    def wrong(self: PagedEngine, batch: Any) -> Any:
        sampled = right(self, batch)
        requests = [chunk.request for chunk in batch.chunks if chunk.sampled]
        return np.where(np.array(requests) == 4, (sampled + 1) % SMALL["V"], sampled)

    monkeypatch.setattr(PagedEngine, "step", wrong)
    with prepared(plan("mini_llm_serve", SMALL, HOST)) as experiment:
        outcome, _ = experiment.run("chunked", ONCE, tmp_path / "chunked")
    assert outcome.status is Status.INCORRECT and "tokens[4, 0]" in outcome.message
    assert not (tmp_path / "chunked").exists()


def test_a_folder_that_cannot_be_made_leaves_the_measurement(tmp_path: Path) -> None:
    (tmp_path / "chunked").write_text("in the way")
    with prepared(plan("mini_llm_serve", SMALL, HOST)) as experiment:
        outcome, _ = experiment.run("chunked", ONCE, tmp_path / "chunked")
    assert outcome.status is Status.PASSED and outcome.metrics["ttft_ms_p50"] > 0
    (warning,) = outcome.warnings
    assert str(tmp_path / "chunked") in warning


def test_of_a_large_model_some_texts_are_checked() -> None:
    rows = {}
    for model, prompt in (("qwen2_5_0_5b", 1024), ("qwen2_5_0_5b", 4096), ("llama3_8b", 4096)):
        made, _ = make_plan(config("mini_llm_serve", {"prompt": prompt, "requests": 128}, model), H200, [SOURCES])
        rows[model, prompt] = len(Verifier(made).rows(made.variants[0].checks[0]))
    assert list(rows.values()) == sorted(rows.values(), reverse=True)
    assert 2 <= rows["llama3_8b", 4096] < rows["qwen2_5_0_5b", 4096] < rows["qwen2_5_0_5b", 1024] < 128


def test_passes_of_single_tokens_become_graphs_that_are_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    capture = captured

    def counted(stream: Any, enqueue: Any) -> Any:
        made.append(capture(stream, enqueue))
        return made[-1]

    monkeypatch.setattr(paged_engine, "captured", counted)
    with prepared(plan("mini_llm_serve", SMALL, HOST)) as experiment:
        experiment.run("chunked", ONCE)
        engine = experiment._workload._engine  # type: ignore[union-attr]
        assert 0 < len(made) <= SMALL["B"] and sum(one is not None for one in engine._graphs.values()) == len(made)
    assert engine._graphs == {}


def test_the_parts_of_a_profiled_trace_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with prepared(plan("mini_llm_serve", SMALL, HOST)) as experiment:
        seen: list[str] = []
        experiment._ranges.push, experiment._ranges.pop = seen.append, lambda: None
        experiment.profile("chunked", ProfileRequest())
    assert set(seen) == {"prefill", "mixed", "decode"}


@pytest.mark.parametrize("target", [H200, HOST], ids=["h200", "host"])
@pytest.mark.parametrize("params", [{}, SMALL, {"B": 1}, {"B": 256, "max_tokens": 256}, {"max_tokens": 4096}])
def test_buffers_hold_the_largest_pass(params: dict[str, Any], target: Any) -> None:
    made = plan("mini_llm_serve", params, target)
    trace = source.of(made.symbols, made.seed)
    symbols = made.symbols
    for variant in made.variants:
        largest = scheduler(made, variant.name).largest_step(trace)
        assert largest <= made.buffer("state").dims[0]
    size = {name: int(symbols[name]) for name in ("sms", "B", "KVH", "head_tiles", "splits", "most_splits")}
    for tokens in range(1, size["B"] + 1):
        splits = min(max(1, 2 * size["sms"] // (tokens * size["KVH"] * size["head_tiles"])), size["most_splits"])
        assert tokens * splits <= made.buffer("partial").dims[0]
    assert splits == size["splits"]  # of the decoder that always has all B


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_tokens": 2}, "kernel.params.max_tokens=2: must be at least 3 (B)"),
        ({"prompt_low": 41}, "kernel.params.prompt_low=41: must be at most 40 (prompt)"),
        ({"output_low": 7}, "kernel.params.output_low=7: must be at most 6 (steps)"),
        ({"page": 0}, "kernel.params.page=0: must be at least 1"),
        ({"top_k": 3}, "kernel.params.top_k=3: must be at most 0"),
        ({"requests": 0}, "kernel.params.requests=0: must be at least 1"),
        ({"text": "[1,2,3]"}, "the prompts of a trace are drawn from the seed (needs text == ''; text=[1,2,3])"),
        ({"rate": -1.0}, "kernel.params.rate=-1.0: must be at least 0"),
        ({"pool": 5}, "one sequence can have 20 (5 pages of 4)"),
    ],
)
def test_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        traces.check(plan("mini_llm_serve", {**SMALL, **params}, HOST), ONCE, 60.0)


def test_without_a_common_beginning_there_is_nothing_to_share() -> None:
    _, left_out = make_plan(config("mini_llm_serve", {**SMALL, "shared": 3}), HOST, [SOURCES])
    assert left_out == {
        "chunked_shared": "no two prompts begin with the same page of tokens (needs shared >= page; shared=3, page=4)"
    }
