"""Progress: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

from rich.console import Console

from runner.report.progress import SweepProgress
from runner.result.model import Status
from tests.synthetic import result


def run(terminal: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100, highlight=False)
    with SweepProgress(2, console) as progress:
        progress.start("kv_quant T=4096 [q8]")
        progress.note("[q8_kv_scan] PASS")
        progress.finish([result("fp32", 4096), result("q8", 4096, status=Status.TIMEOUT)])
        progress.start("kv_quant T=8192")
        progress.finish([])
    return stream.getvalue()


def test_without_a_terminal_there_are_plain_lines() -> None:
    assert run(terminal=False).splitlines() == [
        "[q8_kv_scan] PASS",
        "[1/2] kv_quant T=4096 [q8]: fp32 PASS 10.7 µs ±0.4%, q8 TIMEOUT",
        "[2/2] kv_quant T=8192: ",
    ]


def test_on_a_terminal_there_is_a_bar_with_the_experiment() -> None:
    text = run(terminal=True)
    assert "2/2" in text
    assert "kv_quant T=8192" in text
    assert "[q8_kv_scan] PASS" in text
    assert "[1/2]" not in text
