"""The table as plain text cells: which columns exist, and every failure and doubt in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runner.report import numbers
from runner.report.axes import MISSING, columns, long_name, value
from runner.report.ranking import ranked
from runner.result.model import Quality, Result, Status
from runner.result.names import plain, printed

LISTED = 4
"""Experiments named in one note; the others are counted."""
WIDEST = 40
"""Characters of a parameter; of a longer one (a program's arguments) beginning and end are shown."""
_FIGURE = re.compile(r"\b\d[\d.,]*(e[+-]?\d+)?\b( (µs|ms|s|MHz|GB/s|TFLOP/s|%))?")
"""A number in a sentence, with its unit."""
_UNREMARKABLE = (Quality.OK, Quality.UNMEASURED)


@dataclass
class Column:
    """One column. ``keep`` decides which columns go first when the terminal is narrow: the lowest."""

    title: str
    cells: list[str]
    keep: int
    right: bool = True


@dataclass
class Note:
    """Something to tell under the table, about one or more results."""

    kind: str
    """``failed``, ``skipped`` or ``doubt``."""
    head: str
    """Status or quality."""
    who: list[str] = field(default_factory=list)
    text: str = ""
    repeat: str = ""
    """Command that runs the first of them again; failures only."""
    alike: bool = False
    """The others' figures are other ones: the text is the first one's."""

    def where(self) -> str:
        """``q8 T=32768, q8 T=65536 and 3 more``."""
        rest = len(self.who) - LISTED
        listed = ", ".join(self.who[:LISTED]) + (f" and {rest} more" if rest > 0 else "")
        return f"{listed} (figures of the first)" if self.alike else listed


@dataclass
class Rows:
    """The results of one family."""

    kernel: str
    columns: list[Column]
    statuses: list[Status]
    sections: list[int]
    """Row numbers after which another experiment begins."""
    notes: list[Note]

    @property
    def headline(self) -> str:
        """``24 results: 20 passed, 3 failed, 1 skipped``."""
        passed = self.statuses.count(Status.PASSED)
        skipped = self.statuses.count(Status.SKIPPED)
        counts = {"passed": passed, "failed": len(self.statuses) - passed - skipped, "skipped": skipped}
        what = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        total = len(self.statuses)
        return f"{total} {'result' if total == 1 else 'results'}: {what}"


def rows(results: Sequence[Result], swept: Sequence[str] = ()) -> list[Rows]:
    """One table per family, in the order they ran."""
    kernels = dict.fromkeys(result.kernel for result in results)
    return [_family(kernel, [r for r in results if r.kernel == kernel], swept) for kernel in kernels]


def _family(kernel: str, results: list[Result], swept: Sequence[str]) -> Rows:
    varied = columns(results, swept)
    estimated = any("fits" in result.metrics for result in results)
    ranks: list[int] = []
    if estimated:
        results, ranks = ranked(results)
    made = [Column("variant", [_variant(r) for r in results], 100, right=False)]
    for key in varied:
        title = f"{key}\n{long_name(results, key)}".rstrip()
        cells = [_cell(value(r, key)) for r in results]
        made.append(Column(title, cells, 99, right=all(c.replace(".", "").isdigit() for c in cells)))
    if any(ranks):
        made.insert(0, Column("rank", [str(rank or numbers.NONE) for rank in ranks], 99))
    shown = _ESTIMATED if estimated else _FIGURES
    figures = [*shown, *((name, 80, True, _metric(name, numbers.digits)) for name in _printed(results))]
    made += [Column(title, [cell(r) for r in results], keep, right) for title, keep, right, cell in figures]
    empty = {numbers.NONE, ""}
    kept = [column for column in made if column.keep >= 97 or not set(column.cells) <= empty]
    if estimated and all(result.status is Status.PASSED for result in results):
        kept = [column for column in kept if column.title != "check"]  # nothing was checked
    sections = [
        index for index in range(len(results) - 1) if results[index].experiment_id != results[index + 1].experiment_id
    ]
    statuses = [result.status for result in results]
    return Rows(kernel, kept, statuses, sections, _notes(results, varied))


def _printed(results: Sequence[Result]) -> list[str]:
    """Metrics that programs of the user print."""
    return list(dict.fromkeys(name for result in results for name in printed(result.params, result.metrics)))


def _metric(name: str, form: Callable[[float], str]) -> Callable[[Result], str]:
    def cell(result: Result) -> str:
        found = result.metrics.get(name)
        return numbers.NONE if found is None else form(found)

    return cell


def _of_served(result: Result, name: str, form: Callable[[float], str] = lambda ms: numbers.time(1e3 * ms)) -> str:
    """A figure of a served trace; of a program that prints one of this name it has a column already."""
    return _metric(name, form)(result) if "steps_mixed" in result.metrics else numbers.NONE


def _percent(figure: float) -> str:
    return f"{figure:.1f}%"


def _yes(figure: float) -> str:
    return "yes" if figure else "no"


def _times(figure: float) -> str:
    return f"{numbers.digits(figure)}×"


_FIGURES: tuple[tuple[str, int, bool, Callable[[Result], str]], ...] = (
    ("check", 98, False, lambda r: status_word(r.status)),
    ("max\nabs err", 40, True, _metric("max_abs_err", numbers.error)),
    ("max\nrel err", 60, True, _metric("max_rel_err", numbers.error)),
    ("l2 err", 30, True, _metric("l2_err", numbers.error)),
    ("time", 97, True, numbers.spread),
    ("cross-\ncheck", 45, True, _metric("time_us_crosscheck", numbers.time)),
    ("TTFT\np50", 84, True, lambda r: _of_served(r, "ttft_ms_p50")),
    ("TTFT\np95", 94, True, lambda r: _of_served(r, "ttft_ms_p95")),
    ("TPOT\np50", 83, True, lambda r: _of_served(r, "tpot_ms_p50")),
    ("longest\nITL", 93, True, lambda r: _of_served(r, "itl_ms_max")),
    ("tokens/s", 92, True, lambda r: _of_served(r, "output_tokens_per_s", numbers.digits)),
    ("rate", 90, True, numbers.rate),
    ("% of\npeak", 85, True, numbers.peak),
    ("% of\nceiling", 50, True, numbers.ceiling),
    ("bound", 70, False, lambda r: numbers.bound(r) or numbers.NONE),
    ("speed-up", 88, True, _metric("speedup", _times)),
    ("KL\n(nats)", 87, True, _metric("kl_divergence", numbers.digits)),
    ("perplexity\nratio", 86, True, _metric("perplexity_ratio", lambda ratio: numbers.digits(ratio, 4))),
    ("accepted", 84, True, _metric("acceptance_rate", lambda share: _percent(100 * share))),
    ("quality", 75, False, lambda r: numbers.NONE if r.quality in _UNREMARKABLE else r.quality.value),
    ("series", 74, False, lambda r: ", ".join(r.flags).replace("_", " ") or numbers.NONE),
)

_ESTIMATED: tuple[tuple[str, int, bool, Callable[[Result], str]], ...] = (
    ("check", 98, False, lambda r: status_word(r.status)),
    ("fits", 96, False, _metric("fits", _yes)),
    ("meets\ntargets", 95, False, _metric("meets_targets", _yes)),
    ("GPU\nmemory", 60, True, _metric("memory_bytes", numbers.size)),
    ("largest\nbatch", 70, True, _metric("max_batch", lambda count: f"{count:.0f}")),
    ("TTFT", 93, True, _metric("ttft_ms", lambda ms: numbers.time(1e3 * ms))),
    ("TPOT", 94, True, _metric("tpot_ms", lambda ms: numbers.time(1e3 * ms))),
    ("bound of\ndecode", 65, False, lambda r: str(r.params.get("bound_decode", numbers.NONE))),
    ("tokens/s", 92, True, _metric("tokens_per_s", numbers.digits)),
    ("tokens/s\nper GPU", 80, True, _metric("tokens_per_s_gpu", numbers.digits)),
    ("kJ per\nMtoken", 55, True, _metric("joules_per_million_tokens", lambda j: numbers.digits(1e-3 * j))),
    ("money per\nMtoken", 75, True, _metric("money_per_million_tokens", numbers.digits)),
)


def status_word(status: Status) -> str:
    """``PASS``, or the status as it is."""
    return "PASS" if status is Status.PASSED else status.value


def _variant(result: Result) -> str:
    return f"{result.variant or '(all)'}{' *' if result.baseline else ''}"


def _cell(found: object) -> str:
    text = numbers.NONE if found is MISSING else plain(found)
    return text if len(text) <= WIDEST else f"{text[: WIDEST // 2]}…{text[-(WIDEST // 2 - 1) :]}"


def _notes(results: Sequence[Result], varied: Sequence[str]) -> list[Note]:
    """Failures first, then skips, then doubts; what many results share is said once, and of doubts that differ in
    their figures alone the first."""
    found: dict[tuple[str, str, str], Note] = {}
    for result in results:
        who = " ".join([result.variant or "all variants", *_place(result, varied)])
        for kind, head, text in _remarks(result):
            same = _FIGURE.sub("#", text) if kind == "doubt" else text
            note = found.setdefault((kind, head, same), Note(kind, head, [], text))
            if text != note.text:
                note.alike = True
            note.who.append(who)
            if kind == "failed" and not note.repeat:
                note.repeat = result.repeat
    order = ("failed", "skipped", "doubt")
    return sorted(found.values(), key=lambda note: order.index(note.kind))


def _place(result: Result, varied: Sequence[str]) -> list[str]:
    pairs = [(key, value(result, key)) for key in varied]
    return [f"{key}={plain(found)}" for key, found in pairs if found is not MISSING]


def _remarks(result: Result) -> list[tuple[str, str, str]]:
    """(kind, head, text) of everything a result has to say beyond its figures."""
    remarks = []
    if result.status.failed:
        remarks.append(("failed", result.status.value, result.message or _failed_checks(result)))
    elif result.status is Status.SKIPPED:
        remarks.append(("skipped", result.status.value, result.message))
    remarks += [("doubt", "note", text) for text in result.warnings]
    if result.profile.status.value in ("UNAVAILABLE", "FAILED"):
        remarks.append(("doubt", f"profile {result.profile.status.value}", result.profile.reason))
    return remarks


def _failed_checks(result: Result) -> str:
    return "; ".join(f"{c.name}: {c.message}" for c in result.checks if not c.passed) or "no reason was given"
