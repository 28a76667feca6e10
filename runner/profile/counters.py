"""What Nsight Compute counted: its CSV of raw metrics, read by column name into our figures.

A figure is there only if every launch it speaks of has what it is made of. Counts are added up over launches; rates
and percentages are means weighted by the launches' counted time (plain means where no time was counted); ratios are
ratios of sums. Columns and their meaning: the metrics reference of the Nsight Compute profiling guide; which of them
stands for an older name, its table for users of nvprof.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.result.model import KernelCounters

SECTOR = 32
"""Bytes of a sector, the unit the caches move."""
WAVEFRONT = 128
"""Bytes shared memory passes at most in one wavefront."""
WARP = 32
TIME = "gpu__time_duration.sum"

_NVTX = "Push/Pop_Range"
"""Part of the name of the column that holds the open ranges of the launching thread."""
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?=$|\s)")
_TO_US = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}

_SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
COUNTS: dict[str, tuple[float, tuple[str, ...]]] = {
    "dram_bytes_read": (1, ("dram__bytes_read.sum",)),
    "dram_bytes_written": (1, ("dram__bytes_write.sum",)),
    "l2_bytes": (SECTOR, ("lts__t_sectors.sum",)),
    "l1_bytes": (SECTOR, ("l1tex__t_sectors.sum",)),
    "shared_bytes": (WAVEFRONT, ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",)),
    "global_load_requests": (1, ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",)),
    "global_load_transactions": (1, ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",)),
    "global_store_requests": (1, ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",)),
    "global_store_transactions": (1, ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",)),
    "local_load_bytes": (SECTOR, ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",)),
    "local_store_bytes": (SECTOR, ("l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",)),
    "spill_requests": (1, ("derived__local_spilling_requests",)),
    "warp_instructions": (1, ("smsp__inst_executed.sum",)),
    "instructions": (1, ("smsp__thread_inst_executed_pred_on.sum",)),
    "fma_instructions": (1, (_SASS.format("ffma"), _SASS.format("hfma"), _SASS.format("dfma"))),
    "integer_instructions": (1, (_SASS.format("integer"),)),
    "conversion_instructions": (1, (_SASS.format("conversion"),)),
    "sfu_instructions": (WARP, ("sm__inst_executed_pipe_xu.sum",)),
}
"""Our count → factor and columns, which are added. Transactions are sectors; instructions are counted once a thread
(the special-function pipe's, which also converts, as 32 a warp); ``shared_bytes`` is what the wavefronts could pass."""
RATES: dict[str, str] = {
    "sm_throughput_pct": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory_throughput_pct": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_throughput_pct": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_hit_pct": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "occupancy_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "occupancy_theoretical_pct": "sm__maximum_warps_per_active_cycle_pct",
    "waves_per_sm": "launch__waves_per_multiprocessor",
    "fma_pipe_pct": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "alu_pipe_pct": "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sfu_pipe_pct": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed",
    "tensor_pipe_pct": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
}
"""Our rate → column."""
LARGEST: dict[str, str] = {"registers_per_thread": "launch__registers_per_thread"}
"""Our figure → column, of which the largest counts."""
RATIOS: dict[str, tuple[str, str]] = {
    "sectors_per_request_load": ("global_load_transactions", "global_load_requests"),
    "sectors_per_request_store": ("global_store_transactions", "global_store_requests"),
    "fma_share": ("fma_instructions", "instructions"),
    "integer_share": ("integer_instructions", "instructions"),
    "conversion_share": ("conversion_instructions", "instructions"),
    "sfu_share": ("sfu_instructions", "instructions"),
}
_UNIFORM = "smsp__sass_average_branch_targets_threads_uniform.pct"
_DIVERGENT = "smsp__sass_branch_targets_threads_divergent.sum"
NAMES = ("counted_time_us", *RATES, "branch_divergence_pct", *LARGEST, *RATIOS, *COUNTS)
"""All figures, as the table has them."""

_LIMITS = {
    # Where several are equal, the first: what no change to the kernel lifts comes first.
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
    "barriers": "launch__occupancy_limit_barriers",
    "registers": "launch__occupancy_limit_registers",
    "shared_memory": "launch__occupancy_limit_shared_mem",
}
_STALLED = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")
_SAMPLED = re.compile(r"smsp__pcsamp_warps_issue_stalled_((?:(?!_not_issued)\w)+)")
_NO_STALL = "selected"
"""The state of a warp that issues."""


class CountersError(ValueError):
    """The CSV is none, or lacks what identifies a launch."""


@dataclass(frozen=True)
class Counted:
    """One profiled launch (or range)."""

    kernel: str
    ranges: str
    """The open NVTX ranges of the launching thread, as the tool writes them."""
    values: Mapping[str, float]
    """By column, in the tool's base units; a time in microseconds. What is no number is absent."""

    def within(self, name: str) -> bool:
        """Whether the NVTX range ``name`` was open."""
        return f":{name}:" in self.ranges


def read(path: Path) -> list[Counted]:
    """The launches of ``ncu --import … --csv --page raw --print-units base``, in order. Raises ``CountersError``."""
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.reader(file)
        try:
            header = next((row for row in rows if row and row[0] == "ID"), None)
            if header is None or "Kernel Name" not in header:
                raise CountersError(f"{path.name} is not a table of raw metrics: there is no column 'Kernel Name'")
            units = next(rows, [])
            return [_counted(header, units, row) for row in rows if len(row) == len(header)]
        except csv.Error as error:
            raise CountersError(f"{path.name} cannot be read ({error})") from error


def _counted(header: Sequence[str], units: Sequence[str], row: Sequence[str]) -> Counted:
    values: dict[str, float] = {}
    for column, unit, text in zip(header, units, row, strict=False):
        value = number(text)
        if value is None:
            continue
        values[column] = value * _TO_US.get(unit, 1.0) if column == TIME else value
    ranges = next((text for column, text in zip(header, row, strict=True) if _NVTX in column), "")
    return Counted(row[header.index("Kernel Name")].strip(), ranges, values)


def number(text: str) -> float | None:
    """``1,191,040`` → 1191040.0; of a value with instances the value; None for ``n/a``, ``nan``, text and nothing."""
    found = _NUMBER.match(text.strip())
    if found is None:
        return None
    value = float(found.group().replace(",", ""))
    return value if math.isfinite(value) else None


def by_kernel(launches: Sequence[Counted]) -> list[KernelCounters]:
    """One entry a kernel, counts as the mean over its launches; the most counted time first."""
    groups: dict[str, list[Counted]] = {}
    for launch in launches:
        groups.setdefault(launch.kernel, []).append(launch)
    ordered = sorted(groups.values(), key=lambda group: -sum(one.values.get(TIME, 0.0) for one in group))
    return [_kernel(group) for group in ordered]


def _kernel(launches: Sequence[Counted]) -> KernelCounters:
    metrics = totals(launches)
    for name in ("counted_time_us", *COUNTS):
        if name in metrics:
            metrics[name] /= len(launches)
    longest = max(launches, key=lambda one: one.values.get(TIME, 0.0))
    return KernelCounters(longest.kernel, len(launches), metrics, limiter(longest.values), stalls(launches))


def totals(launches: Sequence[Counted]) -> dict[str, float]:
    """The figures of all these launches together."""
    found: dict[str, float] = {}
    time = _sum(launches, (TIME,))
    if time is not None:
        found["counted_time_us"] = time
    for name, (factor, columns) in COUNTS.items():
        count = _sum(launches, columns)
        if count is not None:
            found[name] = factor * count
    for name, column in RATES.items():
        rate = _mean(launches, column)
        if rate is not None:
            found[name] = rate
    for name, column in LARGEST.items():
        if _all_have(launches, column):
            found[name] = max(one.values[column] for one in launches)
    divergence = _divergence(launches)
    if divergence is not None:
        found["branch_divergence_pct"] = divergence
    for name, (above, below) in RATIOS.items():
        if above in found and found.get(below):
            found[name] = found[above] / found[below]
    return found


def traffic(found: Mapping[str, float]) -> dict[str, float]:
    """The bytes of a whole step by level of memory, out of the ``totals`` of all its launches."""
    step: dict[str, float] = {}
    if "dram_bytes_read" in found and "dram_bytes_written" in found:
        step["counted_dram_bytes"] = found["dram_bytes_read"] + found["dram_bytes_written"]
    if "l2_bytes" in found:
        step["counted_l2_bytes"] = found["l2_bytes"]
    return step


def _all_have(launches: Sequence[Counted], column: str) -> bool:
    return bool(launches) and all(column in one.values for one in launches)


def _sum(launches: Sequence[Counted], columns: Sequence[str]) -> float | None:
    if not all(_all_have(launches, column) for column in columns):
        return None
    return sum(one.values[column] for one in launches for column in columns)


def _mean(launches: Sequence[Counted], column: str) -> float | None:
    if not _all_have(launches, column):
        return None
    return _weighted(launches, [one.values[column] for one in launches])


def _weighted(launches: Sequence[Counted], values: Sequence[float]) -> float:
    weights = [one.values.get(TIME, 0.0) for one in launches]
    if not all(weights):
        weights = [1.0] * len(launches)
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)


