"""The numbers of a roofline: points by level of memory, roofs, ridges, the table."""

from __future__ import annotations

import csv
import io
import itertools
from typing import Any

import pytest

from runner.report.roofline import Roofs, csv_text, devices, points, roofs, table, thinned
from runner.result.model import Profile, ProfileStatus, Result, Status
from tests.synthetic import ENVIRONMENT, result, sweep

COUNTED = {"counted_dram_bytes": 2.0e9, "counted_l2_bytes": 5.0e9}


def made(**metrics: float) -> Result:
    """4 TFLOP and 1 GB in 100 ms: 40 TFLOP/s at 4000 FLOP/byte, under 4800 GB/s and 400 TFLOP/s."""
    figures = {"time_us": 1e5, "tflops": 40.0, "gbps": 10.0, "intensity": 4000.0, "pct_peak_bandwidth": 100 / 480}
    ceilings = {"copy_gbps": 4000.0, "read_gbps": 4400.0}
    return result(
        "a",
        metrics={**figures, "pct_peak_flops": 10.0, **metrics},
        compute="bfloat16",
        environment={**ENVIRONMENT, "ceilings": ceilings},
    )


def counted(one: Result, **metrics: float) -> Result:
    one.profile = Profile(ProfileStatus.OK, metrics=metrics)
    return one


def test_a_point_stands_under_what_its_percentages_are_of() -> None:
    (point,) = points([made(pct_ceiling_bandwidth=100 / 440, pct_ceiling_flops=12.5)])
    assert (point.level, point.intensity, point.tflops, point.gbps) == ("declared", 4000.0, 40.0, 10.0)
    assert point.datasheet == Roofs(4800.0, 400.0, "", "bfloat16")
    assert point.measured == Roofs(4400.0, 320.0, "read", "bfloat16")
    assert point.datasheet.ridge == pytest.approx(400e3 / 4800)
    assert point.datasheet.at(4000.0) == 400.0
    assert point.datasheet.at(10.0) == pytest.approx(48.0)


def test_a_rate_that_is_none_of_the_ceilings_has_no_name() -> None:
    (point,) = points([made(pct_ceiling_bandwidth=0.5)])
    assert (point.measured.gbps, point.measured.memory) == (2000.0, "")


def test_unknown_roofs_are_none() -> None:
    assert Roofs().at(1.0) is None
    assert Roofs(gbps=100.0).ridge is None
    assert Roofs(gbps=100.0).at(2.0) == pytest.approx(0.2)
    assert Roofs(tflops=3.0).at(2.0) == 3.0


def test_counted_bytes_make_points_of_their_own() -> None:
    placed = points([counted(made(pct_ceiling_bandwidth=0.25), **COUNTED)])
    declared, dram, l2 = placed
    assert [point.level for point in placed] == ["declared", "dram", "l2"]
    assert {point.tflops for point in placed} == {40.0}
    assert [dram.intensity, dram.gbps] == pytest.approx([2000.0, 20.0])
    assert [l2.intensity, l2.gbps] == pytest.approx([800.0, 50.0])
    assert (dram.datasheet, dram.measured) == (declared.datasheet, declared.measured)
    # of the L2's own bandwidth nothing is known
    assert l2.datasheet == Roofs(0.0, 400.0, "", "bfloat16")
    assert l2.measured == Roofs(0.0, 0.0, "", "bfloat16")


@pytest.mark.parametrize("metrics", [{}, {"counted_dram_bytes": 0.0}, {"dram_bytes_read": 1e9}])
def test_what_was_not_counted_for_the_whole_step_is_no_point(metrics: dict[str, float]) -> None:
    assert [point.level for point in points([counted(made(), **metrics)])] == ["declared"]


def test_what_cannot_be_placed_is_left_out() -> None:
    failed = [result("q8", status=Status.INCORRECT), result("q8", metrics={"time_us": 2.0, "gbps": 3.0})]
    assert devices(failed) == {}


