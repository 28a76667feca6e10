from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runner.estimate import fitting, measured, precision
from runner.estimate.fitting import Case
from runner.estimate.measured import Row
from runner.estimate.model import Efficiency
from tests.estimate.models import named
from tests.estimate.test_queueing import H200

DATA = Path(__file__).resolve().parents[1] / "data" / "measured_llama_3_1_70b_fp8_h200.csv"
TRUE = Efficiency("model", "made up", 0.8, 0.45, 33.0, 6.0, 75.0, request_us=2e4, prefills_ahead=0.11)


def cases(rows: Sequence[Row], kv: str = "float8") -> list[Case]:
    fp8, bf16 = precision.of("float8"), precision.of("bfloat16")
    return fitting.cases(rows, named("llama3_70b"), H200, fp8, precision.of(kv), bf16, int(2e9), 0.9)


def of_engine(engine: str) -> list[Row]:
    return [row for row in measured.read(DATA) if row.engine == engine]


def made_with(efficiency: Efficiency, measurements: Sequence[Case]) -> list[Case]:
    """The same loads, measured on a machine that has exactly these constants."""
    found = []
    for case in measurements:
        seen = case.load.served(efficiency)
        found.append(replace(case, row=replace(case.row, ttft_s=seen.ttft_s, tpot_s=seen.tpot_s)))
    return found


@pytest.fixture(scope="module")
def vllm() -> list[Case]:
    return cases(of_engine("vllm"))


@pytest.mark.parametrize(("engine", "tpot", "ttft"), [("vllm", 6.0, 8.0), ("trtllm", 6.5, 25.0)])
def test_configurations_left_out_are_predicted(engine: str, tpot: float, ttft: float) -> None:
    """Wanted are 10 % of TPOT and 30 % of TTFT; held is a little more than what is reached."""
    found = fitting.usable(cases(of_engine(engine)))
    fitted = fitting.fit(found)
    checks = fitting.left_out(found, fitted)
    assert len(checks) == len(found)
    assert fitting.tpot_percent(checks) <= tpot <= 10
    assert fitting.ttft_percent(checks) <= ttft <= 30
    assert 0.85 <= fitted.bandwidth <= 0.95 and 30 <= fitted.layer_us <= 80 and 25 <= fitted.sequence_us <= 70


def test_constants_are_found_again(vllm: list[Case]) -> None:
    fitted = fitting.fit(made_with(TRUE, vllm))
    for name in ("bandwidth", "compute", "layer_us", "all_reduce_us", "sequence_us", "request_us", "prefills_ahead"):
        assert getattr(fitted, name) == pytest.approx(getattr(TRUE, name), rel=0.02), name
    assert fitting.at_bound(fitted) == []


def test_a_few_odd_rows_hardly_move_the_constants(vllm: list[Case]) -> None:
    odd = made_with(TRUE, vllm)
    for index in (3, 20, 41):
        odd[index] = replace(odd[index], row=replace(odd[index].row, tpot_s=3 * odd[index].row.tpot_s))
    fitted = fitting.fit(odd)
    assert fitted.bandwidth == pytest.approx(TRUE.bandwidth, rel=0.1)
    assert fitted.layer_us == pytest.approx(TRUE.layer_us, rel=0.15)


def test_a_row_left_out_does_not_help_its_own_prediction(vllm: list[Case]) -> None:
    """One configuration is measured twice as slow: the fit of the others knows nothing of it."""
    strange = (8192, 1024, 8)
    rows = [
        replace(one, row=replace(one.row, tpot_s=2 * one.row.tpot_s)) if one.row.configuration == strange else one
        for one in made_with(TRUE, vllm)
    ]
    checks = fitting.left_out(rows, fitting.fit(rows))
    for one in checks:
        if one.row.configuration == strange:
            assert one.tpot_error == pytest.approx(-0.5, abs=0.02)


def test_a_fit_that_wants_more_than_is_allowed_says_so(vllm: list[Case]) -> None:
    fitted = fitting.fit(made_with(replace(TRUE, bandwidth=1.0), vllm))
    assert fitted.bandwidth == pytest.approx(0.95)
    assert "bandwidth" in fitting.at_bound(fitted)


def test_without_a_row_on_several_gpus_all_reduce_stays_zero(vllm: list[Case]) -> None:
    single = [case for case in made_with(TRUE, vllm) if case.row.tensor == 1]
    assert fitting.fit(single).all_reduce_us == 0


def test_too_few_rows_are_refused(vllm: list[Case]) -> None:
    with pytest.raises(ValueError, match="6 rows cannot fix 7 constants"):
        fitting.fit(vllm[:6])


def test_queued_rows_are_not_fitted_and_show_the_precision_of_the_cache() -> None:
    """A row like that of 64 requests on one GPU: it waits with a cache in 8 bits, and 32 do not."""
    rows = of_engine("trtllm")
    crowd = replace(rows[0], prompt=1024, output=8192, concurrency=64, tensor=1, ttft_s=79.5)
    few = next(row for row in rows if row.configuration == (1024, 8192, 1) and row.concurrency == 32)
    both = cases([few, crowd])
    assert [case.row for case in fitting.usable(both)] == [few]
    assert fitting.contradictions(both) == []
    assert [case.row for case in fitting.contradictions(cases([few, crowd], kv="bfloat16"))] == [few]


@pytest.mark.parametrize("engine", ["vllm", "trtllm"])
def test_the_sample_shows_a_cache_in_8_bits(engine: str) -> None:
    rows = of_engine(engine)
    eight, sixteen = (len(fitting.contradictions(cases(rows, kv))) for kv in ("float8", "bfloat16"))
    assert eight <= 1 and sixteen >= 3
