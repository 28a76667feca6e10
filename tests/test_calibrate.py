"""``python -m runner.calibrate``: what it says, writes and refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runner import calibrate
from runner.estimate import calibration, measured
from runner.estimate.measured import COLUMNS

DATA = Path(__file__).parent / "data" / "measured_llama_3_1_70b_fp8_h200.csv"

Changed = Callable[[str, str], Path]


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    """The sample with a text replaced wherever it stands."""

    def write(old: str, new: str) -> Path:
        text = DATA.read_text(encoding="utf-8")
        assert old in text
        path = tmp_path / "changed.csv"
        path.write_text(text.replace(old, new), encoding="utf-8")
        return path

    return write


def test_each_engine_is_fitted_reported_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "made"
    assert calibrate.main([f"data={DATA}", f"out={out}"]) == 0
    said = capsys.readouterr().out
    assert "vllm: llama3_1_70b, float8 weights on h200_sxm" in said
    assert "rows: 58 fitted of 58; 0 waited for KV space" in said
    assert "KV cache: float8 (rows whose TTFT contradicts it: float8 0, bfloat16 3)" in said
    assert "worst TPOT, configuration left out" in said
    written = sorted(out.iterdir())
    assert [path.name for path in written] == [
        "trtllm_llama_3.1_70b_fp8_h200_sxm.yaml",
        "vllm_llama_3.1_70b_fp8_h200_sxm.yaml",
    ]
    for path in written:
        assert f"estimate.efficiency={path}" in said
        read = calibration.read(path)
        assert read.source.startswith(path.name.split("_")[0]) and DATA.name in read.source
        assert 30 < read.layer_us < 80


def test_one_engine_goes_into_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vllm.yaml"
    assert calibrate.main([f"data={DATA}", "engine=vllm", "model=llama3_1_70b", f"out={path}"]) == 0
    assert "trtllm" not in capsys.readouterr().out
    assert calibration.read(path).source.startswith("vllm on h200_sxm")


def test_rows_that_waited_are_left_out_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = dict(zip(COLUMNS, ["vllm", "meta-llama/Llama-3.1-70B", "h200_sxm", "fp8", *"........."], strict=False))
    cells |= {"isl": "1024", "osl": "8192", "batch_size": "64", "tp_size": "1"}
    cells |= {"silicon_ttft_ms": "79500", "silicon_tpot_ms": "30"}
    head, *rows = DATA.read_text(encoding="utf-8").splitlines()
    path = tmp_path / "queued.csv"
    more = ",".join(cells.get(name, "1") if name != "mode" else "agg" for name in head.split(","))
    path.write_text("\n".join([head, *rows, more]) + "\n", encoding="utf-8")
    assert calibrate.main([f"data={path}", "engine=vllm"]) == 0
    said = capsys.readouterr().out
    assert "rows: 58 fitted of 59; 1 waited for KV space (TTFT of 5 s and more)" in said
    assert "prompt 1024, output 8192, concurrency 64, TP 1: 40 slots; TTFT measured 79.5 s, predicted" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "data= is missing"),
        (["data="], "data=: known are data=…, model=…, engine=…, out=…"),
        ([f"data={DATA}", "kv=float8"], "kv=float8: known are"),
        (["data=/nowhere/none.csv"], "data=/nowhere/none.csv: cannot be read"),
        ([f"data={DATA}", "engine=vlm"], "engine=vlm: not in the data; did you mean 'vllm'"),
        (
            [f"data={DATA}", "engine=vllm", "model=llama3_70"],
            "model=llama3_70: no such option; did you mean 'llama3_70b'",
        ),
        ([f"data={DATA}", "out=x.yaml"], "out=x.yaml: one file for 2 fits (trtllm, vllm)"),
        ([f"data={DATA}", "engine=vllm", f"out={DATA}"], "is a file; name a folder"),
    ],
)
def test_a_bad_word_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate.main(words) == 2
    shown = capsys.readouterr()
    assert said in shown.err and not shown.out


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("meta-llama/Llama-3.1-70B", "someone/Unheard-Of", "model_path=someone/Unheard-Of: not known by that name"),
        (
            "h200_sxm",
            "h300_sxm",
            "system=h300_sxm: no option of the gpu group with a datasheet; did you mean 'h200_sxm'",
        ),
        ("h200_sxm,fp8", "h200_sxm,fp7", "precision 'fp7'"),
        ("h200_sxm", "t4", "does not fit where it was measured"),
    ],
)
def test_data_that_cannot_be_fitted_are_refused(
    changed: Changed, old: str, new: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate.main([f"data={changed(old, new)}", "engine=vllm"]) == 2
    assert said in capsys.readouterr().err


def test_too_few_rows_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "few.csv"
    path.write_text("\n".join(DATA.read_text(encoding="utf-8").splitlines()[:4]) + "\n", encoding="utf-8")
    assert calibrate.main([f"data={path}", "engine=vllm"]) == 2
    assert "vllm: 3 rows cannot fix 7 constants" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert calibrate.main([f"data={DATA}", "engine=vllm", f"out={tmp_path / 'file' / 'below.yaml'}"]) == 2
    assert "error: cannot write" in capsys.readouterr().err


def test_every_known_name_is_an_option_of_the_group() -> None:
    from runner.paths import conf_dir

    options = {path.stem for path in (conf_dir() / "model").glob("*.yaml")}
    assert set(measured._MODELS.values()) <= options


def test_help_is_its_description(capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate.main(["--help"]) == 0
    assert "data=<csv>" in capsys.readouterr().out


def test_an_interrupt_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(calibrate, "_group", interrupted)
    assert calibrate.main([f"data={DATA}", "engine=vllm"]) == 130
    assert capsys.readouterr().err == "interrupted\n"