def _divergence(launches: Sequence[Counted]) -> float | None:
    """Percentage of branches at which the threads of a warp part.

    The tool calls a kernel without conditional branches 0 % uniform: without a divergent branch there is no divergence.
    """
    if not (_all_have(launches, _DIVERGENT) and _all_have(launches, _UNIFORM)):
        return None
    parts = [100 - one.values[_UNIFORM] if one.values[_DIVERGENT] else 0.0 for one in launches]
    return _weighted(launches, parts)


def limiter(values: Mapping[str, float]) -> str:
    """What keeps more warps from an SM; ``grid`` where there are fewer blocks than the SMs have room for."""
    limits = {name: values[column] for name, column in _LIMITS.items() if values.get(column)}
    if not limits:
        return ""
    smallest = min(limits, key=lambda name: limits[name])
    grid, sms = values.get("launch__grid_size"), values.get("launch__sm_count")
    if grid and sms and grid < sms * limits[smallest]:
        return "grid"
    return smallest


def stalls(launches: Sequence[Counted]) -> dict[str, float]:
    """Reason → share of the stalled time: of the warps' average states, or else of the sampled ones."""
    for pattern in (_STALLED, _SAMPLED):
        reasons = {}
        for column in dict.fromkeys(column for one in launches for column in one.values):
            match = pattern.fullmatch(column)
            if match and match.group(1) != _NO_STALL:
                reasons[match.group(1)] = _mean(launches, column) or 0.0
        whole = sum(reasons.values())
        if whole:
            ordered = sorted(reasons.items(), key=lambda item: -item[1])
            return {reason: value / whole for reason, value in ordered if value}
    return {}


def write(kernels: Sequence[KernelCounters], path: Path) -> None:
    """One row a kernel, with the columns that any of them has. Raises ``OSError``."""
    present = [name for name in NAMES if any(name in one.metrics for one in kernels)]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["kernel", "launches", "limiter", "stalls", *present])
        for one in kernels:
            reasons = "; ".join(f"{reason} {share:.3f}" for reason, share in one.stalls.items())
            figures = [f"{one.metrics[name]:.10g}" if name in one.metrics else "" for name in present]
            table.writerow([one.name, one.launches, one.limiter, reasons, *figures])
