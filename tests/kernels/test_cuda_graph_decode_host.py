"""Eager launches and graph replay: odd sizes on the host backend, and the plan."""

from __future__ import annotations

import re

import pytest

from runner.config.errors import ConfigError
from tests.kernels.on_host import failures, outcomes
from tests.kernels.plans import plan

CHECKS = [f"{variant}_{what}" for variant in ("eager", "graph") for what in ("state", "max", "token")]


@pytest.mark.parametrize(("b", "h", "steps"), [(1, 2, 1), (3, 66, 5), (2, 132, 3), (1, 4100, 2)])
def test_odd_sizes(b: int, h: int, steps: int) -> None:
    found = outcomes("cuda_graph_decode", {"B": b, "H": h, "steps": steps})
    assert failures(found) == {}
    assert [check.name for one in found.values() for check in one.checks] == CHECKS
    for one in found.values():
        assert [check.max_abs_err for check in one.checks] == [0.0, 0.0, None]
        assert one.units_per_step == steps and one.metrics["device_us_per_step"] > 0
    graph = found["graph"].metrics
    assert graph["replay_mismatches"] == 0
    assert graph["capture_us"] > 0 and graph["instantiate_us"] > 0


def test_a_step_in_the_plan() -> None:
    made = plan("cuda_graph_decode", {"B": 16, "H": 4096, "steps": 256})
    assert made.shape_line == "decode graph shape B=16 H=4096 steps=256, kernels_per_step=4"
    assert made.defines == {"HIDDEN": "4096", "THREADS": "1024"}
    eager, graph = made.variant("eager"), made.variant("graph")
    assert eager.launches == graph.launches
    assert [(launch.function, launch.grid) for launch in eager.launches] == [
        ("rmsnorm_small_kernel", (16, 1, 1)),
        ("rope_pair_kernel", (16, 8, 1)),
        ("residual_mix_kernel", (64, 1, 1)),
        ("argmax_hidden_kernel", (16, 1, 1)),
    ]
    assert eager.report == {"kernels_per_step": 4, "launches_per_step": 4}
    assert graph.report == {"kernels_per_step": 4, "launches_per_step": 1}
    state, vector = 4 * 16 * 4096, 4 * 4096
    assert eager.bytes_read == 256 * (5 * state + 2 * vector)
    assert eager.bytes_written == 256 * (3 * state + 2 * 4 * 16)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"H": 33}, "kernel.params.H=33: must be a multiple of 2"),
        ({"H": 0}, "kernel.params.H=0: must be at least 2"),
        ({"B": -1}, "kernel.params.B=-1: must be at least 1"),
        ({"steps": 0}, "kernel.params.steps=0: must be at least 1"),
    ],
)
def test_refused(params: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan("cuda_graph_decode", params)
