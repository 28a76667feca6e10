"""Texts of a served trace: each judged as if it were alone, whatever is read together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runner.check.case import Case
from runner.references import mini_llm_serve
from runner.references.mini_llm import Ids, forward
from runner.references.mini_llm_serve import judged
from runner.serving import source
from runner.serving.prompts import prompt_ids
from runner.serving.trace import Request, Trace
from tests.kernels.plans import HOST, plan

SIZES: dict[str, Any] = {
    **{"B": 2, "L": 2, "h": 8, "H": 2, "KVH": 1, "D": 4, "I": 16, "V": 23, "weights": "fp32", "kv": "fp32"},
    **{"requests": 5, "prompt_low": 2, "prompt": 9, "output_low": 1, "steps": 4, "page": 4, "shared": 4},
}


@pytest.fixture(scope="module")
def case() -> Case:
    return Case(plan("mini_llm_serve", SIZES, HOST))


@pytest.fixture(scope="module")
def trace(case: Case) -> Trace:
    return source.of(case, case.seed)


@pytest.fixture(scope="module")
def texts(case: Case, trace: Trace) -> dict[int, Ids]:
    return {one.index: alone(case, one) for one in trace}


def alone(case: Case, request: Request) -> Ids:
    """The greedy text of one request, the whole text read again for each token."""
    text = prompt_ids(request, case["V"], case.seed).tolist()
    for _ in range(request.output):
        text.append(int(np.argmax(forward(case, np.array([text]), 1)[0, 0])))
    return np.array(text[request.prompt :])


def same(found: dict[int, Ids], wanted: dict[int, Ids]) -> bool:
    return all(np.array_equal(found[index], tokens) for index, tokens in wanted.items())


def test_greedy_texts_are_right(case: Case, trace: Trace, texts: dict[int, Ids]) -> None:
    assert len({one.cached for one in trace}) > 1
    assert same(judged(case, trace, texts), texts)


def test_what_is_read_together_does_not_matter(
    case: Case, trace: Trace, texts: dict[int, Ids], monkeypatch: pytest.MonkeyPatch
) -> None:
    for activations, logits in ((1, 1), (12 * 16, 30), (1 << 20, 1 << 20)):
        monkeypatch.setattr(mini_llm_serve, "ACTIVATIONS", activations)
        monkeypatch.setattr(mini_llm_serve, "LOGITS", logits)
        monkeypatch.setattr(mini_llm_serve, "_JUDGED", type(mini_llm_serve._JUDGED)())
        assert same(judged(case, trace, texts), texts)


def test_a_wrong_token_is_put_right_and_what_follows_it_is_judged_after_it(
    case: Case, trace: Trace, texts: dict[int, Ids]
) -> None:
    index = max(trace, key=lambda one: one.output).index
    right = int(texts[index][1])
    for wrong in ((right + 1) % 23, -1, 23):
        changed = {**texts, index: texts[index].copy()}
        changed[index][1] = wrong
        found = judged(case, trace, changed)
        assert found[index][:2].tolist() == texts[index][:2].tolist()
        assert same(found, {other: texts[other] for other in texts if other != index})
