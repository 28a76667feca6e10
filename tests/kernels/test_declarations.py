"""The shipped YAML files against their sources: names, argument types, bytes, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.config.errors import ConfigError
from runner.plan.memory import nbytes
from runner.plan.model import Launch, Plan
from tests.kernels.plans import ADA, FAMILIES, H200, HOST, SOURCES, WHOLE, plan

SCALARS = {"long long": "int64", "float": "float32"}
CHECKS = {
    "ceilings": ["copy", "read", "write", "fma_fp32", "mma_fp16", "mma_bf16", "wgmma_fp16", "wgmma_bf16", "wgmma_fp8"],
    "decode_roofline": ["gemv_row", "gemv_splitk", "gemv_row_fp16", "gemv_splitk_fp16"],
    "kv_quant": [
        "fp32_kv_scan",
        "fp32_block_kv_scan",
        "fp16_kv_scan",
        "q8_kv_scan",
        "q8_head_kv_scan",
        "fp8_kv_scan",
        "softmax_kv_attention",
        "softmax_fp16_kv_attention",
    ],
    "profiling_ranges": ["saxpy", "fma_chain"],
    "quant_decode": ["fp32_gemv", "q8_gemv", "q4_gemv"],
    "sync": [
        "sync_each_step_state",
        "sync_each_step_tokens",
        "blocking_readback_state",
        "blocking_readback_tokens",
        "batched_async_state",
        "batched_async_tokens",
    ],
}
TEXTS = {
    "kv_cache": ["BSHD", "BHSD", "Paged"],
    "paged_kv_decode": ["contiguous_scan", "paged_ordered_scan", "paged_fragmented_scan"],
    "prefix_cache": ["no_cache", "prefix_alias_cache", "prefix_alias_probe", "prefix_alias_table", "prefix_copy"],
    "gqa_decode": ["mha_scan", "gqa_scan", "mqa_scan"],
    "ragged_batch": ["padded_full", "masked_ragged", "compact_active"],
    "moe_routing": ["padded_moe", "compact_moe"],
    "sampler": ["argmax_value", "argmax_index", "softmax_sum", "top4_value", "top4_index"],
    "logits_processor": ["separate_processor", "fused_processor", "top_p_cutoff", "top_p_mass"],
    "host_transfer": ["pageable_roundtrip", "pinned_async_roundtrip", "pinned_overlap_pipeline"],
    "fusion": ["separate_norm", "fused_norm", "separate_scale", "fused_scale", "separate_quant", "fused_quant"],
    "rope_layout": ["separate_sincos", "fused_sincos", "fused_lut"],
    "cuda_graph_decode": ["eager_state", "graph_state", "eager_max", "graph_max", "eager_token", "graph_token"],
    "spec_decode": ["target_only", "spec_verify"],
    "allocator": ["malloc_free", "prealloc_pool", "malloc_async"],
    "chunked_prefill": [
        "monolithic_prefill",
        "monolithic_decode",
        "chunked_prefill",
        "chunked_decode",
        "priority_prefill",
        "priority_decode",
    ],
}
"""Names people filter by; a family may have more checks."""
ELEMENTS = {
    "float": "float32",
    "weights::Table::Word": ("float32", "bfloat16"),
    "float2": "float32",
    "float4": "float32",
    "__half": "float16",
    "signed char": "int8",
    "unsigned char": ("int8", "uint8"),
    "__nv_fp8_e4m3": "float8_e4m3",
    "int": "int32",
    "unsigned int": ("uint32", "float16", "bfloat16", "float8_e4m3"),
    "uint4": ("float16", "bfloat16", "float8_e4m3"),
    "long long": "int64",
    "unsigned long long": "uint64",
}


def signatures(source: Path) -> dict[str, list[str]]:
    """Parameter types of every entry point: ``float*`` for a pointer, ``long long`` for a scalar."""
    found = {}
    entry = r'extern "C" __global__ void(?:\s+__launch_bounds__\([^)]*\))?\s+(\w+)\(([^)]*)\)'
    for name, listed in re.findall(entry, source.read_text()):
        types = []
        for parameter in listed.split(","):
            kept = [word for word in parameter.split() if word not in ("const", "__restrict__")][:-1]
            types.append(" ".join(kept).replace(" *", "*"))
        found[name] = types
    return found


def launches(made: Plan) -> Iterator[Launch]:
    yield from made.prepare
    for variant in made.variants:
        yield from variant.launches


@pytest.mark.parametrize("target", [H200, HOST], ids=["h200", "host"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_launch_fits_its_kernel(family: str, target: object) -> None:
    made = plan(family, WHOLE.get(family), target=target)  # type: ignore[arg-type]
    known = signatures(Path(made.source))
    assert known
    for launch in launches(made):
        assert launch.function in known, f"{launch.function} is not in {made.source}"
        types = known[launch.function]
        assert len(types) == len(launch.arguments), launch.function
        for declared, argument in zip(types, launch.arguments, strict=True):
            where = f"{launch.function}: {declared} gets {argument}"
            if declared.endswith("*"):
                assert argument.kind == "buffer", where
                assert made.buffer(argument.buffer).dtype in ELEMENTS[declared[:-1]], where
            else:
                assert argument.kind == SCALARS[declared], where
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        assert threads % 32 == 0 and min(launch.grid) >= 1


def test_quantising_is_prepared_where_weights_are_quantised() -> None:
    for family in ("mini_llm", "layer_ops"):
        plain, narrow = (plan(family, {**WHOLE[family], "weights": kind}) for kind in ("bf16", "w4a16"))
        assert [launch.function for launch in plain.prepare] == []
        functions = [launch.function for launch in narrow.prepare]
        assert functions == ["weight_scale_kernel", "quantize_weight_kernel"] * 4


def test_every_entry_point_is_used() -> None:
    """By one of the families that share its source, on one kind of GPU at least."""
    unused: dict[str, set[str]] = {}
    for family in FAMILIES:
        made, other = plan(family, WHOLE.get(family)), plan(family, WHOLE.get(family), target=ADA)
        used = {launch.function for launch in (*launches(made), *launches(other))}
        known = set(signatures(Path(made.source)))
        assert used <= known
        used |= named(made.workload.target.rpartition(".")[0])
        unused[made.source] = unused.get(made.source, known) - used
    assert {source: names for source, names in unused.items() if names} == {}


def named(module: str) -> set[str]:
    """Kernels that a workload's module speaks of, and those beside it that it imports."""
    text = (SOURCES.parent / f"{module.replace('.', '/')}.py").read_text()
    others = re.findall(r"^from (runner\.workload\.\w+) import", text, re.MULTILINE)
    return set(re.findall(r'"(\w+_kernel)"', text)).union(*map(named, others))


