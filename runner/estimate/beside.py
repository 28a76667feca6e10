"""Theory beside measurement: an estimate of the load that was measured, and where the difference comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from runner.estimate import queueing, times
from runner.estimate.model import Compared, Efficiency, Estimate

FIGURES = ("ttft_ms", "tpot_ms", "tokens_per_s")
PAPER = ("ideal", "model")
"""Levels that are told of every machine with a datasheet."""
KERNELS = "measured kernels"
"""The level of measured kernels, as the title of a column."""
_TERMS = {
    "bandwidth": "bandwidth at {share} of the datasheet",
    "compute": "FLOP rate at {share} of the datasheet",
    "layer_us": "fixed time of the layers",
    "all_reduce_us": "latency of the all-reduces",
    "sequence_us": "fixed time of the sequences",
    "request_us": "fixed time of a request",
    "prefills_ahead": "prefills of other requests",
}
"""Constant of ``Efficiency`` → what it adds to a time."""
_NAMED = 0.05
"""A term is named from this share of the difference on."""
_MOST = 3
"""Terms named, at most."""


@dataclass(frozen=True)
class Measurement:
    """What was measured of one load."""

    by: str
    """An engine, or the variant that was measured."""
    source: str
    """The file that says so."""
    figures: Mapping[str, float]
    """Of ``FIGURES`` those that were measured, each above 0."""
    served: bool
    """A server that keeps the batch in flight was measured, not a batch that starts together."""
    cause: str = ""
    """What bounds it, by its own diagnosis."""
    levels: bool = False
    """It is shown beside every level that can be told, not only the estimate's own."""


def of_load(by: str, source: str, ttft_s: float, tpot_s: float, requests: int, output: int) -> Measurement:
    """A server with ``requests`` in flight, each of ``output`` tokens, which measured TTFT and TPOT alone."""
    rate = _rate(requests, output, ttft_s, tpot_s)
    return Measurement(
        by, source, {"ttft_ms": 1e3 * ttft_s, "tpot_ms": 1e3 * tpot_s, "tokens_per_s": rate}, served=True
    )


def compared(made: Estimate, measurements: Sequence[Measurement], model: Efficiency) -> Estimate:
    """``made`` with each measurement beside it, and the figures of both among its metrics.

    ``model``: the efficiency model that explains how far an ideal roofline is off. Metrics are ``measured_<figure>``,
    ``theory_<figure>`` and ``<figure>_over_theory`` (``ttft_over_theory`` for ``ttft_ms``); of several measurements
    of the same figure each has its name at their end. Beside every level there are ``ideal_<figure>`` and
    ``model_<figure>`` too. Raises ``ValueError`` where not one request of a measured load fits.
    """
    rows = [row for one in measurements for row in _rows(made, one, model)]
    metrics: dict[str, float] = {}
    for row in rows:
        several = sum(other.figure == row.figure for other in rows) > 1
        ending = f"_{row.measured_by}" if several else ""
        metrics[f"measured_{row.figure}{ending}"] = row.measured
        metrics[f"theory_{row.figure}{ending}"] = row.theoretical
        metrics[f"{row.figure.removesuffix('_ms')}_over_theory{ending}"] = row.ratio
        metrics |= {f"{level}_{row.figure}": row.levels[level] for level in PAPER if level in row.levels}
    return replace(made, compared=tuple(rows), metrics={**made.metrics, **metrics})


def own(made: Estimate, served: bool) -> dict[str, float]:
    """``FIGURES`` at the estimate's own level. Measured kernels tell of a batch that starts together only: raises
    ``ValueError`` where they are to tell of a server."""
    if made.kernels is None:
        return theory(made, made.efficiency, served)
    if served:
        raise ValueError("measured kernels do not tell the times of a server")
    return {name: made.metrics[name] for name in FIGURES}


def theory(made: Estimate, efficiency: Efficiency, served: bool) -> dict[str, float]:
    """``FIGURES`` at ``efficiency``.

    A batch that starts together: TTFT and TPOT as the estimate's own, tokens/s = B / TPOT, decoding alone. A server
    that keeps C requests of N output tokens in flight (``queueing``): a request takes TTFT + (N − 1) · TPOT, so that by
    Little's law C · N / (TTFT + (N − 1) · TPOT) tokens come a second, whether requests wait for KV space or not.
    """
    arch, work, parallel, machine = made.architecture, made.work, made.parallel, made.machine
    if not served:
        ttft = times.ttft_s(arch, work, parallel, machine, efficiency)
        tpot = times.tpot_s(arch, work, parallel, machine, efficiency)
        return {"ttft_ms": 1e3 * ttft, "tpot_ms": 1e3 * tpot, "tokens_per_s": work.batch / tpot}
    share = made.memory.available / machine.memory_bytes
    seen = queueing.load(arch, work, parallel, machine, made.memory.reserve, share).served(efficiency)
    rate = _rate(work.batch, work.output, seen.ttft_s, seen.tpot_s)
    return {"ttft_ms": 1e3 * seen.ttft_s, "tpot_ms": 1e3 * seen.tpot_s, "tokens_per_s": rate}


