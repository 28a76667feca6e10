"""The decode loop of ``kernel=spec_decode``: token by token, or window by window."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from runner.backend.base import Buffer
from runner.workload.base import Context

BLOCK = 256
PER_THREAD = 4
"""Floats of a row that a thread handles."""


class SpeculativeLoop:
    """One step of the experiment decodes the tokens of all windows, timed by the host's clock.

    The host knows no accepted length: positions are handed from window to window on the device.
    """

    host_timed = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stream = context.streams[0]
        symbols = context.plan.symbols
        self._elements = int(symbols["N"])
        self._windows = int(symbols["windows"])
        self._draft = int(symbols["draft"])
        self.units_per_step = int(symbols["tokens"])
        """Tokens a step yields."""
        self._target_only = context.function("target_only_token_kernel")
        self._verify = context.function("spec_verify_window_kernel")
        self._compact = context.function("compact_accepted_window_kernel")
        self._blocks = -(-self._elements // (BLOCK * PER_THREAD))

    def prepare(self) -> None:
        """Nothing: the tables are filled, and the first position is a zero that no kernel writes."""

    def reset(self, variant: str) -> None:
        """Nothing: a step overwrites all that the one before it left."""

    def step(self, variant: str) -> None:
        """Decodes all tokens; returns when the device has finished."""
        if variant == "target_only":
            for token in range(self.units_per_step):
                self._decode(token)
        else:
            for window in range(self._windows):
                self._speculate(window)
        self._stream.synchronize()

    def _decode(self, token: int) -> None:
        buffers = self._context.buffers
        arguments = (buffers["x"], buffers["emitted_ids"], buffers["accepted"], np.int64(self._elements))
        self._stream.launch(self._target_only, (self._blocks, 1, 1), (BLOCK, 1, 1), 0, (*arguments, np.int64(token)))

    def _speculate(self, window: int) -> None:
        buffers = self._context.buffers
        sizes = (np.int64(self._elements), np.int64(window), np.int64(self._draft))
        verify = (buffers["x"], buffers["target_ids"], buffers["verified"], *sizes)
        self._stream.launch(self._verify, (self._blocks, 1, 1), (BLOCK, 1, 1), 0, verify)
        tables = (buffers["draft_ids"], buffers["target_ids"])
        compact = (buffers["verified"], *tables, buffers["accepted"], buffers["positions"], *sizes)
        self._stream.launch(self._compact, (self._blocks, self._draft + 1, 1), (BLOCK, 1, 1), 0, compact)

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        return {"accepted": self._context.buffers["accepted"]}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """Nothing beyond the plan's own figures."""
        return {}

    def close(self) -> None:
        """Buffers and stream belong to the worker."""
