"""A second model beside a family's own: which it is, what it is given, and that everything of it gets there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.build.api import requests
from runner.check.case import Case
from runner.config.errors import ConfigError
from runner.config.schema import Config
from runner.execute.companion import make_companion
from runner.plan import wire
from runner.plan.memory import memory_bytes, nbytes
from runner.plan.model import Plan
from runner.plan.planner import make_plan
from tests.kernels.plans import HOST, SOURCES, config
from tests.weights.models import VOCAB, L, buffers, tensors, write_gguf

SMALL: dict[str, Any] = {
    **{"B": 2, "L": 1, "V": 128256, "prompt": 5, "steps": 4, "draft": 3, "weights": "w8a16", "kv": "int8"},
}


def configured(**params: Any) -> Config:
    return config("mini_llm_spec", {**SMALL, **params})


def companion(made: Config) -> Plan | None:
    return make_companion(made, (), HOST, [SOURCES])


def whole(**params: Any) -> Plan:
    made = configured(**params)
    return make_plan(made, HOST, [SOURCES], companion(made))[0]


def test_an_option_of_the_model_group_is_planned_beside_the_model() -> None:
    plan = whole(draft_model="llama3_2_1b")
    beside = plan.companion
    assert beside is not None and (beside.kernel, beside.model, beside.variants) == ("mini_llm", "llama3_2_1b", ())
    wanted = {
        "B": 2,
        "prompt": 5,
        "weights": "w8a16",
        "kv": "int8",
        "L": 16,
        "D": 64,
        "is_tied": 1,
        "rope_factor": 32.0,
    }
    assert {name: beside.symbols[name] for name in wanted} == wanted
    assert beside.symbols["T"] == 5 + 4 + 3 + 2, "the last window's proposals lie behind the text"
    assert (plan.symbols["D"], plan.symbols["has_companion"], plan.symbols["companion_D"]) == (128, 1, 64)
    assert plan.symbols["draft_weights"] == beside.symbols["weight_bytes"]
    assert plan.symbols["draft_steps"] == 4


def test_without_a_model_there_is_none() -> None:
    plan = whole()
    assert plan.companion is None
    assert (plan.symbols["has_companion"], plan.symbols["draft_steps"]) == (0, 3)


def test_it_counts_as_memory_is_built_and_travels() -> None:
    plan = whole(draft_model="llama3_2_1b")
    alone, beside = whole(), plan.companion
    assert beside is not None
    assert memory_bytes(plan) - memory_bytes(alone) == sum(map(nbytes, beside.buffers)) > 10**9
    wanted = requests(plan)
    assert set(wanted) - set(requests(alone)) == {"companion.main", "companion.prepare", "companion.fill"}
    assert dict(wanted["companion.main"].defines)["HEAD_DIM"] == "64" != dict(wanted["main"].defines)["HEAD_DIM"]
    assert wire.from_dict(wire.to_dict(plan)) == plan


def test_prompts_are_those_of_the_model() -> None:
    plan = whole(draft_model="llama3_2_1b")
    assert plan.companion is not None
    own, other = (Case(one).input("prompt_ids").tolist() for one in (plan, plan.companion))
    assert own == other


def test_a_file_is_a_model_with_its_weights(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, tensors(buffers()), "llama")
    beside = companion(configured(V=VOCAB, draft_model=str(path)))
    assert beside is not None
    assert (beside.symbols["L"], beside.symbols["file"]) == (L, str(path))
    assert beside.buffer("qkv_weight").fill.kind == "reference"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"draft_model": "llama3_2_1"}, "kernel.params.draft_model=llama3_2_1: an option of model, a .gguf or"),
        ({"draft_model": "~nobody_of_that_name/m.gguf"}, "m.gguf: an option of model, a .gguf or"),
        ({"draft_model": "x" * 300}, "x: an option of model, a .gguf or"),
        ({"draft_model": "qwen2_5_0_5b"}, "draft_model must have the same vocabulary V"),
        ({"draft_model": "mixtral_8x7b"}, "kernel=mini_llm: the model must be of Llama's, Qwen2's or GPT-2's kind"),
    ],
)
def test_what_cannot_draft_is_refused(params: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        whole(**params)
