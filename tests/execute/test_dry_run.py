"""The printed plan."""

from __future__ import annotations

import pytest

from runner.cli import main


def test_a_narrow_terminal_cuts_no_figure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["kernel=kv_quant", "gpu=h200_sxm", "shape.context=8192", "dry_run=true"]) == 0
    printed = capsys.readouterr().out
    for whole in ("1 × 8 × 8192 × 128", "float8_e4m3", "67.11 MB", "33,554,432", "memory", "softmax_fp16_kv_attention"):
        assert whole in printed
    assert "…" not in printed
