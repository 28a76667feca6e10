"""Clocks and modes of measuring on a real GPU. Nothing here changes a clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.test_families import run

pytestmark = pytest.mark.gpu


def test_clocks_are_plausible_and_the_modes_agree_in_their_order(tmp_path: Path) -> None:
    modes = "measure.modes=[cold,hot,graph,host]"
    code, output, results = run(tmp_path, "kernel=kv_quant", "gpu=auto", "measure=quick", modes, "tracking=none")
    assert code == 0, output
    assert results
    for result in results:
        series = {one["mode"]: one for one in result["samples"]}
        metrics, highest = result["metrics"], result["environment"]["gpu_state"]["max_sm_clock_mhz"]
        clocks = series["cold"]["clock_mhz"]
        assert len(clocks) == len(series["cold"]["samples_us"])
        known = [mhz for mhz in clocks if mhz]
        print(f"\n[figure] {result['variant']}: {metrics.get('sm_clock_mhz')} MHz, {len(known)} of {len(clocks)} known")
        assert len(known) > 0.9 * len(clocks)
        assert all(0.1 * highest < mhz < 1.05 * highest for mhz in known)
        graph = series["graph"]
        assert graph["rotated"] == 1 or graph["batch"] % graph["rotated"] == 0
        # Without events and launches between steps, but on inputs as cold: 84 us where the caller's warm step took 78.
        assert 0 < metrics["time_graph_us"] < 1.05 * metrics["time_us"]
        assert 0 < metrics["launch_us"] < metrics["time_host_us"]
