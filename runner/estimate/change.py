"""What a change would buy: the same estimate with one thing changed, beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from runner.estimate import precision
from runner.estimate.estimate import estimate
from runner.estimate.model import Architecture, Estimate, Machine
from runner.plan.errors import PlanError

METRICS = ("memory_bytes", "max_batch", "ttft_ms", "tpot_ms", "tokens_per_s")
"""What a change is judged by."""
_WEIGHTS = ("float8", "int8", "int4_g128")
_KV = "float8"
_KV_HEADS = 8
"""KV heads of the grouped-query attention that is tried where each query head has its own."""


@dataclass(frozen=True)
class Change:
    """One metric under one change."""

    name: str
    """What is changed, as it would be written: ``estimate.weights=int8``."""
    metric: str
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """After over before; 0 where there was nothing before."""
        return self.after / self.before if self.before else 0.0


def changes(made: Estimate, gpus: Sequence[Machine] = ()) -> tuple[Change, ...]:
    """Each of ``METRICS`` under each change that applies: weights and KV in fewer bits, grouped-query attention, twice
    the batch, twice the GPUs that share a layer, and the next larger GPU of ``gpus``.

    Weights are tried in ``_WEIGHTS`` as far as the GPU has the arithmetic. What a change costs in quality is no part of
    it, and grouped-query attention needs a model trained so.
    """
    found = []
    for name, other in _others(made, gpus):
        found += [Change(name, metric, made.metrics[metric], other.metrics[metric]) for metric in METRICS]
    return tuple(found)


def _others(made: Estimate, gpus: Sequence[Machine]) -> Iterator[tuple[str, Estimate]]:
    """Changed estimates; what the model or the GPU does not allow is left out."""
    for name, changed in _changed(made, gpus):
        try:
            yield name, _again(changed, made.memory.available / made.machine.memory_bytes)
        except PlanError:
            continue


def _changed(made: Estimate, gpus: Sequence[Machine]) -> Iterator[tuple[str, Estimate]]:
    work = made.work
    for weights in map(precision.of, _WEIGHTS):
        native = weights.compute in made.machine.tflops
        if weights.bits < work.weights.bits and native:
            yield f"estimate.weights={weights.name}", replace(made, work=replace(work, weights=weights))
    kv = precision.of(_KV)
    if kv.bits < work.kv.bits:
        yield f"estimate.kv={kv.name}", replace(made, work=replace(work, kv=kv))
    grouped = _grouped(made.architecture)
    if grouped is not None:
        yield f"model.kv_heads={_KV_HEADS}", replace(made, architecture=grouped)
    yield f"shape.batch={2 * work.batch}", replace(made, work=replace(work, batch=2 * work.batch))
    tensor = 2 * made.parallel.tensor
    yield f"estimate.tensor={tensor}", replace(made, parallel=replace(made.parallel, tensor=tensor))
    larger = next_larger(made.machine, gpus)
    if larger is not None:
        yield f"gpu={larger.name}", replace(made, machine=larger)


def next_larger(machine: Machine, gpus: Sequence[Machine]) -> Machine | None:
    """The GPU with the least memory above this one's, and no less bandwidth; of equals that with the most."""
    above = [
        one for one in gpus if one.memory_bytes > machine.memory_bytes and one.bandwidth_gbps >= machine.bandwidth_gbps
    ]
    return min(above, key=lambda one: (one.memory_bytes, -one.bandwidth_gbps), default=None)


def _grouped(arch: Architecture) -> Architecture | None:
    """``arch`` with ``_KV_HEADS`` KV heads; None where attention is grouped or latent, or does not divide."""
    layers = []
    for layer in arch.layers:
        part = layer.attention
        if part.kv_lora_rank or part.kv_heads != part.heads or part.heads <= _KV_HEADS or part.heads % _KV_HEADS:
            return None
        layers.append(replace(layer, attention=replace(part, kv_heads=_KV_HEADS)))
    return replace(arch, layers=tuple(layers))


def _again(made: Estimate, share: float) -> Estimate:
    return estimate(
        made.architecture, made.work, made.parallel, made.machine, made.efficiency, made.memory.reserve, share
    )
