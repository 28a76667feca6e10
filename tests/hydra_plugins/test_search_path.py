"""``experiments/`` as a config group, beside those a user adds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError

from hydra_plugins.runner_plugins.search_path import StudySearchPath, StudySource
from runner import paths


@pytest.fixture
def source(tmp_path: Path) -> StudySource:
    (tmp_path / "context.yaml").write_text("# @package _global_\nseed: 3\n")
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "notes.md").write_text("not a study")
    (tmp_path / "folder").mkdir()
    return StudySource("experiments", f"studies://{tmp_path}")


def test_only_one_group_is_seen(source: StudySource) -> None:
    assert source.available()
    assert source.list("", ObjectType.GROUP) == ["experiments"]
    assert source.list("", ObjectType.CONFIG) == []
    assert source.list("experiments", ObjectType.CONFIG) == ["context", "empty"]
    assert source.list("experiments", ObjectType.GROUP) == [] and source.list("shape", None) == []
    assert source.is_group("experiments") and not source.is_group("shape")


def test_files_are_loaded_with_their_header(source: StudySource) -> None:
    assert source.is_config("experiments/context") and not source.is_config("experiments/nope")
    assert not source.is_config("context")
    loaded = source.load_config("experiments/context")
    assert loaded.config == {"seed": 3} and loaded.header["package"] == "_global_"
    assert source.load_config("experiments/empty").config == {}


@pytest.mark.parametrize("path", ["experiments/nope", "context", "experiments"])
def test_what_is_not_there(source: StudySource, path: str) -> None:
    with pytest.raises(ConfigLoadError):
        source.load_config(path)


def test_the_repositorys_folder_is_on_the_path() -> None:
    search_path = ConfigSearchPathImpl()
    StudySearchPath().manipulate_search_path(search_path)
    assert [entry.path for entry in search_path.get_path()] == [f"studies://{paths.experiments_dir()}"]


def test_without_the_folder_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "experiments_dir", lambda: None)
    search_path = ConfigSearchPathImpl()
    StudySearchPath().manipulate_search_path(search_path)
    assert search_path.get_path() == []
