"""What a point leaves in its folder, and what it says about repeating it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import yaml
from omegaconf import OmegaConf

from runner.config.compose import Composer
from runner.config.dump import config_yaml, plain_config
from runner.config.points import Point, Skipped, new_sweep_id, origin, write_inputs, write_sweep
from runner.config.study import expand

SECRETS = [
    "tracking.uri='postgresql://alice:hunter2@db/mlflow?token=hunter2'",
    "+environment.MLFLOW_TRACKING_PASSWORD=hunter2",
]


def point(composer: Composer, folder: Path, *lines: str) -> Point:
    draft = expand(composer, ["kernel=toy", *lines], sweep=False).points[0]
    return Point(draft.config, draft.overrides, folder)


def test_inputs_are_complete_and_without_secrets(composer: Composer, weird_path: Path) -> None:
    made = point(composer, weird_path / "0", "shape.batch=3", *SECRETS)
    write_inputs(made)
    texts = {file.name: file.read_text() for file in (weird_path / "0").iterdir()}
    assert set(texts) == {"config.yaml", "overrides.yaml"}
    assert all("hunter2" not in text for text in texts.values())
    written, plain = yaml.safe_load(texts["config.yaml"]), plain_config(made.config)
    family = written.pop("kernel")
    assert plain.pop("kernel") == {key: family[key] for key in ("name", "phase", "params")}
    assert written == plain
    assert yaml.safe_load(texts["config.yaml"])["kernel"]["params"]["B"] == 3
    assert yaml.safe_load(texts["overrides.yaml"])[:2] == ["kernel=toy", "shape.batch=3"]
    assert "hunter2" not in " ".join(made.shown) and made.shown[1] == "shape.batch=3"
    assert "hunter2" not in made.repeat and "shape.batch=3" in made.repeat


def test_text_of_shared_sections_follows_the_point(composer: Composer) -> None:
    for expansion in (expand(composer, ["kernel=toy", "kernel.params.S=1,2", "shape.batch=1,2"], sweep=True),):
        for draft in expansion.points:
            plain = yaml.safe_load(config_yaml(draft.config))
            assert plain == dataclasses.asdict(draft.config)


def test_the_sweeps_own_file(composer: Composer, tmp_path: Path) -> None:
    made = point(composer, tmp_path / "0", *SECRETS)
    write_sweep(tmp_path, "id", ["kernel=toy", *SECRETS], [made], [Skipped(("seed=1", *SECRETS), "no")])
    text = (tmp_path / "multirun.yaml").read_text()
    document = yaml.safe_load(text)
    assert "hunter2" not in text
    assert document["sweep_id"] == "id" and document["skipped"][0]["reason"] == "no"
    assert document["points"][0][0] == "kernel=toy"


def test_ids_of_commands_differ_and_sort() -> None:
    first, second = new_sweep_id(), new_sweep_id()
    assert first < second


def test_what_a_repeat_needs_besides_overrides(tmp_path: Path) -> None:
    hydra = OmegaConf.create(
        {
            "runtime": {
                "config_sources": [
                    {"path": "hydra.conf", "schema": "pkg", "provider": "hydra"},
                    {"path": "/repo/conf", "schema": "file", "provider": "main"},
                    {"path": str(tmp_path), "schema": "file", "provider": "command-line"},
                    {"path": "/more", "schema": "file", "provider": "hydra.searchpath in command-line"},
                ]
            },
            "overrides": {"hydra": ["hydra.searchpath=[file:///more]", "hydra.mode=RUN"]},
        }
    )
    options, folders = origin(hydra)
    assert options == ("--config-dir", str(tmp_path), "hydra.searchpath=[file:///more]")
    assert folders == (tmp_path.resolve(), Path("/more"))
