"""One estimate: memory, work and times of a model on a group of GPUs, as the metrics that are shown and filed."""

from __future__ import annotations

from collections.abc import Iterator

from runner.estimate import memory, operators, params, queueing, times
from runner.estimate.kernels import Kernels
from runner.estimate.model import Architecture, Efficiency, Estimate, Machine, Memory, Parallel, Phase, Work


def estimate(
    arch: Architecture,
    work: Work,
    parallel: Parallel,
    machine: Machine,
    efficiency: Efficiency,
    reserve_bytes: int,
    memory_share: float,
    kernels: Kernels | None = None,
) -> Estimate:
    """Everything that is said of ``work`` on ``parallel.gpus`` of ``machine``.

    Bytes and FLOP are those of one GPU. ``ttft_ms``, ``tpot_ms`` and the rates are those of a batch that starts
    together; ``served_ttft_ms``, ``served_tpot_ms`` and ``served_waiting_ms`` those of a server that keeps as many
    requests in flight (``runner.estimate.queueing``), where one fits. ``reserve_bytes`` and ``memory_share``: as
    ``memory.memory`` takes them. With ``kernels`` the times are theirs: those of a server, which they do not tell, are
    left out, and what bounds a phase is that of the ideal roofline, where the machine has one. Raises ``PlanError``
    where the model cannot be shared out so, or the GPU has no rate for the arithmetic.
    """
    held = memory.memory(arch, work, parallel, machine, reserve_bytes, memory_share)
    prefill = operators.prefill(arch, work, parallel)
    decode = operators.decode(arch, work, parallel, times.mean_context(work))
    load = queueing.load(arch, work, parallel, machine, reserve_bytes, memory_share)
    level = Efficiency() if kernels else efficiency
    parts: dict[str, dict[str, float]] = {}
    ridge: dict[str, float] = {}
    if machine.rated:
        parts = {phase.name: times.parts_s(phase, arch, work, parallel, machine, level) for phase in (prefill, decode)}
        ridge = {
            "ridge_intensity": times.ridge_intensity(machine, work.weights.compute),
            "ridge_batch": times.ridge_batch(machine, work.weights),
        }
    if kernels:
        ttft, step = kernels.ttft_s, kernels.tpot_s
    else:
        ttft = level.request_us * 1e-6 + sum(parts["prefill"].values())
        step = sum(parts["decode"].values())
    metrics = {
        **_sizes(arch, work, parallel, machine, held, memory_share, load.slots),
        **_work(prefill, decode),
        **ridge,
        **_times(work, parallel, machine, ttft, step),
        **({} if kernels else _served(load, level)),
    }
    return Estimate(
        architecture=arch,
        work=work,
        parallel=parallel,
        machine=machine,
        efficiency=efficiency,
        memory=held,
        prefill=prefill,
        decode=decode,
        metrics=metrics,
        labels={
            **{f"bound_{name}": times.bound(seconds) for name, seconds in parts.items()},
            "level": efficiency.level,
            **({"kernels_from": kernels.source} if kernels else {}),
        },
        notes=(*(kernels.notes if kernels else ()), *_notes(arch, work, parallel, machine, (prefill, decode))),
        kernels=kernels,
    )


def _sizes(
    arch: Architecture, work: Work, parallel: Parallel, machine: Machine, held: Memory, share: float, slots: int
) -> dict[str, float]:
    """Parameters of the whole model, bytes of one GPU, and what would fit."""
    counts = params.count(arch)
    found = {
        "params_total": float(counts.total),
        "params_active": float(counts.active),
        "weight_bytes": float(held.weights),
        "kv_bytes_per_token": float(memory.kv_bytes_per_token(arch, work.kv, parallel)),
        "kv_cache_bytes": float(held.kv),
        "activation_bytes": float(held.activations),
        "memory_bytes": float(held.total),
        "memory_available_bytes": float(held.available),
        "fits": float(held.fits),
        "max_batch": float(slots),
    }
    longest = memory.max_context(arch, work, parallel, machine, held.reserve, share)
    if longest is not None:
        found["max_context"] = float(longest)
    return found


