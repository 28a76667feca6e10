"""A decoder token by token and head by head in float64, apart from the repository's own reference and kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Weights = Mapping[str, npt.NDArray[Any]]
"""By the names of ``kernel=mini_llm``'s buffers, as the device computes with them; without ``lm_head`` the embedding
serves, without ``qkv_bias`` there is none. With ``position_embedding`` they are of GPT-2's layout."""


def exact(head: Vector) -> Vector:
    return head


def bf16(head: Vector) -> Vector:
    return head.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


def int8(head: Vector) -> Vector:
    """One scale for the head: its largest magnitude over 127."""
    single = head.astype(np.float32)
    scale = np.float32(max(abs(single)) / np.float32(127))
    return np.array([float(round(float(value / scale))) * float(scale) for value in single])


def fp8(head: Vector) -> Vector:
    return np.clip(head.astype(np.float32), -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)


CACHES: dict[str, Callable[[Vector], Vector]] = {"fp32": exact, "bf16": bf16, "int8": int8, "fp8": fp8}


def quantised(matrix: npt.NDArray[np.float32], levels: int, group: int) -> Vector:
    """Rows (rows, depth) through whole numbers up to ``levels``, with a float32 scale for each ``group`` of a row."""
    made = np.empty(matrix.shape)
    for row, values in enumerate(matrix):
        for first in range(0, len(values), group):
            part = values[first : first + group]
            scale = np.float32(max(abs(part)) / np.float32(levels))
            made[row, first : first + group] = [
                float(round(float(np.float32(value / scale)))) * float(scale) for value in part
            ]
    return made


@dataclass
class Decoder:
    """Reads one token after another of one sequence."""

    weights: Weights
    layers: int
    heads: int
    kv_heads: int
    dim: int
    theta: float
    epsilon: float
    divisors: Sequence[float] = ()
    """What the frequency of each pair is divided by; none = all of them are plain."""
    stored: Callable[[Vector], Vector] = exact
    """What the cache makes of a key or value of one head."""
    _seen: list[list[tuple[list[Vector], list[Vector]]]] = field(default_factory=list)
    """By layer and position: keys and values of the KV heads."""

    def next_logits(self, token: int) -> Vector:
        """(V,): after ``token`` at the next position."""
        if not self._seen:
            self._seen = [[] for _ in range(self.layers)]
        x = self.weights["embedding"][token].astype(np.float64)
        if self._learned:
            x = x + self.weights["position_embedding"][len(self._seen[0])]
        for layer in range(self.layers):
            x = x + self._weight("out_weight", layer) @ self._attended(layer, x) + self._bias("out_bias", layer)
            within = self._weight("gate_up_weight", layer) @ self._normed(x, "mlp_norm", layer)
            x = x + self._weight("down_weight", layer) @ self._activated(within, layer) + self._bias("down_bias", layer)
        head = self.weights.get("lm_head", self.weights["embedding"]).astype(np.float64)
        logits: Vector = head @ self._normed(x, "last_norm", 0)
        return logits

    @property
    def _learned(self) -> bool:
        return "position_embedding" in self.weights

    def _bias(self, name: str, layer: int) -> Vector | float:
        return self._weight(name, layer) if self._learned else 0.0

    def _activated(self, within: Vector, layer: int) -> Vector:
        if self._learned:
            within = within + self._bias("up_bias", layer)
            return np.array([v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in within])
        half = len(within) // 2
        return np.array([g / (1 + math.exp(-g)) * u for g, u in zip(within[:half], within[half:], strict=True)])

    def _attended(self, layer: int, x: Vector) -> Vector:
        seen = self._seen[layer]
        qkv = self._weight("qkv_weight", layer) @ self._normed(x, "attention_norm", layer)
        if "qkv_bias" in self.weights:
            qkv = qkv + self.weights["qkv_bias"][layer]
        heads = qkv.reshape(self.heads + 2 * self.kv_heads, self.dim)
        position = len(seen)
        keys = heads[self.heads : self.heads + self.kv_heads]
        turned = [self.stored(self._turned(key, position)) for key in keys]
        seen.append((turned, [self.stored(value) for value in heads[self.heads + self.kv_heads :]]))
        mixed = []
        for head in range(self.heads):
            query, of = self._turned(heads[head], position), head * self.kv_heads // self.heads
            scores = [float(query @ keys[of]) / math.sqrt(self.dim) for keys, _ in seen]
            shares = [math.exp(score - max(scores)) for score in scores]
            mixed.append(sum(s * values[of] for s, (_, values) in zip(shares, seen, strict=True)) / sum(shares))
        return np.concatenate(mixed)

    def _turned(self, head: Vector, position: int) -> Vector:
        """Elements i and i + D / 2 as a complex number, turned by position · theta ** (-2 i / D) over its divisor."""
        if self._learned:
            return head
        half = self.dim // 2
        made = np.empty(self.dim)
        for i in range(half):
            angle = position * self.theta ** (-2 * i / self.dim) / (self.divisors[i] if self.divisors else 1)
            turn = complex(np.float32(math.cos(angle)), np.float32(math.sin(angle)))  # the table of angles is float32
            pair = complex(head[i], head[i + half]) * turn
            made[i], made[i + half] = pair.real, pair.imag
        return made

    def _normed(self, x: Vector, name: str, layer: int) -> Vector:
        if self._learned:
            gamma, beta = np.split(self._weight(name, layer), 2)
            mean = sum(x) / len(x)
            deviation = math.sqrt(sum((value - mean) ** 2 for value in x) / len(x) + self.epsilon)
            return np.array([(v - mean) / deviation * g + b for v, g, b in zip(x, gamma, beta, strict=True)])
        root = math.sqrt(sum(float(value) ** 2 for value in x) / len(x) + self.epsilon)
        return np.array([value / root * float(g) for value, g in zip(x, self.weights[name][layer], strict=True)])

    def _weight(self, name: str, layer: int) -> Vector:
        made: Vector = self.weights[name][layer].astype(np.float64)
        return made


def written(decoder: Decoder, prompt: list[int], count: int) -> tuple[list[int], list[Vector]]:
    """The greedy text behind a prompt, ``count`` tokens, and the logits that each was chosen by."""
    logits = [decoder.next_logits(token) for token in prompt][-1:]
    text = [int(np.argmax(logits[0]))]
    while len(text) < count:
        logits.append(decoder.next_logits(text[-1]))
        text.append(int(np.argmax(logits[-1])))
    return text, logits
