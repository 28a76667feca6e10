"""Every option file: it opens by saying what it is, composes, and is named as its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.config.check import PROFILERS
from runner.config.compose import Composer
from runner.config.study import expand
from runner.paths import conf_dir, experiments_dir

GROUPS = ("shape", "model", "gpu", "profiler", "measure", "tracking", "scale")


def option_files() -> list[Path]:
    studies = experiments_dir()
    files = sorted(conf_dir().rglob("*.yaml")) + (sorted(studies.glob("*.yaml")) if studies else [])
    return [file for file in files if file.name != "config.yaml"]


@pytest.mark.parametrize("file", option_files(), ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_opens_with_what_it_is_and_how_to_call_it(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if not line.startswith("# @package")]
    group = file.relative_to(conf_dir()).parent.as_posix() if conf_dir() in file.parents else "experiments"
    opening = "\n".join(line for line in lines[:3] if line.startswith("#"))
    assert lines[0].startswith("# ") and len(lines[0]) > 20
    call = f"parts/{file.stem}@_here_" if group.endswith("/parts") else f"{group}={file.stem}"
    assert call in opening or group == "hydra/sweeper"


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_composes_under_its_own_name(group: str, composer: Composer) -> None:
    chosen = {option: expand(composer, ["kernel=toy", f"{group}={option}"], sweep=False) for option in options(group)}
    for option, expansion in chosen.items():
        assert getattr(expansion.points[0].config, group).name == option


def options(group: str) -> list[str]:
    return sorted(file.stem for file in (conf_dir() / group).glob("*.yaml"))


def test_the_defaults(composer: Composer) -> None:
    config = expand(composer, ["kernel=toy"], sweep=False).points[0].config
    chosen = {group: getattr(config, group).name for group in GROUPS}
    assert chosen == {
        "shape": "decode",
        "model": "llama3_8b",
        "gpu": "auto",
        "profiler": "none",
        "measure": "standard",
        "tracking": "mlflow",
        "scale": "full",
    }
    assert config.study.name == ""


def test_the_groups_that_are_promised() -> None:
    assert options("shape") == ["decode", "long_ctx", "prefill", "serving", "smoke"]
    assert options("measure") == ["fixed", "latency", "quick", "rigorous", "standard"]
    assert options("profiler") == sorted(["none", "both", *PROFILERS])
    assert options("tracking") == ["mlflow", "none"]
    assert options("scale") == ["full", "smoke"]
    assert len(options("model")) == 16


def test_studies_name_themselves_and_their_metrics(composer: Composer) -> None:
    studies = experiments_dir()
    assert studies is not None
    for file in studies.glob("*.yaml"):
        text = file.read_text()
        assert text.startswith("# @package _global_")
        assert f"name: {file.stem}" in text and "metrics:" in text
