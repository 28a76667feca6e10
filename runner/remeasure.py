"""The ambiguous experiments of a comparison, measured once more: a part of ``runner.compare``."""

from __future__ import annotations

from collections.abc import Sequence

from runner.execute.rerun import rerun
from runner.exit_codes import INTERRUPTED, REFUSED
from runner.record import originals
from runner.record.location import Location
from runner.verdict.doubt import of_one
from runner.verdict.model import Comparison, Measured, Verdict
from runner.verdict.of_result import measured


def unclear(comparison: Comparison) -> list[Measured]:
    """The candidates whose verdict is AMBIGUOUS, and not for their baseline, which no new candidate makes clearer."""
    return [
        one.pair.candidate
        for one in comparison.judged
        if one.verdict is Verdict.AMBIGUOUS and not of_one(one.pair.baseline)
    ]


def again(runs: Sequence[Measured], location: Location, uri: str, yes: bool, line: str) -> list[Measured]:
    """Runs their exact configs again, with the code of this checkout, and gives what came out, filed like any results.

    Raises ``ValueError`` for a run that is not kept whole, and where it is not to be run; ``ConfigError``,
    ``DocumentError`` and ``TrackingUnavailable``.
    """
    found = [originals.find(one.run_id or one.result_id, location) for one in runs]
    code, results = rerun(found, uri, yes, line)
    if code == REFUSED:
        raise ValueError("the ambiguous experiments were not measured again; yes=true does so without asking")
    if code == INTERRUPTED:  # the command caught it: what it had finished is filed, and judges nothing yet
        raise KeyboardInterrupt
    return [measured(result) for result in results]
