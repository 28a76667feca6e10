"""The decoder of ``kernel=mini_llm``: the launches of one token, layer by layer, eager or replayed as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from runner.backend.base import Argument, Buffer, Dim3
from runner.workload.base import Context
from runner.workload.capture import Captured, captured
from runner.workload.declared import BoundLaunch

BLOCK = 256
ROWS = 8
"""Rows of a projection that a block computes, one a warp."""
ROPE_BLOCK = 64
ARGMAX_BLOCK = 1024
OUTPUTS = ("logits", "tokens", "keys", "values")


@dataclass(frozen=True)
class Kernels:
    """The entry points that read weights, in one precision, and what the weights' buffers are called in it."""

    embed: str
    qkv: str
    residual: str
    gate_up: str
    logits: str
    suffix: str


KERNELS = {
    "fp32": Kernels(
        "embed_fp32_kernel", "qkv_fp32_kernel", "residual_fp32_kernel", "gate_up_fp32_kernel", "logits_fp32_kernel", ""
    ),
    "bf16": Kernels(
        "embed_bf16_kernel",
        "qkv_bf16_kernel",
        "residual_bf16_kernel",
        "gate_up_bf16_kernel",
        "logits_bf16_kernel",
        "_bf16",
    ),
}
"""By the first part of a variant's name."""


