"""What an estimate says, as one page: on a terminal, and as ``report.md``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from runner.estimate.change import changes
from runner.estimate.model import Estimate, Machine, Phase
from runner.estimate.times import operator_bound, operator_s
from runner.report import markdown
from runner.report.block import Block
from runner.report.kernels import kernel_blocks
from runner.report.numbers import NONE, digits, size, time

_BAR = 32
"""Characters of the memory bar."""


@dataclass(frozen=True)
class Page:
    title: str
    lines: tuple[str, ...]
    blocks: tuple[Block, ...]


def page(made: Estimate, gpus: Sequence[Machine]) -> Page:
    """Everything of one estimate; tables of operators are in order of time. ``gpus``: those that could take the
    place of the estimate's own."""
    arch, work, parallel = made.architecture, made.work, made.parallel
    several = f"{parallel.gpus} × " if parallel.gpus > 1 else ""
    spread = _listed(tensor=parallel.tensor, pipeline=parallel.pipeline, expert=parallel.expert)
    what = [f"weights {work.weights.name}", f"KV {work.kv.name}", f"the rest {work.other.name}"]
    what += [f"output head {work.head.name}"] if work.head else []
    sizes = [f"batch {work.batch}", f"prompt {work.prompt}", f"output {work.output} tokens"]
    extras = [
        f"{100 * work.prefix_share:g} % of each prompt cached" if work.prefix_share else "",
        f"{work.speculative} tokens drafted, accepted with probability {work.acceptance:g}" if work.speculative else "",
        f"prefill in chunks of {work.chunk}" if work.chunk else "",
        f"expert skew {work.expert_skew:g}" if work.expert_skew else "",
    ]
    lines = (
        "; ".join(filter(None, [", ".join(what), ", ".join(sizes), *extras, spread])),
        f"Figures: {arch.source}." if arch.source else "",
    )
    blocks = [_parameters(made), _memory(made), _times(made), _compared(made), _phases(made)]
    if made.kernels:
        blocks += kernel_blocks(made.kernels)
    else:
        blocks += [_operators(made, made.decode), _operators(made, made.prefill), _changes(made, gpus)]
    blocks.append(_notes(made))
    how = "from its measured kernels" if made.kernels else "on paper"
    title = f"{arch.name} on {several}{made.machine.name}, {how}"
    return Page(title, tuple(filter(None, lines)), tuple(block for block in blocks if block.lines or block.rows))


def _parameters(made: Estimate) -> Block:
    total, active = made.metrics["params_total"], made.metrics["params_active"]
    some = f", {active:,.0f} of them active for a token" if active != total else ""
    return Block("Parameters", (f"{total:,.0f}{some}",))


def _memory(made: Estimate) -> Block:
    memory = made.memory
    parts = (
        ("weights", memory.weights),
        ("KV cache", memory.kv),
        ("activations", memory.activations),
        ("kept free for the engine", memory.reserve),
        ("needed", memory.total),
        ("may be used", memory.available),
    )
    rows = tuple((name, size(count), _percent(count, memory.available)) for name, count in parts)
    found = made.metrics
    answer = "It fits" if memory.fits else f"It does not fit: {size(memory.total - memory.available)} are missing"
    most = [
        f"largest batch at {made.work.prompt + made.work.output} tokens each: {found['max_batch']:,.0f}"
        if "max_batch" in found
        else "",
        f"largest context at batch {made.work.batch}: {found['max_context']:,.0f} tokens"
        if "max_context" in found
        else "",
        f"KV cache: {size(found['kv_bytes_per_token'])} a token" if "kv_bytes_per_token" in found else "",
    ]
    lines = (bar(made), f"{answer}; " + "; ".join(filter(None, most)) + ".")
    return Block("Memory of one GPU", lines, ("part", "bytes", "of what may be used"), rows)


