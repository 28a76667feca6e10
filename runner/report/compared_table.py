"""A comparison on a terminal of any width."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runner.report.compared import HEAD, Row, about, headline, leftovers, legend, rows
from runner.report.rows import Column
from runner.report.table import fit
from runner.verdict.model import Comparison, Verdict

MOST = 50
"""Rows shown; the worst come first, and files have all."""
NAMED = 4
"""Experiments that are named beside a reason; the others are counted."""
KEEP = {
    "experiment": 100,
    "baseline": 89,
    "candidate": 90,
    "change": 99,
    "95 % interval": 95,
    "noise floor": 80,
    "verdict": 98,
}
"""Columns and their ranks: on a narrow terminal the lowest go first."""
STYLES = {
    Verdict.SLOWER: "red",
    Verdict.FASTER: "green",
    Verdict.SAME: "",
    Verdict.AMBIGUOUS: "yellow",
    Verdict.INCOMPARABLE: "magenta",
}


def print_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """The table, then reasons and what it leaves out, in words."""
    console = console or Console(highlight=False)
    for line in about(comparison):
        console.print(Text(line), soft_wrap=True)
    listed = rows(comparison)
    console.print()
    shown, left = fit(_columns(listed[:MOST]), console.width)
    console.print(_table(listed[:MOST], shown))
    console.print()
    console.print(Text(headline(comparison), style="bold"), soft_wrap=True)
    if left:
        titles = ", ".join(column.title for column in left)
        console.print(Text(f"left out at this width: {titles}"), soft_wrap=True)
    for (verdict, reason), names in _reasons(listed).items():
        rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        head = Text(f"  {verdict.value}", style=STYLES[verdict])
        console.print(Text.assemble(head, f"  {', '.join(names[:NAMED])}{rest}: {reason}"), soft_wrap=True)
    if len(listed) > MOST:
        console.print(
            Text(f"{len(listed) - MOST} rows are not shown; markdown=<file> or out=<folder> has them"), soft_wrap=True
        )
    for line in (*leftovers(comparison), legend(comparison)):
        console.print(Text(line), soft_wrap=True)


def _columns(listed: Sequence[Row]) -> list[Column]:
    return [
        Column(title, [row.cells[HEAD.index(title)] for row in listed], keep, title not in ("experiment", "verdict"))
        for title, keep in KEEP.items()
    ]


def _table(listed: Sequence[Row], shown: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for column in shown:
        table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
    for number, row in enumerate(listed):
        styles = [STYLES[row.judged.verdict] if column.title == "verdict" else "" for column in shown]
        cells = zip(shown, styles, strict=True)
        table.add_row(*[Text(column.cells[number], style=style) for column, style in cells])
    return table


def _reasons(listed: list[Row]) -> dict[tuple[Verdict, str], list[str]]:
    """Which experiments share a reason; those of the worst verdict first."""
    found: dict[tuple[Verdict, str], list[str]] = {}
    for row in listed:
        if reason := row.cells[HEAD.index("why")]:
            found.setdefault((row.judged.verdict, reason), []).append(row.cells[0])
    return found
