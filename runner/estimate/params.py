"""How many parameters a decoder has, how many a token uses, and how many a step reads.

Counts are elements, not bytes. Every formula follows from the shapes of the matrices, as the published checkpoints hold
them; the totals of ``conf/model`` equal those of the published safetensors files.
"""

from __future__ import annotations

from dataclasses import dataclass

from runner.estimate.model import Architecture, Attention, Layer, Mlp


@dataclass(frozen=True)
class Counts:
    """Parameters of all layers together, by what they belong to."""

    embedding: int
    """Input table, vocab × hidden; serves as the head too where the two are tied."""
    positions: int
    """Learned position table."""
    head: int
    """Output head; 0 where tied, because it is stored once, as ``embedding``."""
    attention: int
    """Projections with their biases, q/k norms, norms of latents and sinks."""
    norms: int
    """The two norms of each layer and the final one."""
    mlp: int
    """Dense feed-forward parts."""
    router: int
    experts: int
    """Routed experts, all of them."""
    shared: int
    """Shared experts with their gate."""
    active: int
    """What one token uses, tables included: the total without the experts it is not routed to."""
    architecture: Architecture

    @property
    def total(self) -> int:
        tables = self.embedding + self.positions + self.head
        return tables + self.attention + self.norms + self.mlp + self.router + self.experts + self.shared

    def streamed(self, tokens: float, skew: float = 0.0) -> float:
        """Expected parameters that a step of ``tokens`` tokens reads from memory, each once.

        Lookups in the input table and in the position table read one row a token, so neither table is streamed, unless
        the input table is the output head. Of the routed experts those count that at least one token chose
        (``distinct_experts``). Checked against published bandwidth over speed of a 70B model: 69.500e9 measured,
        69.503e9 here.
        """
        dense = self.total - self.positions - self.experts - (self.embedding if self.head else 0)
        read = 0.0
        for layer in self.architecture.layers:
            if layer.mlp.experts:
                distinct = distinct_experts(layer.mlp.experts, layer.mlp.top_k, tokens, skew)
                read += distinct * expert(layer.mlp, self.architecture.hidden)
        return dense + read


def count(architecture: Architecture) -> Counts:
    """Parameters of ``architecture``.

    A layer holds its attention, its feed-forward part and two norms; a final norm, the tables and the head are beside.
    """
    hidden, layers = architecture.hidden, architecture.layers
    table = architecture.vocab * hidden
    routed = [layer.mlp for layer in layers if layer.mlp.experts]
    every, idle = 0, 0
    for part in routed:
        one = expert(part, hidden)
        every += part.experts * one
        idle += (part.experts - part.top_k) * one
    embedding, positions = table, architecture.positions * hidden
    head = 0 if architecture.tied else table
    attending = sum(attention(layer.attention, hidden) for layer in layers)
    norms = (2 * len(layers) + 1) * norm(architecture)
    dense = sum(expert(layer.mlp, hidden) for layer in layers if not layer.mlp.experts)
    routers = sum(router(part, hidden) for part in routed)
    common = sum(shared(part, hidden) for part in routed)
    total = embedding + positions + head + attending + norms + dense + routers + every + common
    return Counts(
        embedding=embedding,
        positions=positions,
        head=head,
        attention=attending,
        norms=norms,
        mlp=dense,
        router=routers,
        experts=every,
        shared=common,
        active=total - idle,
        architecture=architecture,
    )


def layer(part: Layer, architecture: Architecture) -> int:
    """Parameters of one layer: attention, feed-forward part (all experts) and its two norms."""
    hidden, mlp = architecture.hidden, part.mlp
    if mlp.experts:
        forward = mlp.experts * expert(mlp, hidden) + shared(mlp, hidden) + router(mlp, hidden)
    else:
        forward = expert(mlp, hidden)
    return attention(part.attention, hidden) + forward + 2 * norm(architecture)


def norm(architecture: Architecture) -> int:
    """One norm over the hidden size: RMSNorm has a weight, LayerNorm a bias too."""
    return architecture.hidden * (2 if architecture.norm_bias else 1)


def attention(part: Attention, hidden: int) -> int:
    """One layer's attention: matrices and the small vectors beside them."""
    return attention_matrices(part, hidden) + attention_vectors(part, hidden)


def attention_matrices(part: Attention, hidden: int) -> int:
    """Projections of one layer's attention.

    With query heads q, KV heads k and head size d: h·q·d for the queries, h·k·d each for keys and values, q·d·h out.
    Latent attention (MLA) of rank c, query rank r and rotary part p: the query by way of its own latent, h·r + r·q·d
    (h·q·d without one), the cached latent and rotary key h·(c + p), keys and values expanded from it
    c·q·((d − p) + v), and q·v·h out.
    """
    queries = part.heads * part.head_dim
    out = part.heads * part.v_head_dim * hidden
    if not part.kv_lora_rank:
        return hidden * queries + hidden * part.kv_heads * (part.head_dim + part.v_head_dim) + out
    query = (hidden + queries) * part.q_lora_rank if part.q_lora_rank else hidden * queries
    latent = hidden * (part.kv_lora_rank + part.rope_dim)
    expanded = part.kv_lora_rank * part.heads * (part.head_dim - part.rope_dim + part.v_head_dim)
    return query + latent + expanded + out


def attention_vectors(part: Attention, hidden: int) -> int:
    """Biases, q/k norms (head size, shared by all heads), norms of the latents (their ranks) and sinks (one a head)."""
    count = part.q_lora_rank + part.kv_lora_rank
    if part.qkv_bias:
        count += part.heads * part.head_dim + part.kv_heads * (part.head_dim + part.v_head_dim)
    if part.out_bias:
        count += hidden
    if part.qk_norm:
        count += 2 * part.head_dim
    return count + (part.heads if part.sinks else 0)


def expert(part: Mlp, hidden: int) -> int:
    """One dense feed-forward part, or one expert: up and down, and the gate where there is one; with biases if so."""
    up = 2 if part.gated else 1
    biases = up * part.width + hidden if part.bias else 0
    return (up + 1) * hidden * part.width + biases


def shared(part: Mlp, hidden: int) -> int:
    """Experts that every token passes, and the one column that scales their output where there is one."""
    return part.shared * expert(part, hidden) + (hidden if part.shared_gate else 0)


def router(part: Mlp, hidden: int) -> int:
    """The matrix that scores the experts, hidden × experts, and a bias for each expert where there is one."""
    return (hidden + (1 if part.router_bias else 0)) * part.experts


def distinct_experts(experts: int, top_k: int, tokens: float, skew: float = 0.0) -> float:
    """Expected number of different experts that ``tokens`` tokens choose, ``top_k`` each.

    Evenly chosen, an expert is missed by one token with probability 1 − k/E and by all with its T-th power, so
    E·(1 − (1 − k/E)^T) are hit. ``skew`` s is the share of tokens that all choose the same k experts, the others
    choose evenly: each of these k is missed by all with ((1 − s)(1 − k/E))^T, each other one with
    (1 − (1 − s)·k/E)^T. At s = 0 this is the even choice, at s = 1 it is k; one token always chooses k.
    """
    chosen = top_k / experts
    favoured: float = 1 - ((1 - skew) * (1 - chosen)) ** tokens
    other: float = 1 - (1 - (1 - skew) * chosen) ** tokens
    return top_k * favoured + (experts - top_k) * other
