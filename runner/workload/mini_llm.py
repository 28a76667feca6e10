"""The decoder of ``kernel=mini_llm``: prompts are read and tokens generated, kernel by kernel or as a graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import numpy as np

from runner.backend.base import Buffer, Event
from runner.workload.base import Context
from runner.workload.capture import Captured, captured
from runner.workload.declared import prepared
from runner.workload.decoder import Decoder, Pass, Step
from runner.workload.timing import REPEATS

TIMED_TOKENS, TIMED_S = 256, 0.5
"""Tokens whose times are taken for the percentiles; fewer where they would take longer, but one step's at least."""


def decode_pass(decoder: Decoder) -> Pass:
    """The next token of every sequence."""
    return Pass(tokens=decoder.size("B"), ids="ids", slot="each", position="position")


def prompt_pass(decoder: Decoder) -> Pass:
    """All prompts, from their first tokens on."""
    batch = decoder.size("B")
    return Pass(
        tokens=batch * decoder.size("prompt"),
        ids="prompt_ids",
        slot="prompt_slot",
        position="prompt_position",
        runs="prompt_runs",
        run_count=batch * decoder.size("prompt_run_count"),
        rows="prompt_last",
    )


class MiniLlm:
    """A step of ``prefill`` reads the prompts and chooses the first token of each sequence; one of ``eager`` or
    ``graph`` decodes ``steps`` tokens of every sequence after that; one of ``request`` does both, the tokens by a
    graph.

    All are timed by the host's clock. A decode starts where the prompts end, whatever was decoded before.
    """

    host_timed = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stream = context.streams[0]
        self._decoder = Decoder(context)
        size = self._decoder.size
        self._batch, self._tokens = size("B"), size("steps")
        self.units_per_step = 1
        """Tokens of each sequence in a step of the variant that was reset last; 1 where the prompt is in it."""
        self._decode = self._launches(decode_pass(self._decoder))
        self._prompt = self._launches(prompt_pass(self._decoder))
        self._to_prompt, self._to_tokens = self._decoder.rewind("before_prompt"), self._decoder.rewind("prompt")
        self._graph: Captured | None = None
        self._read = False
        """The cache holds the prompts."""

    def prepare(self) -> None:
        """Quantises the weights, where they are."""
        prepared(self._context)

    def reset(self, variant: str) -> None:
        """Reads the prompts where they are not in the cache, and captures a token: a second one, as kernels load with
        the first.

        Raises ``BackendError`` where the device cannot capture.
        """
        self.units_per_step = self._tokens if variant in ("eager", "graph") else 1
        if not self._read and variant != "prefill":
            self._prefill()
        if variant in ("graph", "request") and self._graph is None:
            self._to_tokens.enqueue()
            self._enqueue(self._decode)
            self._stream.synchronize()
            self._graph = captured(self._stream, lambda: self._enqueue(self._decode))

    def step(self, variant: str) -> None:
        """Returns when the device has done it."""
        if variant in ("prefill", "request") or not self._read:
            self._prefill()
        if variant != "prefill":
            with self._context.ranges("decode"):
                self._generate(self._one(variant))
        self._stream.synchronize()

    def _prefill(self) -> None:
        with self._context.ranges("prefill"):
            self._to_prompt.enqueue()
            self._enqueue(self._prompt)
        self._stream.synchronize()
        self._read = True

    def _generate(self, one: Callable[[], None], marks: Sequence[Event] = ()) -> None:
        self._to_tokens.enqueue()
        for index in range(self._tokens):
            one()
            if marks:
                self._stream.record(marks[index])

    def _one(self, variant: str) -> Callable[[], None]:
        """What decodes one token of every sequence."""
        if variant == "eager" or self._graph is None:
            return lambda: self._enqueue(self._decode)
        graph = self._graph.graph
        return lambda: graph.launch(self._stream)

    def _launches(self, this: Pass) -> tuple[Step, ...]:
        return (*self._decoder.steps(this), self._decoder.sample(self._batch))

    def _enqueue(self, steps: Sequence[Step]) -> None:
        if not self._context.ranges.shown:
            for step in steps:
                step.launch.enqueue()
            return
        for part, group in groupby(steps, key=lambda step: step.part):
            with self._context.ranges(part):
                for step in group:
                    step.launch.enqueue()

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        """The logits that the last token was chosen by, and the tokens. Both are overwritten before a checked step,
        and with them the first token: such a step reads the prompts again."""
        self._read = False
        return {name: self._context.buffers[name] for name in ("logits", "tokens")}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """Of a graph ``capture_us`` and ``instantiate_us``, ``nodes``; of decoded tokens ``tpot_us_p50``, ``_p95``,
        ``_p99`` between the ends of tokens that follow each other, by the device's clock; of a request ``ttft_ms``,
        by the host's."""
        found: dict[str, float] = {}
        if variant in ("graph", "request") and self._graph is not None:
            found |= self._graph.times
            found["nodes"] = float(self._graph.graph.nodes)
        if variant == "request":
            found["ttft_ms"] = float(np.median([self._prefill_ms() for _ in range(REPEATS)]))
        if variant != "prefill":
            times = self._token_times(variant)
            found |= {f"tpot_us_p{share}": float(np.percentile(times, share)) for share in (50, 95, 99)}
        return found

    def _prefill_ms(self) -> float:
        begin = time.perf_counter()
        self._prefill()
        return (time.perf_counter() - begin) * 1e3

    def _token_times(self, variant: str) -> list[float]:
        """Microseconds from token to token."""
        event = self._context.devices[0].event
        begin, marks = event(), [event() for _ in range(self._tokens)]
        times: list[float] = []
        until = time.monotonic() + TIMED_S
        while not times or (len(times) < TIMED_TOKENS and time.monotonic() < until):
            self._stream.record(begin)
            self._generate(self._one(variant), marks)
            self._stream.synchronize()
            ends = [mark.elapsed_us(begin) for mark in marks]
            times += np.diff(ends, prepend=0.0).tolist()
        return times

    def close(self) -> None:
        if self._graph is not None:
            self._graph.graph.free()
            self._graph = None
