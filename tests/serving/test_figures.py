"""Figures, buckets, tables and series of a served trace."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest

from runner.serving.buckets import buckets
from runner.serving.figures import metrics, percentiles
from runner.serving.gaps import gaps
from runner.serving.series import longest_gaps, over_time
from runner.serving.served import Served
from runner.serving.synthetic import Synthetic, synthetic
from runner.serving.tables import bucket_rows, request_rows, step_rows, write
from tests.serving.modelled import requests, served

TWO = requests((0, 20, 3), (0.006, 300, 2))
"""Chunked: passes of 7, 30.5 (token and 254 of the prompt), 9.7 ms (token and the other 46), and one of 5.1 ms."""


@pytest.fixture(scope="module")
def two() -> Served:
    return served(TWO, "chunked", max_tokens=255)[0]


def test_the_figures_of_two_requests(two: Served) -> None:
    ends = np.cumsum([7.0, 30.5, 9.7, 5.1])
    found = metrics(two)
    assert [1e3 * step.end_s for step in two.steps] == pytest.approx(ends.tolist())
    assert found["ttft_ms_p50_prompt_le_128"] == pytest.approx(7.0)
    assert found["ttft_ms_p50_prompt_le_512"] == pytest.approx(ends[2] - 6)
    assert found["queue_ms_p50_prompt_le_512"] == pytest.approx(1.0)
    assert found["prefill_ms_p50_prompt_le_512"] == pytest.approx(30.5 + 9.7)
    assert found["tpot_ms_p50_prompt_le_128"] == pytest.approx((30.5 + 9.7) / 2)
    assert found["itl_ms_max"] == pytest.approx(30.5)
    assert found["itl_ms_p50_decode_only"] == pytest.approx(5.1)
    assert found["itl_ms_p50_beside_prefill"] == pytest.approx((30.5 + 9.7) / 2)
    assert (found["requests_prompt_le_128"], found["requests_prompt_le_512"]) == (1, 1)
    assert (found["steps"], found["steps_prefill"], found["steps_mixed"], found["steps_decode"]) == (4, 1, 2, 1)
    assert (found["prefill_tokens"], found["decode_tokens"]) == (320, 3)
    assert found["tokens_per_step_prefill"] == pytest.approx(320 / 3) and found["tokens_per_step_decode"] == 1
    seconds = ends[-1] / 1e3
    assert found["input_tokens_per_s"] == pytest.approx(320 / seconds)
    assert found["output_tokens_per_s"] == pytest.approx(5 / seconds)
    assert found["active_mean"] == pytest.approx((7 + 2 * 30.5 + 2 * 9.7 + 5.1) / ends[-1])
    assert found["waiting_mean"] == pytest.approx(1.0 / ends[-1]) and found["busy_share"] == pytest.approx(1)
    assert (found["active_max"], found["waiting_max"], found["preemptions"]) == (2, 0, 0)


def test_a_percentile_needs_samples() -> None:
    assert percentiles("x_ms", []) == {}
    assert list(percentiles("x_ms", [1.0] * 19)) == ["x_ms_p50"]
    assert list(percentiles("x_ms", [1.0] * 20, "_y")) == ["x_ms_p50_y", "x_ms_p95_y"]
    found = percentiles("x_ms", np.arange(101.0))
    assert found == {"x_ms_p50": 50e3, "x_ms_p95": 95e3, "x_ms_p99": pytest.approx(99e3)}


def test_names_and_values_suit_a_store() -> None:
    found = metrics(served(synthetic(Synthetic(120, 30.0, (16, 3000), (1, 20))), "chunked")[0])
    assert {"ttft_ms_p99", "tpot_ms_p95", "itl_ms_p99", "ttft_ms_p95_prompt_gt_2048"} <= set(found)
    assert all(re.fullmatch(r"[a-z0-9_]+", name) and math.isfinite(value) for name, value in found.items())
    assert all(value >= 0 for value in found.values())


def test_no_requests_no_figures() -> None:
    assert metrics(Served((), ())) == {"requests": 0}
    assert over_time(Served((), ())) == [] and request_rows(Served((), ())) == bucket_rows(Served((), ())) == []


def test_one_token_each_leaves_no_gaps() -> None:
    found, _ = served(requests((0, 3, 1), (0, 4, 1)), "static")
    assert len(gaps(found).seconds) == 0 and not any(name.startswith(("itl", "tpot")) for name in metrics(found))


def test_buckets_have_their_edge(two: Served) -> None:
    found = buckets(two.requests, (20, 299))
    assert [(one.name, one.label, len(one.records)) for one in found] == [
        ("prompt_le_20", "≤ 20", 1),
        ("prompt_gt_299", "> 299", 1),
    ]
    (middle,) = buckets(two.requests[:1], (8, 40))
    assert (middle.name, middle.label) == ("prompt_le_40", "9 – 40")
    with pytest.raises(ValueError, match="must be lengths that rise"):
        buckets(two.requests, (8, 8))


def test_series_change_with_passes_and_fall_to_nothing_when_idle() -> None:
    found, _ = served(requests((0, 10, 1), (1.0, 10, 2), (1.001, 10, 1)), "static", slots=1, max_tokens=16)
    assert [(point.active, point.waiting) for point in over_time(found)] == [
        (1, 0),
        (0, 0),
        (1, 0),
        (1, 1),
        (1, 0),
        (0, 0),
    ]
    assert over_time(found)[1].at_s == pytest.approx(0.006) and over_time(found)[2].at_s == pytest.approx(1.0)


def test_tables_agree_with_the_figures(two: Served, tmp_path: Path) -> None:
    assert [row["bucket"] for row in request_rows(two)] == ["≤ 128", "129 – 512"]
    assert [row["kind"] for row in step_rows(two)] == ["prefill", "mixed", "mixed", "decode"]
    short, _ = bucket_rows(two)
    assert short["ttft_ms_p50"] == metrics(two)["ttft_ms_p50_prompt_le_128"] and short["ttft_ms_p95"] == ""
    assert write(two, tmp_path / "new", "chunked") == [
        "chunked_requests.csv",
        "chunked_steps.csv",
        "chunked_buckets.csv",
    ]
    with (tmp_path / "new" / "chunked_steps.csv").open(newline="") as file:
        assert [int(row["prefill_tokens"]) for row in csv.DictReader(file)] == [20, 254, 46, 0]


def test_the_longest_gap_of_each_pass(two: Served) -> None:
    found = longest_gaps(two)
    assert [at_s for at_s, _ in found] == [step.end_s for step in two.steps[1:]]
    assert [1e3 * gap_s for _, gap_s in found] == pytest.approx([30.5, 9.7, 5.1])