def bar(made: Estimate) -> str:
    """``[WWWWKKA!....]``: weights, KV cache, activations and reserve within what may be used; ``>`` where it ends."""
    memory = made.memory
    whole = max(memory.total, memory.available, 1)
    text, end = "", 0.0
    for sign, part in zip("WKAR", (memory.weights, memory.kv, memory.activations, memory.reserve), strict=True):
        end += part
        text += sign * (round(_BAR * end / whole) - len(text))
    limit = round(_BAR * memory.available / whole)
    text = text.ljust(_BAR, ".")
    if limit < _BAR:
        text = f"{text[:limit]}|{text[limit:]}"
    return f"[{text}] W weights, K KV cache, A activations, R reserve" + (", | the limit" if limit < _BAR else "")


def _times(made: Estimate) -> Block:
    rows = []
    for name, title, unit in _TIMES:
        if name in made.metrics:
            scale = 1e-3 if unit == " kJ" else 1.0
            rows.append((title, f"{digits(scale * made.metrics[name])}{unit}"))
    said = f"Level: {_LEVELS[made.efficiency.level]}; from {made.efficiency.source}."
    return Block("Times", (said,), ("figure", "value"), tuple(rows))


_LEVELS = {"ideal": "ideal roofline", "model": "roofline with an efficiency model", "measured": "measured kernels"}
_TIMES = (
    ("ttft_ms", "time to the first token (TTFT)", " ms"),
    ("tpot_ms", "time per output token (TPOT)", " ms"),
    ("served_ttft_ms", "TTFT on a server with this many requests in flight", " ms"),
    ("served_waiting_ms", "of that waiting for KV space", " ms"),
    ("served_tpot_ms", "TPOT on that server", " ms"),
    ("request_ms", "a whole request", " ms"),
    ("tokens_per_s", "tokens per second while decoding, all sequences", ""),
    ("tokens_per_s_gpu", "the same, per GPU", ""),
    ("tokens_per_s_request", "output tokens per second, prefill included", ""),
    ("tokens_per_verification", "tokens that a verification yields", ""),
    ("joules_per_million_tokens", "energy per million output tokens, at most", " kJ"),
    ("money_per_million_tokens", "money per million output tokens", ""),
    ("ridge_batch", "batch at which linear layers turn compute-bound in decode", ""),
)


def _compared(made: Estimate) -> Block:
    """Empty without a measurement. Where every level is told they take the place of the estimate's own."""
    several = len({row.measured_by for row in made.compared}) > 1
    levels = tuple(dict.fromkeys(level for row in made.compared for level in row.levels))
    rows = []
    for row in made.compared:
        told = [row.levels[level] for level in levels] if levels else [row.theoretical]
        numbers = (_ms(each) if row.figure.endswith("_ms") else digits(each) for each in (*told, row.measured))
        named = _FIGURES[row.figure] + (f", {row.measured_by}" if several else "")
        rows.append((named, *numbers, f"{digits(row.ratio)}×", row.reason))
    sources = dict.fromkeys(f"{row.measured_by} ({row.source})" for row in made.compared)
    over = f"the level {_LEVELS[made.efficiency.level]}" if levels else "theoretical"
    said = (f"Measured: {', '.join(sources)}. The ratio is measured over {over}.",) if rows else ()
    head = ("figure", *(levels or ("theoretical",)), "measured", "ratio", "main reason")
    return Block("Theory beside measurement", said, head, tuple(rows), told=True)


_FIGURES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "tokens_per_s": "tokens/s"}


def _phases(made: Estimate) -> Block:
    found = made.metrics
    rows = []
    for phase, suffix in (("prefill", "prefill"), ("decode", "decode_step")):
        label = made.labels.get(f"bound_{phase}", NONE)
        intensity = found.get(f"intensity_{phase}", 0.0)
        rows.append(
            (_PHASES[phase], label, digits(found[f"flops_{suffix}"]), size(found[f"bytes_{suffix}"]), digits(intensity))
        )
    level = "By the ideal roofline, not by the measured kernels." if made.kernels and made.machine.rated else ""
    ridge = f"The ridge is at {digits(found['ridge_intensity'])} FLOP/byte." if "ridge_intensity" in found else ""
    head = ("phase", "bound", "FLOP", "bytes", "FLOP/byte")
    return Block("What bounds it", tuple(filter(None, [level, ridge])), head, tuple(rows), left=2)


