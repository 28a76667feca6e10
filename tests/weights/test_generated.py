"""A text out of a model's file: ``kernel=mini_llm`` on the host backend against a decoder on the file's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path

from runner.backend.host import HostBackend
from runner.check.case import Case
from runner.config.compose import Composer
from runner.config.study import expand
from runner.estimate import model_file
from runner.execute.companion import make_companion
from runner.execute.targets import static_target
from runner.paths import conf_dir, cuda_src_dir
from runner.plan.model import Plan
from runner.plan.planner import make_plan
from runner.result.model import Status
from runner.worker.experiment import Experiment
from tests.execute.test_sweep import QUICK, results
from tests.execute.test_sweep import run as run_command
from tests.kernels.hosted import ONCE, programs
from tests.references.decoder import Decoder, written
from tests.test_studies import composer
from tests.weights.models import (
    DIMS,
    HEADS,
    KV,
    VOCAB,
    D,
    Floats,
    L,
    tensors,
    write_config,
    write_gguf,
    write_safetensors,
)
from tests.weights.test_stacked import mixed

LOAD = ("kernel.params.B=2", "kernel.params.prompt=4", "kernel.params.steps=5", "kernel.params.page=3",
        "kernel.params.weights=fp32", "kernel.params.kv=fp32")  # fmt: skip
FACTORS = (1.0, 1.25, 2.0, 2.5, 4.0, 8.0, 8.0, 8.0)


def values(biases: bool, tied: bool) -> dict[str, Floats]:
    """A random model under Hugging Face's names, its activations of order one."""
    random = np.random.default_rng(7)
    made = {
        name: random.normal(size=dims).astype(np.float32) / np.float32(dims[-1] ** 0.5) for name, dims in DIMS.items()
    }
    for name in ("attention_norm", "mlp_norm", "last_norm"):
        made[name] = random.uniform(0.5, 1.5, DIMS[name]).astype(np.float32)
    if not tied:  # a tied model would then say the last token again
        made["embedding"] *= np.float32(4)
    found = tensors(made)
    return {
        name: value
        for name, value in found.items()
        if (biases or not name.endswith(".bias")) and not (tied and name == "lm_head.weight")
    }


def llama_gguf(folder: Path) -> tuple[Path, dict[str, Floats]]:
    """Rows of Q and K as llama.cpp permutes them."""
    return folder / "m.gguf", write_gguf(folder / "m.gguf", values(biases=False, tied=False), "llama", mixed)


def llama_3_1_gguf(folder: Path) -> tuple[Path, dict[str, Floats]]:
    """Frequencies divided by factors that the file has."""
    made = values(biases=False, tied=False) | {"rope_freqs.weight": np.array(FACTORS, np.float32)}

    def kinds(name: str) -> str:
        return "F32" if name == "rope_freqs.weight" else mixed(name)

    return folder / "m.gguf", write_gguf(folder / "m.gguf", made, "llama", kinds)


def scaled_safetensors(folder: Path) -> tuple[Path, dict[str, Floats]]:
    """Frequencies that the figures of ``config.json`` divide, all by 2.5."""
    made = values(biases=True, tied=False)
    path = write_safetensors(folder, made)
    write_config(folder, rope_scaling={"rope_type": "linear", "factor": 2.5})
    return path, made


def qwen2_gguf(folder: Path) -> tuple[Path, dict[str, Floats]]:
    def kinds(name: str) -> str:
        return "F16" if "ffn_gate" in name or name.startswith("token_embd") else mixed(name)

    return folder / "m.gguf", write_gguf(folder / "m.gguf", values(biases=True, tied=True), "qwen2", kinds)


def qwen2_safetensors(folder: Path) -> tuple[Path, dict[str, Floats]]:
    made = values(biases=True, tied=True)
    path = write_safetensors(folder, made)
    write_config(folder, tie_word_embeddings=True)
    return path, made


