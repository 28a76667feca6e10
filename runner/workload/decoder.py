"""The launches of one pass through the decoder of ``cuda_src/mini_llm.cu``, for tokens of any sequences.

A pass is described by buffers on the device, so that the same launches serve again when their contents change: a
graph of a decode, a prompt, or a mixture of both. Buffers are those of a family like ``conf/kernel/mini_llm.yaml``,
by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from runner.backend.base import Argument, Dim3
from runner.check import generator
from runner.workload.base import Context
from runner.workload.declared import BoundLaunch

BLOCK = 256
FEW_BLOCK, TABLE_ROWS = 128, 4
"""Threads of a block where tokens are few, and rows of the output projection that it computes:
``cuda_src/decoder/few.cuh``."""
MANY_TOKENS, MANY_ROWS = 128, 64
"""Tokens and rows of a block where they are many: ``cuda_src/decoder/many.cuh``."""
STREAM_BLOCK, STREAM_ROWS, STREAM_WARPS = 512, 16, 16
"""Threads of a block that streams weights, rows of a tile, and warps: ``cuda_src/decoder/streamed.cuh``."""
SINGLE = {
    "qkv": ("few_qkv_kernel", "streamed_qkv_kernel"),
    "residual": ("few_residual_kernel", "streamed_residual_kernel"),
    "gate_up": ("few_gate_up_kernel", "streamed_gate_up_kernel"),
}
"""Projections of few tokens, and of one whose weights are streamed."""
PROGRAMMATIC = frozenset(
    (
        *("embed_kernel", "few_attention_kernel", "logits_kernel", "sample_kernel"),
        *(name for names in SINGLE.values() for name in names),
    )
)
"""Kernels that wait by themselves for the one before: ``cuda_src/common/overlap.cuh``."""
SAMPLE_BLOCK = 1024
NOWHERE = np.uint64(0)
"""A null pointer."""

Value = str | int | float | np.generic
"""What a launch is given: the name of a buffer, a size, a float32, or anything as it is."""


@dataclass(frozen=True)
class Pass:
    """Tokens that run through the layers together."""

    tokens: int
    ids: str
    """Buffer: the tokens."""
    slot: str
    """Buffer: the sequence of each."""
    position: str
    """Buffer: the place of each in its sequence."""
    runs: str = ""
    """Buffer of (first token, tokens): tokens of a sequence that follow each other and attend together; without one
    each token attends by itself, which is best for decoding."""
    run_count: int = 0
    sampled: int = 0
    """Tokens that a next one is chosen after; 0 = as many as there are sequences."""
    rows: str = "each"
    """Buffer: which tokens of the pass those are."""
    logits: str = "logits"
    """Buffer: what they are chosen by."""
    layers: int = 0
    """The first so many alone, before the last norm; 0 = all."""
    splits: int = 0
    """Shares that the keys of a token are cut into where each attends by itself; 0 = what suits a token of every
    sequence."""


@dataclass(frozen=True)
class Choice:
    """Buffers that a choice of next tokens reads and moves on, and where it writes the tokens down."""

    logits: str = "logits"
    ids: str = "ids"
    position: str = "position"
    tokens: str = "tokens"
    first: int | None = None
    """Position of the first token that is written down; None = the prompt's length."""
    last: int | None = None
    """Most tokens behind it that are; None = ``steps``. Those at other positions are not."""


@dataclass(frozen=True)
class Step:
    """A launch, and the part of the model that it belongs to: ``layer_0/attention``, ``logits``, …"""

    part: str
    operator: str
    """``qkv``, ``attention``, ``out``, …: one of a part's."""
    launch: BoundLaunch


