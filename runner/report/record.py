"""The record of a decoder's runs: what was run where, in which formats, and how fast, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from runner.report import numbers
from runner.report.markdown import table
from runner.result.model import Result, Status
from runner.result.names import plain

_NEEDED = ("B", "prompt", "steps", "weights", "kv")
"""Parameters by which a result is one of a decoder."""
_HEAD = (
    "GPU", "driver", "CUDA", "model", "variant", "dtype", "quantisation", "report", "batch", "ISL", "OSL", "TTFT",
    "TPOT", "tokens/s",
)  # fmt: skip
_TEXTS = 8


def record(results: Sequence[Result]) -> str:
    """A Markdown table of the results that have a time to the first token or between tokens; empty without any.

    ``CUDA`` is nvcc's version, where it was used, else the driver's. ``ISL`` and ``OSL`` are the tokens of a prompt
    and those generated for it; ``report`` names the files of profilers.
    """
    return table(_HEAD, [_row(result) for result in results if _counts(result)], left=_TEXTS)


def _counts(result: Result) -> bool:
    timed = "ttft_ms" in result.metrics or _tpot_us(result) is not None
    return timed and result.status is Status.PASSED and all(letter in result.params for letter in _NEEDED)


def _row(result: Result) -> list[str]:
    params, found, metrics = result.params, result.environment, result.metrics
    ttft, tpot = metrics.get("ttft_ms"), _tpot_us(result)
    reports = [PurePath(report.path).name for report in result.profile.reports]
    return [
        str((found.get("device") or {}).get("name") or result.gpu),
        str(found.get("driver") or numbers.NONE),
        str(found.get("nvcc") or found.get("cuda") or numbers.NONE),
        result.model,
        result.variant,
        "fp32" if params["weights"] == "fp32" else "bf16",
        _quantisation(result),
        ", ".join(reports) or numbers.NONE,
        plain(params["B"]),
        plain(params["prompt"]),
        plain(1 if tpot is None else int(params["steps"]) + 1),
        numbers.NONE if ttft is None else numbers.time(1e3 * ttft),
        numbers.NONE if tpot is None else numbers.time(tpot),
        numbers.digits(metrics["tokens_per_s"]) if "tokens_per_s" in metrics else numbers.NONE,
    ]


def _tpot_us(result: Result) -> float | None:
    """From the whole step, or the median token's where a step holds a prompt too."""
    return result.metrics.get("tpot_us", result.metrics.get("tpot_us_p50"))


def _quantisation(result: Result) -> str:
    """``w8a16, kv int8``: of the weights and of the cache, where they are not held as they are computed with."""
    weights, kv = str(result.params["weights"]), str(result.params["kv"])
    parts = [weights] if weights in ("w8a16", "w4a16") else []
    parts += [f"kv {kv}"] if kv in ("int8", "fp8") else []
    return ", ".join(parts) or numbers.NONE
