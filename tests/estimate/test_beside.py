"""Theory beside measurement: the load that is compared, the terms, and the reason given."""

from __future__ import annotations

import pytest

from runner.estimate import beside, precision
from runner.estimate.beside import Measurement, compared, of_load, terms, theory
from runner.estimate.estimate import estimate
from runner.estimate.kernels import Timing, combined
from runner.estimate.model import Efficiency, Estimate, Parallel, Work
from tests.estimate.machines import gpu
from tests.estimate.models import named

MODEL = Efficiency(level="model", source="a test", bandwidth=0.95, compute=0.5, layer_us=70.0, all_reduce_us=4.0)


def made(batch: int = 4, tensor: int = 1, efficiency: Efficiency | None = None) -> Estimate:
    """Llama-3.1-70B in FP8 on an H200, prompt and output of 1,024 tokens."""
    fp8, bf16 = precision.of("float8"), precision.of("bfloat16")
    work = Work(batch, 1024, 1024, weights=fp8, kv=fp8, other=bf16)
    arch, machine = named("llama3_70b"), gpu("h200_sxm")
    return estimate(arch, work, Parallel(tensor=tensor), machine, efficiency or Efficiency(), 2 * 10**9, 0.9)


def run(**figures: float) -> Measurement:
    return Measurement("bench", "result.json", figures, served=False)


@pytest.mark.parametrize(("tensor", "roofline_ms"), [(1, 14.91), (2, 7.45), (4, 3.73), (8, 1.86)])
def test_a_batch_that_starts_together_is_held_against_the_estimate_itself(tensor: int, roofline_ms: float) -> None:
    one = made(tensor=tensor)
    said = theory(one, one.efficiency, served=False)
    assert said == {name: pytest.approx(one.metrics[name]) for name in beside.FIGURES}
    # 71.56 GB a step over 4,800 GB/s; the all-reduces of the ideal roofline come on top
    assert said["tpot_ms"] == pytest.approx(roofline_ms, rel=0.04)


def test_a_served_load_is_held_against_a_server() -> None:
    one = made()
    said = theory(one, one.efficiency, served=True)
    assert said["ttft_ms"] == pytest.approx(one.metrics["served_ttft_ms"])
    assert said["tpot_ms"] == pytest.approx(one.metrics["served_tpot_ms"])
    assert said["ttft_ms"] < one.metrics["ttft_ms"], "a request waits for its own prefill, not for four"
    assert said["tokens_per_s"] == pytest.approx(4 * 1024e3 / (said["ttft_ms"] + 1023 * said["tpot_ms"]))


@pytest.mark.parametrize("served", [True, False])
@pytest.mark.parametrize("tensor", [1, 2])
def test_the_terms_add_up_to_the_difference_of_the_levels(served: bool, tensor: int) -> None:
    one = made(tensor=tensor)
    parts = terms(one, MODEL, served)
    before, after = theory(one, Efficiency(), served), theory(one, MODEL, served)
    for figure in ("ttft_ms", "tpot_ms"):
        assert sum(part[figure] for part in parts.values()) == pytest.approx(after[figure] - before[figure])
    layers, reduces = parts["fixed time of the layers"], parts["latency of the all-reduces"]
    if not served:
        assert layers["tpot_ms"] == pytest.approx(80 * 0.070)
        assert reduces["tpot_ms"] == pytest.approx(2 * 80 * 0.004 if tensor > 1 else 0)
        # the final norm's and the head's reads are in it too: all of a step's 71.6 GB at 95 %
        assert parts["bandwidth at 95 % of the datasheet"]["tpot_ms"] == pytest.approx(
            71.56 / 4.8 / tensor * (1 / 0.95 - 1), rel=0.02
        )


def test_the_reason_names_the_largest_term_first_with_its_milliseconds() -> None:
    one = compared(made(tensor=8), [of_load("vllm", "m.csv", 0.073, 7.93e-3, 4, 1024)], MODEL)
    rows = {row.figure: row for row in one.compared}
    assert list(rows) == ["ttft_ms", "tpot_ms", "tokens_per_s"]
    assert rows["tpot_ms"].reason.startswith("not in the ideal roofline: fixed time of the layers 5.6")
    assert "latency of the all-reduces 0.64" in rows["tpot_ms"].reason
    assert rows["tpot_ms"].ratio == pytest.approx(7.93 / rows["tpot_ms"].theoretical)
    assert rows["tokens_per_s"].reason == "follows from TTFT and TPOT"
    assert rows["tokens_per_s"].measured == pytest.approx(4 * 1024 / (0.073 + 1023 * 7.93e-3))


def test_what_the_model_does_not_know_is_said_first_where_it_is_most() -> None:
    (row,) = compared(made(), [run(tpot_ms=100.0)], MODEL).compared
    assert row.reason.startswith("mostly outside the efficiency model, 78")


