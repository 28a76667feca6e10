"""What one GPU of a group holds of a layer, and which layers a pipeline stage holds.

Tensor parallelism divides heads and intermediate widths, so the matrices next to them; what has neither size is held by
every GPU: norms, router, biases of the output projections and the down-projections of latent attention. Where a size
does not divide evenly, the GPU with the largest part is meant. Expert parallelism spreads whole experts over ``expert``
of the ``tensor`` GPUs that share a layer, and divides each expert over the ``tensor / expert`` that hold it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from runner.estimate.model import Architecture, Attention, Layer, Mlp, Parallel
from runner.plan.errors import PlanError


@dataclass(frozen=True)
class Stage:
    """Consecutive layers that one group of ``tensor`` GPUs holds."""

    layers: tuple[Layer, ...]
    first: bool
    """Holds the input embedding and the position table."""
    last: bool
    """Holds the final norm and the output head."""


def stages(arch: Architecture, parallel: Parallel) -> tuple[Stage, ...]:
    """The layers, split over the pipeline as evenly as may be.

    The layers left over go one each to the stages before the last, from the back, because the last has the head and the
    first the embedding: 61 layers over four stages are 15, 15, 16, 15.
    """
    check(arch, parallel)
    each, left = divmod(len(arch.layers), parallel.pipeline)
    sizes = [each] * parallel.pipeline
    for back in range(2, left + 2):
        sizes[-back] += 1
    found, start = [], 0
    for number, size in enumerate(sizes):
        found.append(Stage(arch.layers[start : start + size], number == 0, number == parallel.pipeline - 1))
        start += size
    return tuple(found)


def attention(part: Attention, parallel: Parallel) -> Attention:
    """The heads of one GPU. Each has at least one KV head: with fewer heads than GPUs they are held several times.

    The latent of MLA belongs to all heads, so its ranks stay whole on every GPU.
    """
    return replace(
        part, heads=divided(part.heads, parallel.tensor), kv_heads=max(1, divided(part.kv_heads, parallel.tensor))
    )


def mlp(part: Mlp, parallel: Parallel) -> Mlp:
    """A dense feed-forward part, or a shared expert, on one GPU."""
    return replace(part, width=divided(part.width, parallel.tensor))


def routed(part: Mlp, parallel: Parallel) -> Mlp:
    """The routed experts that one GPU holds: ``experts`` of them, each ``width`` wide."""
    return replace(
        part,
        experts=divided(part.experts, parallel.expert),
        width=divided(part.width, parallel.tensor // parallel.expert),
    )


def divided(size: int, parts: int) -> int:
    """The largest of ``parts`` parts of ``size``."""
    return -(-size // parts)


def check(arch: Architecture, parallel: Parallel) -> None:
    """Refuse a spread that the architecture does not allow, with a ``PlanError`` that names the key."""
    tensor, pipeline, expert = parallel.tensor, parallel.pipeline, parallel.expert
    for key, value in (("tensor", tensor), ("pipeline", pipeline), ("expert", expert)):
        if value < 1:
            raise PlanError(f"estimate.{key}", value, "must be at least 1")
    for part in {layer.attention for layer in arch.layers}:
        if part.heads % tensor:
            raise PlanError("estimate.tensor", tensor, f"must divide the {part.heads} heads of {arch.name}")
        if not part.kv_lora_rank and part.kv_heads % tensor and tensor % part.kv_heads:
            allowed = f"must divide the {part.kv_heads} KV heads of {arch.name}, or be a multiple of them"
            raise PlanError("estimate.tensor", tensor, allowed)
    if pipeline > len(arch.layers):
        raise PlanError("estimate.pipeline", pipeline, f"{arch.name} has {len(arch.layers)} layers to split")
    if expert == 1:
        return
    counts = {layer.mlp.experts for layer in arch.layers if layer.mlp.experts}
    if not counts:
        raise PlanError("estimate.expert", expert, f"{arch.name} has no experts to spread")
    if tensor % expert:
        raise PlanError("estimate.expert", expert, f"must divide estimate.tensor={tensor}, the GPUs that share a layer")
    if expert > min(counts):
        raise PlanError("estimate.expert", expert, f"{arch.name} has {min(counts)} experts to spread")
