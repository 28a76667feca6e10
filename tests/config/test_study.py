"""Which points a command stands for."""

from __future__ import annotations

from typing import Any

import pytest

from runner.config.compose import Composer
from runner.config.errors import ConfigError
from runner.config.study import Expansion, expand, own_grid_hint


def swept(composer: Composer, *lines: str) -> Expansion:
    return expand(composer, ["kernel=toy", *lines], sweep=True)


def values(expansion: Expansion, *keys: str) -> list[tuple[Any, ...]]:
    def value(config: Any, key: str) -> Any:
        for part in key.split("."):
            config = config[part] if isinstance(config, dict) else getattr(config, part)
        return config

    return [tuple(value(point.config, key) for key in keys) for point in expansion.points]


def test_nothing_to_sweep_is_one_point(composer: Composer) -> None:
    assert values(swept(composer), "shape.context") == [(4096,)]


def test_a_shape_walks_its_own_grid(composer: Composer) -> None:
    expansion = swept(composer, "shape=long_ctx")
    assert values(expansion, "shape.context") == [(4096,), (8192,), (16384,), (32768,)]
    assert [point.config.kernel.params["T"] for point in expansion.points] == [4096, 8192, 16384, 32768]
    assert expansion.points[1].overrides == ("kernel=toy", "shape=long_ctx", "shape.context=8192")


def test_each_shape_walks_its_own_grid_only(composer: Composer) -> None:
    expansion = swept(composer, "shape=decode,long_ctx")
    assert values(expansion, "shape.name", "shape.context") == [
        ("decode", 4096),
        ("long_ctx", 4096),
        ("long_ctx", 8192),
        ("long_ctx", 16384),
        ("long_ctx", 32768),
    ]


@pytest.mark.parametrize(("given", "contexts"), [("512", [512]), ("512,1024", [512, 1024]), ("range(1,4)", [1, 2, 3])])
def test_the_users_value_replaces_the_shapes_grid(composer: Composer, given: str, contexts: list[int]) -> None:
    expansion = swept(composer, "shape=long_ctx", f"shape.context={given}")
    assert values(expansion, "shape.context") == [(context,) for context in contexts]


def test_the_shapes_grid_can_be_added_to(composer: Composer) -> None:
    more = swept(composer, "shape=long_ctx", "+shape.sweep={seed:[1,2]}")
    assert len(more.points) == 8


def test_a_grid_on_the_command_line_the_last_key_fastest(composer: Composer) -> None:
    expansion = swept(composer, "shape.batch=1,2", "kernel.params.S=choice(3,4)", "seed=7")
    assert values(expansion, "shape.batch", "kernel.params.S", "seed") == [
        (1, 3, 7),
        (1, 4, 7),
        (2, 3, 7),
        (2, 4, 7),
    ]


def test_groups_are_swept_by_name_and_by_pattern(composer: Composer) -> None:
    expansion = swept(composer, "model=glob(llama2*)", "shape=smoke,decode")
    assert values(expansion, "model.name", "shape.name") == [
        ("llama2_70b", "smoke"),
        ("llama2_70b", "decode"),
        ("llama2_7b", "smoke"),
        ("llama2_7b", "decode"),
    ]


def test_the_last_of_a_repeated_key_counts(composer: Composer) -> None:
    assert values(swept(composer, "seed=1,2", "seed=5"), "seed") == [(5,)]


def test_a_study_walks_lists_together_within_its_grid(composer: Composer) -> None:
    expansion = expand(composer, ["experiments=together"], sweep=True)
    keys = ("shape.batch", "shape.context", "model.name", "kernel.params.S")
    assert values(expansion, *keys) == [
        (1, 4000, "llama2_7b", 0),
        (1, 4000, "llama2_7b", 1),
        (1, 4000, "llama3_8b", 0),
        (1, 4000, "llama3_8b", 1),
        (2, 2000, "llama2_7b", 0),
        (2, 2000, "llama2_7b", 1),
        (2, 2000, "llama3_8b", 0),
        (2, 2000, "llama3_8b", 1),
        (4, 1000, "llama3_8b", 0),
        (4, 1000, "llama3_8b", 1),
    ]
    assert [skipped.reason for skipped in expansion.skipped] == ["too many heads"] * 2
    assert "shape.batch=4" in expansion.skipped[0].overrides and "model=llama2_7b" in expansion.skipped[0].overrides


