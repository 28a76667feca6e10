"""``python -m runner.doctor [tracking.uri=…] [--json]``: what this machine can do, what it lacks, and the mends.

Exit code 0: an experiment can run here, on the CPU at least; 1: it cannot, and the table says why.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runner import streams
from runner.doctor import gpu, host, profilers, store
from runner.doctor.model import Answer, Probe, State
from runner.exit_codes import FAILED, INTERRUPTED, PASSED, REFUSED

USAGE = "usage: python -m runner.doctor [tracking.uri=<uri>] [--json]"
_STYLES = {State.OK: "green", State.MISSING: "yellow", State.BROKEN: "red"}
_FOR_GPU = frozenset({"nvidia-ml-py", "driver", "GPU", "nvcc", "PyCUDA", "cuda-bindings"})
"""What kernels need to run on a GPU."""

Answered = Sequence[tuple[Probe, Answer]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    streams.prepare()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "-h" in words or "--help" in words:
        print(__doc__)
        return PASSED
    unknown = [word for word in words if word != "--json" and not word.startswith("tracking.uri=")]
    if unknown:
        print(f"error: unknown argument {unknown[0].partition('=')[0]}\n{USAGE}", file=sys.stderr)
        return REFUSED
    uri = next((word.partition("=")[2] for word in reversed(words) if word.startswith("tracking.uri=")), "")
    try:
        answered = ask(probes(uri), quiet="--json" in words)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    if "--json" in words:
        print(json.dumps(document(answered), indent=2, ensure_ascii=False))
    else:
        show(answered, Console(highlight=False))
    return PASSED if can_run(answered) else FAILED


def probes(uri: str) -> list[Probe]:
    """Every question, the store last: MLflow takes seconds to import."""
    return [*host.probes(), *gpu.probes(), *profilers.probes(), *store.probes(uri)]


def ask(questions: Sequence[Probe], quiet: bool = False) -> Answered:
    """One after the other, as some use the GPU; on a terminal it says which one is under way."""
    console = Console(stderr=True)
    status = nullcontext() if quiet or not console.is_terminal else console.status("")
    answered = []
    with status as shown:
        for probe in questions:
            if shown is not None:
                shown.update(f"looking at {probe.name}")
            answered.append((probe, probe.answer()))
    return answered


def can_run(answered: Answered) -> bool:
    """Whether nothing that every experiment needs is missing or broken."""
    return all(answer.state is State.OK for probe, answer in answered if probe.needed)


def document(answered: Answered) -> dict[str, Any]:
    """For machines."""
    return {
        "can_run": can_run(answered),
        "probes": [
            {
                "name": probe.name,
                "state": answer.state.value,
                "found": answer.found,
                "purpose": probe.purpose,
                "mend": answer.mend,
                "needed": probe.needed,
            }
            for probe, answer in answered
        ],
    }


def show(answered: Answered, console: Console) -> None:
    """A table: how it is, what it is and what for, what was found and what to do."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("state", no_wrap=True)
    table.add_column("what, and what for", ratio=2)
    table.add_column("found → mend", ratio=3, overflow="fold")
    for probe, answer in answered:
        what = Text.assemble(probe.name, " *" if probe.needed else "", (f"\n{probe.purpose}", "dim"))
        found = Text.assemble(answer.found, (f"\n→ {answer.mend}", "cyan") if answer.mend else "")
        table.add_row(Text(answer.state.value, _STYLES[answer.state]), what, found)
    console.print(table)
    lacking = [probe.name for probe, answer in answered if probe.needed and answer.state is not State.OK]
    verdict = f"experiments cannot run here: {', '.join(lacking)}" if lacking else "experiments can run here"
    on_gpu = {probe.name for probe, answer in answered if answer.state is State.OK} >= _FOR_GPU
    where = "" if lacking else (", on the GPU and on the CPU" if on_gpu else ", on the CPU")
    console.print(f"\n* needed by every experiment; {verdict}{where}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
