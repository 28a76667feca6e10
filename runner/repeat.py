"""``python -m runner.repeat <run id | result id | result.json or its folder> [yes=true] [uri=…]``: runs the exact
config of an earlier result again, files the new one, and says how it differs.

What is run is the config that the result keeps, whatever the option files say today; sources are those of this
checkout. It says first what it will execute, and where commit, uncommitted changes, GPU, driver, compilers or packages
differ. It asks unless the very code of this checkout made the result and nothing but it is run; yes=true answers, and
is needed without a terminal.
Exit code 0: run; 1: it failed; 2: refused, by the command or by you.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from runner import streams
from runner.config.errors import ConfigError, choose_from
from runner.config.secrets import redact_uri
from runner.execute import repeating
from runner.execute.differences import differences
from runner.execute.repeating import Repeat
from runner.exit_codes import FAILED, INTERRUPTED, PASSED, REFUSED
from runner.record import originals
from runner.record.location import Location, TrackingUnavailable, locate
from runner.record.originals import NotFound
from runner.result.document import DocumentError
from runner.result.model import Result

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
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "-h" in words or "--help" in words:
        print(__doc__)
        return PASSED
    streams.prepare()
    try:
        asked = _parse(words)
    except (ValueError, TrackingUnavailable) as error:
        print(f"error: {error}\n{USAGE}", file=sys.stderr)
        return REFUSED
    try:
        return _repeat(asked)
    except (NotFound, ConfigError) as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    except (DocumentError, TrackingUnavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


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
    if options.get("yes", "true") not in ("true", "false"):
        raise ValueError(f"yes={options['yes']}: must be true or false")
    uri = options.get("uri", "")
    return _Asked(named[0], options.get("yes") == "true", uri, locate(uri))


def _repeat(asked: _Asked) -> int:
    original = originals.find(asked.word, asked.location)
    (repeat,) = repeating.prepare([original], asked.uri)
    said = repeating.differing(repeat)
    print("\n  ".join(repeating.shown(repeat)))
    for text in said:
        print(f"differs: {text}")
    if not _agreed(repeat, asked.yes):
        return REFUSED
    line = ["python", "-m", "runner.repeat", asked.word, *([f"uri={redact_uri(asked.uri)}"] if asked.uri else [])]
    code, results = repeating.run([repeat], shlex.join(line))
    new = _same(results, original.result)
    if new is not None:
        for text in differences(original.result.environment, new.environment):
            if text not in said:
                print(f"differs: {text}")
    return code


def _agreed(repeat: Repeat, yes: bool) -> bool:
    """Whether it may be executed; asks where that is not clear."""
    why = repeating.reasons(repeat)
    if not why or yes:
        return True
    print("\n".join(f"note: {reason}" for reason in why), flush=True)
    if not sys.stdin or not sys.stdin.isatty():
        print("error: there is no terminal to ask on: look at the lines above, and add yes=true", file=sys.stderr)
        return False
    try:
        answer = input("execute it? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() in ("y", "yes"):
        return True
    print("nothing was run")
    return False


def _same(results: Sequence[Result], original: Result) -> Result | None:
    """The new result of the same variant."""
    return next((one for one in results if one.variant == original.variant), None)


if __name__ == "__main__":
    sys.exit(main())
