from __future__ import annotations

from pathlib import Path

import pytest

from runner.config.errors import ConfigError
from runner.estimate import measured

DATA = Path(__file__).resolve().parents[1] / "data" / "measured_llama_3_1_70b_fp8_h200.csv"
HEADER = (
    "backend,model_path,system,precision,mode,isl,osl,batch_size,tp_size,pp_size,silicon_ttft_ms,silicon_tpot_ms,note"
)
ROW = "vllm,meta-llama/Llama-3.1-70B,h200_sxm,fp8,agg,1024,8192,8,2,1,159.2,14.83,anything"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "measured.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_shipped_sample_is_read_whole() -> None:
    rows = measured.read(DATA)
    assert len(rows) == 126
    assert {row.engine: sum(one.engine == row.engine for one in rows) for row in rows} == {"vllm": 58, "trtllm": 68}
    first = rows[0]
    assert (first.model, first.gpu, first.precision) == ("meta-llama/Llama-3.1-70B", "h200_sxm", "fp8")
    assert (first.prompt, first.output, first.concurrency, first.tensor) == (1024, 8192, 8, 1)
    assert first.ttft_s == pytest.approx(0.2473047) and first.tpot_s == pytest.approx(0.02409743)
    assert first.configuration == (1024, 8192, 1)


def test_columns_that_are_not_known_are_not_read(tmp_path: Path) -> None:
    (row,) = measured.read(written(tmp_path, HEADER, ROW))
    assert row.tpot_s == pytest.approx(14.83e-3)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("1024", "1024.5", "line 2: isl=1024.5: must be a whole number from 1 to 2147483647"),
        (",8,", ",0,", "batch_size=0: must be a whole number"),
        ("8192", "-1", "osl=-1: must be a whole number"),
        ("8192", "9" * 40, "osl=9999"),
        ("14.83", "nan", "silicon_tpot_ms=nan: must be a time above 0, ms"),
        ("159.2", "", "silicon_ttft_ms=: must be a time above 0, ms"),
        ("14.83", "-3", "silicon_tpot_ms=-3: must be a time above 0"),
        ("agg", "disagg", "mode=disagg: only agg can be fitted"),
        (",2,1,", ",2,2,", "pp_size=2: only 1 can be fitted"),
        ("vllm", " ", "backend is empty"),
        (",anything", "", "has not as many cells as the header"),
        ("anything", "a,b", "has not as many cells as the header"),
    ],
)
def test_a_bad_cell_is_refused_with_its_line_and_column(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = written(tmp_path, HEADER, ROW.replace(old, new, 1))
    with pytest.raises(ConfigError, match="line 2") as caught:
        measured.read(path)
    assert said in str(caught.value) and str(path) in str(caught.value)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER.replace("osl", "output"), ROW)
    with pytest.raises(ConfigError, match="has no column osl; needed are backend, model_path"):
        measured.read(path)


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a header and no rows"):
        measured.read(written(tmp_path, HEADER))


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        measured.read(tmp_path / "none.csv")
    path = tmp_path / "binary.csv"
    path.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(ConfigError, match="is not a CSV file"):
        measured.read(path)
