"""How long the operators of a phase take, and what follows: time to the first token, time per token.

An operator takes as long as its slowest resource: the arithmetic, the device memory or the link to the other GPUs,
which run at the same time. Operators run one after another, so a phase is their sum, and the fixed times of
``Efficiency`` come on top. With the default ``Efficiency`` this is the ideal roofline, a lower bound.

Where memory bounds every operator of a decode step this is the closed form
t = bytes / (bandwidth · share) + L · layer + 2 · L · all_reduce + B · sequence, in which a fixed time of each layer,
and not a lower share of the bandwidth, explains what is measured across GPUs and degrees of tensor parallelism.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from runner.estimate import operators
from runner.estimate.model import Architecture, Efficiency, Machine, Operator, Parallel, Phase, Precision, Work
from runner.plan.errors import PlanError

_WIDER = {
    "float4": ("bfloat16", "float16"),
    "float8": ("bfloat16", "float16"),
    "int8": ("bfloat16", "float16"),
    "float16": ("bfloat16", "float32"),
    "bfloat16": ("float32",),
}
"""What a GPU without an arithmetic type computes in: the next wider type that it has."""

_PCIE_LANE = {"3": 0.985, "4": 1.969, "5": 3.938, "6": 7.563}
"""Generation → 1e9 byte/s of a lane in one direction."""
BOUNDS = ("memory", "compute", "link", "overhead")
"""What a phase can be bound by; ``overhead``: the fixed times."""


def arithmetic(machine: Machine, compute: str) -> str:
    """The arithmetic type that ``compute`` runs in on this GPU: itself or a wider one; ``PlanError`` without any."""
    for name in (compute, *_WIDER.get(compute, ())):
        if machine.tflops.get(name, 0.0) > 0:
            return name
    raise PlanError(f"gpu.tflops.{compute}", None, f"{machine.name} needs a peak for it, or for a wider type")


def peak(machine: Machine, compute: str) -> float:
    """FLOP/s of the datasheet for ``compute``, dense."""
    return machine.tflops[arithmetic(machine, compute)] * 1e12


def link_rate(machine: Machine) -> float:
    """Byte/s that one GPU sends: half of NVLink's figure, which counts both directions; without NVLink, PCIe's rate for
    its generation and lanes after line coding; 0 where neither is known."""
    if machine.nvlink_gbps:
        return machine.nvlink_gbps / 2 * 1e9
    link = re.fullmatch(r"([3-6])(?: x(\d+))?", machine.pcie)
    return _PCIE_LANE[link[1]] * int(link[2] or 16) * 1e9 if link else 0.0


def resources_s(one: Operator, machine: Machine, efficiency: Efficiency) -> dict[str, float]:
    """Seconds that each resource is busy with an operator: FLOP/(peak · share), bytes/(bandwidth · share), bytes/link.

    A link without a known rate takes no time; ``estimate`` says so in its notes.
    """
    rate = link_rate(machine)
    return {
        "memory": one.bytes / (machine.bandwidth_gbps * 1e9 * efficiency.bandwidth),
        "compute": one.flops / (peak(machine, one.compute) * efficiency.compute) if one.flops else 0.0,
        "link": one.link_bytes / rate if rate else 0.0,
    }


def operator_s(one: Operator, machine: Machine, efficiency: Efficiency) -> float:
    """Seconds of all occurrences of an operator in its phase: max(compute, memory, link), without fixed times."""
    return max(resources_s(one, machine, efficiency).values())


def operator_bound(one: Operator, machine: Machine, efficiency: Efficiency) -> str:
    """The resource that an operator waits for: one of ``BOUNDS``; empty where it does nothing."""
    busy = resources_s(one, machine, efficiency)
    slowest = max(busy, key=busy.__getitem__)
    return slowest if busy[slowest] else ""


def parts_s(
    phase: Phase, arch: Architecture, work: Work, parallel: Parallel, machine: Machine, efficiency: Efficiency
) -> dict[str, float]:
    """Seconds of a phase by what they wait for, over ``BOUNDS``; their sum is the time of the phase.

    Fixed: passes · (L · layer_us + 2 · L · all_reduce_us where ``tensor`` > 1) + B · sequence_us; a decode step is one
    pass.
    """
    parts: defaultdict[str, float] = defaultdict(float, dict.fromkeys(BOUNDS, 0.0))
    for one in phase.operators:
        busy = resources_s(one, machine, efficiency)
        slowest = max(busy, key=busy.__getitem__)
        parts[slowest] += busy[slowest]
    passes = operators.passes(work) if phase.name == "prefill" else 1
    layer_us = efficiency.layer_us + (2 * efficiency.all_reduce_us if parallel.tensor > 1 else 0.0)
    parts["overhead"] = 1e-6 * (passes * len(arch.layers) * layer_us + work.batch * efficiency.sequence_us)
    return dict(parts)


def phase_s(
    phase: Phase, arch: Architecture, work: Work, parallel: Parallel, machine: Machine, efficiency: Efficiency
) -> float:
    """Seconds of one prefill or of one decode step."""
    return sum(parts_s(phase, arch, work, parallel, machine, efficiency).values())


def bound(parts: Mapping[str, float]) -> str:
    """What most of a phase's time (``parts_s``) waits for."""
    return max(parts, key=parts.__getitem__)