def test_a_host_and_a_gpu_never_share() -> None:
    found = devices([*sweep([4096]), *sweep([4096], gpu="host", backend="host"), *sweep([4096], gpu="b200")])
    assert {device: len(members) for device, members in found.items()} == {"h200": 3, "host": 3, "b200": 3}


def test_roofs_of_the_types_in_use_with_their_ridges() -> None:
    half = made(pct_ceiling_bandwidth=0.25)
    single = made(pct_peak_flops=50.0, pct_ceiling_bandwidth=100 / 440, pct_ceiling_flops=80.0)
    single.compute = "float32"
    found = [(line.source, line.kind, line.name, line.rate, line.ridge) for line in roofs(points([half, single]))]
    assert found == [
        ("datasheet", "memory", "", 4800.0, 0.0),
        ("datasheet", "compute", "bfloat16", 400.0, pytest.approx(400e3 / 4800)),
        ("datasheet", "compute", "float32", 80.0, pytest.approx(80e3 / 4800)),
        ("measured", "memory", "read", 4400.0, 0.0),
        ("measured", "memory", "copy", 4000.0, 0.0),
        ("measured", "compute", "float32", 50.0, pytest.approx(50e3 / 4400)),
    ]


def test_of_devices_that_were_measured_differently_the_highest_counts() -> None:
    both = [made(pct_ceiling_bandwidth=share) for share in (100 / 440, 100 / 440.1)]
    measured = [line for line in roofs(points(both)) if line.source == "measured"]
    assert [line.rate for line in measured] == [4401.0]


def test_the_table_has_what_varies_and_percentages_of_each_roof() -> None:
    some = [*sweep([4096, 8192], ("fp32", "q8")), counted(made(pct_ceiling_bandwidth=0.25), **COUNTED)]
    rows = list(csv.DictReader(io.StringIO(csv_text(points(some)))))
    assert [(row["variant"], row["T"], row["level"]) for row in rows[:3]] == [
        ("fp32", "4096", "declared"),
        ("q8", "4096", "declared"),
        ("fp32", "8192", "declared"),
    ]
    assert "H" not in rows[0]  # the same everywhere
    for row, one in zip(rows, some, strict=False):
        assert float(row["pct_peak_bandwidth"]) == pytest.approx(one.metrics["pct_peak_bandwidth"])
        assert float(row["pct_peak_flops"]) == pytest.approx(one.metrics["pct_peak_flops"])
    last: dict[str, Any] = rows[-1]
    assert (last["level"], last["arithmetic"], last["pct_peak_bandwidth"], last["peak_ridge"]) == (
        "l2",
        "bfloat16",
        "",
        "",
    )
    assert float(last["pct_peak_roof"]) == pytest.approx(10.0)


def test_the_roof_above_a_point_is_the_lower_one() -> None:
    (row,) = table(
        points([made(intensity=10.0, tflops=24.0, gbps=2400.0, pct_peak_bandwidth=50.0, pct_peak_flops=6.0)])
    )
    assert row["peak_roof_tflops"] == pytest.approx(48.0)
    assert row["pct_peak_roof"] == pytest.approx(50.0)
    assert row["pct_ceiling_roof"] == ""


def test_a_huge_sweep_is_thinned_evenly_and_keeps_both_ends() -> None:
    placed = points([counted(one, **COUNTED) for one in sweep(range(1024, 1024 + 400), ("fp32", "q8"))])
    kept = thinned(placed, 100)
    assert len(kept) == 3 * 100
    own = [point for point in kept if point.variant == "q8" and point.level == "declared"]
    contexts = [int(point.params["T"]) for point in own]
    assert (len(own), contexts[0], contexts[-1]) == (50, 1024, 1423)
    assert {later - earlier for earlier, later in itertools.pairwise(contexts)} <= {8, 9}
    assert thinned(placed, 800) == placed