def test_a_time_below_the_bound_is_no_measurement_of_this_load() -> None:
    (row,) = compared(made(), [run(tpot_ms=1.0)], MODEL).compared
    assert row.reason.startswith("faster than the bound")


@pytest.mark.parametrize(("tpot_ms", "said"), [(25.0, " stay open"), (15.0, " more than was measured")])
def test_a_level_that_counts_the_terms_says_what_they_leave(tpot_ms: float, said: str) -> None:
    (row,) = compared(made(efficiency=MODEL), [run(tpot_ms=tpot_ms)], Efficiency()).compared
    assert row.reason.startswith("counted beyond the ideal roofline: fixed time of the layers 5.6 ms")
    assert row.reason.endswith(said)


def test_a_rate_alone_is_explained_by_its_time_per_token() -> None:
    (row,) = compared(made(), [run(tokens_per_s=4 / 20.9e-3)], MODEL).compared
    assert row.figure == "tokens_per_s"
    assert row.ratio == pytest.approx(14.93 / 20.9, rel=0.01)
    assert "fixed time of the layers 5.6 ms" in row.reason


def test_the_cause_of_a_run_is_its_own() -> None:
    one = Measurement("bench", "result.json", {"tpot_ms": 20.0, "tokens_per_s": 200.0}, False, cause="launches (sure)")
    assert {row.reason for row in compared(made(), [one], MODEL).compared} == {"launches (sure)"}


def test_the_figures_are_metrics_with_the_name_of_each_of_several() -> None:
    one = compared(made(), [run(ttft_ms=300.0, tpot_ms=20.0)], MODEL)
    assert one.metrics["measured_tpot_ms"] == 20.0
    assert one.metrics["theory_tpot_ms"] == pytest.approx(one.metrics["tpot_ms"])
    assert one.metrics["tpot_over_theory"] == pytest.approx(20.0 / one.metrics["tpot_ms"])
    assert "ttft_over_theory" in one.metrics and "tokens_per_s_over_theory" not in one.metrics
    loads = [of_load(name, "m.csv", 0.2, 0.02, 4, 1024) for name in ("vllm", "trtllm")]
    both = compared(made(), loads, MODEL).metrics
    assert {"measured_ttft_ms_vllm", "tpot_over_theory_trtllm"} <= set(both) and "measured_ttft_ms" not in both


def by_kernels(tpot_us: float = 15_000.0) -> Estimate:
    """The estimate of ``made``, with measured kernels of a millisecond a prefill."""
    kernels = combined([Timing("prefill_all", 1000.0, 1, "run a")], [Timing("decode_all", tpot_us, 1, "run b")], "here")
    one = made()
    level = Efficiency(level="measured", source="here")
    return estimate(one.architecture, one.work, Parallel(), one.machine, level, 2 * 10**9, 0.9, kernels)


def test_measured_kernels_stand_beside_the_levels_on_paper() -> None:
    one = compared(by_kernels(), [run(tpot_ms=15.5, tokens_per_s=258.0)], MODEL)
    tpot, rate = one.compared
    assert list(tpot.levels) == ["ideal", "model", "measured kernels"]
    assert tpot.levels["measured kernels"] == tpot.theoretical == pytest.approx(15.0)
    assert tpot.levels["ideal"] == pytest.approx(made().metrics["tpot_ms"])
    assert tpot.levels["model"] == pytest.approx(made(efficiency=MODEL).metrics["tpot_ms"])
    assert tpot.reason == "0.5 ms are not in the kernels: gaps between them, launches, the host"
    assert rate.reason == "follows from TPOT"
    assert one.metrics["ideal_tpot_ms"] == tpot.levels["ideal"]
    assert one.metrics["tpot_over_theory"] == pytest.approx(15.5 / 15)
    (faster,) = compared(by_kernels(), [run(tpot_ms=14.0)], MODEL).compared
    assert (
        faster.reason == "the kernels, each measured by itself with cold weights, take 1 ms more than among each other"
    )


def test_measured_kernels_do_not_tell_of_a_server() -> None:
    with pytest.raises(ValueError, match="do not tell the times of a server"):
        compared(by_kernels(), [of_load("vllm", "m.csv", 0.073, 7.93e-3, 4, 1024)], MODEL)


def test_the_names_of_those_that_measured_part_only_what_several_measured() -> None:
    graph = Measurement("graph", "a", {"tpot_ms": 16.0}, served=False)
    eager = Measurement("eager", "b", {"tpot_ms": 20.0}, served=False)
    prefill = Measurement("prefill", "c", {"ttft_ms": 300.0}, served=False, levels=True)
    found = compared(made(), [graph, eager, prefill], MODEL).metrics
    assert (found["measured_tpot_ms_graph"], found["measured_tpot_ms_eager"]) == (16.0, 20.0)
    assert found["measured_ttft_ms"] == 300.0 and "model_ttft_ms" in found and "model_tpot_ms" not in found
