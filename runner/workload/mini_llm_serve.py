"""A trace of requests, served by the decoder of ``cuda_src/mini_llm.cu`` in real time: ``kernel=mini_llm_serve``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from runner.backend.base import Buffer
from runner.plan.model import Plan
from runner.serving import document, source
from runner.serving.clock import RealClock
from runner.serving.drive import run
from runner.serving.figures import metrics
from runner.serving.pages import PagePool
from runner.serving.prompts import prompt_ids
from runner.serving.scheduler import Scheduler
from runner.serving.served import Served
from runner.workload.base import Context
from runner.workload.declared import prepared
from runner.workload.decoder import Decoder
from runner.workload.paged_engine import PagedEngine

TARGET = "runner.workload.mini_llm_serve.MiniLlmServe"
"""What a family's ``workload`` names."""
SHARED = "_shared"
"""Ends the name of a variant whose sequences share pages; before it stands the policy."""


def scheduler(plan: Plan, variant: str) -> Scheduler:
    """One that has served nothing, with all pages free. Raises ``ConfigError``."""
    size = {name: int(plan.symbols[name]) for name in ("pages", "page_tokens", "B", "slot_pages", "max_tokens", "V")}
    policy = variant.removesuffix(SHARED)
    pool = PagePool(size["pages"], size["page_tokens"], size["B"], size["slot_pages"], share=policy != variant)
    return Scheduler(policy, size["max_tokens"], pool, lambda request: prompt_ids(request, size["V"], plan.seed))


class MiniLlmServe:
    """A step serves the whole trace by the policy that the variant is named after; its time is that of the trace.

    Raises ``ConfigError`` where the trace's file has changed since it was planned.
    """

    host_timed = True
    units_per_step = 1

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stream = context.streams[0]
        self._trace = source.of(context.plan.symbols, context.plan.seed)
        self._engine = PagedEngine(context, Decoder(context))
        self._served: dict[str, Served] = {}
        """The last timed step of each variant."""
        self._checked = False

    def prepare(self) -> None:
        """Quantises the weights, where they are."""
        prepared(self._context)

    def reset(self, variant: str) -> None:
        """Nothing: a step begins with an empty engine."""

    def step(self, variant: str) -> None:
        """Returns when the last request has its last token."""
        served = run(self._trace, scheduler(self._context.plan, variant), self._engine, RealClock())
        if self._checked:
            self._checked = False
            self._leave(served)
        else:
            self._served[variant] = served

    def _leave(self, served: Served) -> None:
        """All texts, as the checks read them: a row for each request, -1 behind its last token."""
        buffer = self._context.buffers["tokens"]
        texts = np.full(self._context.plan.buffer("tokens").dims, -1, np.int32)
        for row, one in zip(texts, served.requests, strict=True):
            row[: len(one.tokens)] = one.tokens
        self._stream.write(buffer, texts)
        self._stream.synchronize()

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        """The texts; the step that follows is the checked one, and no measurement."""
        self._checked = True
        return {"tokens": self._context.buffers["tokens"]}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """Those of ``serving.figures``, of the last timed step."""
        return metrics(self._served[variant]) if variant in self._served else {}

    def record(self, variant: str, folder: Path) -> None:
        """``served.json``: all that happened in the last timed step."""
        if variant in self._served:
            document.write(self._served[variant], folder / document.FILE_NAME)

    def close(self) -> None:
        self._engine.close()
