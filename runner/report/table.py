"""The table at the end of a sweep, for a terminal of any width."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from runner.report.rows import Column, Note, Rows, rows
from runner.result.model import Result, Status

ALWAYS = 97
"""Columns with at least this rank are never left out."""
GAP = 3
"""Characters between two columns."""
_STYLES = {"failed": "red", "skipped": "yellow", "doubt": "yellow"}


def print_table(
    results: Sequence[Result],
    swept: Sequence[str] = (),
    footer: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Prints one table per family, then failures, skips and doubts in words, then ``footer`` line by line."""
    console = console or Console(highlight=False)
    for family in rows(results, swept):
        console.print(render(family, console.width))
    for line in footer:
        console.print(Text(line), soft_wrap=True)  # a link or a command must survive copying


def render(family: Rows, width: int) -> RenderableType:
    """One family's table and notes, at most ``width`` columns wide where the essential columns fit."""
    shown, hidden = fit(family.columns, width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for column in shown:
        table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
    for index in range(len(family.statuses)):
        cells = [_styled(column, index, family.statuses[index]) for column in shown]
        table.add_row(*cells, end_section=index in family.sections and _sectioned(family))
    parts: list[RenderableType] = [Text(f"\n{family.kernel}", style="bold"), Text(""), table, Text("")]
    remarks = [family.headline]
    if any(cell.endswith(" *") for cell in family.columns[0].cells):
        remarks.append("* is the baseline of the speed-ups")
    if hidden:
        names = ", ".join(column.title.replace("-\n", "-").replace("\n", " ") for column in hidden)
        remarks.append(f"left out at this width: {names}")
    parts.append(Text("; ".join(remarks)))
    parts += [_note(note) for note in family.notes]
    return Group(*parts)


def fit(columns: Sequence[Column], width: int) -> tuple[list[Column], list[Column]]:
    """The columns that fit and those left out, the least important first."""
    shown = list(columns)
    while sum(_width(column) + GAP for column in shown) - GAP > width:
        spare = [column for column in shown if column.keep < ALWAYS]
        if not spare:
            break
        shown.remove(min(spare, key=lambda column: column.keep))
    return shown, [column for column in columns if column not in shown]


def _width(column: Column) -> int:
    return max(cell_len(text) for cell in (column.title, *column.cells) for text in cell.split("\n"))


def _sectioned(family: Rows) -> bool:
    """Lines between experiments help only where an experiment has several variants."""
    return len(family.sections) + 1 < len(family.statuses)


def _styled(column: Column, index: int, status: Status) -> Text:
    style = ""
    if column.title == "check":
        style = "green" if status is Status.PASSED else "red" if status.failed else "yellow"
    elif column.title == "quality":
        style = "yellow"
    return Text(column.cells[index], style=style)


def _note(note: Note) -> RenderableType:
    """``TIMEOUT  q8 T=32768: did not end …`` with the command that tries again underneath."""
    line = Text.assemble((note.head, _STYLES[note.kind]), f"  {note.where()}: {note.text}")
    if not note.repeat:
        return Padding(line, (0, 0, 0, 2), expand=False)
    again = Text(f"again: {note.repeat}", style="dim")
    return Padding(Group(line, Padding(again, (0, 0, 0, 2), expand=False)), (0, 0, 0, 2), expand=False)