class Decoder:
    """Makes the launches; enqueueing them is the workload's."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stream = context.streams[0]
        symbols = context.plan.symbols
        self._weights = str(symbols["weights"])
        self._scaled = self._weights in ("w8a16", "w4a16")
        self._layers, self._hidden, self._wide = self.size("L"), self.size("h"), self.size("I")
        self._qkv, self._inner = self.size("qkv_rows"), self.size("inner")
        self._heads = (self.size("H"), self.size("KVH"))
        self._pages = (self.size("slot_pages"), self.size("pages"), self.size("page_tokens"))
        self._epsilon = float(symbols["eps"])
        self._gpt2 = bool(symbols["gpt2"])
        self._stream_from = self.size("stream_from")

    def size(self, name: str) -> int:
        """A symbol of the plan that is a whole number."""
        return int(self._context.plan.symbols[name])

    def rewind(self, start: str, ids: str = "ids", position: str = "position") -> BoundLaunch:
        """Puts every sequence at position ``start`` (a symbol), with the first token chosen as the next one."""
        batch = self.size("B")
        sizes = (batch, self.size("steps"), self.size(start))
        return self._launch("rewind_kernel", _blocks(batch), BLOCK, "tokens", ids, position, *sizes)

    def empty(self) -> BoundLaunch:
        """A kernel that does nothing."""
        return self._launch("empty_kernel", (1, 1, 1), 32)

    def steps(self, this: Pass) -> Iterator[Step]:
        """All launches of a pass, in order, up to the logits of the tokens that are sampled from."""
        many = self.many(this.tokens)
        tables = ("embedding", "position_embedding" if self._gpt2 else NOWHERE)
        embed = (*tables, this.ids, this.position, "state", self._hidden)
        yield Step("embed", "embed", self._launch("embed_kernel", (this.tokens, 1, 1), BLOCK, *embed))
        for layer in range(this.layers or self._layers):
            attention, mlp = f"layer_{layer}/attention", f"layer_{layer}/mlp"
            yield from self._projections_in(this, layer, many, attention)
            yield from self._attention(this, layer, many, attention)
            yield from self._residual(this, layer, many, attention, "out", self._inner, "attended")
            yield from self._gate_up(this, layer, many, mlp)
            yield from self._residual(this, layer, many, mlp, "down", self._wide, "gated")
        yield self.logits(this)

    def many(self, tokens: int) -> bool:
        """Whether a pass of so many tokens takes the tensor cores: the weights no longer bound it."""
        return self._weights != "fp32" and tokens > self.size("few_tokens")

    def logits(self, this: Pass) -> Step:
        sampled, vocab = this.sampled or self.size("B"), self.size("V")
        weights = ("embedding", "lm_head", "last_norm", "state", this.rows, this.logits)
        sizes = (vocab, self._hidden, sampled, self._epsilon)
        return Step(
            "logits",
            "logits",
            self._launch("logits_kernel", self._few(vocab, sampled, TABLE_ROWS), FEW_BLOCK, *weights, *sizes),
        )

    def sample(self, sampled: int, choice: Choice = Choice()) -> Step:
        """The choice of the next tokens, which moves their sequences on."""
        symbols = self._context.plan.symbols
        key = np.uint64(generator.key(self._context.plan.seed, "sampler"))
        how = (self.size("top_k"), float(symbols["top_p"]), float(symbols["temperature"]), key)
        first = self.size("prompt") if choice.first is None else choice.first
        last = self.size("steps") if choice.last is None else choice.last
        moved = (choice.logits, choice.ids, choice.position, choice.tokens)
        arguments = (*moved, self.size("V"), first, last, *how)
        return Step("sampler", "sampler", self._launch("sample_kernel", (sampled, 1, 1), SAMPLE_BLOCK, *arguments))

    def _projections_in(self, this: Pass, layer: int, many: bool, part: str) -> Iterator[Step]:
        weight, rows = self._stored("qkv"), self._qkv
        if many:
            yield self._norm(this, layer, part, "attention_norm")
            arguments = (*weight, self._bias("qkv"), "halves", "qkv", layer, rows, self._hidden, this.tokens)
            yield Step(part, "qkv", self._launch("many_project_kernel", _tiles(rows, this.tokens), BLOCK, *arguments))
            return
        through = (*weight, self._bias("qkv"), "attention_norm", "state", "qkv", layer, rows)
        yield Step(part, "qkv", self._single("qkv", this, rows, self._hidden, *through, end=(self._epsilon,)))

    def _attention(self, this: Pass, layer: int, many: bool, part: str) -> Iterator[Step]:
        heads, kv_heads = self._heads
        cache = ("keys", "values", "key_scales", "value_scales", "table", this.slot, this.position)
        halves: Value = "halves" if many else NOWHERE
        if not this.runs:
            grid = (kv_heads * self.size("head_tiles"), this.tokens, this.splits or self.size("splits"))
            through: tuple[Value, ...] = ("qkv", "rotation", *cache, "partial", "tickets", "attended", halves)
            yield Step(part, "attention", self._launch(
                "few_attention_kernel", grid, BLOCK, *through, layer, heads, kv_heads, *self._pages
            ))  # fmt: skip
            return
        rope = ("qkv", "rotation", *cache, layer, heads, kv_heads, *self._pages)
        yield Step(part, "rope", self._launch("many_rope_kernel", (heads + 2 * kv_heads, this.tokens, 1), 32, *rope))
        through = ("qkv", *cache, this.runs, "attended", halves, layer, heads, kv_heads, *self._pages, this.tokens)
        yield Step(part, "attention", self._launch(
            "many_attention_kernel", (heads, this.run_count, 1), 4 * self.size("run_tokens"), *through,
            shared=self.size("run_shared"),
        ))  # fmt: skip

    def _gate_up(self, this: Pass, layer: int, many: bool, part: str) -> Iterator[Step]:
        weight, rows = self._stored("gate_up"), self._wide
        if many:
            yield self._norm(this, layer, part, "mlp_norm")
            both = self.size("up_rows")
            arguments = (*weight, self._bias("up"), "halves", "gate_up", layer, both, self._hidden, this.tokens)
            grid = _tiles(both, this.tokens)
            yield Step(part, "gate_up", self._launch("many_project_kernel", grid, BLOCK, *arguments))
            activation = ("gate_up", "halves", rows, this.tokens)
            blocks = _blocks(rows * this.tokens)
            yield Step(part, "activation", self._launch("many_activation_kernel", blocks, BLOCK, *activation))
            return
        through = (*weight, self._bias("up"), "mlp_norm", "state", "gated", layer, rows)
        up_rows = self.size("up_rows")
        yield Step(
            part, "gate_up", self._single("gate_up", this, up_rows, self._hidden, *through, end=(self._epsilon,))
        )

    def _residual(
        self, this: Pass, layer: int, many: bool, part: str, name: str, depth: int, source: str
    ) -> Iterator[Step]:
        rows = self._hidden
        weight = (*self._stored(name), self._bias(name))
        if many:
            arguments = (*weight, "halves", "state", layer, rows, depth, this.tokens)
            yield Step(part, name, self._launch("many_residual_kernel", _tiles(rows, this.tokens), BLOCK, *arguments))
            return
        yield Step(part, name, self._single("residual", this, rows, depth, *weight, source, "state", layer, rows))

    def _norm(self, this: Pass, layer: int, part: str, gamma: str) -> Step:
        arguments = ("state", gamma, "halves", layer, self._hidden, this.tokens, self._epsilon)
        return Step(part, "norm", self._launch("many_norm_kernel", (this.tokens, 1, 1), BLOCK, *arguments))

    def _stored(self, name: str) -> tuple[str, Value]:
        """A projection's weights and scales."""
        return (f"{name}_payload", f"{name}_scale") if self._scaled else (f"{name}_weight", NOWHERE)

    def _single(
        self, kind: str, this: Pass, rows: int, depth: int, *through: Value, end: tuple[Value, ...] = ()
    ) -> BoundLaunch:
        """A projection of few tokens, ``rows`` by ``depth``; that of one token may stream its weights."""
        few, streamed = SINGLE[kind]
        groups = -(-depth // 128)
        team = min(STREAM_WARPS, 1 << groups.bit_length() - 1)
        teams = STREAM_WARPS // team
        shared = self.size("stream_ring") + teams * groups * self.size("stream_group")
        fits = shared + self.size("stream_static") <= self.size("shared_limit")
        large = 0 < self._stream_from <= rows * depth
        if not (large and fits) or this.tokens > 1:
            grid = self._few(rows, this.tokens)
            return self._launch(few, grid, FEW_BLOCK, *through, depth, this.tokens, *end)
        grid = min(-(-rows // (STREAM_ROWS * teams)), self.size("sms")), 1, 1
        return self._launch(streamed, grid, STREAM_BLOCK, *through, depth, team, *end, shared=shared)

    def _bias(self, name: str) -> Value:
        """A projection's bias; of Llama's and Qwen2's layout only Q, K and V may have one."""
        has = self._gpt2 or (name == "qkv" and self.size("has_bias"))
        return f"{name}_bias" if has else NOWHERE

    def _few(self, rows: int, tokens: int, each: int = 0) -> Dim3:
        return -(-rows // (each or self.size("few_rows"))), -(-tokens // self.size("tile")), 1

    def window(self) -> BoundLaunch:
        """The next token of each sequence and the ``draft`` proposals behind it, as the tokens of a verification."""
        into = ("ids", "position", "drafted", "window_ids", "window_position")
        sizes = (self.size("B"), self.size("draft"), self.size("T"))
        return self._launch("window_kernel", _blocks(self.size("window_tokens")), BLOCK, *into, *sizes)

    def accept(self) -> BoundLaunch:
        """Takes what a verification agrees with, and moves sequences and draft on."""
        moved = ("ids", "position", "draft_ids", "draft_position", "tokens", "accepted", "windows")
        sizes = (self.size("B"), self.size("draft"), self.size("prompt"), self.size("steps"))
        return self._launch("accept_kernel", _blocks(self.size("B")), BLOCK, "window_ids", "chosen", *moved, *sizes)

    def _launch(self, name: str, grid: Dim3, block: int, *given: Value, shared: int = 0) -> BoundLaunch:
        function = self._context.function(name)
        arguments = tuple(self._argument(item) for item in given)
        return BoundLaunch(self._stream, function, grid, (block, 1, 1), shared, arguments, name in PROGRAMMATIC)

    def _argument(self, item: Value) -> Argument:
        if isinstance(item, str):
            return self._context.buffers[item]
        if isinstance(item, np.generic):
            return item
        return np.float32(item) if isinstance(item, float) else np.int64(item)


def _blocks(threads: int) -> Dim3:
    return -(-threads // BLOCK), 1, 1


def _tiles(rows: int, tokens: int) -> Dim3:
    return -(-tokens // MANY_TOKENS), -(-rows // MANY_ROWS), 1