@pytest.mark.parametrize("family", FAMILIES)
def test_check_names_and_report(family: str) -> None:
    made = plan(family, WHOLE.get(family))
    names = [check.name for variant in made.variants for check in variant.checks]
    assert len(set(names)) == len(names)
    assert names == CHECKS.get(family, names)
    assert set(TEXTS.get(family, ())) <= set(names)
    assert made.phase and made.shape_line
    assert made.phase and made.baseline in {variant.name for variant in made.variants}
    for variant in made.variants:
        assert variant.drift in ("", *names)
        # What a launch costs by itself moves nothing, and what a server moves follows from its scheduling.
        if variant.report.get("calls") != 0 and family != "mini_llm_serve":
            assert variant.bytes_read > 0 or (family, variant.name) == ("ceilings", "write")
            assert variant.bytes_written > 0


def test_scan_grid_is_one_equal_wave_on_an_h200() -> None:
    made = plan("kv_quant", {"B": 1, "H": 8, "D": 128, "T": 32768})
    for variant in made.variants:
        assert variant.launches[0].grid == (8 if variant.name == "fp32_block" else 264, 1, 1)
    tiny = plan("kv_quant", {"B": 1, "H": 1, "T": 65, "D": 16})
    assert tiny.variant("fp32").launches[0].grid == (2, 1, 1)


def test_scan_bytes() -> None:
    made = plan("kv_quant", {"B": 4, "H": 16, "T": 2048, "D": 128})
    elements, heads = 4 * 16 * 2048 * 128, 4 * 16
    queries = heads * 128 * 4
    scales = {"q8": 2 * heads * 2048 * 4, "q8_head": 2 * heads * 4, "fp8": 2 * heads * 4}
    width = {"fp16": 2, "softmax_fp16": 2, "q8": 1, "q8_head": 1, "fp8": 1}
    for variant in made.variants:
        payload, extra = 2 * elements * width.get(variant.name, 4), scales.get(variant.name, 0)
        assert variant.bytes_read == queries + payload + extra
        assert variant.bytes_written == queries
        assert variant.report == {
            "kv_bytes": payload,
            "scale_bytes": extra,
            "bytes_ratio": (payload + extra) / (8 * elements),
        }