def _work(prefill: Phase, decode: Phase) -> dict[str, float]:
    """FLOP and bytes of device memory of one GPU, in the prefill of the batch and in a step at the average context."""
    found: dict[str, float] = {}
    for phase, suffix in ((prefill, "prefill"), (decode, "decode_step")):
        found[f"flops_{suffix}"] = phase.flops
        found[f"bytes_{suffix}"] = phase.bytes
        found[f"intensity_{phase.name}"] = phase.flops / phase.bytes
        found[f"link_bytes_{suffix}"] = sum(one.link_bytes for one in phase.operators)
    return found


def _times(work: Work, parallel: Parallel, machine: Machine, ttft: float, step: float) -> dict[str, float]:
    """Times and rates, and what they cost, of a prefill and a decode step that take so many seconds.

    A request takes TTFT and output − 1 times TPOT. ``tokens_per_s`` counts decoding alone, B / TPOT;
    ``tokens_per_s_request`` the prefill too, and so do energy and money: GPUs · power (or price) · time of a request
    over the tokens of its batch. The power is the GPU's limit (TDP), so the energy is an upper bound.
    """
    yielded = times.tokens_per_verification(work.speculative, work.acceptance)
    tpot = step / yielded
    request = ttft + (work.output - 1) * tpot
    gpu_s = parallel.gpus * request / (work.batch * work.output)
    found = {
        "ttft_ms": 1e3 * ttft,
        "tpot_ms": 1e3 * tpot,
        "request_ms": 1e3 * request,
        "tokens_per_s": work.batch / tpot,
        "tokens_per_s_gpu": work.batch / tpot / parallel.gpus,
        "tokens_per_s_request": work.batch * work.output / request,
    }
    if work.speculative:
        found["tokens_per_verification"] = yielded
    if machine.tdp_w:
        found["joules_per_million_tokens"] = 1e6 * gpu_s * machine.tdp_w
    if machine.price_per_hour:
        found["money_per_million_tokens"] = 1e6 * gpu_s * machine.price_per_hour / 3600
    return found


def _served(load: queueing.Load, efficiency: Efficiency) -> dict[str, float]:
    """Under a constant load; nothing where not one request fits."""
    if not load.slots:
        return {}
    served = load.served(efficiency)
    return {
        "served_ttft_ms": 1e3 * served.ttft_s,
        "served_tpot_ms": 1e3 * served.tpot_s,
        "served_waiting_ms": 1e3 * served.waiting_s,
    }


def _notes(
    arch: Architecture, work: Work, parallel: Parallel, machine: Machine, phases: tuple[Phase, ...]
) -> Iterator[str]:
    """Assumptions that change a figure of this estimate."""
    computed = {one.compute for phase in phases for one in phase.operators if one.flops}
    for compute in sorted(computed if machine.rated else ()):
        used = times.arithmetic(machine, compute)
        if used != compute:
            yield f"{machine.name} has no {compute} arithmetic: such products run in {used}"
    if not times.link_rate(machine) and any(one.link_bytes for phase in phases for one in phase.operators):
        yield f"no link rate is known of {machine.name}: what goes between GPUs takes no time here"
    if arch.positions and work.prompt + work.output > arch.positions:
        yield (
            f"{arch.name} has {arch.positions} positions: it cannot see the {work.prompt + work.output} tokens of "
            "prompt and output"
        )
    if work.speculative:
        yield "what drafting takes, in time and memory, is not counted: only the verification is"
    if parallel.pipeline > 1:
        yield (
            "one batch passes the pipeline at a time; with one batch for each stage the tokens per second come to "
            f"{parallel.pipeline} times these, at the same time per token"
        )
