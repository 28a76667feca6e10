"""``mini_llm`` on the host backend: every way of storing and dividing the work, at odd sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
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
from runner.references.mini_llm import judged
from runner.workload.base import Context, Ranges
from runner.workload.declared import bind
from runner.workload.decoder import Decoder
from runner.workload.mini_llm import MiniLlm, decode_pass, prompt_pass
from tests.kernels.hosted import hosted, messages, programs
from tests.kernels.plans import H200, HOST, SOURCES, config, plan

VARIANTS = ["prefill", "eager", "graph", "request"]
SMALL: dict[str, Any] = {
    **{"B": 2, "L": 2, "h": 24, "H": 4, "KVH": 2, "D": 6, "I": 40, "V": 97, "prompt": 5, "steps": 3},
    **{"bias": True, "tied": False, "weights": "fp32", "kv": "fp32"},
}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "fp32": SMALL,
    # Tensor cores for prompts and decode: more than 16 tokens in either. MHA, a head wider than a warp, no biases.
    "bf16": {
        **SMALL,
        **{"weights": "bf16", "kv": "bf16", "B": 17, "L": 1, "h": 72, "KVH": 4, "D": 34, "I": 104, "V": 65},
        **{"prompt": 2, "steps": 2, "bias": False, "tied": True, "page": 3},
    },
    # Tensor cores for the prompts alone. MQA, prompts over several pages.
    "bf16_int8": {
        **SMALL,
        **{"weights": "bf16", "kv": "int8", "h": 264, "H": 3, "KVH": 1, "D": 64, "prompt": 9, "steps": 2, "page": 4},
    },
    # Few tokens throughout; rows of one whole group and a rest, and rows of Q, K and V that are no multiple of 8.
    "w8a16": {**SMALL, "weights": "w8a16", "kv": "fp8", "h": 136, "I": 264, "KVH": 1, "D": 2},
    # Many prompts' tokens, one sequence; two groups of 256 and less than one.
    "w4a16": {
        **SMALL,
        **{"weights": "w4a16", "kv": "int8", "B": 1, "L": 2, "h": 136, "I": 264, "H": 4, "KVH": 1, "D": 2},
        **{"prompt": 17, "steps": 2, "group": 256, "tied": True, "page": 16},
    },
    # GPT-2's layout: few tokens, exact; many of them, and few with quantised weights.
    "gpt2_fp32": {**SMALL, "positions": 8, "KVH": 4},
    "gpt2_bf16": {
        **SMALL,
        **{"positions": 64, "weights": "bf16", "kv": "bf16", "B": 17, "L": 1, "h": 72, "D": 34},
        **{"prompt": 2, "steps": 2, "tied": True, "page": 3},
    },
    "gpt2_w8a16": {**SMALL, "positions": 11, "weights": "w8a16", "kv": "int8", "h": 136, "I": 264, "L": 1, "prompt": 6},
    # One token streams its weights: rows that end within a tile of 128, more rows than a tile has, groups of two tiles,
    # and all warps of a block together on more pieces of a row than there are warps; of GPT-2 half of them.
    "w8a16_streamed": {
        **SMALL,
        **{
            "weights": "w8a16",
            "gemv": "streamed",
            "kv": "bf16",
            "B": 1,
            "h": 264,
            "I": 2056,
            "group": 256,
            "prompt": 1,
        },
    },
    "gpt2_streamed": {
        **SMALL,
        "positions": 9,
        "weights": "w8a16",
        "gemv": "streamed",
        "B": 1,
        "h": 136,
        "I": 1032,
    },
    # Many sequences of one token each.
    "w8a16_many": {
        **SMALL,
        **{"weights": "w8a16", "kv": "bf16", "B": 18, "L": 1, "h": 136, "prompt": 1, "steps": 1, "bias": False},
    },
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_variant_passes(name: str) -> None:
    params = CONFIGURATIONS[name]
    made, outcomes, left_out = hosted("mini_llm", params)
    assert (list(outcomes), messages(outcomes), left_out) == (VARIANTS, {}, {})
    for variant, outcome in outcomes.items():
        assert [check.name for check in outcome.checks] == [f"{variant}_logits", f"{variant}_tokens"]
        assert all(check.rows_checked == check.rows_total for check in outcome.checks)
        assert outcome.units_per_step == (params["steps"] if variant in ("eager", "graph") else 1)
    wanted = f"L={params['L']} h={params['h']} H={params['H']}"
    assert wanted in made.shape_line and f"weights={params['weights']} kv={params['kv']}" in made.shape_line


@pytest.mark.parametrize("page", [0, 1, 4])
def test_float32_is_exact_with_and_without_a_graph_and_pages(page: int) -> None:
    _, outcomes, _ = hosted("mini_llm", {**SMALL, "page": page})
    assert messages(outcomes) == {}
    for variant, outcome in outcomes.items():
        logits, tokens = outcome.checks
        assert logits.max_rel_err is not None
        assert logits.max_rel_err < 1e-3, f"{variant}: max_rel={logits.max_rel_err}"
        assert tokens.passed and tokens.rows_checked == 2 * 4, "tokens are compared bit for bit"


@pytest.mark.parametrize(
    "params",
    [
        {"B": 1, "L": 1, "prompt": 1, "steps": 1, "V": 3},
        {
            "B": 5,
            "L": 1,
            "prompt": 4,
            "steps": 2,
            "page": 2,
            "V": 1021,
        },  # a batch that is no multiple of those together
        {"B": 1, "L": 1, "prompt": 130, "steps": 2, "page": 5},  # several runs of a prompt, several shares of the keys
    ],
    ids=["least", "many", "long"],
)
def test_sizes(params: dict[str, Any]) -> None:
    _, outcomes, _ = hosted("mini_llm", {**SMALL, **params})
    assert messages(outcomes) == {}


@pytest.mark.parametrize(
    "how", [{"top_k": 1}, {"top_k": 7, "top_p": 0.8, "temperature": 1.5}, {"top_k": 1024}], ids=str
)
def test_drawn_tokens(how: dict[str, Any]) -> None:
    made, outcomes, _ = hosted("mini_llm", {**SMALL, "L": 1, **how})
    assert messages(outcomes) == {}
    assert made.symbols["top_k"] == how["top_k"]


def test_figures_of_the_workload() -> None:
    made, outcomes, _ = hosted("mini_llm", SMALL)
    percentiles = {"tpot_us_p50", "tpot_us_p95", "tpot_us_p99"}
    graph = {"capture_us", "instantiate_us", "nodes"}
    assert {name: set(outcome.metrics) for name, outcome in outcomes.items()} == {
        "prefill": set(),
        "eager": percentiles,
        "graph": percentiles | graph,
        "request": percentiles | graph | {"ttft_ms"},
    }
    for outcome in outcomes.values():
        assert all(value > 0 for value in outcome.metrics.values())
    spread = outcomes["graph"].metrics
    assert spread["tpot_us_p50"] <= spread["tpot_us_p95"] <= spread["tpot_us_p99"]
    assert spread["nodes"] == made.variant("eager").report["launches_per_token"] == 5 * 2 + 3
    assert made.variant("graph").report["launches_per_token"] == 1


def named(made: Plan) -> Any:
    """A context of a plan alone: functions and buffers are their names."""
    buffers = {buffer.name: buffer.name for buffer in made.buffers}
    return SimpleNamespace(plan=made, streams=[None], buffers=buffers, function=lambda name: name)


def decoder_of(params: dict[str, Any]) -> Decoder:
    return Decoder(named(plan("mini_llm", params)))


def streamed_of(decoder: Decoder) -> set[str]:
    """Operators of a decoded token whose weights are streamed."""
    steps = list(decoder.steps(decode_pass(decoder)))
    return {step.operator for step in steps if str(step.launch.function).startswith("streamed")}


@pytest.mark.parametrize(("wide", "down"), [(14336, {"down"}), (37760, {"down"}), (37768, set())])
def test_what_does_not_fit_into_shared_memory_is_read_directly(wide: int, down: set[str]) -> None:
    """The digits of a long activation beside the weights on their way: of the down projection alone."""
    decoder = decoder_of({**SMALL, "weights": "w8a16", "gemv": "streamed", "B": 1, "I": wide})
    assert streamed_of(decoder) == {"qkv", "out", "gate_up"} | down
    several = {str(step.launch.function) for step in decoder.steps(prompt_pass(decoder))}
    assert not any(name.startswith("streamed") for name in several)


QWEN = {"h": 896, "H": 14, "KVH": 2, "D": 64, "I": 4864, "B": 1}
LARGE = {"h": 4096, "H": 32, "KVH": 8, "D": 128, "I": 14336, "B": 1}


@pytest.mark.parametrize(
    ("params", "streamed"),
    [
        (LARGE, {"qkv", "out", "gate_up", "down"}),
        (QWEN, {"gate_up", "down"}),
        ({**LARGE, "gemv": "direct"}, set()),
        ({**LARGE, "weights": "w4a16"}, set()),
        ({**LARGE, "weights": "bf16"}, set()),
        ({**LARGE, "B": 2}, set()),
    ],
)
def test_large_projections_of_int8_are_streamed(params: dict[str, Any], streamed: set[str]) -> None:
    assert streamed_of(decoder_of({"weights": "w8a16", "L": 1, "V": 128, **params})) == streamed


def test_kernels_of_few_tokens_may_overlap_and_those_of_many_may_not() -> None:
    decoder = decoder_of({**SMALL, "weights": "bf16", "prompt": 40})
    few = [*decoder.steps(decode_pass(decoder)), decoder.sample(1)]
    assert all(step.launch.programmatic for step in few)
    many = {str(step.launch.function): step.launch.programmatic for step in decoder.steps(prompt_pass(decoder))}
    assert many["many_project_kernel"] is False and many["embed_kernel"] is True


def test_many_tokens_take_more_launches() -> None:
    made, outcomes, _ = hosted("mini_llm", CONFIGURATIONS["bf16"])
    assert outcomes["graph"].metrics["nodes"] == made.variant("eager").report["launches_per_token"] == 8 * 1 + 3


class Opened:
    """A plan on a device, its workload, and the names of the ranges that it opened (``)`` closes one)."""

    def __init__(self, params: dict[str, Any], shown: bool = False) -> None:
        self.plan: Plan = plan("mini_llm", params, HOST)
        self.device = HostBackend().open(0)
        self.stream: Stream = self.device.stream()
        self.seen: list[str] = []
        modules = {unit: self.device.load(path) for unit, path in programs(self.plan).items()}
        self.buffers: dict[str, Buffer] = {
            buffer.name: self.device.allocate(nbytes(buffer)) for buffer in self.plan.buffers
        }
        ranges = Ranges(self.seen.append, lambda: self.seen.append(")"), shown)
        context = Context(self.plan, [self.device], [self.stream], self.buffers, [modules], ranges)
        case = Case(self.plan)
        for buffer in self.plan.buffers:
            if buffer.fill.kind == "zeros":
                self.stream.fill(self.buffers[buffer.name], 0)
            if buffer.fill.kind == "reference":
                self.stream.write(self.buffers[buffer.name], case.stored(buffer.name))
            for launch in bind(context, fill_launches(self.plan, buffer)):
                launch.enqueue()
        self.stream.synchronize()
        self.workload = MiniLlm(context)
        self.workload.prepare()

    def held(self, name: str) -> npt.NDArray[Any]:
        planned = self.plan.buffer(name)
        values: npt.NDArray[Any] = np.empty(planned.dims, dtypes.numpy_dtype(planned.dtype))
        self.stream.read(values, self.buffers[name])
        self.stream.synchronize()
        return values


@contextmanager
def opened(params: dict[str, Any], shown: bool = False) -> Iterator[Opened]:
    one = Opened(params, shown)
    try:
        yield one
    finally:
        one.workload.close()
        one.device.close()


@pytest.mark.parametrize("gemv", ["direct", "streamed"])
def test_what_is_no_number_is_not_lost(gemv: str) -> None:
    streamed = CONFIGURATIONS["w8a16_streamed"]
    with opened({**streamed, "gemv": gemv}) as one:
        gains = one.held("mlp_norm")
        gains[0, 3] = np.nan
        one.stream.write(one.buffers["mlp_norm"], gains)
        one.workload.reset("eager")
        one.workload.step("eager")
        assert np.isnan(one.held("logits")).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_starts_where_the_prompts_end_whatever_was_decoded_before(variant: str) -> None:
    with opened(SMALL) as one:
        one.workload.reset(variant)
        steps = []
        for _ in range(3):
            one.stream.fill(one.buffers["logits"], 0)
            one.workload.step(variant)
            steps.append((one.held("tokens"), one.held("logits")))
        first, last = steps[0], steps[-1]
        np.testing.assert_array_equal(first[0], last[0])
        np.testing.assert_array_equal(first[1], last[1])
        chosen = first[0].astype(np.int64)[:, : 1 if variant == "prefill" else None]
        right = judged(Case(one.plan), chosen)
        np.testing.assert_array_equal(chosen, right.tokens)
        np.testing.assert_allclose(first[1], right.logits[:, -1], rtol=1e-4, atol=1e-4)
        decoded = 0 if variant == "prefill" else SMALL["steps"]
        assert one.held("position").tolist() == [SMALL["prompt"] + decoded] * SMALL["B"]


def nested(seen: list[str]) -> list[str]:
    """Ranges by the path of those round them, in the order they were opened."""
    paths: list[str] = []
    around: list[str] = []
    for name in seen:
        if name == ")":
            around.pop()
        else:
            around.append(name)
            paths.append(" > ".join(around))
    assert around == []
    return paths


def test_ranges_name_the_parts_of_a_step() -> None:
    parts = ["embed", "layer_0/attention", "layer_0/mlp", "layer_1/attention", "layer_1/mlp", "logits", "sampler"]
    with opened(SMALL, shown=True) as one:
        one.workload.reset("eager")
        assert nested(one.seen) == ["prefill", *(f"prefill > {part}" for part in parts)]
        one.seen.clear()
        one.workload.step("eager")
        assert nested(one.seen) == ["decode", *[f"decode > {part}" for part in parts] * SMALL["steps"]]
        one.workload.reset("request")
        one.seen.clear()
        one.workload.step("request")
        assert nested(one.seen) == ["prefill", *(f"prefill > {part}" for part in parts), "decode"]


def test_a_timed_step_opens_no_range() -> None:
    with opened(SMALL) as one:
        for variant in VARIANTS:
            one.workload.reset(variant)
            one.workload.step(variant)
        assert one.seen == []


@pytest.mark.parametrize("model", ["qwen2_5_0_5b", "qwen2_5_7b", "llama3_8b", "llama2_7b"])
def test_weights_are_the_models(model: str) -> None:
    configured = config("mini_llm", model=model)
    made, _ = make_plan(configured, H200, [SOURCES])
    described = configured.model
    embedding = 0 if described.tied_embeddings else described.vocab * described.hidden
    read = int(made.symbols["matrix_weights"]) + int(made.symbols["vectors"])
    assert read + embedding == described.params_total
    assert made.variant("graph").report["launches_per_token"] == 1
    assert made.variant("eager").report["launches_per_token"] == 5 * described.layers + 3


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
        ({"weights": "int7"}, "kernel.params.weights=int7: must be one of fp32, bf16, w8a16, w4a16"),
        ({"kv": "fp16"}, "kernel.params.kv=fp16: must be one of fp32, bf16, int8, fp8"),
        ({"positions": 7}, "the learned positions end before the longest sequence: T tokens with positions rows"),
        ({"gemv": "streamed", "weights": "bf16"}, "gemv=streamed is of int8 weights and a single sequence"),
        ({"gemv": "streamed", "weights": "w8a16", "B": 2}, "gemv=streamed is of int8 weights and a single sequence"),
        ({"group": 64}, "kernel.params.group=64: must be at least 128"),
        ({"group": 192}, "kernel.params.group=192: must be a multiple of 128"),
        ({"page": -1}, "kernel.params.page=-1: must be at least 0"),
        ({"top_k": 2000}, "kernel.params.top_k=2000: must be at most 1024"),
        ({"top_p": 0.0}, "kernel.params.top_p=0.0: must be at least 1e-06"),
        ({"temperature": 0.0}, "kernel.params.temperature=0.0: must be at least 0.01"),
    ],
)
@pytest.mark.parametrize("family", ["mini_llm", "layer_ops"])
def test_refused(family: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan(family, params)


@pytest.mark.parametrize("model", ["mixtral_8x7b", "deepseek_v3", "qwen3_8b", "gpt_oss_120b"])
def test_other_architectures_are_refused(model: str) -> None:
    with pytest.raises(ConfigError, match="must be of Llama's, Qwen2's or GPT-2's kind"):
        make_plan(config("mini_llm", model=model), H200, [SOURCES])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rope": "yarn"}, "positions that are rotary, plain or scaled as linear or llama3"),
        ({"rope": "llama3", "rope_factor": 8.0}, "need rope_factor and rope_original_positions"),
        (
            {"rope": "llama3", "rope_original_positions": 8192, "rope_high_freq_factor": 1.0},
            "rope_high_freq_factor must be above rope_low_freq_factor",
        ),
    ],
)
def test_scaled_positions_that_cannot_be_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan("mini_llm", {"L": 1, **changes})
