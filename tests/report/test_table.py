"""The table on terminals of different widths, and its exports."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from runner.report.export import csv_text, markdown
from runner.report.rows import rows
from runner.report.table import fit, print_table
from runner.result.model import ProfileStatus, Quality, Result, Status
from tests.synthetic import result, sweep


def mixed() -> list[Result]:
    """A sweep with everything that can happen."""
    results = sweep([4096, 8192])
    results[2].quality = Quality.UNSTABLE
    results[2].warnings = ["spread 6.1 % when the limit (max_time) came"]
    results[4] = result("fp16", 8192, index=4, status=Status.TIMEOUT, message="did not end within 600 s")
    results.append(result("fp16", 8192, 2, index=8, status=Status.TIMEOUT, message="did not end within 600 s"))
    results.append(result("fp8", 8192, 2, index=9, status=Status.SKIPPED, message="needs capability 8.9"))
    return results


def shown(results: Sequence[Result], width: int, swept: Sequence[str] = (), footer: Sequence[str] = ()) -> str:
    console = Console(width=width, file=io.StringIO(), highlight=False)
    print_table(results, swept, footer, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal_and_no_cell_is_cut(width: int) -> None:
    text = shown(mixed(), width, ["shape.context"])
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text


def test_at_160_columns_everything_is_there() -> None:
    text = shown(mixed(), 160, ["shape.context"])
    first = next(line for line in text.splitlines() if line.startswith("fp32 *"))
    assert first.split() == [
        "fp32", "*", "4096", "1", "PASS", "1.2e-07", "3.4e-06", "2.2e-07", "10.7", "µs", "±0.4%",
        "3145", "GB/s", "65.5%", "71.2%", "memory", "1.00×", "–",
    ]  # fmt: skip
    assert "left out" not in text


def test_at_80_columns_the_essential_is_there_and_the_rest_is_named() -> None:
    text = shown(mixed(), 80)
    for needed in ("T\n", "context", "PASS", "10.7 µs ±0.4%", "3145 GB/s"):
        assert needed.strip() in text
    assert "left out at this width: max abs err" in " ".join(text.split())


def test_doubts_that_differ_in_figures_alone_take_one_line() -> None:
    results = sweep([4096, 8192, 16384])
    for number, one in enumerate(results):
        one.flags = ["drift"]
        one.warnings = [f"the times rose by 0.{number + 6} % within the series, from {100 + number} µs to 1.5 ms"]
    text = " ".join(shown(results, 160, ["shape.context"]).split())
    assert text.count("the times rose by") == 1
    assert f"and {len(results) - 4} more (figures of the first): the times rose by 0.6 %" in text
    assert text.count(" drift") == len(results)  # the column names every one


def test_failures_skips_and_doubts_are_told_in_words_and_once() -> None:
    text = " ".join(shown(mixed(), 160).split())
    assert "8 results: 5 passed, 2 failed, 1 skipped" in text
    assert "TIMEOUT fp16 B=1 T=8192, fp16 B=2 T=8192: did not end within 600 s" in text
    assert "again: python -m runner kernel=kv_quant shape=long_ctx shape.context=8192" in text
    assert "SKIPPED fp8 B=2 T=8192: needs capability 8.9" in text
    assert "note q8 B=1 T=4096: spread 6.1 %" in text
    assert text.count("did not end") == 1


def test_many_of_the_same_are_counted() -> None:
    failed = [result("q8", 1024 * i, index=i, status=Status.RUNTIME_ERROR, message="boom") for i in range(1, 10)]
    assert "q8 T=4096 and 5 more: boom" in " ".join(shown(failed, 160).split())


def test_a_failed_check_without_a_message_gives_its_own() -> None:
    wrong = result(status=Status.INCORRECT)
    wrong.checks[0].passed, wrong.checks[0].message = False, "3 rows differ"
    assert "INCORRECT q8: q8_kv_scan: 3 rows differ" in " ".join(shown([wrong], 160).split())


def test_a_missing_profiler_is_mentioned() -> None:
    made = result()
    made.profile.status, made.profile.reason = ProfileStatus.UNAVAILABLE, "nsys is not installed"
    assert "profile UNAVAILABLE q8: nsys is not installed" in " ".join(shown([made], 160).split())


def test_on_a_cpu_without_peaks_their_columns_vanish() -> None:
    (family,) = rows(sweep([4096], backend="host", gpu="host", peak_gbps=0.0))
    titles = [column.title for column in family.columns]
    assert "% of\npeak" not in titles and "bound" not in titles and "% of\nceiling" in titles


def test_families_have_tables_of_their_own() -> None:
    text = shown([*sweep([4096]), result("gemv", kernel="quant_decode", index=9)], 100)
    assert text.index("kv_quant") < text.index("quant_decode")


def test_markup_in_messages_is_text() -> None:
    bad = result(status=Status.COMPILE_ERROR, message="expected ';' [/bold] in a[0]")
    assert "expected ';' [/bold] in a[0]" in shown([bad], 160)


def test_a_footer_line_is_never_broken() -> None:
    link = "http://127.0.0.1:5000/#/experiments/2/runs/" + "f" * 200
    assert link in shown(sweep([4096]), 80, footer=[link]).splitlines()


def test_columns_leave_by_rank() -> None:
    (family,) = rows(mixed())
    kept, left = fit(family.columns, 90)
    assert max(c.keep for c in left) <= min(c.keep for c in kept)
    narrow, _ = fit(family.columns, 1)
    assert [c.title.split("\n")[0] for c in narrow] == ["variant", "B", "T", "check", "time"]


def test_nothing_at_all_prints_nothing() -> None:
    assert shown([], 80) == ""


def test_markdown_has_the_same_cells() -> None:
    text = markdown(mixed(), ["shape.context"], ["see it"])
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 8
    assert {line.count("|") for line in table} == {table[0].count("|")}
    assert table[2].startswith("| fp32 \\* | 4096 | 1 | PASS |")
    assert "* **TIMEOUT** fp16 T=8192 B=1" in text
    assert text.endswith("see it  \n")


def test_csv_has_every_figure_as_it_is() -> None:
    results = mixed()
    read = list(csv.DictReader(io.StringIO(csv_text(results))))
    assert len(read) == 8
    assert float(read[0]["time_us"]) == results[0].metrics["time_us"]
    assert read[4]["time_us"] == ""
    assert (read[4]["status"], read[4]["message"]) == ("TIMEOUT", "did not end within 600 s")
    assert (read[0]["T"], read[0]["context"], read[0]["variant"]) == ("4096", "4096", "fp32")


def test_a_served_trace_shows_what_its_requests_waited() -> None:
    waits = {"steps_mixed": 3.0, "ttft_ms_p50": 12.0, "ttft_ms_p95": 80.0, "tpot_ms_p50": 7.0, "itl_ms_max": 250.0}
    one = result("chunked", metrics={"time_us": 2e6, **waits, "output_tokens_per_s": 910.0})
    text = shown([one], 160)
    for cell in ("12.0 ms", "80.0 ms", "7.00 ms", "250 ms", "910"):
        assert cell in text
    assert "TTFT" not in shown([result("a", metrics={"time_us": 2.0, "ttft_ms_p50": 12.0})], 160)
