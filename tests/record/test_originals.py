"""Results found again, whole: by run, by result, as files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from runner.record import originals
from runner.record.location import Location
from runner.record.mlflow_store import MlflowStore
from runner.record.originals import NotFound
from tests.record.conftest import spooled
from tests.synthetic import result

WHOLE = {"kernel": {"name": "kv_quant", "variants": {"q8": {}}}, "seed": 0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of one result, with the config of its experiment above it."""
    (folder,) = spooled(tmp_path / "sweep", [result()])
    (folder.parent / "config.yaml").write_text(yaml.safe_dump(WHOLE), encoding="utf-8")
    return folder


def test_a_file_its_folder_and_its_run_are_the_same_result(
    folder: Path, store: MlflowStore, location: Location
) -> None:
    run_id = store.file(result(), folder)
    for word in (str(folder), str(folder / "result.json"), run_id, result().id):
        found = originals.find(word, location)
        assert (found.result, found.config) == (result(), WHOLE)
        assert found.where == f"run {run_id}" if word in (run_id, result().id) else str(folder / "result.json")


def test_a_run_that_is_behind_a_server_is_downloaded(folder: Path, store: MlflowStore, location: Location) -> None:
    run = store.run(store.file(result(), folder))
    found = originals.of_run(Location(location.uri, location.kind, artifacts=""), run)
    assert (found.result, found.config) == (result(), WHOLE)


def test_a_config_of_another_experiment_stands_for_nothing(folder: Path, location: Location) -> None:
    for other in ({**WHOLE, "seed": 1}, {**WHOLE, "kernel": {"name": "rope"}}, {"kernel": None}, "text"):
        (folder.parent / "config.yaml").write_text(yaml.safe_dump(other), encoding="utf-8")
        assert originals.find(str(folder), location).config == result().config
    (folder.parent / "config.yaml").write_text("kernel: [", encoding="utf-8")
    assert originals.find(str(folder), location).config == result().config


def test_what_is_not_there_is_said(folder: Path, store: MlflowStore, location: Location, tmp_path: Path) -> None:
    run_id = store.file(result(), folder)
    nobody = store._client.create_run(store.experiment_id("kv_quant")).info.run_id
    spooled(tmp_path / "two", [result(), result("fp32")])
    (tmp_path / "none").mkdir()
    for word, message in (
        ("what", "there is no such path"),
        (32 * "0", "has no such run"),
        ("00000000-0000-4000-8000-999999999999", "has no such result"),
        (nobody, "holds no result"),
        (str(tmp_path / "two"), "2 results lie in it"),
        (str(tmp_path / "none"), "no result lies in it"),
    ):
        with pytest.raises(NotFound, match=message):
            originals.find(word, location)
    shutil.rmtree(Path(location.artifacts) / "kv_quant" / run_id)
    with pytest.raises(NotFound, match="another machine has it"):
        originals.find(run_id, location)
    with pytest.raises(NotFound, match="there is no store at"):
        originals.find(run_id, Location("sqlite:////nowhere/x.db", "sqlite", "/nowhere/artifacts"))
