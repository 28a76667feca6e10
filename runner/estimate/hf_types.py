"""What each Hugging Face model type says in its ``config.json``, as figures of the ``model`` section.

A type has its own function, because the same key means different things from type to type and absent keys have
different defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runner.estimate.architecture import LAYERS_LIMIT
from runner.estimate.config_file import Fields

IRRELEVANT = frozenset(
    {
        "_attn_implementation", "_attn_implementation_autoset", "_name_or_path", "activation_function",
        "add_cross_attention", "attention_dropout", "attn_pdrop", "auto_map", "aux_loss_alpha",
        "begin_suppress_tokens", "bos_token_id", "chunk_size_feed_forward", "decoder_start_token_id", "dtype",
        "embd_pdrop", "embedding_dropout", "eos_token_id", "ep_size", "finetuning_task", "forced_bos_token_id",
        "forced_eos_token_id", "gradient_checkpointing", "hidden_act", "hidden_dropout", "hidden_dropout_prob",
        "id2label", "initial_context_length", "initializer_range", "label2id", "layer_norm_eps", "layer_norm_epsilon",
        "max_length", "max_position_embeddings", "min_length", "n_ctx", "n_group", "norm_topk_prob",
        "output_attentions", "output_hidden_states", "output_router_logits", "pad_token_id", "pretraining_tp",
        "problem_type", "reorder_and_upcast_attn", "resid_pdrop", "return_dict", "rms_norm_eps", "rope_interleave",
        "rope_parameters", "rope_scaling", "rope_theta", "routed_scaling_factor", "router_aux_loss_coef",
        "router_jitter_noise", "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "scoring_func",
        "sep_token_id", "seq_aux", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
        "summary_type", "summary_use_proj", "swiglu_limit", "task_specific_params", "temperature", "tokenizer_class",
        "topk_group", "torch_dtype", "transformers_version", "unsloth_fixed", "unsloth_version", "use_cache",
    }
)  # fmt: skip
"""Keys that change neither a shape nor a count."""


def _common(fields: Fields) -> dict[str, Any]:
    return {
        "layers": _layers(fields),
        "hidden": fields.integer("hidden_size"),
        "heads": fields.integer("num_attention_heads"),
        "intermediate": fields.integer("intermediate_size"),
        "vocab": fields.integer("vocab_size"),
        "tied_embeddings": _tied(fields),
    }


def _layers(fields: Fields) -> int:
    return fields.integer("num_hidden_layers", most=LAYERS_LIMIT)


def _tied(fields: Fields) -> bool:
    if fields.get("tie_word_embeddings") is None:
        fields.notes.append("tie_word_embeddings is absent: read as false, the default of these types")
    return fields.flag("tie_word_embeddings", False)


def _grouped(fields: Fields, *, kv_default: int | None = None, explicit: bool = False) -> dict[str, Any]:
    """KV heads and head size; without ``explicit`` the size may be left to hidden over heads."""
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    kv_heads = fields.integer("num_key_value_heads", default=kv_default)
    if heads % kv_heads:
        raise fields.wrong("num_key_value_heads", f"a divisor of num_attention_heads={heads}")
    if explicit or fields.get("head_dim") is not None:
        return {"kv_heads": kv_heads, "head_dim": fields.integer("head_dim")}
    if hidden % heads:
        raise fields.wrong("num_attention_heads", f"a divisor of hidden_size={hidden}, or head_dim beside it")
    return {"kv_heads": kv_heads, "head_dim": hidden // heads}


def _llama(fields: Fields) -> dict[str, Any]:
    heads = fields.integer("num_attention_heads")
    if fields.get("num_key_value_heads") is None:
        fields.notes.append("num_key_value_heads is absent: read as num_attention_heads, its default")
    bias = fields.flag("attention_bias", False)
    return {
        **_common(fields),
        **_grouped(fields, kv_default=heads),
        "qkv_bias": bias,
        "out_bias": bias,
        "mlp_bias": fields.flag("mlp_bias", False),
    }


def _mistral(fields: Fields) -> dict[str, Any]:
    if not fields.has("sliding_window"):
        raise fields.missing("sliding_window", "null, or the tokens that every layer sees")
    window = fields.integer("sliding_window", default=0)
    return {**_common(fields), **_grouped(fields), "sliding_window": window}


def _mixtral(fields: Fields) -> dict[str, Any]:
    return {
        **_common(fields),
        **_grouped(fields),
        "experts": fields.integer("num_local_experts"),
        "top_k": fields.integer("num_experts_per_tok"),
        "moe_intermediate": fields.integer("intermediate_size"),
        "sliding_window": fields.integer("sliding_window", default=0),
    }


def _qwen2(fields: Fields) -> dict[str, Any]:
    return {**_common(fields), **_grouped(fields), **_late_windows(fields), "qkv_bias": True}


def _qwen3(fields: Fields) -> dict[str, Any]:
    bias = fields.flag("attention_bias", False)
    return {
        **_common(fields),
        **_grouped(fields, explicit=True),
        **_late_windows(fields),
        "qk_norm": True,
        "qkv_bias": bias,
        "out_bias": bias,
    }


def _qwen2_moe(fields: Fields) -> dict[str, Any]:
    width = fields.integer("moe_intermediate_size")
    common = fields.integer("shared_expert_intermediate_size")
    if common % width:
        raise fields.wrong("shared_expert_intermediate_size", f"a multiple of moe_intermediate_size={width}")
    _no_windows(fields)
    return {
        **_common(fields),
        **_grouped(fields),
        **_sparse(fields),
        "qkv_bias": fields.flag("qkv_bias", True),
        "shared_experts": common // width,
        "shared_gate": True,
    }


def _qwen3_moe(fields: Fields) -> dict[str, Any]:
    bias = fields.flag("attention_bias", False)
    _no_windows(fields)
    return {
        **_common(fields),
        **_grouped(fields, explicit=True),
        **_sparse(fields),
        "qk_norm": True,
        "qkv_bias": bias,
        "out_bias": bias,
    }


def _sparse(fields: Fields) -> dict[str, Any]:
    """Qwen's mixtures: every layer is routed but those that are listed as dense."""
    fields.only("decoder_sparse_step", 1, "only mixtures whose every layer after the dense ones is routed are known")
    dense: list[int] = fields.items("mlp_only_layers", int)
    if sorted(dense) != list(range(len(dense))):
        raise fields.wrong("mlp_only_layers", "the first layers, from 0 on")
    return {
        "experts": fields.integer("num_experts", "num_local_experts"),
        "top_k": fields.integer("num_experts_per_tok"),
        "moe_intermediate": fields.integer("moe_intermediate_size"),
        "dense_layers": len(dense),
    }


