"""The decoder with its cache against one that reads the whole text for every token, head by head."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from runner.check.case import Case
from runner.references.mini_llm import expected, generate, inputs
from tests.references.cases import case, check, rows, uniform

SIZES = {"B": 2, "L": 2, "h": 8, "H": 4, "KVH": 2, "D": 4, "I": 16, "V": 23, "prompt": 3, "steps": 4, "T": 7}
Vector = npt.NDArray[np.float64]


def made(bias: int, tied: int) -> Case:
    symbols = {**SIZES, "theta": 100.0, "has_bias": bias, "is_tied": tied}
    layers, hidden, qkv_rows, inner, wide, vocab = 2, 8, 32, 16, 16, 23
    return case(
        symbols,
        rotation=inputs(case(symbols), "rotation"),
        prompt_ids=np.random.default_rng(5).integers(0, vocab, (2, 3)),
        embedding=uniform(1, vocab, hidden),
        lm_head=uniform(2, vocab, hidden),
        qkv_weight=uniform(3, layers, qkv_rows, hidden),
        qkv_bias=uniform(4, layers, qkv_rows),
        out_weight=uniform(6, layers, hidden, inner),
        gate_up_weight=uniform(7, layers, 2 * wide, hidden),
        down_weight=uniform(8, layers, hidden, wide),
        attention_norm=uniform(9, layers, hidden) + np.float32(1.5),
        mlp_norm=uniform(10, layers, hidden) + np.float32(1.5),
        last_norm=uniform(11, 1, hidden) + np.float32(1.5),
    )


def normed(x: Vector, gamma: npt.NDArray[np.float32]) -> Vector:
    return np.array(
        [v * float(g) / math.sqrt(sum(u * u for u in x) / len(x) + 1e-5) for v, g in zip(x, gamma, strict=True)]
    )


def turned(x: Vector, position: int) -> Vector:
    """A head of 4, theta 100: elements 0, 2 and 1, 3 as complex numbers, at angles position and position / 10."""
    first = complex(x[0], x[2]) * complex(math.cos(position), math.sin(position))
    second = complex(x[1], x[3]) * complex(math.cos(position / 10), math.sin(position / 10))
    return np.array([first.real, second.real, first.imag, second.imag])


def next_logits(some: Case, text: list[int]) -> Vector:
    states = [some.input("embedding", token).astype(np.float64) for token in text]
    for layer in range(2):
        queries, keys, values = [], [], []
        for position, x in enumerate(states):
            qkv = some.input("qkv_weight", layer) @ normed(x, some.input("attention_norm", layer))
            if some["has_bias"]:
                qkv = qkv + some.input("qkv_bias", layer)
            heads = qkv.reshape(8, 4)
            queries.append([turned(head, position) for head in heads[:4]])
            keys.append([turned(head, position) for head in heads[4:6]])
            values.append(heads[6:])
        for position in range(len(text)):
            attended = []
            for head in range(4):
                scores = [math.exp(queries[position][head] @ keys[t][head // 2] / 2) for t in range(position + 1)]
                mixed = sum(s * values[t][head // 2] for t, s in enumerate(scores))
                attended.append(mixed / sum(scores))
            x = states[position] + some.input("out_weight", layer) @ np.concatenate(attended)
            gate_up = some.input("gate_up_weight", layer) @ normed(x, some.input("mlp_norm", layer))
            gated = np.array([g / (1 + math.exp(-g)) * u for g, u in zip(gate_up[:16], gate_up[16:], strict=True)])
            states[position] = x + some.input("down_weight", layer) @ gated
    last = some.input("embedding" if some["is_tied"] else "lm_head")
    logits: Vector = last @ normed(states[-1], some.input("last_norm", 0))
    return logits


@pytest.mark.parametrize(("bias", "tied"), [(0, 1), (1, 0)])
def test_against_reading_the_whole_text_again(bias: int, tied: int) -> None:
    some = made(bias, tied)
    run = generate(some, "")
    for b in range(2):
        text = list(some.input("prompt_ids")[b])
        for step in range(5):
            logits = next_logits(some, text)
            assert run.tokens[b, step] == int(np.argmax(logits))
            text.append(int(np.argmax(logits)))
        np.testing.assert_allclose(run.logits[b], logits, rtol=1e-6, atol=1e-6)  # the table of angles is float32


def test_rows_of_a_check() -> None:
    some = made(1, 0)
    run = generate(some, "")
    np.testing.assert_array_equal(expected(some, check("fp32_eager_tokens"), rows(1)), run.tokens[1:])
    np.testing.assert_array_equal(expected(some, check("fp32_graph_logits"), rows(0)), run.logits[:1])
    # Row 23 of [L, B, KVH, T]: layer 0, sequence 1, KV head 1, position 2.
    np.testing.assert_array_equal(expected(some, check("fp32_graph_keys"), rows(23)), run.keys[0, 1, 1, 2][None])
    np.testing.assert_array_equal(expected(some, check("fp32_graph_values"), rows(23)), run.values[0, 1, 1, 2][None])
