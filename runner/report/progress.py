"""Where a sweep is: a bar on a terminal, plain lines anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from runner.report.numbers import spread
from runner.report.rows import status_word
from runner.result.model import Result


class SweepProgress:
    """Counts experiments. Use it as a context manager; nothing is drawn after it ends.

    ``total`` is the number of experiments.
    """

    def __init__(self, total: int, console: Console | None = None) -> None:
        self.total = total
        self.done = 0
        self._console = console or Console(highlight=False)
        self._current = ""
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> SweepProgress:
        if self._console.is_terminal:
            self._bar = Progress(
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=self.total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def start(self, experiment: str) -> None:
        """Names the experiment that runs now: ``kv_quant T=32768``; call it again as it moves on."""
        self._current = experiment
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=escape(experiment))

    def finish(self, results: Sequence[Result], experiment: str = "") -> None:
        """One experiment has ended with these results: the one that was named last, or ``experiment``."""
        self.done += 1
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task)
            return
        what = ", ".join(f"{r.variant} {_outcome(r)}".strip() for r in results)
        self.note(f"[{self.done}/{self.total}] {experiment or self._current}: {what}")

    def note(self, line: str) -> None:
        """Prints a line above the bar."""
        self._console.print(Text(line), soft_wrap=True)


def _outcome(result: Result) -> str:
    timed = "time_us" in result.metrics and not result.status.failed
    return f"{status_word(result.status)} {spread(result)}" if timed else status_word(result.status)