@pytest.mark.parametrize(("n", "k", "group"), [(4096, 4096, 128), (7, 33, 32), (5, 1001, 64)])
def test_weight_bytes(n: int, k: int, group: int) -> None:
    made = plan("quant_decode", {"N": n, "K": k, "group": group})
    groups = -(-k // group)
    weights = {"fp32": n * k * 4, "q8": n * k, "q4": n * -(-k // 2)}
    for name, payload in weights.items():
        variant = made.variant(name)
        scale = 0 if name == "fp32" else n * groups * 4
        assert variant.bytes_moved == payload + scale + k * 4 + n * 4
        assert variant.report == {"weight_bytes": payload, "scale_bytes": scale, "activation_bytes": k * 4}
    assert made.defines == {"GROUP": str(group)}


def test_int4_with_fp32_scales_is_less_than_eight_times_smaller() -> None:
    """Against fp16 weights the bound is 3.76, not 4, at group 128."""
    made = plan("quant_decode", {"N": 4096, "K": 4096, "group": 128})
    report = made.variant("q4").report
    assert 4096 * 4096 * 2 / (report["weight_bytes"] + report["scale_bytes"]) == pytest.approx(3.76, abs=0.01)


@pytest.mark.parametrize(("suffix", "size"), [("fp32", 4), ("fp16", 2)])
def test_gemv_bytes_and_intensity(suffix: str, size: int) -> None:
    made = plan("decode_roofline", {"N": 4096, "K": 1024})
    for name in (f"gemv_row_{suffix}", f"gemv_splitk_{suffix}"):
        variant = made.variant(name)
        assert variant.flops == 2 * 4096 * 1024
        assert variant.bytes_moved == 4096 * 1024 * size + 1024 * size + 4096 * 4
        assert variant.intensity == pytest.approx(2 / size, rel=0.01)


def test_the_two_sides_of_the_ridge() -> None:
    made = plan("profiling_ranges")
    assert made.symbols["N"] == 16777216 and made.symbols["iters"] == 4096
    ridge = 67e12 / 4.8e12
    assert made.variant("saxpy").intensity == pytest.approx(2 / 12) and made.variant("saxpy").intensity < ridge
    assert made.variant("fma_chain").intensity == pytest.approx(2 * 4096 / 8) and ridge < 1024


def test_ceilings_size_follows_the_device() -> None:
    assert nbytes(plan("ceilings").buffer("source")) == 1 << 30
    assert nbytes(plan("ceilings", target=HOST).buffer("source")) == 64 << 20
    assert nbytes(plan("ceilings", {"MB": 3}).buffer("source")) == 3 << 20
    assert nbytes(plan("ceilings", {"MB": 3}, target=HOST).buffer("source")) == 3 << 20


@pytest.mark.parametrize(
    ("arch", "tensor"),
    [
        ("", []),
        ("sm_75", []),
        ("sm_80", ["mma_fp16", "mma_bf16"]),
        ("sm_89", ["mma_fp16", "mma_bf16", "mma_fp8"]),
        ("sm_90a", ["mma_fp16", "mma_bf16", "wgmma_fp16", "wgmma_bf16", "wgmma_fp8"]),
        ("sm_100a", []),
        ("sm_120a", ["mma_fp16", "mma_bf16", "mma_fp8"]),
    ],
)
def test_ceilings_of_tensor_cores_follow_the_instructions_there_are(arch: str, tensor: list[str]) -> None:
    target = replace(H200, arch=arch, backend="cuda" if arch else "host")
    names = [variant.name for variant in plan("ceilings", target=target).variants]
    assert names == ["copy", "read", "write", "fma_fp32", *tensor]


def test_ceilings_count_every_operation() -> None:
    """What one SM is asked for, worked by hand: a thread's chains, and the sizes that an instruction's name gives."""
    made = plan("ceilings")
    assert made.variant("fma_fp32").flops == 132 * (4 * 256) * 8 * 16384 * 2
    warps, sums, products = 132 * 2 * 8, 8, 16 * 256
    assert made.variant("mma_bf16").flops == warps * sums * products * (2 * 16 * 8 * 16)
    groups = 132 * 2
    assert made.variant("wgmma_fp16").flops == groups * products * (2 * 64 * 256 * 16)
    assert made.variant("wgmma_fp8").flops == 2 * made.variant("wgmma_fp16").flops
    assert {variant.name: variant.compute for variant in made.variants if variant.name.endswith("fp8")} == {
        "wgmma_fp8": "float8"
    }


@pytest.mark.parametrize(
    ("family", "params", "key"),
    [
        ("kv_quant", {"D": 72}, "D=72: must be a multiple of 16"),
        ("kv_quant", {"D": 272}, "D=272: must be at most 256"),
        ("kv_quant", {"T": 0}, "T=0: must be at least 1"),
        ("kv_quant", {"B": "abc"}, "B=abc: must be an integer"),
        ("quant_decode", {"group": 0}, "group=0: must be at least 1"),
        ("quant_decode", {"K": -4}, "K=-4: must be at least 1"),
        ("decode_roofline", {"splits": 0}, "splits=0: must be at least 1"),
        ("profiling_ranges", {"a": "inf"}, "a=inf: must be"),
        ("profiling_ranges", {"a": "nan"}, "a=nan: must be"),
        ("sync", {"steps": 0}, "steps=0: must be at least 1"),
        ("ceilings", {"MB": -1}, "MB=-1: must be at least 0"),
    ],
)
def test_bad_parameters_are_refused(family: str, params: dict[str, object], key: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"kernel.params.{key}")):
        plan(family, params)
