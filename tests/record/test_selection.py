"""Words of a command line as a selection of runs, and as MLflow's own questions."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from runner.record import selection
from runner.record.filed import Filed
from runner.record.selection import Selection, pairs, queries, select

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)
DAY = 86_400_000
MARCH = int(NOW.timestamp() * 1000)


def run(started: int = MARCH, commit: str = "abcdef", **params: str) -> Filed:
    return Filed("1", {"kernel": "kv_quant", **params}, {}, {"git_commit": commit, "status": "PASSED"}, started)


def test_every_key_lands_where_its_value_is_kept() -> None:
    words = [
        "kernel=kv_quant,sync", "variant=q8", "status=PASSED,TIMEOUT", "sweep=s1", "commit=1A2B,ffff", "run=r1",
        "param.T=4096", "tag.host=bench", "after=2026-01-31", "before=2d",
    ]  # fmt: skip
    assert select(pairs(words, ()), NOW) == Selection(
        kernels=("kv_quant", "sync"),
        runs=("r1",),
        params={"variant": ("q8",), "T": ("4096",)},
        tags={"status": ("PASSED", "TIMEOUT"), "sweep_id": ("s1",), "host": ("bench",)},
        commits=("1a2b", "ffff"),
        after=MARCH - 29 * DAY,
        before=MARCH - 2 * DAY,
    )


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("kernl=x", "kernl: no such key; did you mean 'kernel'?"),
        ("tag.=x", "tag.: no such key"),
        ("kernel", "kernel: write key=value"),
        ("kernel=", "kernel=: a value is missing"),
        ("kernel=a,,b", "kernel=a,,b: a value is missing"),
        ("status=PASED", "status=PASED: no such status; did you mean 'PASSED'?"),
        ("quality=GOOD", "quality=GOOD: no such quality; "),
        ("commit=xyz1", "commit=xyz1: must be 4 to 40 hexadecimal digits of a commit's hash, or a name of a"),
        ("commit=abc", "commit=abc: must be 4 to 40"),
        ("after=yesterday", "after=yesterday: must be a time in UTC"),
        ("before=99999999w", "before=99999999w: must be a time"),
    ],
)
def test_what_makes_no_sense_is_refused(word: str, told: str) -> None:
    with pytest.raises(ValueError) as caught:
        select(pairs([word], ()), NOW)
    assert str(caught.value).startswith(told)


def test_a_name_that_git_knows_is_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "commit_of", lambda _, name: {"v1.0": "c" * 40}.get(name, ""))
    assert select({"commit": "v1.0,1A2B"}, NOW).commits == ("c" * 40, "1a2b")


def test_a_key_is_given_once() -> None:
    with pytest.raises(ValueError, match="kernel is given twice; several values are joined by commas"):
        pairs(["kernel=a", "kernel=b"], ())


@pytest.mark.parametrize(
    ("selection", "held"),
    [
        (Selection(), True),
        (Selection(runs=("2",)), False),
        (Selection(params={"variant": ("q4", "q8")}), True),
        (Selection(params={"variant": ("q4",)}), False),
        (Selection(tags={"status": ("PASSED",)}, commits=("00", "abc")), True),
        (Selection(commits=("bcd",)), False),
        (Selection(after=MARCH, before=MARCH + 1), True),
        (Selection(before=MARCH), False),
        (Selection(after=MARCH + 1), False),
    ],
)
def test_all_parts_hold_and_one_value_of_each_suffices(selection: Selection, held: bool) -> None:
    assert selection.holds(run(variant="q8")) is held


def test_a_server_is_asked_for_each_combination_once() -> None:
    asked = queries(
        Selection(params={"variant": ("q4", "q8")}, tags={"status": ("PASSED",)}, commits=("ab", "abc", "cd"), after=5)
    )
    assert sorted(asked) == [
        f"attributes.start_time >= 5 and tags.`status` = 'PASSED' and params.`variant` = '{variant}' "
        f"and tags.git_commit LIKE '{commit}%'"
        for variant in ("q4", "q8")
        for commit in ("ab", "cd")
    ]


def test_what_a_question_cannot_hold_is_left_to_us() -> None:
    many = tuple(str(number) for number in range(1000))
    assert queries(Selection(tags={"fingerprint": many, "status": ("PASSED",), "host": ("o'hara",)})) == [
        "tags.`status` = 'PASSED'"
    ]
    assert queries(Selection()) == [""]