def ttft_s(arch: Architecture, work: Work, parallel: Parallel, machine: Machine, efficiency: Efficiency) -> float:
    """Seconds to the first token where the whole batch arrives at once on an idle machine: its prefill.

    With ``batch`` 1 that is the prefill of one prompt, and the least that a user waits. The fixed time of a request
    comes on top, time in a queue does not.
    """
    phase = operators.prefill(arch, work, parallel)
    return efficiency.request_us * 1e-6 + phase_s(phase, arch, work, parallel, machine, efficiency)


def mean_context(work: Work) -> float:
    """Tokens that a decode step sees on average: step k of ``output`` sees prompt + k, so prompt + (output + 1)/2."""
    return work.prompt + (work.output + 1) / 2


def step_s(arch: Architecture, work: Work, parallel: Parallel, machine: Machine, efficiency: Efficiency) -> float:
    """Seconds of a decode step at the average context.

    A step's time is linear in the context as long as its attention keeps to one roof, so this is the average as well;
    of windowed layers it is a little more than that while their window fills.
    """
    phase = operators.decode(arch, work, parallel, mean_context(work))
    return phase_s(phase, arch, work, parallel, machine, efficiency)


def tokens_per_verification(drafted: int, acceptance: float) -> float:
    """Expected tokens of one verification of g drafted ones, each accepted with probability a: (1 − a^(g+1)) / (1 − a).

    Tokens count up to the first that is refused, and the target's own token comes on top: 1 + a + … + a^g.
    """
    return drafted + 1.0 if acceptance == 1 else (1 - acceptance ** (drafted + 1)) / (1 - acceptance)


def tpot_s(arch: Architecture, work: Work, parallel: Parallel, machine: Machine, efficiency: Efficiency) -> float:
    """Seconds per output token after the first, where the batch starts and ends together: a step's time over the tokens
    that it yields.

    On a server that replaces finished sequences their prefills come on top: ``runner.estimate.queueing``. What drafting
    takes is not in it.
    """
    step = step_s(arch, work, parallel, machine, efficiency)
    return step / tokens_per_verification(work.speculative, work.acceptance)


def ridge_intensity(machine: Machine, compute: str) -> float:
    """FLOP per byte at which arithmetic and memory take the same time: peak / bandwidth, datasheet figures."""
    return peak(machine, compute) / (machine.bandwidth_gbps * 1e9)


def ridge_batch(machine: Machine, weights: Precision) -> float:
    """Tokens of a step from which on a linear layer is compute-bound: ridge intensity · bits / 16.

    A weight takes bits/8 byte and 2 FLOP a token, so B tokens have 16·B/bits FLOP/byte; activations are left out.
    """
    return ridge_intensity(machine, weights.compute) * weights.bits / 16
