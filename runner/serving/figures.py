"""Metrics of a served trace: what requests waited for, and what the engine was given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from runner.result.statistics import P95_SAMPLES, P99_SAMPLES
from runner.serving.buckets import EDGES, buckets
from runner.serving.gaps import Gaps, gaps
from runner.serving.served import Record, Served

SHARES = {50: 1, 95: P95_SAMPLES, 99: P99_SAMPLES}
"""Percentile → fewest samples for it."""
Samples = Sequence[float] | npt.NDArray[np.float64]
Figures = dict[str, float]


def metrics(served: Served, edges: Sequence[int] = EDGES) -> Figures:
    """Flat figures, in milliseconds, seconds and tokens; one that the trace does not give is absent.

    * ``ttft_ms_p50``, ``_p95``, ``_p99``: arrival to first token, of which ``queue_ms_*`` until its first pass began
      and ``prefill_ms_*`` from then on; ``e2e_ms_*``: arrival to last token.
    * ``tpot_ms_*``: over requests, the mean time between two tokens of one. ``itl_ms_*`` and ``itl_ms_max``: over all
      pairs of tokens that follow each other; ``itl_ms_*_beside_prefill`` over those between which some prompt was
      computed, ``itl_ms_*_decode_only`` over the others.
    * TTFT and its parts, TPOT and ITL of prompts by length: ``ttft_ms_p95_prompt_le_512``; and how many they are:
      ``requests_prompt_le_512``.
    * ``step_ms_*_prefill``, ``_decode``, ``_mixed``: passes by what they computed; ``steps`` and ``steps_*`` how many.
      ``plan_ms_*``: of them, the host's time before the engine begins.
    * ``tokens_per_step_prefill``, ``_decode``: means over the passes that had such tokens.
    * ``input_tokens_per_s`` (prompts as they were asked, shared or not), ``output_tokens_per_s``, ``requests_per_s``:
      over ``duration_s``, first arrival to last token. ``busy_share``: of it, the time within the engine.
    * ``active_mean`` and ``waiting_mean`` (requests that have not begun) over that time; ``active_max``,
      ``waiting_max``.
    * ``prefill_tokens``, ``decode_tokens`` computed, ``recomputed_tokens`` of the former, ``shared_tokens`` found in
      the cache, ``preemptions``.
    """
    if not served.requests:
        return {"requests": 0.0}
    between = gaps(served)
    found = {"requests": float(len(served.requests))}
    found |= _of_requests(served.requests, between, "")
    found |= percentiles("e2e_ms", [one.whole_s for one in served.requests])
    found |= percentiles("itl_ms", between.seconds[between.beside_prefill], "_beside_prefill")
    found |= percentiles("itl_ms", between.seconds[~between.beside_prefill], "_decode_only")
    if len(between.seconds):
        found["itl_ms_max"] = 1e3 * float(between.seconds.max())
    for bucket in buckets(served.requests, edges):
        found[f"requests_{bucket.name}"] = float(len(bucket.records))
        found |= _of_requests(bucket.records, between, f"_{bucket.name}")
    return found | _of_steps(served) | _of_time(served)


def percentiles(name: str, seconds: Samples, ending: str = "") -> Figures:
    """``<name>_p50<ending>`` and so on, in ms; each where there are samples enough."""
    shares = [share for share, fewest in SHARES.items() if len(seconds) >= fewest]
    values = np.percentile(seconds, shares) if shares else ()
    return {f"{name}_p{share}{ending}": 1e3 * float(value) for share, value in zip(shares, values, strict=True)}


def _of_requests(records: Sequence[Record], between: Gaps, ending: str) -> Figures:
    tpot = [one.tpot_s for one in records if one.tpot_s is not None]
    return {
        **percentiles("ttft_ms", [one.ttft_s for one in records], ending),
        **percentiles("queue_ms", [one.queued_s for one in records], ending),
        **percentiles("prefill_ms", [one.prefill_s for one in records], ending),
        **percentiles("tpot_ms", tpot, ending),
        **percentiles("itl_ms", between.of(one.request.index for one in records), ending),
    }


def _of_steps(served: Served) -> Figures:
    steps = served.steps
    found = {"steps": float(len(steps))}
    found |= percentiles("plan_ms", [step.planned_s - step.start_s for step in steps])
    for kind in ("prefill", "decode", "mixed"):
        times = [step.end_s - step.start_s for step in steps if step.kind == kind]
        found[f"steps_{kind}"] = float(len(times))
        found |= percentiles("step_ms", times, f"_{kind}")
    for phase, counts in (
        ("prefill", [step.prefill for step in steps if step.prefill]),
        ("decode", [step.decode for step in steps if step.decode]),
    ):
        found[f"{phase}_tokens"] = float(sum(counts))
        if counts:
            found[f"tokens_per_step_{phase}"] = sum(counts) / len(counts)
    found["recomputed_tokens"] = float(sum(step.recomputed for step in steps))
    found["shared_tokens"] = float(sum(one.shared for one in served.requests))
    found["preemptions"] = float(sum(one.preempted for one in served.requests))
    return found


def _of_time(served: Served) -> Figures:
    found = {
        "duration_s": served.duration_s,
        "active_max": float(max(step.active for step in served.steps)),
        "waiting_max": float(max(step.waiting for step in served.steps)),
    }
    if served.duration_s <= 0:
        return found
    asked = [one.request for one in served.requests]
    for name, total in (
        ("input_tokens_per_s", _total(request.prompt for request in asked)),
        ("output_tokens_per_s", _total(request.output for request in asked)),
        ("requests_per_s", float(len(asked))),
        ("busy_share", _total(step.end_s - step.planned_s for step in served.steps)),
        ("active_mean", _total(step.active * (step.end_s - step.start_s) for step in served.steps)),
        ("waiting_mean", _total(one.queued_s for one in served.requests)),
    ):
        found[name] = total / served.duration_s
    return found


def _total(values: Iterable[float]) -> float:
    return float(sum(values))
