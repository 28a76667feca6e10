"""Single operators of the decoder, for ``kernel=layer_ops``: each by itself, in the launches of a whole pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.backend.base import Buffer
from runner.workload.base import Context
from runner.workload.capture import Captured, captured
from runner.workload.declared import BoundLaunch, prepared
from runner.workload.decoder import Decoder
from runner.workload.mini_llm import decode_pass, prompt_pass

PHASES = ("decode", "prefill")


class LayerOps:
    """A step of ``decode_qkv`` is that operator of one layer for one token of every sequence, one of ``prefill_qkv``
    for the prompts; operators that a pass has twice (norms) are taken once.

    A checked step runs the whole pass before, so that what is checked was computed by the launch that is timed.
    """

    host_timed = False
    units_per_step = 1

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stream = context.streams[0]
        self._decoder = Decoder(context)
        passes = {"decode": decode_pass(self._decoder), "prefill": prompt_pass(self._decoder)}
        sample = self._decoder.sample(self._decoder.size("B"))
        self._steps = {phase: (*self._decoder.steps(this), sample) for phase, this in passes.items()}
        rewind = self._decoder.rewind
        self._to_prompt, self._to_token = rewind("before_prompt"), rewind("prompt")
        self._to_timed = rewind("decode_at")
        self._empty = self._decoder.empty()
        self._chain: Captured | None = None
        self._operators: Sequence[BoundLaunch] = ()
        self._checked = False

    def prepare(self) -> None:
        """Quantises the weights, where they are."""
        prepared(self._context)

    def reset(self, variant: str) -> None:
        """Reads the prompts, and stands where the timed token does. Raises ``BackendError`` for what cannot be
        captured."""
        phase, _, operator = variant.partition("_")
        self._checked = False
        self._whole("prefill")
        self._to_timed.enqueue()
        self._stream.synchronize()
        if phase in PHASES:
            named = [step.launch for step in self._steps[phase] if step.operator == operator]
            self._operators = named[:1]
        elif variant == "empty":
            self._operators = [self._empty]
        elif self._chain is None:
            nodes = self._decoder.size("nodes")
            self._chain = captured(self._stream, lambda: self._repeat(nodes))

    def step(self, variant: str) -> None:
        if self._checked:
            self._whole("prefill")
            if not variant.startswith("prefill"):
                self._whole("decode")
            self._to_timed.enqueue()  # the choice of a token has moved on
        if variant == "chain" and self._chain is not None:
            self._chain.graph.launch(self._stream)
            return
        for launch in self._operators:
            launch.enqueue()

    def _repeat(self, count: int) -> None:
        for _ in range(count):
            self._empty.enqueue()

    def _whole(self, phase: str) -> None:
        """A pass, up to the choice of the next token."""
        (self._to_prompt if phase == "prefill" else self._to_token).enqueue()
        for step in self._steps[phase]:
            step.launch.enqueue()

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        """The tokens, which are overwritten before a checked step: such a step runs whole passes first."""
        self._checked = True
        return {"tokens": self._context.buffers["tokens"]}

    def metrics(self, variant: str) -> Mapping[str, float]:
        return {}

    def close(self) -> None:
        if self._chain is not None:
            self._chain.graph.free()
            self._chain = None