_PHASES = {"prefill": "prefill of the batch", "decode": "one decode step"}


def _operators(made: Estimate, phase: Phase) -> Block:
    head = ("operator", "bound", "FLOP", "bytes", "FLOP/byte", "time", "share")
    cost = {o.name: operator_s(o, made.machine, made.efficiency) for o in phase.operators}
    whole = sum(cost.values())
    rows = tuple(
        (
            o.name,
            operator_bound(o, made.machine, made.efficiency) or NONE,
            _digits(o.flops),
            size(o.bytes) if o.bytes else NONE,
            _digits(o.intensity),
            time(1e6 * cost[o.name]),
            _percent(cost[o.name], whole),
        )
        for o in sorted(phase.operators, key=lambda o: -cost[o.name])
    )
    said = f"One GPU, over all layers, {_PHASES[phase.name]}; fixed times are not in it."
    return Block(f"Operators: {phase.name}", (said,), head, rows, left=2)


def _changes(made: Estimate, gpus: Sequence[Machine]) -> Block:
    after = {"as it is": {metric: made.metrics[metric] for metric in _CHANGED}}
    for change in changes(made, gpus):
        after.setdefault(change.name, {})[change.metric] = change.after
    rows = tuple((name, *(form(found[key]) for key, (_, form) in _CHANGED.items())) for name, found in after.items())
    return Block("What a change would buy", (), ("change", *(title for title, _ in _CHANGED.values())), rows)


def _ms(value: float) -> str:
    return time(1e3 * value)


_CHANGED: dict[str, tuple[str, Callable[[float], str]]] = {
    "memory_bytes": ("GPU memory", size),
    "max_batch": ("batch", "{:.0f}".format),
    "ttft_ms": ("TTFT", _ms),
    "tpot_ms": ("TPOT", _ms),
    "tokens_per_s": ("tokens/s", digits),
}
"""Metrics of the table of changes; ``batch`` is the largest that fits."""


def _notes(made: Estimate) -> Block:
    return Block("Notes", tuple(dict.fromkeys([*made.architecture.notes, *made.notes])))


def print_page(shown: Page, footer: Sequence[str], console: Console) -> None:
    """Prints the page, then ``footer`` line by line."""
    console.print(render(shown))
    for line in footer:
        console.print(Text(line), soft_wrap=True)


def render(shown: Page) -> RenderableType:
    """The page for a terminal."""
    parts: list[RenderableType] = [Text(shown.title, style="bold"), *map(Text, shown.lines)]
    for block in shown.blocks:
        parts += [Text(f"\n{block.title}", style="bold"), *map(Text, block.lines)]
        if block.rows:
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
            last = len(block.head) - 1 if block.told else -1
            for index, title in enumerate(block.head):
                # Folded, not cut: a figure without its exponent is another figure.
                justify: Literal["left", "right"] = "left" if index < block.left or index == last else "right"
                table.add_column(title, justify=justify, overflow="fold")
            for row in block.rows:
                table.add_row(*map(Text, row))
            parts.append(table)
    return Group(*parts)


def text(shown: Page) -> str:
    """The page as Markdown."""
    parts = [f"# {markdown.escape(shown.title)}", *map(markdown.escape, shown.lines)]
    for block in shown.blocks:
        parts.append(f"## {markdown.escape(block.title)}")
        parts += [markdown.escape(line) for line in block.lines]
        parts.append(markdown.table(block.head, block.rows, left=block.left, told=block.told))
    return markdown.joined(parts)


def _digits(value: float) -> str:
    return digits(value) if value else NONE


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole else NONE


def _listed(**parts: int) -> str:
    return ", ".join(f"{name} {count}" for name, count in parts.items() if count > 1)
