"""Nsight Compute's section sets by the names of ``profiler.sections``, and what each costs.

A set is collected in passes: the tool saves the memory a kernel can reach, runs the kernel, restores the memory and
runs it again, until every counter has been read. The figures are of an H200 with Nsight Compute 2025.3.
"""

from __future__ import annotations

from dataclasses import dataclass

TRAFFIC = ("gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum")
"""Bytes to and from memory, and the time they are weighted by."""
ACCESS = (
    "lts__t_sectors.sum",
    "l1tex__t_sectors.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
)
"""Sectors of 32 bytes and requests (one a warp's instruction) by level and kind of memory."""
MIX = (
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_integer_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_conversion_pred_on.sum",
    "sm__inst_executed_pipe_xu.sum",
    "smsp__sass_average_branch_targets_threads_uniform.pct",
    "smsp__sass_branch_targets_threads_divergent.sum",
)
"""What kinds of instructions were executed."""
_INSTRUMENTED = ("SourceCounters", "InstructionStats")
"""Sections that count by instrumenting instructions."""


@dataclass(frozen=True)
class SectionSet:
    sections: tuple[str, ...]
    """Identifiers of ``ncu --list-sections``."""
    metrics: tuple[str, ...]
    """Collected besides, since no section of the set has them on every GPU."""
    cost: str
    """In words, for who waits."""
    whole: bool = False
    """The tool's own set ``full`` instead of ``sections``."""

    def arguments(self, replay: str) -> tuple[str, ...]:
        """The part of the command line that asks for it. A range cannot be replayed with instrumented instructions, so
        what counts them is left out there."""
        ranged = replay == "range"
        kept = [name for name in self.sections if not (ranged and name in _INSTRUMENTED)]
        sections = ("--set", "full") if self.whole else tuple(f"--section={name}" for name in kept)
        metrics = [name for name in self.metrics if not (ranged and "__sass_" in name)]
        return (*sections, f"--metrics={','.join(metrics)}")


SETS: dict[str, SectionSet] = {
    "speed_of_light": SectionSet(
        ("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats", "WarpStateStats"),
        (*TRAFFIC, *ACCESS, *MIX),
        "some 15 passes, over 1 s for each kernel launch",
    ),
    "memory": SectionSet(
        ("SpeedOfLight", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Chart", "MemoryWorkloadAnalysis_Tables"),
        (*TRAFFIC, *ACCESS),
        "some 15 passes, over 1 s for each kernel launch",
    ),
    "occupancy": SectionSet(
        ("Occupancy", "LaunchStats", "SchedulerStats", "WarpStateStats"),
        TRAFFIC,
        "some 8 passes, under 1 s for each kernel launch",
    ),
    "source": SectionSet(
        ("SourceCounters", "WarpStateStats", "InstructionStats", "LaunchStats"),
        (*TRAFFIC, *ACCESS, *MIX),
        "some 20 passes, a few of them slowed by instrumented instructions, over 1 s for each kernel launch",
    ),
    "full": SectionSet(
        (),
        (*TRAFFIC, *ACCESS, *MIX),
        "about 40 passes for 7794 metrics, 2 s and 1 MB of report for each kernel launch",
        whole=True,
    ),
    "traffic": SectionSet((), TRAFFIC, "one pass, so that nothing is saved and restored"),
}
