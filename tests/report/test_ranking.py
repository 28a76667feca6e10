"""The order of estimates on several GPUs."""

from __future__ import annotations

from runner.report.ranking import ranked
from runner.report.rows import rows
from runner.result.model import Result, Status


def result(gpu: str, tensor: int = 1, batch: int = 1, fits: float = 1.0, **metrics: float) -> Result:
    params = {"batch": batch, "tensor": tensor, "pipeline": 1, "expert": 1, "gpu": gpu}
    found = {"fits": fits, "tokens_per_s": 100.0, **metrics}
    return Result(f"{gpu}-{tensor}", "estimate", "bfloat16", Status.PASSED, gpu=gpu, params=params, metrics=found)


def names(results: list[Result]) -> list[str]:
    return [one.id for one in results]


def test_what_fits_comes_first_then_what_meets_the_targets_then_fewer_gpus_then_the_rate() -> None:
    given = [
        result("a", fits=0.0, meets_targets=0.0, tokens_per_s=900.0),
        result("b", 1, meets_targets=0.0),
        result("c", 4, meets_targets=1.0, tokens_per_s=800.0),
        result("d", 2, meets_targets=1.0, tokens_per_s=200.0),
        result("e", 2, meets_targets=1.0, tokens_per_s=300.0),
    ]
    ordered, ranks = ranked(given)
    assert names(ordered) == ["e-2", "d-2", "c-4", "b-1", "a-1"]
    assert ranks == [1, 2, 3, 4, 5]


def test_prices_decide_where_all_are_known() -> None:
    cheap, dear = result("a", 4, money_per_million_tokens=1.0), result("b", 1, money_per_million_tokens=2.0)
    assert names(ranked([dear, cheap])[0]) == ["a-4", "b-1"]
    unpriced = result("c", 2)
    assert names(ranked([cheap, dear, unpriced])[0]) == ["b-1", "c-2", "a-4"]


def test_each_workload_is_ranked_alone_and_what_was_refused_comes_last() -> None:
    refused = Result("x", "estimate", "", Status.INVALID_CONFIG, message="no")
    given = [
        refused,
        result("a", 2, batch=1),
        result("a", 2, batch=8),
        result("b", 1, batch=1),
        result("b", 1, batch=8),
    ]
    ordered, ranks = ranked(given)
    assert [one.params.get("batch") for one in ordered] == [1, 1, 8, 8, None]
    assert ranks == [1, 2, 1, 2, 0]


def test_one_choice_of_gpus_has_no_ranks_and_keeps_its_order() -> None:
    given = [result("a", batch=8), result("a", batch=1)]
    assert ranked(given) == (given, [0, 0])
    (family,) = rows(given)
    titles = [column.title for column in family.columns]
    assert "rank" not in titles and "time" not in titles and "check" not in titles
    assert {"fits", "tokens/s"} <= set(titles)


def test_the_table_shows_ranks_and_says_no_in_words() -> None:
    (family,) = rows([result("a", fits=0.0, meets_targets=0.0), result("b", meets_targets=1.0)])
    cells = {column.title: column.cells for column in family.columns}
    assert cells["rank"] == ["1", "2"]
    assert cells["gpu"] == ["b", "a"]
    assert cells["fits"] == ["yes", "no"]
    assert cells["meets\ntargets"] == ["yes", "no"]