def terms(made: Estimate, efficiency: Efficiency, served: bool) -> dict[str, dict[str, float]]:
    """Term → ms that it adds to ``ttft_ms`` and to ``tpot_ms``, from the ideal roofline to ``efficiency``.

    The constants are changed one after another, so that the terms add up to the difference of the two.
    """
    at, before = Efficiency(), theory(made, Efficiency(), served)
    found = {}
    for key in (field.name for field in fields(Efficiency) if field.name in _TERMS):
        value = getattr(efficiency, key)
        at = replace(at, **{key: value})
        after = theory(made, at, served)
        found[_TERMS[key].format(share=f"{100 * value:g} %")] = {
            figure: after[figure] - before[figure] for figure in ("ttft_ms", "tpot_ms")
        }
        before = after
    return found


def _rate(requests: int, output: int, ttft_s: float, tpot_s: float) -> float:
    """Output tokens per second of a server with so many requests in flight."""
    return requests * output / (ttft_s + (output - 1) * tpot_s)


def _rows(made: Estimate, one: Measurement, model: Efficiency) -> list[Compared]:
    said = own(made, one.served)
    ideal = made.efficiency.level == "ideal"
    counted = {} if made.kernels else terms(made, model if ideal else made.efficiency, one.served)
    levels = _levels(made, model) if one.levels or made.kernels else {}
    rows = []
    for figure in FIGURES:
        if figure in one.figures:
            measured = one.figures[figure]
            if one.cause:
                reason = one.cause
            elif figure == "tokens_per_s" and "tpot_ms" in one.figures:
                reason = "follows from TTFT and TPOT" if one.served else "follows from TPOT"
            else:
                reason = _reason(made, figure, said, measured, counted, ideal)
            at = {level: figures[figure] for level, figures in levels.items()}
            rows.append(Compared(one.by, one.source, figure, said[figure], measured, reason, at))
    return rows


def _levels(made: Estimate, model: Efficiency) -> dict[str, dict[str, float]]:
    """Level → ``FIGURES`` of a batch that starts together. ``model`` gives way to the constants of an estimate that is
    of that level itself."""
    found = {}
    if made.machine.rated:
        found["ideal"] = theory(made, Efficiency(), served=False)
        found["model"] = theory(made, made.efficiency if made.efficiency.level == "model" else model, served=False)
    if made.kernels:
        found[KERNELS] = own(made, served=False)
    return found


def _open(said: float, measured: float) -> str:
    """What kernels that were measured one by one leave open, ms."""
    gap = measured - said
    if gap >= 0:
        return f"{_ms(gap)} are not in the kernels: gaps between them, launches, the host"
    return f"the kernels, each measured by itself with cold weights, take {_ms(-gap)} more than among each other"


def _reason(
    made: Estimate,
    figure: str,
    said: Mapping[str, float],
    measured: float,
    counted: Mapping[str, Mapping[str, float]],
    ideal: bool,
) -> str:
    """The largest terms with their milliseconds and what they leave open; a rate is explained by its time per token."""
    if figure == "tokens_per_s":
        figure, measured = "tpot_ms", 1e3 * made.work.batch / measured
    if made.kernels:
        return _open(said[figure], measured)
    gap = measured - said[figure]
    if ideal and gap < 0:
        return "faster than the bound: what was measured is not the load, the precisions or the GPU of this estimate"
    added = {name: ms[figure] for name, ms in counted.items()}
    rest = gap - sum(added.values()) if ideal else gap
    least = _NAMED * max(gap, sum(added.values()))
    named = sorted((name for name in added if added[name] > 0 and added[name] >= least), key=lambda name: -added[name])
    listed = ", ".join(f"{name} {_ms(added[name])}" for name in named[:_MOST]) or "nothing"
    known = f"{'not in the ideal roofline' if ideal else 'counted beyond the ideal roofline'}: {listed}"
    if ideal and rest > max(added.values()):
        return f"mostly outside the efficiency model, {_ms(rest)}; {known}"
    return f"{known}; {f'{_ms(rest)} stay open' if rest >= 0 else f'that is {_ms(-rest)} more than was measured'}"


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if value < 1000 else f"{value:.0f} ms"