def test_the_users_value_replaces_a_studys_list(composer: Composer) -> None:
    expansion = expand(composer, ["experiments=together", "model=gpt2_small", "shape.batch=9"], sweep=True)
    assert values(expansion, "model.name", "shape.batch", "shape.context", "kernel.params.S") == [
        ("gpt2_small", 9, context, s) for context in (4000, 2000, 1000) for s in (0, 1)
    ]


def test_a_study_may_choose_shapes_with_a_grid_of_their_own(composer: Composer) -> None:
    expansion = swept(composer, "+study.grid={shape:[smoke,long_ctx]}")
    assert [point.config.shape.context for point in expansion.points] == [128, 4096, 8192, 16384, 32768]


def test_lists_of_unequal_length_are_refused(composer: Composer) -> None:
    with pytest.raises(ConfigError, match=r"study.zip\[0\].*equally long; shape.batch has 2, shape.context has 3"):
        expand(composer, ["experiments=uneven"], sweep=True)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("{shape.batch:[]}", "'shape.batch' has no values"),
        ("{experiments:[a]}", "'experiments' cannot be part of a grid"),
        ("{hydra.sweep.dir:[a]}", "'hydra.sweep.dir' cannot be part of a grid"),
        ("{shape.bach:[1]}", "did you mean 'shape.batch'?"),
        ("{shape:[nope]}", "shape=nope: no such option"),
    ],
)
def test_a_bad_grid_is_refused(composer: Composer, grid: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        swept(composer, f"+study.grid={grid}")
    assert message in str(error.value)


def test_one_bad_value_anywhere_refuses_the_whole_sweep(composer: Composer) -> None:
    with pytest.raises(ConfigError, match=r"kernel.params.D=65: must be one of 64, 128, 192"):
        swept(composer, "kernel.params.D=64,128,65")


def test_a_constraint_spares_a_point_that_would_be_refused(composer: Composer) -> None:
    rule = "+study.constraints=[{require: 'D != 65', reason: odd}]"
    expansion = swept(composer, "kernel.params.D=64,65", rule)
    assert [point.config.kernel.params["D"] for point in expansion.points] == [64]
    assert expansion.skipped[0].reason == "odd"


def test_without_a_sweep_there_is_one_point(composer: Composer) -> None:
    assert len(expand(composer, ["kernel=toy", "shape=long_ctx"], sweep=False).points) == 1
    assert len(expand(composer, ["experiments=together"], sweep=False).points) == 1


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        (
            ["shape=long_ctx"],
            "shape=long_ctx carries a grid of 4 values of shape.context; add -m to sweep it",
        ),
        (["shape=long_ctx", "shape.context=7"], ""),
        (["shape=decode"], ""),
        (
            ["experiments=together"],
            "study 'together' walks 2 values of model × 2 values of kernel.params.S × 3 values of shape.batch with "
            "shape.context; add -m to sweep it",
        ),
    ],
)
def test_what_a_single_run_leaves_out(composer: Composer, lines: list[str], hint: str) -> None:
    given = ["kernel=toy", *lines]
    assert own_grid_hint(expand(composer, given, sweep=False).points[0].config, given) == hint


def test_what_is_skipped_is_shown_without_secrets(composer: Composer) -> None:
    lines = ["scale=smoke", "shape=long_ctx", "tracking.uri='http://u:hunter2@h'"]
    skipped = swept(composer, *lines).skipped
    assert len(skipped) == 3 and "hunter2" not in repr(skipped)
