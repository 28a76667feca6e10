"""What one GPU computes and moves in a prefill and in a decode step, operator by operator.

FLOPs are those of matrix products, two for each multiply-add; norms, rotary embedding, softmax and sampling are left
out of them, as they are bound by what they move. Bytes are a lower bound: weights are read once a pass, the KV cache is
read once by the layer that needs it, each intermediate that crosses a matrix product is written and read once, and
element-wise work runs in the kernel beside it. Attention keeps its scores on the chip: queries, keys, values and output
cross memory once.

How a layer is shared by ``tensor`` and ``expert`` GPUs: ``runner.estimate.sharding``. With ``pipeline`` the phase holds
what one GPU of every stage does, one after another, because a token passes all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import floor

from runner.estimate import memory, params, sharding
from runner.estimate.model import Architecture, Attention, Layer, Mlp, Operator, Parallel, Phase, Work

_ORDER = (
    "embedding",
    "norms",
    "qkv_proj",
    "attention",
    "window_attention",
    "out_proj",
    "mlp",
    "router",
    "experts",
    "shared_experts",
    "lm_head",
    "all_reduce",
    "all_to_all",
    "stage_send",
)
"""Operators as a pass meets them."""
_LOGIT_BYTES = 4
"""Logits are written in 32 bits."""


def prefill(arch: Architecture, work: Work, parallel: Parallel) -> Phase:
    """All prompts of the batch, processed together, on one GPU.

    A prompt of S tokens of which P lie in the prefix cache has N = S − P tokens to process (one at least: the first
    output token is drawn from the last one). Linear layers: 2 FLOP for each weight and new token. Attention: the token
    at place i sees i tokens, cached ones included, and each costs 2·q for its score and 2·q for its value, so
    4·L·q·Σi = 2·L·q·(S·(S+1) − P·(P+1)) FLOP a sequence; with a window w it sees min(i, w). Only the last token of a
    prompt passes the output head. A pass takes ``work.chunk`` tokens; each pass reads the weights again, and the KV of
    what came before it.
    """
    new = uncached(work)
    return Phase(
        "prefill", _operators(arch, work, parallel, _Step(work.batch, work.prompt - new, new, work.chunk, False))
    )


def decode(arch: Architecture, work: Work, parallel: Parallel, context: float) -> Phase:
    """One step of the whole batch on one GPU, at ``context`` tokens a sequence, the one being processed included.

    Linear layers: 2 FLOP for each weight and token. Attention: 4·q·context FLOP a layer and sequence. KV: ``context``
    tokens read and one written a sequence. With ``work.speculative`` = g the step verifies g + 1 tokens a sequence,
    which share the reads. MLA attends within the latent (its expansion is folded into query and output):
    2·heads·(2·c + p) FLOP for each token seen, at rank c and rotary part p.
    """
    tokens = work.speculative + 1
    return Phase("decode", _operators(arch, work, parallel, _Step(work.batch, context - 1, tokens, 0, True)))


def uncached(work: Work) -> int:
    """Tokens of each prompt that have to be processed: those not in the prefix cache, and the last one always."""
    return work.prompt - min(floor(work.prefix_share * work.prompt), work.prompt - 1)


def passes(work: Work) -> int:
    """Times that a prefill of the batch runs through the layers: once for each ``work.chunk`` tokens of all prompts."""
    return -(-work.batch * uncached(work) // work.chunk) if work.chunk else 1


@dataclass(frozen=True)
class _Step:
    """Tokens that run through the layers: ``new`` of each sequence, after ``before`` that are in the cache."""

    sequences: int
    before: float
    new: int
    chunk: int
    """Tokens of a pass; 0 = all."""
    decoding: bool
    """Every token is sampled from; in a prefill only the last of each sequence is."""

    @property
    def tokens(self) -> int:
        return self.sequences * self.new

    @property
    def passes(self) -> int:
        return -(-self.tokens // self.chunk) if self.chunk else 1

    def pairs(self, window: int) -> float:
        """Query-key pairs of all sequences under the causal mask: new token i sees min(i, window) tokens."""
        return self.sequences * _clipped(self.before, 1, self.new, window)

    def read(self, window: int) -> float:
        """Tokens of KV that all sequences read; the n tokens of a pass share it and see n + window − 1 at most."""
        piece = min(self.chunk or self.new, self.new)
        whole, rest = divmod(self.new, piece)
        read = _clipped(self.before, piece, whole, window and piece + window - 1)
        if rest:
            read += _clipped(self.before + self.new - rest, rest, 1, window and rest + window - 1)
        return self.sequences * read


def _clipped(first: float, step: int, count: int, limit: int) -> float:
    """Sum of min(first + j·step, limit) over j = 1 … count; a limit of 0 is none."""
    below = count if not limit else min(max(floor((limit - first) / step), 0), count)
    return below * first + step * below * (below + 1) / 2 + (count - below) * limit


def _operators(arch: Architecture, work: Work, parallel: Parallel, step: _Step) -> tuple[Operator, ...]:
    sharding.check(arch, parallel)
    found: list[Operator] = []
    for layer, count in Counter(arch.layers).items():
        for one in _layer(layer, arch, work, parallel, step):
            found.append(_times(one, count))
    return tuple(_merged([*_tables(arch, work, parallel, step), *found, *_links(arch, work, parallel, step)]))


def _layer(layer: Layer, arch: Architecture, work: Work, parallel: Parallel, step: _Step) -> Iterator[Operator]:
    """Operators of one layer, of all passes."""
    small = work.other.bits / 8
    yield from _attention(sharding.attention(layer.attention, parallel), arch.hidden, work, step)
    if layer.mlp.experts:
        yield from _mixture(layer.mlp, arch.hidden, work, parallel, step)
    else:
        yield _feed_forward("mlp", sharding.mlp(layer.mlp, parallel), 1, step.tokens, arch.hidden, work, step.passes)
    yield Operator(
        name="norms",
        count=1,
        flops=0.0,
        weight_bytes=2 * params.norm(arch) * small * step.passes,
        kv_bytes=0.0,
        # Each adds to the residual: both are read, the residual and its norm are written.
        activation_bytes=2 * 4 * step.tokens * arch.hidden * small,
        compute=work.other.compute,
    )


def _attention(part: Attention, hidden: int, work: Work, step: _Step) -> Iterator[Operator]:
    small, tokens = work.other.bits / 8, step.tokens
    queries, values = part.heads * part.head_dim, part.heads * part.v_head_dim
    out = values * hidden
    into = params.attention_matrices(part, hidden) - out
    latent = part.q_lora_rank + part.kv_lora_rank + part.rope_dim if part.kv_lora_rank else 0
    yield Operator(
        name="qkv_proj",
        count=1,
        flops=2.0 * into * tokens,
        weight_bytes=(into * work.weights.bits / 8 + params.attention_vectors(part, hidden) * small) * step.passes,
        kv_bytes=0.0,
        activation_bytes=(hidden + queries + 2 * latent) * tokens * small,
        compute=work.weights.compute,
    )
    read = step.read(part.window)
    if not part.kv_lora_rank:
        flops = 2.0 * (queries + values) * step.pairs(part.window)
    elif step.decoding:
        flops = 2.0 * part.heads * (2 * part.kv_lora_rank + part.rope_dim) * step.pairs(part.window)
    else:
        # Keys and values of what is in the cache are expanded from the latent again.
        expansion = part.kv_lora_rank * part.heads * (part.head_dim - part.rope_dim + part.v_head_dim)
        flops = 2.0 * (queries + values) * step.pairs(part.window) + 2.0 * expansion * (read - tokens)
    yield Operator(
        name="window_attention" if part.window else "attention",
        count=1,
        flops=flops,
        weight_bytes=0.0,
        kv_bytes=(read + tokens) * memory.kv_elements(part, Parallel()) * work.kv.bits / 8,
        activation_bytes=(queries + values) * tokens * small,
        compute=work.other.compute,
    )
    yield Operator(
        name="out_proj",
        count=1,
        flops=2.0 * out * tokens,
        weight_bytes=out * work.weights.bits / 8 * step.passes,
        kv_bytes=0.0,
        activation_bytes=(values + hidden) * tokens * small,
        compute=work.weights.compute,
    )


def _mixture(part: Mlp, hidden: int, work: Work, parallel: Parallel, step: _Step) -> Iterator[Operator]:
    """Router, the experts that are hit, and the shared ones.

    An expert's weights are read once a pass by all tokens that chose it. Of the experts that are hit each of the
    ``expert`` GPUs holds the same share: imbalance between them is not part of this.
    """
    small = work.other.bits / 8
    yield Operator(
        name="router",
        count=1,
        flops=2.0 * hidden * part.experts * step.tokens,
        weight_bytes=params.router(part, hidden) * small * step.passes,
        kv_bytes=0.0,
        activation_bytes=(hidden + part.experts) * step.tokens * small,
        compute=work.other.compute,
    )
    hit = params.distinct_experts(part.experts, part.top_k, step.tokens / step.passes, work.expert_skew)
    spread = parallel.expert
    held = sharding.routed(part, parallel)
    passages = step.tokens * part.top_k / spread
    yield _feed_forward("experts", held, hit / spread, passages, hidden, work, step.passes)
    if part.shared:
        common = sharding.mlp(part, parallel)
        passages = step.tokens * part.shared
        yield _feed_forward("shared_experts", common, part.shared, passages, hidden, work, step.passes)


def _feed_forward(name: str, part: Mlp, copies: float, tokens: float, hidden: int, work: Work, passes: int) -> Operator:
    """``copies`` feed-forward parts read once a pass, and ``tokens`` passages through one of them."""
    matrices = (3 if part.gated else 2) * hidden * part.width
    small = work.other.bits / 8
    stored = matrices * work.weights.bits / 8 + (params.expert(part, hidden) - matrices) * small
    return Operator(
        name=name,
        count=1,
        flops=2.0 * matrices * tokens,
        weight_bytes=copies * stored * passes,
        kv_bytes=0.0,
        activation_bytes=2 * (hidden + part.width) * tokens * small,
        compute=work.weights.compute,
    )


def _tables(arch: Architecture, work: Work, parallel: Parallel, step: _Step) -> Iterator[Operator]:
    """Rows of the input tables, the final norm, and the output head, which the GPUs share by vocabulary."""
    small, rows = work.other.bits / 8, step.tokens if step.decoding else step.sequences
    looked_up = arch.hidden * (2 if arch.positions else 1)
    yield Operator(
        name="embedding",
        count=1,
        flops=0.0,
        weight_bytes=0.0,
        kv_bytes=0.0,
        activation_bytes=(looked_up + arch.hidden) * step.tokens * small,
        compute=work.other.compute,
    )
    yield Operator(
        name="norms",
        count=1,
        flops=0.0,
        weight_bytes=params.norm(arch) * small,
        kv_bytes=0.0,
        activation_bytes=2 * rows * arch.hidden * small,
        compute=work.other.compute,
    )
    head = arch.vocab * arch.hidden / parallel.tensor
    yield Operator(
        name="lm_head",
        count=1,
        flops=2.0 * head * rows,
        weight_bytes=head * work.head_stored.bits / 8,
        kv_bytes=0.0,
        activation_bytes=rows * (arch.hidden * small + arch.vocab / parallel.tensor * _LOGIT_BYTES),
        compute=work.head_stored.compute,
    )


def _links(arch: Architecture, work: Work, parallel: Parallel, step: _Step) -> Iterator[Operator]:
    """What goes to other GPUs.

    ``all_reduce``: two a layer, each of tokens × hidden elements, of which a GPU sends 2·(n − 1)/n in a ring of n.
    ``all_to_all``: each token goes to its ``top_k`` experts and back; spread over n GPUs, a share of (n − 1)/n leaves
    the GPU that holds it, and a GPU holds 1/n of the tokens. ``stage_send``: the residual, to each next stage. What the
    tables exchange once a pass is left out.
    """
    residual = step.tokens * arch.hidden * work.other.bits / 8

    def link(name: str, count: int, sent: float) -> Operator:
        return Operator(name, count, 0.0, 0.0, 0.0, 0.0, work.other.compute, sent)

    if parallel.tensor > 1:
        reductions = 2 * len(arch.layers)
        share = 2 * (parallel.tensor - 1) / parallel.tensor
        yield link("all_reduce", reductions, reductions * share * residual)
    routed = [layer.mlp.top_k for layer in arch.layers if layer.mlp.experts]
    if parallel.expert > 1 and routed:
        share = 2 * (parallel.expert - 1) / parallel.expert**2
        yield link("all_to_all", 2 * len(routed), sum(routed) * share * residual)
    if parallel.pipeline > 1:
        yield link("stage_send", parallel.pipeline - 1, (parallel.pipeline - 1) * residual)


def _times(one: Operator, count: int) -> Operator:
    return replace(
        one,
        count=one.count * count,
        flops=one.flops * count,
        weight_bytes=one.weight_bytes * count,
        kv_bytes=one.kv_bytes * count,
        activation_bytes=one.activation_bytes * count,
        link_bytes=one.link_bytes * count,
    )


def _merged(operators: Iterable[Operator]) -> Iterator[Operator]:
    """One operator of each name, in the order of a pass."""
    found: dict[str, Operator] = {}
    for one in operators:
        same = found.get(one.name)
        found[one.name] = (
            one
            if same is None
            else replace(
                same,
                count=same.count + one.count,
                flops=same.flops + one.flops,
                weight_bytes=same.weight_bytes + one.weight_bytes,
                kv_bytes=same.kv_bytes + one.kv_bytes,
                activation_bytes=same.activation_bytes + one.activation_bytes,
                link_bytes=same.link_bytes + one.link_bytes,
            )
        )
    order = {name: place for place, name in enumerate(_ORDER)}
    yield from sorted(found.values(), key=lambda one: order[one.name])
