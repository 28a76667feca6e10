"""Single operators of the decoder, for ``kernel=layer_ops``: each by itself, in the launches of a whole pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from runner.backend.base import Buffer
from runner.workload.base import Context
from runner.workload.capture import Captured, captured
from runner.workload.declared import BoundLaunch, prepared
from runner.workload.decoder import Decoder
from runner.workload.mini_llm import decode_pass, prompt_pass


class LayerOps:
    """A step of ``decode_logits`` is that operator for one token of every sequence, one of ``prefill_qkv`` that of the
    first layer for the prompts. What a decode step does in every layer (``decode_qkv``) is a graph of that operator in
    all held layers, so that a step is as many calls; so are the empty kernels of ``chain``.

    A checked step runs whole passes before: what is checked was computed by the same launches as those that are timed.
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
        self._graphs: dict[str, Captured] = {}
        self._timed: Callable[[], None] = lambda: None
        self._checked = False

    def prepare(self) -> None:
        """Quantises the weights, where they are."""
        prepared(self._context)

    def reset(self, variant: str) -> None:
        """Reads the prompts, and stands where the timed token does. Raises ``BackendError`` for what cannot be
        captured."""
        self._checked = False
        self._whole("prefill")
        self._to_timed.enqueue()
        self._stream.synchronize()
        launches = self._launches(variant)
        if len(launches) == 1:
            self._timed = launches[0].enqueue
            return
        if variant not in self._graphs:
            self._graphs[variant] = captured(self._stream, lambda: _enqueue(launches))
        graph = self._graphs[variant].graph
        self._timed = lambda: graph.launch(self._stream)

    def step(self, variant: str) -> None:
        if self._checked:
            self._whole("prefill")
            if not variant.startswith("prefill"):
                self._whole("decode")
            self._to_timed.enqueue()  # the choice of a token has moved on
        self._timed()

    def _launches(self, variant: str) -> list[BoundLaunch]:
        """What a step consists of."""
        phase, _, operator = variant.partition("_")
        if phase not in self._steps:
            return [self._decoder.empty()] * (self._decoder.size("nodes") if variant == "chain" else 1)
        named = [step.launch for step in self._steps[phase] if step.operator == operator]
        return named if phase == "decode" else named[:1]

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
        """Of a graph ``nodes``."""
        return {"nodes": float(self._graphs[variant].graph.nodes)} if variant in self._graphs else {}

    def close(self) -> None:
        for made in self._graphs.values():
            made.graph.free()
        self._graphs.clear()


def _enqueue(launches: Sequence[BoundLaunch]) -> None:
    for launch in launches:
        launch.enqueue()
