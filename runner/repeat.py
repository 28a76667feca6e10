"""``python -m runner.repeat <run id | result id | result.json or its folder> [yes=true] [uri=…]``: runs the exact
config of an earlier result again, files the new one, and compares the two.

What is run is the config that the result keeps, whatever the option files say today; sources are those of this
checkout. It says first what it will execute, and where commit, uncommitted changes, GPU, driver, compilers or packages
differ. It asks unless the very code of this checkout made the result and nothing but it is run; yes=true answers, and
is needed without a terminal.
Exit code 0: as fast as then, or faster; 3: slower; 4: that could not be told; 5: the two do not compare; 1: it failed;
2: refused, by the command or by you.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from runner import command_line
from runner.compare import exit_code
from runner.config.errors import ConfigError, choose_from
from runner.config.secrets import redact_uri
from runner.execute.rerun import rerun, successor
from runner.exit_codes import INCOMPARABLE, INTERRUPTED
from runner.record import originals
from runner.record.location import Location, TrackingUnavailable, locate
from runner.record.originals import NotFound, Original
from runner.record.selection import flag
from runner.report.compared_table import print_comparison
from runner.report.terminal import Terminal
from runner.result.document import DocumentError
from runner.result.model import Result
from runner.verdict.judge import judge
from runner.verdict.match import match, nearest
from runner.verdict.model import Comparison
from runner.verdict.of_result import measured

USAGE = (
    "usage: python -m runner.repeat <run id | result id | result.json or its folder> [yes=true] [uri=<tracking uri>]"
)
_KEYS = ("yes", "uri")


@dataclass(frozen=True)
class _Asked:
    """What the command line says."""

    word: str
    yes: bool
    uri: str
    location: Location


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    return command_line.run(
        __doc__,
        USAGE,
        arguments,
        _parse,
        _repeat,
        refused=(NotFound, ConfigError),
        failed=(DocumentError, TrackingUnavailable),
    )


def _parse(words: Sequence[str]) -> _Asked:
    options: dict[str, str] = {}
    named: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or "/" in key:
            named.append(word)
        elif key not in _KEYS:
            raise ValueError(f"{key}: no such key; {choose_from(key, _KEYS)}: what is repeated is exactly what was run")
        elif key in options or not value:
            raise ValueError(f"{word}: {'given twice' if key in options else 'a value is missing'}")
        else:
            options[key] = value
    if len(named) != 1:
        raise ValueError(f"name one result, not {len(named)}: {originals.MEANS}")
    uri = options.get("uri", "")
    return _Asked(named[0], flag("yes", options.get("yes", ""), False), uri, locate(uri))


def _repeat(asked: _Asked) -> int:
    try:
        original = originals.find(asked.word, asked.location)
    except DocumentError as error:
        raise NotFound(str(error)) from error
    line = ["python", "-m", "runner.repeat", asked.word, *([f"uri={redact_uri(asked.uri)}"] if asked.uri else [])]
    code, results = rerun([original], asked.uri, asked.yes, shlex.join(line))
    new = successor(original.result, results)
    if new is None or code == INTERRUPTED:
        return code
    print()
    return code or _compare(original, new)


def _compare(original: Original, new: Result) -> int:
    """Prints the verdict on the new result; the exit code of a comparison."""
    old = measured(original.result)
    matched = match([old], [measured(new)])
    if not matched.pairs:
        apart = nearest([old], [measured(new)])
        print(f"the new result is not of the same configuration: {apart}", file=sys.stderr)
        return INCOMPARABLE
    comparison = Comparison(original.where, f"sweep {new.sweep_id}", tuple(judge(matched.pairs)))
    print_comparison(comparison, Terminal(highlight=False))
    return exit_code(comparison)


if __name__ == "__main__":
    sys.exit(main())
