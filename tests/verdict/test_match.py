"""Which runs become pairs, which trials, and what is said of those without a partner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.result.model import Quality, Status
from runner.verdict.match import match, nearest, pooled
from tests.verdict.synthetic import measured

QUIET = [100.0 + number / 100 for number in range(10)]


def test_by_configuration_and_the_rest_is_named() -> None:
    a, b, c = (measured(QUIET, context) for context in (1024, 2048, 4096))
    found = match([a, b], [replace(b, time_us=90.0), c])
    assert [(pair.baseline, pair.candidate.time_us) for pair in found.pairs] == [(b, 90.0)]
    assert (found.only_baseline, found.only_candidate) == ((a,), (c,))


def test_within_a_configuration_by_place_and_method_first() -> None:
    gpu, host = measured(QUIET), measured(QUIET, backend="host", method="host_clock", mode="host", device="a CPU")
    found = match([host, gpu], [gpu, host])
    assert {(pair.baseline.backend, pair.candidate.backend) for pair in found.pairs} == {
        ("cuda", "cuda"),
        ("host", "host"),
    }
    (only,) = match([host], [gpu]).pairs
    assert (only.baseline, only.candidate) == (host, gpu)


def test_the_newest_counts_even_where_it_failed() -> None:
    old, new = measured(QUIET, started=1), measured(QUIET, started=2, time_us=90.0)
    failed = measured(QUIET, started=3, status=Status.TIMEOUT, method="", mode="", time_us=None)
    assert match([old], [new, old]).pairs[0].candidate == new
    assert match([old], [new, failed]).pairs[0].candidate == failed
    assert match([old], [replace(failed, started=1), new]).pairs[0].candidate == new


def test_what_was_skipped_takes_no_part() -> None:
    skipped = measured(QUIET, status=Status.SKIPPED)
    found = match([skipped], [skipped])
    assert not found.pairs and not found.only_baseline and not found.only_candidate


def test_runs_that_can_stand_for_each_other_are_trials() -> None:
    runs = [measured([level] * 10, started=n, fingerprint="f") for n, level in enumerate((98.0, 100.0, 103.0))]
    other = measured([50.0] * 10, started=0, fingerprint="g")
    one = pooled([other, *runs])
    assert (one.time_us, one.trials, one.low, one.started) == (100.0, 3, None, 2)
    assert one.trials_rsd == pytest.approx(0.0250825, rel=1e-5)
    assert pooled([replace(run, fingerprint="") for run in runs]) == replace(runs[-1], fingerprint="")


def test_a_result_and_its_copy_are_no_two_trials() -> None:
    one = measured(QUIET, fingerprint="f", result_id="r")
    assert pooled([one, replace(one, run_id="copy")]).trials == 1
    assert pooled([one, replace(one, result_id="s")]).trials == 2


def test_what_stands_on_both_sides_counts_for_one() -> None:
    old, new = (
        measured([level] * 10, started=n, fingerprint="f", result_id=f"r{n}") for n, level in enumerate((100.0, 80.0))
    )
    for then, now in (([old, new], [new]), ([old], [old, new])):
        (pair,) = match(then, now).pairs
        assert (pair.baseline, pair.candidate) == (old, new)
    (itself,) = match([new], [new]).pairs
    assert itself.baseline == itself.candidate == new
    failed = replace(old, status=Status.TIMEOUT, time_us=None)
    assert match([failed, new], [new]).pairs[0].baseline == new


def test_runs_that_cannot_be_believed_are_no_trials_beside_others() -> None:
    runs = [measured([level] * 10, started=n, fingerprint="f") for n, level in enumerate((98.0, 100.0, 103.0))]
    doubted = replace(runs[2], quality=Quality.UNSTABLE)
    assert pooled([*runs[:2], doubted]).trials == 2
    assert pooled([runs[0], doubted]) == runs[0]
    assert pooled([doubted]) == doubted


def test_what_differs_nearest() -> None:
    a, b = measured(QUIET, 1024), measured(QUIET, 4096)
    far = replace(b, configuration=(("kernel", "other"),))
    assert nearest([far, a], [b]) == "T is 1024 and 4096"
    assert nearest([], [b]) == ""