def _no_windows(fields: Fields) -> None:
    fields.only("use_sliding_window", False, "windowed layers of this type are not known")
    for key in ("sliding_window", "max_window_layers"):
        fields.integer(key, least=0, default=0)
    if set(fields.items("layer_types", str)) - {"full_attention"}:
        raise fields.wrong("layer_types", "full_attention in every layer: other layers of this type are not known")


def _late_windows(fields: Fields) -> dict[str, Any]:
    """Qwen: with ``use_sliding_window`` the layers from ``max_window_layers`` on are windowed (or as listed)."""
    layers = _layers(fields)
    window = fields.integer("sliding_window", default=0)
    first = fields.integer("max_window_layers", least=0, default=layers)
    kinds = fields.items("layer_types", str)
    numbers = _listed_windows(fields, kinds, layers) if kinds else list(range(first, layers))
    if not fields.flag("use_sliding_window", False) or not window:
        if kinds and numbers:
            raise fields.wrong("layer_types", "full_attention in every layer, or use_sliding_window=true and a window")
        return {}
    return {"sliding_window": window, "window_layers": numbers} if numbers else {}


def _listed_windows(fields: Fields, kinds: list[str], layers: int) -> list[int]:
    """Numbers of the windowed layers in ``layer_types``."""
    if len(kinds) != layers or not set(kinds) <= {"full_attention", "sliding_attention"}:
        raise fields.wrong("layer_types", f"full_attention or sliding_attention for each of {layers} layers")
    return [number for number, kind in enumerate(kinds) if kind == "sliding_attention"]


