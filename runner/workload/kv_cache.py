"""The workload of ``kernel=kv_cache``: declared launches, and a look into the cache after an append."""

from __future__ import annotations

from collections.abc import Mapping

from runner.backend.base import Buffer
from runner.workload.base import Context
from runner.workload.declared import BoundLaunch, DeclaredWorkload, bind

APPENDED = "appended"
"""Buffer for the tokens an append should have written, shape [2, B, H, D]."""
BLANK = 0xFF
"""Every byte of the cache before a checked append."""


class CacheWrites(DeclaredWorkload):
    """An append writes a few tokens of a large cache: those alone are compared.

    The plan's preparation has a launch for each cache that copies them out. It follows the step after ``outputs``
    was asked for, which is the one compared; timed and profiled steps are the variant's launches and nothing else.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._context = context
        self._readers: dict[str, BoundLaunch] = {}
        for launch, bound in zip(context.plan.prepare, bind(context, context.plan.prepare), strict=True):
            self._readers[launch.arguments[0].buffer] = bound
        self._compared = False

    def prepare(self) -> None:
        """Nothing: the preparation of the plan holds the launches that look into the caches."""

    def reset(self, variant: str) -> None:
        super().reset(variant)
        self._compared = False

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        """What the checks read; the cache is blank after this, so that an append from before cannot pass."""
        found = super().outputs(variant)
        if APPENDED in found:
            self._context.streams[0].fill(self._context.buffers[self._cache(variant)], BLANK)
        self._compared = True
        return found

    def step(self, variant: str) -> None:
        super().step(variant)
        checks = self._context.plan.variant(variant).checks
        if self._compared and any(check.output == APPENDED for check in checks):
            self._readers[self._cache(variant)].enqueue()

    def _cache(self, variant: str) -> str:
        """The cache a variant writes."""
        (launch,) = self._context.plan.variant(variant).launches
        return next(argument.buffer for argument in launch.arguments if argument.buffer in self._readers)
