"""``mini_llm`` on the host backend: odd sizes, steps without a reset between them, figures, and models it refuses."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from runner.backend.base import Buffer, Stream
from runner.backend.host import HostBackend
from runner.check.case import Case
from runner.check.fill import fill_launches
from runner.config.errors import ConfigError
from runner.plan import dtypes
from runner.plan.memory import nbytes
from runner.plan.model import Plan
from runner.plan.planner import make_plan
from runner.references.mini_llm import generate
from runner.workload.base import Context
from runner.workload.declared import bind
from runner.workload.mini_llm import MiniLlm
from tests.kernels.hosted import hosted, messages, programs
from tests.kernels.plans import H200, HOST, SOURCES, config, plan

VARIANTS = ["fp32_eager", "fp32_graph", "bf16_eager", "bf16_graph"]
SMALL: dict[str, Any] = {
    **{"B": 2, "L": 2, "h": 24, "H": 4, "KVH": 2, "D": 6, "I": 40, "V": 97},
    **{"prompt": 5, "steps": 3, "bias": True, "tied": False},
}


@pytest.mark.parametrize(
    "params",
    [
        SMALL,
        {**SMALL, "B": 1, "L": 1, "h": 8, "H": 1, "KVH": 1, "D": 8, "I": 8, "V": 3, "prompt": 1, "steps": 1},
        # MHA, a head wider than a warp, more sequences than share a reading, tied embeddings without biases.
        {
            **SMALL,
            "B": 5,
            "L": 1,
            "h": 72,
            "H": 4,
            "KVH": 4,
            "D": 34,
            "I": 104,
            "prompt": 2,
            "bias": False,
            "tied": True,
        },
        # MQA, more tokens than warps, a row longer than a warp reads at once.
        {**SMALL, "B": 1, "h": 264, "H": 3, "KVH": 1, "D": 64, "prompt": 9, "steps": 2, "tied": True},
    ],
    ids=["small", "least", "mha", "mqa"],
)
def test_every_variant_passes(params: dict[str, Any]) -> None:
    made, outcomes, left_out = hosted("mini_llm", params)
    assert (list(outcomes), messages(outcomes), left_out) == (VARIANTS, {}, {})
    for name, outcome in outcomes.items():
        whats = ("logits", "tokens", "keys", "values")
        assert [check.name for check in outcome.checks] == [f"{name}_{what}" for what in whats]
        assert all(check.rows_checked == check.rows_total for check in outcome.checks)
        assert outcome.units_per_step == params["steps"]
        assert ("capture_us" in outcome.metrics) == name.endswith("graph")
    assert f"L={params['L']} h={params['h']} H={params['H']}" in made.shape_line


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_ends_where_the_next_one_starts(variant: str) -> None:
    made = plan("mini_llm", SMALL, HOST)
    expected = generate(Case(made), "_bf16" if variant.startswith("bf16") else "")
    device = HostBackend().open(0)
    stream = device.stream()
    modules = {unit: device.load(path) for unit, path in programs(made).items()}
    buffers = {buffer.name: device.allocate(nbytes(buffer)) for buffer in made.buffers}
    context = Context(made, [device], [stream], buffers, [modules])
    stream.write(buffers["rotation"], Case(made).stored("rotation"))
    for buffer in made.buffers:
        for launch in bind(context, fill_launches(made, buffer)):
            launch.enqueue()
    workload = MiniLlm(context)
    try:
        workload.reset(variant)
        for _ in range(3):
            stream.fill(buffers["logits"], 0)
            workload.step(variant)
            np.testing.assert_array_equal(held(made, stream, buffers, "tokens"), expected.tokens)
            np.testing.assert_allclose(held(made, stream, buffers, "logits"), expected.logits, rtol=1e-4, atol=1e-4)
        assert list(held(made, stream, buffers, "position")) == [SMALL["prompt"], SMALL["prompt"] + SMALL["steps"] - 1]
    finally:
        workload.close()
        device.close()


def held(made: Plan, stream: Stream, buffers: dict[str, Buffer], name: str) -> npt.NDArray[Any]:
    planned = made.buffer(name)
    values: npt.NDArray[Any] = np.empty(planned.dims, dtypes.numpy_dtype(planned.dtype))
    stream.read(values, buffers[name])
    stream.synchronize()
    return values


@pytest.mark.parametrize("model", ["qwen2_5_0_5b", "qwen2_5_7b", "llama3_8b", "llama2_7b"])
def test_weights_are_the_models(model: str) -> None:
    configured = config("mini_llm", model=model)
    made, _ = make_plan(configured, H200, [SOURCES])
    described = configured.model
    embedding = 0 if described.tied_embeddings else described.vocab * described.hidden
    read = int(made.symbols["matrix_weights"]) + int(made.symbols["vectors"])
    assert read + embedding == described.params_total
    assert made.variant("fp32_graph").report["launches_per_token"] == 1
    assert made.variant("fp32_eager").report["launches_per_token"] == 8 * described.layers + 4


def test_bytes_of_a_token() -> None:
    made = plan("mini_llm", {**SMALL, "tied": True})
    rows, hidden = (4 + 2 * 2) * 6, 24
    matrices = 2 * hidden * (rows + 4 * 6 + 3 * 40) + 97 * hidden
    vectors = 2 * (2 * hidden + rows) + hidden
    kv = 8 * 2 * 2 * 2 * 6 * (6 + 7 + 8) / 3  # the cache at the prompt and the tokens so far
    report = made.variant("bf16_graph").report
    assert report["weight_bytes"] == 2 * (matrices + 2 * hidden) + 4 * vectors
    assert made.variant("fp32_graph").report["weight_bytes"] == 4 * (matrices + 2 * hidden + vectors)
    assert report["kv_bytes"] == kv
    assert report["bytes_per_token"] == float(report["weight_bytes"]) + kv
    saved = made.variant("fp32_graph").bytes_read - made.variant("bf16_graph").bytes_read
    assert saved == 3 * 2 * (matrices + 2 * hidden)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"h": 36}, "kernel.params.h=36: must be a multiple of 8"),
        ({"D": 33}, "kernel.params.D=33: must be a multiple of 2"),
        ({"KVH": 33}, "kernel.params.KVH=33: must be at most 32"),
        ({"KVH": 3}, "heads H must be a multiple of kv_heads KVH"),
        ({"H": 1, "KVH": 1, "D": 6}, "heads H times head_dim D must be a multiple of 8"),
        ({"prompt": -1}, "kernel.params.prompt=-1: must be at least 1"),
        ({"steps": 0}, "kernel.params.steps=0: must be at least 1"),
        ({"bias": "maybe"}, "kernel.params.bias=maybe: must be one of True, False"),
    ],
)
def test_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan("mini_llm", params)


@pytest.mark.parametrize("model", ["gpt2_small", "mixtral_8x7b", "deepseek_v3", "qwen3_8b", "gpt_oss_120b"])
def test_other_architectures_are_refused(model: str) -> None:
    with pytest.raises(ConfigError, match="must be of Llama's or Qwen2's kind"):
        make_plan(config("mini_llm", model=model), H200, [SOURCES])
