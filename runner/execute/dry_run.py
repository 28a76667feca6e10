"""``dry_run=true``: the plan of every point, printed; nothing is compiled, allocated or filed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from runner.build.api import command_line
from runner.config.errors import ConfigError
from runner.config.points import Skipped
from runner.config.schema import Config
from runner.config.secrets import redact_argv, redact_config, redact_text
from runner.execute import planning, targets
from runner.execute.estimating import page_of
from runner.execute.planning import Experiment
from runner.execute.profiling import profile_settings
from runner.exit_codes import PASSED, REFUSED
from runner.plan.memory import memory_bytes, nbytes
from runner.plan.model import CommandPlan, Launch, Plan, Target
from runner.plan.target import target_of
from runner.profile.base import Subject
from runner.profile.sections import SETS
from runner.profile.tools import open_profiler
from runner.report.estimate import render
from runner.report.numbers import size
from runner.report.terminal import Terminal
from runner.result.metrics import bound
from runner.result.model import Status

WIDEST = 10_000
"""Characters of a line, at most: the terminal wraps what is wider than it."""


def show(experiments: Sequence[Experiment], skipped: Sequence[Skipped]) -> int:
    """Prints every plan and returns the exit code: REFUSED when one was."""
    console = Terminal(highlight=False, soft_wrap=True)
    refused = 0
    for index, experiment in enumerate(experiments):
        console.print(f"[bold]#{index} {escape(experiment.title)}[/bold]")
        try:
            planning.plan(experiment, _target(experiment.config))
        except ConfigError as error:
            experiment.refused = (Status.INVALID_CONFIG, str(error))
        if experiment.needs is not None:
            console.print(f"  first it is measured: {escape(experiment.needs.repeat)}")
            continue
        if experiment.plan is None:
            refused += 1
            assert experiment.refused is not None
            console.print(f"  {experiment.refused[0].value}: {escape(experiment.refused[1])}")
            continue
        _show_plan(console, experiment, experiment.plan)
    for item in skipped:
        console.print(f"skipped {' '.join(item.overrides)}: {escape(item.reason)}")
    return REFUSED if refused else PASSED


def _target(config: Config) -> Target:
    """Without opening a device."""
    if config.kernel.kind == "command":
        return targets.program_target(config)[0]
    if config.kernel.kind == "estimate":
        return target_of(targets.estimate_gpu(config))
    return targets.static_target(config.gpu)


def _show_plan(console: Console, experiment: Experiment, plan: Plan) -> None:
    if experiment.estimate is not None:
        console.print(render(page_of(experiment.estimate)))
        return
    if plan.command is not None:
        _show_command(console, plan, plan.command)
        _show_profilers(console, experiment, Subject("program", plan.target.backend, windowed=bool(plan.command.load)))
        return
    symbols = " ".join(f"{name}={value}" for name, value in plan.symbols.items())
    console.print(f"  phase {plan.phase}, model {plan.model}, shape {plan.shape}, seed {plan.seed}")
    console.print(f"  target {escape(plan.target.title or plan.target.name)} ({plan.target.backend})")
    if plan.target.note:
        console.print(f"  {escape(plan.target.note)}")
    console.print(f"  {escape(symbols)}")
    console.print(_whole(_buffers(plan), console))
    console.print(f"  memory needed: {size(memory_bytes(plan))} (buffers and cache flush)")
    for launch in plan.prepare:
        console.print(f"  prepare {escape(_launch(launch))}")
    console.print(_whole(_variants(plan), console))
    for variant in plan.variants:
        for launch in variant.launches:
            console.print(f"  {variant.name}: {escape(_launch(launch))}")
    for name, reason in experiment.left_out.items():
        console.print(f"  {name} SKIPPED: {escape(reason)}")
    _show_profilers(console, experiment, Subject("worker", plan.target.backend))
    for unit, request in experiment.requests.items():
        console.print(f"  compile {unit}: {escape(shlex.join(command_line(request)))}")


def _show_profilers(console: Console, experiment: Experiment, subject: Subject) -> None:
    """Which tools follow the timed run, and those that cannot be used here."""
    profiler = experiment.config.profiler
    for name in profiler.tools:
        tool = open_profiler(name, profile_settings(profiler, experiment.categories))
        reason = tool.unavailable(subject)
        line = f"UNAVAILABLE: {reason}" if reason else f"by {tool.title}"
        if name == "ncu" and not reason:
            limit = f"at most {profiler.launch_count}" if profiler.launch_count else "all"
            line += f"; {profiler.sections}: {SETS[profiler.sections].cost}; {limit} launches of a variant's step"
        console.print(f"  then {name}, {line}", markup=False)


def _show_command(console: Console, plan: Plan, command: CommandPlan) -> None:
    target = plan.target
    lines = [
        f"target {target.title or target.name} ({target.backend})",
        target.note,
        f"run as {plan.variants[0].name}: {command.shown}",
        f"program {command.argv[0]}",
        f"in {command.folder}",
    ]
    lines += [f"with {name}={value}" for name, value in redact_config(command.environment).items()]
    lines.append(f"{command.warmup} warm-up and {command.repeat} measured runs")
    if command.ready is not None:
        ready, load = command.ready, shlex.join(redact_argv(command.load))
        lines.append(f"a server, ready by {ready.kind} {redact_text(ready.value)} within {ready.timeout_s:g} s")
        lines.append(f"under load by: {load}")
    lines += [f"metric {name}: {source}" for name, source in command.metrics.items()]
    for line in filter(None, lines):
        console.print(f"  {line}", markup=False)


def _whole(table: Table, console: Console) -> Table:
    """As wide as its cells, whatever the terminal: a figure that is cut is another figure."""
    table.width = Measurement.get(console, console.options.update_width(WIDEST), table).maximum
    return table


def _buffers(plan: Plan) -> Table:
    table = Table("buffer", "dims", "dtype", "fill", "bytes", box=None, padding=(0, 2))
    for buffer in plan.buffers:
        dims = " × ".join(map(str, buffer.dims))
        table.add_row(buffer.name, dims, buffer.dtype, buffer.fill.kind, size(nbytes(buffer)))
    return table


def _variants(plan: Plan) -> Table:
    table = Table(
        "variant",
        "bytes read",
        "written",
        "FLOP",
        "FLOP/byte",
        "bound",
        "launches",
        "checks",
        box=None,
        padding=(0, 2),
    )
    for variant in plan.variants:
        table.add_row(
            variant.name,
            size(variant.bytes_read),
            size(variant.bytes_written),
            f"{variant.flops:,}",
            f"{variant.intensity:.3g}",
            bound(variant, plan.target) or "–",
            str(len(variant.launches)) if variant.launches else "workload",
            ", ".join(check.name for check in variant.checks),
        )
    return table


def _launch(launch: Launch) -> str:
    shared = f" shared={launch.shared_bytes}" if launch.shared_bytes else ""
    grid, block = ("x".join(map(str, dims)) for dims in (launch.grid, launch.block))
    return f"{launch.function} grid={grid} block={block}{shared}"
