from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.config.errors import ConfigError
from runner.estimate import calibration
from runner.estimate.calibration import Calibration, Errors
from runner.estimate.model import Efficiency

MADE = Calibration(
    engine="vllm",
    model="llama3_70b",
    gpu="h200_sxm",
    weights="float8",
    kv="float8",
    data="some.csv",
    date=datetime.date(2026, 3, 1),
    rows=58,
    rows_left_out=2,
    errors=Errors(4.0, 5.0, 6.0, 7.0),
    efficiency=Efficiency("model", "a fit", 0.91, 0.54, 65.0, 1.2, 58.0, 37000.0, 0.055),
)


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    calibration.write(MADE, tmp_path / "made.yaml")
    loaded: dict[str, Any] = yaml.safe_load((tmp_path / "made.yaml").read_text(encoding="utf-8"))
    return loaded


def reading(folder: Path, document: Any) -> Efficiency:
    path = folder / "changed.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document), encoding="utf-8")
    return calibration.read(path)


def test_what_was_written_is_read_with_its_source(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "it's.yaml"
    calibration.write(MADE, path)
    read = calibration.read(path)
    assert {key: getattr(read, key) for key in calibration.RANGES} == {
        key: getattr(MADE.efficiency, key) for key in calibration.RANGES
    }
    assert read.level == "model"
    for part in ("vllm on h200_sxm", "llama3_70b", "float8 KV", "58 rows of some.csv", "2026-03-01", "TPOT 6.0 %"):
        assert part in read.source


def test_the_file_opens_with_how_it_is_used(tmp_path: Path) -> None:
    calibration.write(MADE, tmp_path / "made.yaml")
    head = (tmp_path / "made.yaml").read_text(encoding="utf-8").splitlines()[:2]
    assert "estimate.efficiency=<this file> estimate.weights=float8 estimate.kv=float8" in head[1]


@pytest.mark.parametrize(
    ("section", "key", "value", "said"),
    [
        ("", "engine", 3, "engine: 3 is not text"),
        ("", "rows", True, "rows: True is not an integer"),
        ("", "constants", [1], r"constants: \[1\] is not a mapping"),
        ("", "egine", "x", "'egine' is not one of its keys; did you mean 'engine'"),
        ("constants", "bandwidth", 1.2, "constants.bandwidth: 1.2 must be above 0 and at most 1"),
        ("constants", "compute", 0, "constants.compute: 0 must be above 0"),
        ("constants", "layer_us", -1, "constants.layer_us: -1 must be at least 0"),
        ("constants", "layer_us", float("nan"), "constants.layer_us: nan is not a number"),
        ("constants", "layer_us", "fast", "constants.layer_us: 'fast' is not a number"),
        ("constants", "layers_us", 3, "constants.layers_us is not known; did you mean 'layer_us'"),
        ("errors_percent", "tpot", None, "errors_percent.tpot: None is not a number"),
    ],
)
def test_a_changed_value_is_refused_by_name(
    tmp_path: Path, document: dict[str, Any], section: str, key: str, value: object, said: str
) -> None:
    (document[section] if section else document)[key] = value
    with pytest.raises(ConfigError, match=said):
        reading(tmp_path, document)


@pytest.mark.parametrize("key", ["engine", "constants", "date"])
def test_a_missing_key_is_refused(tmp_path: Path, document: dict[str, Any], key: str) -> None:
    del document[key]
    with pytest.raises(ConfigError, match=f"has no {key}; python -m runner.calibrate writes such a file"):
        reading(tmp_path, document)


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "[" * 5000, "\x00"])
def test_what_is_no_such_document_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not YAML|holds no mapping"):
        reading(tmp_path, text)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="larger than 1048576 bytes"):
        reading(tmp_path, "#" * (2 << 20))


def test_a_file_that_is_not_there_says_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"estimate\.efficiency=.*no such file; allowed are ideal, model, or a file"):
        calibration.read(tmp_path / "none.yaml")


def test_a_folder_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        calibration.read(tmp_path)