FILES: list[tuple[Callable[[Path], tuple[Path, dict[str, Floats]]], Sequence[float]]] = [
    (llama_gguf, ()),
    (llama_3_1_gguf, FACTORS),
    (qwen2_gguf, ()),
    (qwen2_safetensors, ()),
    (scaled_safetensors, (2.5,) * (D // 2)),
]
"""What writes a file and says what is in it, and what the frequencies of rotary positions are divided by."""


def planned(path: Path, *lines: str) -> Plan:
    """As a command plans it."""
    composer()  # registers what composing needs
    loader = ConfigLoaderImpl(create_config_search_path(str(conf_dir())))
    given = ["kernel=mini_llm", "gpu=host", f"model.weights={path}", *LOAD, *lines]
    (point,) = expand(Composer(loader, [], read_model=model_file.read), given, sweep=False).points
    target, roots = static_target(point.config.gpu), (cuda_src_dir(),)
    return make_plan(point.config, target, roots, make_companion(point.config, (), target, roots))[0]


def generated(plan: Plan, variant: str) -> tuple[list[list[int]], dict[str, float]]:
    """The tokens that a checked and timed variant left, (B, steps + 1), and its metrics."""
    backend = HostBackend()
    device = backend.open(0)
    experiment = Experiment(backend, [device], plan, programs(plan), {})
    try:
        experiment.prepare()
        outcome, _ = experiment.run(variant, ONCE)
        assert (outcome.status, outcome.message) == (Status.PASSED, "")
        found = np.empty(plan.buffer("tokens").dims, np.int32)
        stream = device.stream()
        stream.read(found, experiment._buffers["tokens"], 0)
        stream.synchronize()
        stream.close()
        tokens: list[list[int]] = found.tolist()
        return tokens, outcome.metrics
    finally:
        experiment.close()
        device.close()


def stacked(stored: dict[str, Floats]) -> dict[str, Floats]:
    """By the names that the decoder knows, a row of Q, K and V after the other."""

    def layers(*parts: str) -> Floats:
        return np.stack([np.concatenate([stored[f"model.layers.{n}.{part}"] for part in parts]) for n in range(L)])

    made = {
        "embedding": stored["model.embed_tokens.weight"],
        "last_norm": stored["model.norm.weight"][None],
        "attention_norm": layers("input_layernorm.weight"),
        "mlp_norm": layers("post_attention_layernorm.weight"),
        "qkv_weight": layers(*(f"self_attn.{letter}_proj.weight" for letter in "qkv")),
        "out_weight": layers("self_attn.o_proj.weight"),
        "gate_up_weight": layers("mlp.gate_proj.weight", "mlp.up_proj.weight"),
        "down_weight": layers("mlp.down_proj.weight"),
    }
    if "model.layers.0.self_attn.q_proj.bias" in stored:
        made["qkv_bias"] = layers(*(f"self_attn.{letter}_proj.bias" for letter in "qkv"))
    if "lm_head.weight" in stored:
        made["lm_head"] = stored["lm_head.weight"]
    return made


@pytest.mark.parametrize(("made", "divisors"), FILES, ids=[made.__name__ for made, _ in FILES])
def test_the_text_is_the_models(
    tmp_path: Path, made: Callable[[Path], tuple[Path, dict[str, Floats]]], divisors: Sequence[float]
) -> None:
    path, stored = made(tmp_path)
    plan = planned(path)
    assert [plan.symbols[name] for name in ("has_bias", "is_tied", "theta", "V")] == [
        int("model.layers.0.self_attn.q_proj.bias" in stored), int("lm_head.weight" not in stored), 1e6, VOCAB,
    ]  # fmt: skip
    prompts = Case(plan).input("prompt_ids").tolist()
    sizes = (L, HEADS, KV, D, 1e6, 1e-6, divisors)
    texts = [written(Decoder(stacked(stored), *sizes), prompt, 6)[0] for prompt in prompts]
    assert len({token for text in texts for token in text}) > 3, "a text that says something"
    assert generated(plan, "request")[0] == texts


def drafted(folder: Path, draft: Path) -> tuple[bool, dict[str, float]]:
    """Whether the text is the one without a draft, and the metrics of speculation."""
    path, _ = llama_gguf(folder)
    lines = ("kernel=mini_llm_spec", f"kernel.params.draft_model={draft}", "kernel.params.steps=9")
    plan = planned(path, *lines)
    text, metrics = generated(plan, "spec")
    return text == generated(plan, "plain")[0], metrics


def test_a_draft_that_is_the_model_itself_is_always_right(tmp_path: Path) -> None:
    """Window after window: its own cache holds what was accepted, the last proposal of a window too."""
    same, metrics = drafted(tmp_path, tmp_path / "m.gguf")
    assert same
    assert (metrics["acceptance_rate"], metrics["verifications"]) == (1.0, 3.0)


def test_another_draft_does_no_harm(tmp_path: Path) -> None:
    """A model of another kind with other weights and sizes, as a small one has them."""
    (tmp_path / "draft").mkdir()
    path, _ = qwen2_safetensors(tmp_path / "draft")
    same, metrics = drafted(tmp_path, path)
    assert same
    assert 0 <= metrics["acceptance_rate"] < 1
    assert metrics["verifications"] > 3


def test_a_command_generates_from_a_file(tmp_path: Path) -> None:
    llama_gguf(tmp_path)
    done = run_command(tmp_path, "kernel=mini_llm", "model.weights=m.gguf", *LOAD, *QUICK, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {result["variant"]: result for result in results(tmp_path)}
    assert {name: result["status"] for name, result in found.items()} == dict.fromkeys(
        ("prefill", "eager", "graph", "request"), "PASSED"
    )
    assert found["prefill"]["params"]["file"] == str(tmp_path / "m.gguf")
    figures = {name: result["metrics"] for name, result in found.items()}
    for name in ("prefill", "request"):
        assert figures[name]["ttft_ms"] > 0
    assert figures["prefill"]["ttft_ms"] == pytest.approx(figures["prefill"]["time_us"] / 1e3)
    assert figures["prefill"]["prompt_tokens_per_s"] == pytest.approx(2 * 4e6 / figures["prefill"]["time_us"])
    assert figures["graph"]["tpot_us"] == pytest.approx(figures["graph"]["time_us"] / 5)
    assert figures["graph"]["tokens_per_s"] == pytest.approx(2 * 5e6 / figures["graph"]["time_us"])
    assert figures["request"]["tokens_per_s"] == pytest.approx(2 * 6e6 / figures["request"]["time_us"])
    assert figures["graph"]["nodes"] == figures["eager"]["launches_per_token"] == 5 * 2 + 3
