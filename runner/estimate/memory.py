"""What one GPU must hold: weights, KV cache, activations; whether it fits, and how much more would.

All figures are bytes of the GPU that holds most. A KV cache of sequences that share a prefix is counted in full, for
the prefixes may differ; pages not filled to the end are not counted, nor is a draft model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from runner.estimate import params, sharding
from runner.estimate.model import Architecture, Attention, Layer, Machine, Memory, Mlp, Parallel, Precision, Work
from runner.estimate.precision import LATENT_CACHE
from runner.estimate.sharding import Stage
from runner.plan.errors import PlanError

_LOGIT_BYTES = 4
"""Logits are sampled from in float32."""
_CONTEXT_LIMIT = 1 << 40
"""Tokens; a search for a context that reaches this has no answer."""


def stored_bytes(elements: float, precision: Precision) -> int:
    """Bytes of so many elements, rounded up."""
    return math.ceil(round(elements * precision.bits / 8, 4))


def cached_tokens(part: Attention, context: int) -> int:
    """Tokens a layer keeps of ``context``: all, or the last ``window`` where it has one."""
    return min(context, part.window) if part.window else context


def kv_elements(part: Attention, parallel: Parallel) -> int:
    """Elements that one layer caches for a token on one GPU.

    A key and a value for each of the GPU's KV heads, at least one: max(1, k / TP)·(d + v), 2·k·d on one GPU. Latent
    attention caches its latent and the rotary key, shared by all heads and so held by every GPU: c + p.
    """
    if part.kv_lora_rank:
        return part.kv_lora_rank + part.rope_dim
    shard = sharding.attention(part, parallel)
    return shard.kv_heads * (shard.head_dim + shard.v_head_dim)


def kv_bytes_per_token(arch: Architecture, kv: Precision, parallel: Parallel) -> int:
    """Bytes that one more token of one sequence takes on one GPU while no window is full.

    Σ over the layers of the longest pipeline stage of ``kv_elements``, times bits / 8. Llama-3-8B in bfloat16:
    32 layers · 2 · 8 heads · 128 · 2 byte = 131,072. With windowed layers a token costs less once the context has
    passed the window; ``kv_bytes`` follows that.
    """
    return max(_stage_kv(stage, kv, parallel, 1) for stage in sharding.stages(arch, parallel))


def kv_bytes(arch: Architecture, work: Work, parallel: Parallel, context: int) -> int:
    """KV cache of ``work.batch`` sequences of ``context`` tokens each, on one GPU.

    B · Σ over the layers of the largest stage of ``kv_elements`` · min(context, window), times bits / 8. A stage caches
    for its own layers only.
    """
    each = max(_stage_kv(stage, work.kv, parallel, context) for stage in sharding.stages(arch, parallel))
    return work.batch * each


def weight_bytes(arch: Architecture, work: Work, parallel: Parallel) -> int:
    """Weights on one GPU: that of the pipeline stage with most.

    Matrices of attention and feed-forward parts as ``work.weights``; embeddings, norms, biases and router as
    ``work.other``; the output head, with a table that it shares with the embedding, as ``work.head`` where that is set.
    Tensor parallelism divides as ``runner.estimate.sharding`` says; embedding and head are divided by rows of the
    vocabulary. The first stage has the embedding, the last the head; a tied table is held by both, once where they are
    one.
    """
    return max(_stage_weights(stage, arch, work, parallel) for stage in sharding.stages(arch, parallel))


def activation_bytes(arch: Architecture, work: Work, parallel: Parallel) -> int:
    """Peak of what a forward pass keeps besides weights and cache, on one GPU; an estimate.

    T tokens are in flight: a whole prompt without its cached prefix (one prompt at a time), a chunk of it where prefill
    is chunked, or the decoded tokens of all sequences with their drafts, whichever is more. Each holds the residual and
    the layer's normed input, 2·h, and beside them whichever is largest of:

    * attention: queries, keys, values and the output of all heads of the GPU (scores are never stored, as in
      FlashAttention; latent attention expands keys and values of the tokens in flight);
    * the feed-forward part: gate, up and their product, 3·width; for experts that of the top k experts, with a copy of
      the token going in or out of each. Buffers are sized for the case that all chosen experts are on this GPU;
    * float32 logits of the last position of each sequence, and of each draft: B·(1 + drafts)·vocab·4 byte.
    """
    rows = work.batch * (1 + work.speculative)
    tokens = max(rows, _prefill_tokens(work))
    layers = {layer for stage in sharding.stages(arch, parallel) for layer in stage.layers}
    widest = max(max(_attention_width(layer, parallel), _mlp_width(layer, arch, parallel)) for layer in layers)
    residual = stored_bytes(tokens * 2 * arch.hidden, work.other)
    return residual + max(stored_bytes(tokens * widest, work.other), rows * arch.vocab * _LOGIT_BYTES)


def memory(arch: Architecture, work: Work, parallel: Parallel, machine: Machine, reserve: int, share: float) -> Memory:
    """What the fullest GPU of the group holds when every sequence has reached ``prompt + output`` tokens.

    ``share`` is the part of the GPU's memory that may be used at all, ``reserve`` the bytes of that which the engine
    keeps.
    """
    context = work.prompt + work.output
    held = (
        (_stage_weights(stage, arch, work, parallel), work.batch * _stage_kv(stage, work.kv, parallel, context))
        for stage in sharding.stages(arch, parallel)
    )
    weights, kv = max(held, key=sum)
    activations = activation_bytes(arch, work, parallel)
    return Memory(weights, kv, activations, reserve, int(machine.memory_bytes * share))


def with_context(work: Work, context: int) -> Work:
    """``work`` with sequences of ``context`` tokens: the output stays where the prompt leaves room for it."""
    output = min(work.output, context - 1)
    return replace(work, prompt=context - output, output=output)


def max_batch(arch: Architecture, work: Work, parallel: Parallel, machine: Machine, reserve: int, share: float) -> int:
    """Most sequences of ``prompt + output`` tokens that fit together; 0 if not even one does. Exact, by bisection."""

    def fits(batch: int) -> bool:
        return memory(arch, replace(work, batch=batch), parallel, machine, reserve, share).fits

    return _largest(fits)


def max_context(
    arch: Architecture, work: Work, parallel: Parallel, machine: Machine, reserve: int, share: float
) -> int | None:
    """Most tokens of each of ``batch`` sequences, prompt and output together; 0 if not even one token fits.

    The prompt grows, and with it the activations unless prefill is chunked. A learned position table ends the context
    too. ``None`` where memory never does: every layer is windowed and prefill is chunked.
    """

    def fits(context: int) -> bool:
        return memory(arch, with_context(work, context), parallel, machine, reserve, share).fits

    limit = arch.positions or _CONTEXT_LIMIT
    if fits(limit):
        return arch.positions or None
    return _largest(fits)


def crossover_context(arch: Architecture, work: Work, parallel: Parallel) -> int | None:
    """First context at which the KV cache of the batch takes at least as much as the weights, tokens per sequence.

    Weights / (B · ``kv_bytes_per_token``) where no layer is windowed: 25,706 for one sequence of Llama-2-7B in 16 bits,
    122,533 of Llama-3-8B. ``None`` where windows keep the cache below the weights for ever.
    """
    weights = weight_bytes(arch, work, parallel)

    def below(context: int) -> bool:
        return kv_bytes(arch, work, parallel, context) < weights

    return None if below(_CONTEXT_LIMIT) else _largest(below) + 1


def _largest(holds: Callable[[int], bool]) -> int:
    """Largest positive integer for which ``holds``, which is true up to some number and false from there; 0 if none."""
    beyond = 1
    while holds(beyond):
        beyond *= 2
    good = beyond // 2
    while beyond - good > 1:
        middle = (good + beyond) // 2
        good, beyond = (middle, beyond) if holds(middle) else (good, middle)
    return good


def _stage_kv(stage: Stage, kv: Precision, parallel: Parallel, context: int) -> int:
    if kv.name == LATENT_CACHE and any(kv_elements(layer.attention, parallel) != 576 for layer in stage.layers):
        raise PlanError("estimate.kv", kv.name, "stores a latent of 512 elements with 64 of rotary part, nothing else")
    kinds = Counter(layer.attention for layer in stage.layers)
    elements = (count * kv_elements(part, parallel) * cached_tokens(part, context) for part, count in kinds.items())
    return stored_bytes(sum(elements), kv)


def _stage_weights(stage: Stage, arch: Architecture, work: Work, parallel: Parallel) -> int:
    for key, stored in (("weights", work.weights), ("other", work.other), ("head", work.head_stored)):
        if stored.name == LATENT_CACHE:
            raise PlanError(f"estimate.{key}", stored.name, "is a layout of the KV cache of latent attention only")
    matrices, other = 0, 0
    for layer, count in Counter(stage.layers).items():
        matrices += count * _matrices(layer, arch.hidden, parallel)
        other += count * _beside(layer, arch, parallel)
    table = sharding.divided(arch.vocab, parallel.tensor) * arch.hidden
    head = 0
    if stage.first:
        other += arch.positions * arch.hidden + (0 if arch.tied else table)
    if stage.last:
        other += params.norm(arch)
    if stage.last or (stage.first and arch.tied):
        head = table
    if work.head is None:
        return stored_bytes(matrices, work.weights) + stored_bytes(other + head, work.other)
    return stored_bytes(matrices, work.weights) + stored_bytes(other, work.other) + stored_bytes(head, work.head)


def _matrices(layer: Layer, hidden: int, parallel: Parallel) -> int:
    """Elements of one layer that are stored as ``weights``: what attention and feed-forward parts multiply with."""
    attention = params.attention_matrices(sharding.attention(layer.attention, parallel), hidden)
    return attention + sum(
        count * params.expert(replace(part, bias=False), hidden) for part, count in _mlps(layer, parallel)
    )


def _beside(layer: Layer, arch: Architecture, parallel: Parallel) -> int:
    """Elements of one layer that are stored as ``other``: norms, biases, router, gate of the shared experts."""
    hidden, mlp = arch.hidden, layer.mlp
    found = params.attention_vectors(sharding.attention(layer.attention, parallel), hidden) + 2 * params.norm(arch)
    for part, count in _mlps(layer, parallel):
        found += count * (params.expert(part, hidden) - params.expert(replace(part, bias=False), hidden))
    if mlp.experts:
        found += params.router(mlp, hidden) + (hidden if mlp.shared_gate else 0)
    return found


def _mlps(layer: Layer, parallel: Parallel) -> list[tuple[Mlp, int]]:
    """Feed-forward parts that one GPU holds of a layer, each with how many there are of it."""
    whole = sharding.mlp(layer.mlp, parallel)
    if not layer.mlp.experts:
        return [(whole, 1)]
    experts = sharding.routed(layer.mlp, parallel)
    return [(experts, experts.experts), (whole, whole.shared)]


def _prefill_tokens(work: Work) -> int:
    """Tokens of a prompt that pass the layers together."""
    new = max(1, work.prompt - int(work.prompt * work.prefix_share))
    return min(work.chunk, new) if work.chunk else new


def _attention_width(layer: Layer, parallel: Parallel) -> int:
    """Elements of a token on one GPU: queries, keys, values, output."""
    part = sharding.attention(layer.attention, parallel)
    keys = part.heads if part.kv_lora_rank else part.kv_heads
    return (part.heads + keys) * (part.head_dim + part.v_head_dim)


def _mlp_width(layer: Layer, arch: Architecture, parallel: Parallel) -> int:
    """Elements of a token on one GPU: up (and gate) with their product, of every expert that it passes."""
    up = 3 if layer.mlp.gated else 2
    whole = up * sharding.mlp(layer.mlp, parallel).width
    if not layer.mlp.experts:
        return whole
    each = up * sharding.routed(layer.mlp, parallel).width + arch.hidden
    return layer.mlp.top_k * each + layer.mlp.shared * whole
