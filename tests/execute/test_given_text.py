"""``kernel.params.text`` when an experiment is planned: the prompts' length, and one clear refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.config.points import Point
from runner.execute.planning import Experiment, plan
from runner.result.model import Status
from tests.kernels.plans import HOST, config

SMALL: dict[str, Any] = {
    **{"B": 2, "L": 1, "h": 8, "H": 1, "KVH": 1, "D": 8, "I": 8, "V": 40, "bias": False, "tied": False},
}


def planned(family: str, text: Any, *lines: str, **params: Any) -> Experiment:
    made = Experiment(Point(config(family, {**SMALL, "text": text, **params}), lines, Path("job")))
    plan(made, HOST)
    return made


@pytest.mark.parametrize("family", ["mini_llm", "mini_llm_quality"])
def test_the_length_of_the_prompts_follows(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ids.txt").write_text("\n".join(map(str, range(11))))
    made = planned(family, "ids.txt").plan
    assert made is not None
    assert (made.symbols["prompt"], made.symbols["text"]) == (5, str(tmp_path / "ids.txt"))
    buffer = made.buffer("prompt_ids")
    assert (buffer.dims, buffer.fill.kind) == ((2, 5), "reference")


def test_without_a_text_nothing_changes() -> None:
    made = planned("mini_llm", "", prompt=3).plan
    assert made is not None
    assert (made.symbols["prompt"], made.buffer("prompt_ids").fill.kind) == (3, "integers")


def test_a_list_as_hydra_reads_it() -> None:
    made = planned("mini_llm", [5, 6, 7, 8]).plan
    assert made is not None and made.symbols["prompt"] == 2


@pytest.mark.parametrize(
    ("family", "text", "lines", "said"),
    [
        ("mini_llm", "[1]", (), "kernel.params.text='[1]': 1 tokens: at least 1 for each of 2 sequences"),
        ("mini_llm_quality", "[1,2,3]", (), "kernel.params.text='[1,2,3]': 3 tokens: at least 2 for each of 2"),
        ("mini_llm", "[1,40]", (), "kernel.params.text='[1,40]': token 40: the model has those from 0 to 39"),
        ("mini_llm", "gone.json", (), "kernel.params.text=gone.json: no such file"),
        ("mini_llm", "hello", (), "kernel.params.text='hello': token ids, [1,2,3], or a text with model.weights="),
        ("mini_llm", "[1,2]", ("kernel.params.prompt=4",), "kernel.params.prompt=4: leave it out, as kernel.params.t"),
    ],
)
def test_a_text_that_cannot_be(family: str, text: str, lines: tuple[str, ...], said: str) -> None:
    made = planned(family, text, *lines)
    assert made.plan is None and made.refused is not None
    assert made.refused[0] is Status.INVALID_CONFIG and made.refused[1].startswith(said)


@pytest.mark.parametrize("text", [[], 0])
def test_what_yaml_takes_for_nothing_is_a_text(text: object) -> None:
    made = planned("mini_llm", text)
    assert made.refused is not None and made.refused[0] is Status.INVALID_CONFIG
