"""One pass over given tokens with the logits of every position, for ``kernel=mini_llm_quality``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runner.backend.base import Buffer
from runner.workload.base import Context
from runner.workload.declared import prepared
from runner.workload.decoder import Decoder
from runner.workload.mini_llm import prompt_pass


class MiniLlmQuality:
    """A step reads all tokens from an empty cache. Nothing evolves: positions are those of the tokens."""

    host_timed = False
    units_per_step = 1

    def __init__(self, context: Context) -> None:
        self._context = context
        decoder = Decoder(context)
        whole = replace(prompt_pass(decoder), sampled=decoder.size("prompt_tokens"), rows="every")
        self._steps = tuple(decoder.steps(whole))

    def prepare(self) -> None:
        """Quantises the weights, where they are."""
        prepared(self._context)

    def reset(self, variant: str) -> None:
        """Nothing: a step overwrites all that the one before it left."""

    def step(self, variant: str) -> None:
        for step in self._steps:
            step.launch.enqueue()

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        return {"logits": self._context.buffers["logits"]}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """Nothing: what the formats cost is the reference's to say."""
        return {}

    def close(self) -> None:
        """Buffers and streams are the worker's."""
