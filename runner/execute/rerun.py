"""Earlier results run again, after saying what that executes, and asking where this checkout does not vouch for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from runner.execute import repeating
from runner.execute.differences import differences
from runner.execute.repeating import Repeat
from runner.exit_codes import REFUSED
from runner.record.originals import Original
from runner.result.model import Result
from runner.streams import printable


def rerun(originals: Sequence[Original], uri: str, yes: bool, line: str) -> tuple[int, list[Result]]:
    """The exit code of the command that ran them, and the new results, filed in the store of ``uri`` (empty = the
    default one); REFUSED and none where the answer is no. ``yes``: do not ask. ``line``: what the user gave, without
    secrets.

    Raises ``ConfigError`` for a result whose config cannot be run, and ``DocumentError``.
    """
    repeats = repeating.prepare(originals, uri)
    said = [_announce(one) for one in repeats]
    if not yes and not all(_agreed(one) for one in repeats):
        return REFUSED, []
    code, results = repeating.run(repeats, line)
    for one, before in zip(repeats, said, strict=True):
        for original in one.originals:
            new = successor(original.result, results)
            for text in differences(original.result.environment, new.environment) if new is not None else ():
                if text not in before:
                    print(_visible(f"differs: {text}"))
                    before.append(text)
    return code, results


def successor(old: Result, results: Sequence[Result]) -> Result | None:
    """The result of the same experiment and variant, by the most sections of its config that are the same; None where
    it was not run."""
    same = [one for one in results if (one.kernel, one.variant) == (old.kernel, old.variant)]

    def alike(one: Result) -> int:
        return sum(one.config.get(key) == value for key, value in old.config.items())

    return max(same, key=alike, default=None)


def _announce(one: Repeat) -> list[str]:
    """Prints what it will execute and what differs; the latter."""
    print("\n  ".join(map(_visible, repeating.shown(one))))
    said = repeating.differing(one)
    for text in said:
        print(_visible(f"differs: {text}"))
    return said


def _agreed(one: Repeat) -> bool:
    why = repeating.reasons(one)
    if not why:
        return True
    print("\n".join(_visible(f"note: {reason}") for reason in why), flush=True)
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


def _visible(line: str) -> str:
    """What a result holds must not be able to hide from who is asked about it."""
    return printable(line.replace("\n", "\\n"))
