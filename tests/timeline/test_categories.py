"""Names of kernels as they occur, and the rules of a user."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.timeline.categories import CATEGORIES, Categories

SOURCES = Path(__file__).resolve().parents[2] / "cuda_src"
NAMES = {
    "matmul": [
        "gemv_row_fp16_kernel", "gemm_fp32", "nvjet_hsh_128x64_64x8_1x2_h_bz_coopA_TNT", "w8a16_matmul_m1_kernel",
        "Kernel2<cutlass_80_tensorop_s16816gemm_bf16_64x64_32x6_tn_align8>", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn", "cublasLt_splitKreduce_kernel", "Marlin",
        "gemvNSP_kernel", "triton_tem_fused_mm_3", "few_qkv_kernel", "few_residual_kernel", "few_gate_up_kernel",
        "logits_kernel", "many_project_kernel", "many_residual_kernel",
        "streamed_qkv_kernel", "streamed_residual_kernel", "streamed_gate_up_kernel",
    ],
    "attention": [
        "kv_scan_q8_kernel", "kv_attention_fp32_kernel", "grouped_kv_decode_scan_gqa_kernel", "attention_decode_kernel",
        "flash_fwd_splitkv_kernel", "device_kernel<FlashAttnFwdSm90>", "BatchDecodeWithPagedKVCacheKernel",
        "paged_attention_v2_kernel", "fmha_cutlassF_bf16_aligned_64x128_rf_sm80", "reshape_and_cache_flash_kernel",
        "few_attention_kernel", "many_attention_kernel",
    ],
    "norm": [
        "rmsnorm_kernel", "fused_residual_rmsnorm_quant_kernel", "vectorized_layer_norm_kernel",
        "fused_add_rms_norm_kernel", "many_norm_kernel",
    ],
    "rope": [
        "rope_kernel", "fused_rope_lut_bhsd_kernel", "rotary_embedding_kernel",
        "BatchQKApplyRotaryPosIdsCosSinCacheKernel", "many_rope_kernel",
    ],
    "elementwise": [
        "vectorized_elementwise_kernel", "triton_poi_fused_add_mul_0", "residual_add_kernel", "act_and_mul_kernel",
        "silu_mul_kernel", "cupy_exp__float32_float32", "cupy_arange__float_float_float32",
        "many_activation_kernel", "embed_kernel", "rewind_kernel", "empty_kernel", "beside_kernel", "layer_kernel",
    ],
    "sampler": [
        "sampler_argmax_kernel", "argmax_hidden_kernel", "TopKTopPSamplingFromProbKernel", "top_p_cutoff_kernel",
        "sample_kernel",
    ],
    "quantise": ["quantize_int8_kernel", "head_absmax_kernel", "scaled_fp8_quant_kernel", "dequantize_4bit",
                 "weight_scale_kernel", "quantize_weight_kernel"],
    "reduction": [
        "reduce_kernel", "triton_red_fused_mean_1", "DeviceScanKernel", "DeviceRadixSortOnesweepKernel",
        "softmax_kernel", "cupy_sum", "cupy_amax", "sum_landed_kernel", "sum_rows_kernel",
    ],
    "moe": ["moe_align_block_size_kernel", "fused_moe_kernel", "compact_expert_affine_kernel", "topkGatingSoftmax"],
    "memcpy": ["local_moves_kernel", "CatArrayBatchedCopy", "bshd_to_bhsd_kernel", "index_select_cuda_kernel"],
    "memset": ["fill_constant_32bit", "fill_uniform_float32"],
    "communication": ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "cross_device_reduce_1stage", "ncclKernel_SendRecv",
                      "peer_copy_kernel", "moves_kernel", "one_shot_push_kernel"],
    "other": ["kernel", "_Z3foov"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("category", "name"), [(category, name) for category, names in NAMES.items() for name in names]
)
def test_names_are_sorted(category: str, name: str) -> None:
    assert Categories().of(name) == category


def test_every_category_is_tried() -> None:
    assert set(NAMES) == set(CATEGORIES)


def test_each_kernel_of_ours_has_a_category() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.glob("*.cu"))
    names = re.findall(r"__global__\s+void\s+(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s+)?(\w+)\s*\(", text)
    assert len(names) > 80
    assert [name for name in names if Categories().of(name) == "other"] == []


def test_the_declaration_counts_where_the_name_says_nothing() -> None:
    signature = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, Array>(int)"
    assert Categories().of("vectorized_elementwise_kernel", signature) == "memset"


def test_rules_of_a_user_come_first(tmp_path: Path) -> None:
    own = tmp_path / "categories.yaml"
    own.write_text("- category: ours\n  match: '^rmsnorm'\n- category: tail\n  match: [argmax]\n")
    rules = Categories([own])
    assert [rules.of(name) for name in ("rmsnorm_kernel", "argmax", "layer_norm")] == ["ours", "tail", "norm"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- category: a\n  match: '('\n", "rule 1: match='\\(' is no regular expression"),
        ("- category: a\n", "rule 1: expected exactly the keys category and match"),
        ("- category: a\n  match: []\n", "rule 1: category is a word"),
        ("category: a\n", "expected a list of rules"),
        ("- [a\n", "no valid YAML"),
    ],
)
def test_a_wrong_rule_is_named(tmp_path: Path, text: str, message: str) -> None:
    own = tmp_path / "categories.yaml"
    own.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        Categories([own])
    assert str(own) in str(caught.value)
