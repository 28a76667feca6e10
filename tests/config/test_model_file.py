"""A model's file in a config: whose figures count, in which points, and what is refused beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl

from runner.config.compose import Composer
from runner.config.errors import ConfigError
from runner.config.schema import Config, Model
from runner.config.study import expand

LAYERS = {"a.gguf": 3, "b.gguf": 5}


class Reader:
    """Stands for the reader of files, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[Path] = []

    def __call__(self, path: Path) -> Model:
        self.asked.append(path)
        return Model(
            name=path.stem, layers=LAYERS[path.name], hidden=64, heads=4, kv_heads=2, head_dim=64, intermediate=128,
            vocab=100, rope_theta=5e5, config_json=str(path), notes=["one", "two"],
        )  # fmt: skip


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def composer(
    loader: ConfigLoaderImpl, family_dir: Path, reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Composer:
    monkeypatch.chdir(tmp_path)
    return Composer(loader, [f"hydra.searchpath=[file://{family_dir}]"], read_model=reader)


def points(composer: Composer, *lines: str, sweep: bool = True) -> list[Config]:
    return [draft.config for draft in expand(composer, ["kernel=toy", *lines], sweep=sweep).points]


@pytest.mark.parametrize("key", ["weights", "config_json"])
def test_every_figure_is_the_files(composer: Composer, tmp_path: Path, key: str) -> None:
    (made,) = points(composer, f"model.{key}=a.gguf", sweep=False)
    model = made.model
    assert (model.name, model.layers, model.rope_theta, model.params_total) == ("a", 3, 5e5, 0)
    assert (getattr(model, key), model.notes) == (str(tmp_path / "a.gguf"), ["one", "two"])
    assert {model.weights, model.config_json} == {str(tmp_path / "a.gguf"), ""}


def test_a_sweep_reads_each_file_once(composer: Composer, reader: Reader, tmp_path: Path) -> None:
    made = points(composer, "model.weights=a.gguf,b.gguf,''", "shape.batch=1,2", "model=qwen3_8b")
    assert [(one.model.name, one.model.layers) for one in made[::2]] == [("a", 3), ("b", 5), ("qwen3_8b", 36)]
    assert reader.asked == [tmp_path / "a.gguf", tmp_path / "b.gguf"]


def test_a_file_that_no_point_changes(composer: Composer, reader: Reader) -> None:
    made = points(composer, "model.config_json=b.gguf", "shape.batch=1,2", "model=qwen3_8b,llama3_8b")
    assert [one.model.layers for one in made] == [5] * 4
    assert len(reader.asked) == 1


def test_a_model_without_a_file_is_left_alone(composer: Composer, reader: Reader) -> None:
    (made,) = points(composer, "model.layers=7", sweep=False)
    assert (made.model.layers, reader.asked) == (7, [])


@pytest.mark.parametrize(
    "lines", [("model.weights=a.gguf", "model.hidden=8"), ("model.weights=a.gguf", "model.layers=1,2")]
)
def test_a_figure_beside_the_file_is_refused(composer: Composer, lines: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"model\.\w+=\d: leave it out, as model.weights gives every figure"):
        points(composer, *lines)


def test_both_files_are_refused(composer: Composer) -> None:
    with pytest.raises(ConfigError, match=r"model.config_json=b.gguf: leave it out, as model.weights=a.gguf gives"):
        points(composer, "model.weights=a.gguf", "model.config_json=b.gguf")


def test_caps_of_the_model_are_refused_where_weights_are_read(composer: Composer) -> None:
    with pytest.raises(
        ConfigError, match=r"scale=smoke: caps the sizes of the model, which the weights in model.weights="
    ):
        points(composer, "model.weights=a.gguf", "scale=smoke")
    (made,) = points(composer, "model.config_json=a.gguf", "scale=smoke")
    assert made.model.layers == 2