class MiniLlm:
    """One step of the experiment decodes ``steps`` tokens of every sequence, timed by the host's clock.

    It starts from a cache that holds the prompt, and ends at the same position: the next step decodes the same tokens.
    The prompt is read token by token by the launches of a decode, which is no measure of a prefill.
    """

    host_timed = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stream = context.streams[0]
        self._prompt = self._size("prompt")
        self.units_per_step = self._size("steps")
        """Tokens of each sequence in a step."""
        self._launches: dict[str, tuple[BoundLaunch, ...]] = {}
        self._graphs: dict[str, Captured] = {}
        self._cache_lost = False

    def prepare(self) -> None:
        """Nothing: weights are filled, and the cache belongs to a variant."""

    def reset(self, variant: str) -> None:
        """Reads the prompt; before the first replay a token is decoded eagerly (kernels load) and captured.

        Raises ``BackendError`` where the device cannot capture.
        """
        precision, _, mode = variant.partition("_")
        if precision not in self._launches:
            self._launches[precision] = tuple(self._token(KERNELS[precision]))
        if mode == "graph" and variant not in self._graphs:
            self._stream.fill(self._context.buffers["position"], 0)
            self._eager(precision)
            self._stream.synchronize()
            self._graphs[variant] = captured(self._stream, lambda: self._eager(precision))
        self._prefill(variant)

    def _prefill(self, variant: str) -> None:
        """Keys and values of the prompt into the cache, and the first token; leaves the position behind the prompt."""
        one = self._one(variant)
        self._stream.fill(self._context.buffers["position"], 0)
        for _ in range(self._prompt):
            one()
        self._stream.synchronize()
        self._cache_lost = False

    def _one(self, variant: str) -> Callable[[], None]:
        """What decodes one token of every sequence."""
        if variant in self._graphs:
            graph = self._graphs[variant].graph
            return lambda: graph.launch(self._stream)
        return lambda: self._eager(variant.partition("_")[0])

    def _eager(self, precision: str) -> None:
        for launch in self._launches[precision]:
            launch.enqueue()

    def step(self, variant: str) -> None:
        """Decodes all tokens; returns when the device has done them."""
        if self._cache_lost:
            self._prefill(variant)
        one = self._one(variant)
        for _ in range(self.units_per_step):
            one()
        self._stream.synchronize()

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        """The last token's logits, the tokens and the whole cache. They are overwritten before a checked step, and with
        them what the prompt left: such a step reads the prompt again."""
        self._cache_lost = True
        return {name: self._context.buffers[name] for name in OUTPUTS}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """Of a graph ``capture_us`` (recording the launches) and ``instantiate_us`` (making it executable)."""
        if variant not in self._graphs:
            return {}
        graph = self._graphs[variant]
        return {"capture_us": graph.capture_us, "instantiate_us": graph.instantiate_us}

    def close(self) -> None:
        for graph in self._graphs.values():
            graph.graph.free()
        self._graphs.clear()

    def _token(self, kernels: Kernels) -> Iterator[BoundLaunch]:
        """The launches of one token, in order."""
        hidden, batch, vocab = self._size("h"), self._size("B"), self._size("V")
        lengths = (self._prompt, self.units_per_step)
        embedding = f"embedding{kernels.suffix}"
        first = (embedding, "prompt_ids", "tokens", "position", "state", hidden, *lengths)
        yield self._launch(kernels.embed, (batch, 1, 1), BLOCK, *first)
        for layer in range(self._size("L")):
            yield from self._attention(kernels, layer)
            yield from self._mlp(kernels, layer)
        yield self._launch("norm_kernel", (batch, 1, 1), BLOCK, "state", "last_norm", "norm", 0, hidden)
        head = (embedding, f"lm_head{kernels.suffix}", "norm", "logits", vocab, hidden, batch)
        yield self._launch(kernels.logits, self._grid(vocab), BLOCK, *head)
        choice = ("logits", "position", "tokens", vocab, *lengths)
        yield self._launch("argmax_kernel", (batch, 1, 1), ARGMAX_BLOCK, *choice)

    def _attention(self, kernels: Kernels, layer: int) -> Iterator[BoundLaunch]:
        hidden, batch, heads, kv_heads = (self._size(name) for name in ("h", "B", "H", "KVH"))
        rows, inner = self._size("qkv_rows"), self._size("inner")
        cache = (layer, batch, heads, kv_heads, self._size("T"))
        weight, out = f"qkv_weight{kernels.suffix}", f"out_weight{kernels.suffix}"
        yield self._launch("norm_kernel", (batch, 1, 1), BLOCK, "state", "attention_norm", "norm", layer, hidden)
        qkv = (weight, "qkv_bias", "norm", "qkv", layer, rows, hidden, batch)
        yield self._launch(kernels.qkv, self._grid(rows), BLOCK, *qkv)
        store = ("qkv", "rotation", "position", "keys", "values", *cache)
        yield self._launch("rope_store_kernel", (heads + 2 * kv_heads, batch, 1), ROPE_BLOCK, *store)
        scan = ("qkv", "keys", "values", "position", "attended", *cache)
        yield self._launch("attention_kernel", (heads, batch, 1), BLOCK, *scan)
        added = (out, "attended", "state", layer, hidden, inner, batch)
        yield self._launch(kernels.residual, self._grid(hidden), BLOCK, *added)

    def _mlp(self, kernels: Kernels, layer: int) -> Iterator[BoundLaunch]:
        hidden, batch, intermediate = self._size("h"), self._size("B"), self._size("I")
        gate_up, down = f"gate_up_weight{kernels.suffix}", f"down_weight{kernels.suffix}"
        yield self._launch("norm_kernel", (batch, 1, 1), BLOCK, "state", "mlp_norm", "norm", layer, hidden)
        wide = (gate_up, "norm", "gated", layer, intermediate, hidden, batch)
        yield self._launch(kernels.gate_up, self._grid(intermediate), BLOCK, *wide)
        added = (down, "gated", "state", layer, hidden, intermediate, batch)
        yield self._launch(kernels.residual, self._grid(hidden), BLOCK, *added)

    def _grid(self, rows: int) -> Dim3:
        """Blocks of a projection: along x its rows, along y the sequences that share one reading of the weights."""
        return -(-rows // ROWS), -(-self._size("B") // self._size("tile")), 1

    def _launch(self, name: str, grid: Dim3, block: int, *arguments: str | int) -> BoundLaunch:
        """A launch with buffers given by name and sizes as they are."""
        bound: tuple[Argument, ...] = tuple(
            self._context.buffers[item] if isinstance(item, str) else np.int64(item) for item in arguments
        )
        return BoundLaunch(self._stream, self._context.function(name), grid, (block, 1, 1), 0, bound)

    def _size(self, name: str) -> int:
        return int(self._context.plan.symbols[name])
