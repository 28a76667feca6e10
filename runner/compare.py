"""``python -m runner.compare baseline=<runs> candidate=<runs> [<option>=… …]``: is it faster, slower, or the same?

A side is run:<id>, sweep:<id>, commit:<hash or name>, tag:<key>=<value>, or file:<path> of a result.json, a folder with
some, or a table of runner.export; the baseline may be last-green. Where it is plain what is meant, the word before
the colon can be left out. Options: tolerance=1% (differences that are surely smaller are SAME), across=gpu (compares
different GPUs), markdown=<file>, out=<folder> (Markdown, JSON and a plot), file=false (not into MLflow), uri=<store>,
remeasure=true (runs what is AMBIGUOUS of the candidate once more, here; yes=true: without asking); and keys that select
runs on both sides: kernel, variant, model, shape, … param.<name>, tag.<name> (docs/comparing.md).

Exit code 0: no regression; 3: something is slower; 5: something cannot be compared; 4: something could not be told;
1: the store cannot be read; 2: the command is refused.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner import command_line, streams
from runner.config.errors import ConfigError
from runner.config.gate import fraction
from runner.exit_codes import AMBIGUOUS, FAILED, INCOMPARABLE, INTERRUPTED, PASSED, REFUSED, REGRESSION
from runner.paths import given
from runner.record import sides
from runner.record.location import Location, TrackingUnavailable, locate
from runner.record.selection import Selection, flag, pairs, select
from runner.record.sides import Side
from runner.report.compared import markdown_of
from runner.report.compared_files import write_files
from runner.report.compared_table import print_comparison
from runner.report.terminal import Terminal
from runner.result.document import DocumentError, write_text
from runner.verdict.judge import judge
from runner.verdict.match import match, nearest
from runner.verdict.model import Comparison, Pair, Rules, Verdict

USAGE = "usage: python -m runner.compare baseline=<runs> candidate=<runs> [<option>=… …]"
OWN = ("baseline", "candidate", "tolerance", "across", "markdown", "out", "file", "uri", "remeasure", "yes")
CODES = ((Verdict.SLOWER, REGRESSION), (Verdict.INCOMPARABLE, INCOMPARABLE), (Verdict.AMBIGUOUS, AMBIGUOUS))
"""The first that occurs decides."""


@dataclass(frozen=True)
class Asked:
    """A command line, understood."""

    baseline: str
    candidate: str
    also: Selection
    rules: Rules
    location: Location
    markdown: Path | None
    out: Path | None
    file: bool
    remeasure: bool
    yes: bool
    uri: str
    command: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    return command_line.run(__doc__, USAGE, arguments, _asked, _do)


def _do(asked: Asked) -> int:
    try:
        then, now = read(asked.baseline, asked.candidate, asked.location, asked.also)
        comparison = compare(then, now, asked.rules)
    except ValueError as error:
        streams.complain(error, usage=USAGE)
        return REFUSED
    try:
        print_comparison(comparison, Terminal(highlight=False))
        if asked.remeasure and comparison.counts[Verdict.AMBIGUOUS]:
            comparison = _remeasured(asked, then, now, comparison)
        _write(asked, comparison)
    except (ValueError, ConfigError) as error:
        streams.complain(error)
        return REFUSED if not isinstance(error, DocumentError) else FAILED
    except KeyboardInterrupt:
        print("interrupted; the comparison above is complete", file=sys.stderr)
        return INTERRUPTED
    return exit_code(comparison)


def read(baseline: str, candidate: str, location: Location, also: Selection) -> tuple[Side, Side]:
    """Both sides. Raises ``ValueError`` for words that mean nothing, and ``TrackingUnavailable``."""
    now = sides.read("candidate", candidate, location, also)
    return sides.read("baseline", baseline, location, also, now), now


def compare(then: Side, now: Side, rules: Rules) -> Comparison:
    """Judges. Raises ``ValueError`` for sides without a common experiment, and for a side against itself."""
    matched = match(then.runs, now.runs)
    if not matched.pairs:
        apart = nearest(matched.only_baseline, matched.only_candidate)
        raise ValueError(
            f"baseline={then.words} and candidate={now.words} have no experiment in common"
            + (f"; of the two that are most alike {apart}" if apart else ": all of one side was SKIPPED")
        )
    if all(map(_itself, matched.pairs)):
        raise ValueError(
            f"baseline={then.words} and candidate={now.words} are the same runs: there is nothing to compare"
        )
    judged = judge(matched.pairs, rules)
    return Comparison(then.words, now.words, tuple(judged), matched.only_baseline, matched.only_candidate, rules)


def _itself(pair: Pair) -> bool:
    """Whether one run, or the same ones, stand on both sides."""
    then, now = pair.baseline, pair.candidate
    return bool(then.result_id) and (then.result_id, then.time_us) == (now.result_id, now.time_us)


def _remeasured(asked: Asked, then: Side, now: Side, comparison: Comparison) -> Comparison:
    """With what is ambiguous of the candidate measured once more; as ``remeasure.again`` for what it raises."""
    from runner import remeasure  # the whole of the runner, only where something is run

    unclear = remeasure.unclear(comparison)
    if not unclear:
        print("measuring the candidate again would not help: it is the baseline that cannot be believed")
        return comparison
    more = remeasure.again(unclear, asked.location, asked.uri, asked.yes, asked.command)
    words = f"{now.words} and {len(unclear)} measured again"
    found = compare(then, Side(words, (*now.runs, *more)), asked.rules)
    print_comparison(found, Terminal(highlight=False))
    return found


def exit_code(comparison: Comparison) -> int:
    """What a script is told."""
    return next((code for verdict, code in CODES if comparison.counts[verdict]), PASSED)


def _asked(words: Sequence[str]) -> Asked:
    """Raises ``ValueError`` and ``TrackingUnavailable``."""
    given = pairs(words, OWN)
    options = {key: given.pop(key) for key in OWN if key in given}
    for side in ("baseline", "candidate"):
        if side not in options:
            raise ValueError(f"{side}= is missing: {sides.FORMS}")
    return Asked(
        baseline=options["baseline"],
        candidate=options["candidate"],
        also=select(given),
        rules=Rules(tolerance=_tolerance(options), across_gpus=_across_gpus(options)),
        location=locate(options.get("uri", "")),
        markdown=_path(options, "markdown"),
        out=_path(options, "out"),
        file=flag("file", options.get("file", ""), True),
        remeasure=flag("remeasure", options.get("remeasure", ""), False),
        yes=flag("yes", options.get("yes", ""), False),
        uri=options.get("uri", ""),
        command=shlex.join(
            ["python", "-m", "runner.compare", *(word for word in words if not word.startswith("uri="))]
        ),
    )


def _tolerance(options: Mapping[str, str]) -> float:
    text = options.get("tolerance")
    if text is None:
        return Rules().tolerance
    value = fraction(text)
    if not 0 < value < 1:
        raise ValueError(f"tolerance={text}: must be above 0 and below 1, or a percentage: 0.02 or 2%")
    return value


def _across_gpus(options: Mapping[str, str]) -> bool:
    if options.get("across", "gpu") != "gpu":
        raise ValueError(f"across={options['across']}: must be gpu")
    return "across" in options


def _path(options: Mapping[str, str], key: str) -> Path | None:
    return given(options[key]) if key in options else None


def _write(asked: Asked, comparison: Comparison) -> None:
    """Files that were asked for, and the run in the tracker. Raises ``DocumentError``."""
    if asked.markdown is not None:
        write_text(asked.markdown, markdown_of(comparison))
        print(f"written: {asked.markdown}")
    if asked.out is not None:
        for path in write_files(comparison, asked.out):
            print(f"written: {path}")
    if asked.file:
        with tempfile.TemporaryDirectory() as folder:
            write_files(comparison, Path(folder))
            _file(asked, comparison, Path(folder))


def _file(asked: Asked, comparison: Comparison, folder: Path) -> None:
    """The answer stands, whatever the tracker says."""
    from runner.record import comparisons

    try:
        print(f"MLflow: {comparisons.file(asked.location, comparison, folder, asked.command)}")
    except TrackingUnavailable as error:
        streams.complain(f"the comparison is not filed: {error}", "warning")


if __name__ == "__main__":
    sys.exit(main())
