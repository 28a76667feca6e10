"""Speculative decoding for ``kernel=mini_llm_spec``: a small model, or the model's own first layers, propose; the whole
model verifies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from runner.backend.base import Buffer
from runner.workload.base import Context
from runner.workload.capture import Captured, captured
from runner.workload.declared import prepared
from runner.workload.decoder import Choice, Decoder, Pass
from runner.workload.mini_llm import MiniLlm, prompt_pass

SHARED = ("prompt_ids", "draft_ids", "draft_position", "drafted")
"""Buffers of the model's own that a draft beside it works on: the prompts, and what it proposes."""


def draft_pass(decoder: Decoder, layers: int) -> Pass:
    """The next proposal of every sequence, by the first ``layers`` (0 = all). Those of the model itself have their part
    of its cache: a key or value of a layer is the same whether the layers above it are run or not."""
    return Pass(tokens=decoder.size("B"), ids="draft_ids", slot="each", position="draft_position", layers=layers)


def window_pass(decoder: Decoder) -> Pass:
    """The next token and all proposals of every sequence, which attend to each other."""
    tokens = decoder.size("window_tokens")
    return Pass(
        tokens=tokens,
        ids="window_ids",
        slot="window_slot",
        position="window_position",
        runs="window_runs",
        run_count=decoder.size("B"),
        sampled=tokens,
        rows="window_rows",
        logits="window_logits",
    )


class MiniLlmSpec(MiniLlm):
    """A step of ``plain`` decodes ``steps`` tokens of every sequence one by one, one of ``spec`` window by window; both
    by a graph, and both from where the prompts end.

    How many tokens a window yields is decided on the device, for each sequence by itself. The host reads positions when
    as many windows have been enqueued as are needed at least.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        decoder, size = self._decoder, self._decoder.size
        self._window, self._end = size("window"), size("prompt") + size("steps")
        capacity = size("T")
        drafted = Choice(ids="draft_ids", position="draft_position", tokens="drafted", first=0, last=capacity)
        # The window's choices are written down where they are accepted, not before.
        chosen = Choice("window_logits", "chosen", "window_position", first=capacity + 1)
        beside = context.companion
        self._beside = _sharing(beside, context) if beside else None
        proposing = Decoder(self._beside) if self._beside else decoder
        layers = 0 if self._beside else size("draft_layers")
        self._draft = (*proposing.steps(draft_pass(proposing, layers)), proposing.sample(self._batch, drafted))
        self._draft_prompt = tuple(proposing.steps(prompt_pass(proposing))) if self._beside else ()
        self._draft_steps = size("draft_steps")
        self._verify = (*decoder.steps(window_pass(decoder)), decoder.sample(size("window_tokens"), chosen))
        self._to_draft = decoder.rewind("prompt", "draft_ids", "draft_position")
        self._gather, self._accept = decoder.window(), decoder.accept()
        self._round: Captured | None = None

    def prepare(self) -> None:
        """Quantises the weights, where they are, and those of a draft beside the model."""
        super().prepare()
        if self._beside:
            prepared(self._beside)

    def _prefill(self) -> None:
        """A draft beside the model reads the prompts too."""
        super()._prefill()
        self._enqueue(self._draft_prompt)
        self._stream.synchronize()

    def reset(self, variant: str) -> None:
        """Reads the prompts where they are not in the cache, and captures a token or a window: a second one, as kernels
        load with the first.

        Raises ``BackendError`` where the device cannot capture.
        """
        super().reset("graph" if variant == "plain" else "eager")
        if variant == "spec" and self._round is None:
            self._start()
            self._enqueue_round()
            self._stream.synchronize()
            self._round = captured(self._stream, self._enqueue_round)

    def step(self, variant: str) -> None:
        """Returns when the device has done it."""
        if variant == "plain" or self._round is None:
            super().step("graph")
            return
        if not self._read:
            self._prefill()
        with self._context.ranges("decode"):
            self._start()
            left = self._tokens
            while left > 0:
                for _ in range(-(-left // self._window)):
                    self._round.graph.launch(self._stream)
                left = self._end - int(self._held("position").min())

    def _start(self) -> None:
        self._to_tokens.enqueue()
        self._to_draft.enqueue()
        for name in ("accepted", "windows"):
            self._stream.fill(self._context.buffers[name], 0)

    def _enqueue_round(self) -> None:
        with self._context.ranges("draft"):
            for _ in range(self._draft_steps):
                self._enqueue(self._draft)
        with self._context.ranges("verify"):
            self._gather.enqueue()
            self._enqueue(self._verify)
            self._accept.enqueue()

    def _held(self, name: str) -> npt.NDArray[np.int32]:
        """(B,): waits for the device."""
        values = np.empty(self._batch, np.int32)
        self._stream.read(values, self._context.buffers[name])
        self._stream.synchronize()
        return values

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        """As in ``mini_llm``; of ``spec`` the tokens alone: no pass gives the last logits of all sequences together."""
        found = super().outputs(variant)
        return found if variant == "plain" else {"tokens": found["tokens"]}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """Of ``plain`` those of a graph in ``mini_llm``. Of ``spec``, over all sequences of the last step:
        ``acceptance_rate``, the share of proposals that the model agreed with; ``verifications``, windows of a
        sequence, the mean; ``tokens_per_verification``; ``capture_us``, ``instantiate_us`` and ``nodes`` of a window's
        graph."""
        if variant == "plain" or self._round is None:
            return super().metrics("graph")
        accepted, windows = int(self._held("accepted").sum()), int(self._held("windows").sum())
        return {
            "acceptance_rate": accepted / (windows * (self._window - 1)),
            "verifications": windows / self._batch,
            "tokens_per_verification": self._batch * self._tokens / windows,
            **self._round.times,
            "nodes": float(self._round.graph.nodes),
        }

    def close(self) -> None:
        super().close()
        if self._round is not None:
            self._round.graph.free()
            self._round = None


def _sharing(beside: Context, context: Context) -> Context:
    """The draft's context, with those buffers of the model's own."""
    return replace(beside, buffers={**beside.buffers, **{name: context.buffers[name] for name in SHARED}})