def _gpt_oss(fields: Fields) -> dict[str, Any]:
    layers, window = _layers(fields), fields.integer("sliding_window")
    kinds = fields.items("layer_types", str)
    if not kinds:
        raise fields.missing("layer_types", f"full_attention or sliding_attention for each of {layers} layers")
    numbers = _listed_windows(fields, kinds, layers)
    bias = fields.flag("attention_bias", True)
    return {
        **_common(fields),
        **_grouped(fields, explicit=True),
        "experts": fields.integer("num_local_experts"),
        "top_k": fields.integer("num_experts_per_tok", "experts_per_token"),
        "moe_intermediate": fields.integer("intermediate_size"),
        "router_bias": True,
        "qkv_bias": bias,
        "out_bias": bias,
        "mlp_bias": True,
        "attention_sinks": True,
        **({"sliding_window": window, "window_layers": numbers} if numbers else {}),
    }


def _deepseek(fields: Fields, corrected: bool) -> dict[str, Any]:
    """Latent attention, shared experts; ``corrected``: the router has a bias unless ``topk_method`` says otherwise."""
    fields.only("attention_bias", False, "biases of latent attention are not known")
    fields.only("moe_layer_freq", 1, "only mixtures whose every layer after the dense ones is routed are known")
    fields.only("mlp_bias", False, "biases of these experts are not known")
    nope, rope = fields.integer("qk_nope_head_dim"), fields.integer("qk_rope_head_dim")
    fields.integer("num_key_value_heads", default=0)
    for key, size in (("head_dim", rope), ("qk_head_dim", nope + rope)):
        fields.only(key, size, "follows from qk_nope_head_dim and qk_rope_head_dim")
    ahead = fields.integer("num_nextn_predict_layers", least=0, default=0)
    if ahead:
        fields.notes.append(f"num_nextn_predict_layers={ahead}: layers that predict ahead are left out")
    method = fields.text("topk_method")
    common = _common(fields)
    figures = {
        **common,
        "kv_heads": common["heads"],
        "head_dim": nope + rope,
        "q_lora_rank": fields.integer("q_lora_rank", default=0),
        "kv_lora_rank": fields.integer("kv_lora_rank"),
        "qk_nope_head_dim": nope,
        "qk_rope_head_dim": rope,
        "v_head_dim": fields.integer("v_head_dim"),
    }
    experts = fields.integer("n_routed_experts", default=0)
    if not experts:
        return figures
    return {
        **figures,
        "experts": experts,
        "top_k": fields.integer("num_experts_per_tok"),
        "shared_experts": fields.integer("n_shared_experts", least=0, default=0),
        "moe_intermediate": fields.integer("moe_intermediate_size"),
        "dense_layers": fields.integer("first_k_dense_replace", least=0),
        "router_bias": method == "noaux_tc" if method else corrected,
    }


def _deepseek_v2(fields: Fields) -> dict[str, Any]:
    return _deepseek(fields, corrected=False)


def _deepseek_v3(fields: Fields) -> dict[str, Any]:
    return _deepseek(fields, corrected=True)


def _gpt2(fields: Fields) -> dict[str, Any]:
    hidden, heads = fields.integer("n_embd", "hidden_size"), fields.integer("n_head", "num_attention_heads")
    if hidden % heads:
        raise fields.wrong("n_head", f"a divisor of n_embd={hidden}")
    return {
        "layers": fields.integer("n_layer", "num_hidden_layers", most=LAYERS_LIMIT),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": hidden // heads,
        "intermediate": fields.integer("n_inner", default=4 * hidden),
        "vocab": fields.integer("vocab_size"),
        "tied_embeddings": fields.flag("tie_word_embeddings", True),
        "gated_mlp": False,
        "biases": True,
        "max_positions": fields.integer("n_positions", "max_position_embeddings"),
    }


TYPES: dict[str, Callable[[Fields], dict[str, Any]]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "deepseek_v2": _deepseek_v2,
    "deepseek_v3": _deepseek_v3,
    "gpt2": _gpt2,
    "gpt_oss": _gpt_oss,
}
"""``model_type`` → its function."""
