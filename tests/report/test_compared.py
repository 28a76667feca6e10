"""What is said of a comparison: on a terminal, in Markdown, in files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from runner.report.compared import about, labels, leftovers, legend, markdown_of, rows
from runner.report.compared_files import write_files
from runner.report.compared_table import print_comparison
from runner.result.model import Status
from runner.verdict.judge import judge
from runner.verdict.model import Comparison, Measured, Pair, Rules
from tests.verdict.synthetic import measured

ALIKE = [100.0, 100.1, 99.9, 100.0, 100.2, 99.8, 100.0, 100.1]


def run(context: int, level: float = 1.0, **changes: Any) -> Measured:
    params = (("T", str(context)), ("context", str(context)), ("dtype", "int8"), ("kernel", "k"), ("variant", "q8"))
    return measured([level * value for value in ALIKE], configuration=params, kernel="k", **changes)


@pytest.fixture
def comparison() -> Comparison:
    pairs = [
        Pair(run(1), run(1)),
        Pair(run(2), run(2, 1.1)),
        Pair(run(3), run(3, 0.8)),
        Pair(run(4), run(4, flags=("drift",))),
        Pair(run(5), run(5, status=Status.INCORRECT, message="row 3 | of 8")),
        Pair(run(6), run(6, 1.2)),
    ]
    return Comparison("commit:aaaa", "commit:bbbb", tuple(judge(pairs)), (run(7), run(8)), ())


def shown(comparison: Comparison, width: int) -> str:
    out = io.StringIO()
    print_comparison(comparison, Console(file=out, width=width, highlight=False))
    return out.getvalue()


def test_the_worst_comes_first(comparison: Comparison) -> None:
    verdicts = [(row.judged.verdict.value, row.cells[0]) for row in rows(comparison)]
    assert verdicts == [
        ("SLOWER", "k q8 T=6"),
        ("SLOWER", "k q8 T=2"),
        ("INCOMPARABLE", "k q8 T=5"),
        ("AMBIGUOUS", "k q8 T=4"),
        ("FASTER", "k q8 T=3"),
        ("SAME", "k q8 T=1"),
    ]


def test_a_label_has_what_differs_and_does_not_follow_from_the_variant() -> None:
    one, two = run(1), run(1)
    other = measured(ALIKE, configuration=(("T", "1"), ("dtype", "float"), ("variant", "fp32")), variant="fp32")
    assert labels([one, two, other]) == ["k q8", "k q8", "kv_quant fp32"]
    assert labels([]) == []


def test_what_was_refused_before_it_had_a_variant_is_its_family() -> None:
    assert labels([run(1, variant=""), run(1)]) == ["k", "k q8"]


def test_on_a_wide_terminal_and_on_a_narrow_one(comparison: Comparison) -> None:
    wide, narrow = shown(comparison, 160), shown(comparison, 60)
    for said in (wide, narrow):
        assert "6 experiments: 2 SLOWER, 1 INCOMPARABLE, 1 AMBIGUOUS, 1 FASTER, 1 SAME" in said
        assert "+20.00%" in said and "only in the baseline (2): k q8 T=7, k q8 T=8" in said
    assert "noise floor" in wide and "left out" not in wide
    assert "noise floor" not in narrow[: narrow.index("6 experiments")]
    (left,) = (line for line in narrow.splitlines() if line.startswith("left out at this width: "))
    assert "noise floor" in left and "baseline" in left
    assert "INCOMPARABLE  k q8 T=5: the candidate is INCORRECT: row 3 | of 8" in wide
    assert "AMBIGUOUS  k q8 T=4: candidate: drift: its samples rise or fall with time" in wide
    assert max(map(len, narrow.splitlines()[3:12])) <= 60


def test_a_table_too_long_says_what_is_left_out() -> None:
    pairs = [Pair(run(number), run(number)) for number in range(70)]
    said = shown(Comparison("a", "b", tuple(judge(pairs))), 120)
    assert "20 rows are not shown" in said and "70 experiments: 70 SAME" in said


def test_markdown_folds_what_is_the_same_and_breaks_nothing(comparison: Comparison) -> None:
    text = markdown_of(comparison)
    assert text.startswith("### 6 experiments: 2 SLOWER")
    assert "row 3 \\| of 8" in text
    before, after = text.split("<details><summary>1 SAME</summary>")
    assert "k q8 T=6" in before and "k q8 T=1" not in before and "k q8 T=1" in after
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {9}
    assert "and 4 more" in markdown_of(comparison, most=1)


def test_no_name_steers_the_terminal() -> None:
    pair = Pair(run(1), run(1, status=Status.INCORRECT, message="\x1b[31mred\x07\nand more", variant="q\x1b[2J\u202e8"))
    found = Comparison("a\x1b]0;title\x07", "y", tuple(judge([pair])), (run(2, variant="\x1b[2Jx"),), ())
    console = Console(file=io.StringIO(), width=200)
    print_comparison(found, console)
    told = console.file.getvalue()  # type: ignore[attr-defined]
    assert "k q8: the candidate is INCORRECT: red and more" in told
    for text in (told, markdown_of(found)):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_sides_are_told_with_commit_and_device(comparison: Comparison) -> None:
    one = Pair(run(1, commit="a" * 40, driver="580"), run(1, commit="b" * 40, dirty=True, device="NVIDIA H100"))
    told = about(Comparison("x", "y", tuple(judge([one], Rules(across_gpus=True))), rules=Rules(across_gpus=True)))
    assert told == [
        "baseline  x (aaaaaaaaaaaa; NVIDIA H200; 580)",
        "candidate y (bbbbbbbbbbbb+; NVIDIA H100)",
        "across GPUs: different devices are compared, as was asked for",
    ]
    assert leftovers(Comparison("x", "y", ())) == []


def test_trials_are_advised_where_they_would_help(comparison: Comparison) -> None:
    assert "trials" not in legend(comparison), "a drift is unclear for another reason"
    wide = [0.9, 0.95, 1.0, 1.0, 1.05, 1.1]
    once = measured(wide, kernel="k")
    unclear = Comparison("a", "b", tuple(judge([Pair(once, once)])), (), ())
    assert legend(unclear).endswith("AMBIGUOUS: trials on both sides narrow an interval (measure.trials=5)")
    many = measured(wide, kernel="k", trials=5, trials_rsd=0.1)
    assert "trials" not in legend(Comparison("a", "b", tuple(judge([Pair(many, many)])), (), ()))


def test_files(comparison: Comparison, tmp_path: Path) -> None:
    written = write_files(comparison, tmp_path / "out")
    assert [path.name for path in written] == ["table.md", "comparison.json", "comparison.png"]
    assert written[2].read_bytes().startswith(b"\x89PNG")
    document = json.loads(written[1].read_text(encoding="utf-8"))
    assert document["counts"] == {"FASTER": 1, "SLOWER": 2, "SAME": 1, "AMBIGUOUS": 1, "INCOMPARABLE": 1}
    pair = document["pairs"][1]
    assert (pair["kernel"], pair["variant"], pair["params"]["T"], pair["verdict"]) == ("k", "q8", "2", "SLOWER")
    assert pair["effect"] == pytest.approx(0.1) and pair["low"] < 0.1 < pair["high"]
    assert pair["candidate"]["time_us"] == pytest.approx(110.0) and pair["candidate"]["status"] == "PASSED"
    assert [one["params"]["T"] for one in document["only_baseline"]] == ["7", "8"]


def test_nothing_to_draw_is_no_plot(tmp_path: Path) -> None:
    pair = Pair(run(1), run(1, status=Status.TIMEOUT, time_us=None))
    written = write_files(Comparison("a", "b", tuple(judge([pair]))), tmp_path)
    assert [path.name for path in written] == ["table.md", "comparison.json"]
