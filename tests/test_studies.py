"""Every study composes, plans for a GPU, and fits a CPU by one override."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
import yaml
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.utils import setup_globals

from runner import paths
from runner.config.compose import Composer
from runner.config.register import register
from runner.config.resolvers import register_resolvers
from runner.config.study import Expansion, expand
from runner.execute.estimating import make_estimate
from runner.execute.planning import roots
from runner.execute.targets import known_gpus
from runner.plan.memory import memory_bytes
from runner.plan.planner import make_plan
from runner.plan.target import target_of

REPOSITORY = Path(__file__).resolve().parent.parent
STUDIES = sorted(path.stem for path in (REPOSITORY / "experiments").glob("*.yaml"))
ON_PAPER = ("gpu_selection",)
"""Studies of ``kernel=estimate``, which plans no kernels."""
OF_KERNELS = [study for study in STUDIES if study not in ON_PAPER]
POINTS = {"exercise_06": 12, "exercise_07": 20, "exercise_08": 6, "exercise_20": 14, "exercise_25": 3, "kv_quant": 1}
"""How many experiments some of them have: the product of their axes, less what constraints skip."""
LAPTOP_BYTES = 2**30


@lru_cache(maxsize=1)
def composer() -> Composer:
    version.setbase("1.3")
    register()
    register_resolvers()
    setup_globals()
    return Composer(ConfigLoaderImpl(create_config_search_path(str(paths.conf_dir()))), [])


def expansion(study: str, *further: str) -> Expansion:
    return expand(composer(), [f"experiments={study}", *further], sweep=True)


@pytest.mark.parametrize("study", OF_KERNELS)
def test_every_point_of_a_study_is_planned_for_a_gpu(study: str) -> None:
    found = expansion(study, "gpu=h200_sxm")
    assert found.points
    assert found.points[0].config.study.name == study
    assert len(found.points) == POINTS.get(study, len(found.points))
    for draft in found.points:
        plan, _ = make_plan(draft.config, target_of(draft.config.gpu), roots(()))
        assert plan.variants


@pytest.mark.parametrize("study", OF_KERNELS)
def test_a_study_fits_a_laptop_at_smoke_scale(study: str) -> None:
    host = replace(target_of(known_gpus()["host"]), sms=2)
    for draft in expansion(study, "gpu=host", "scale=smoke").points:
        plan, _ = make_plan(draft.config, host, roots(()))
        assert memory_bytes(plan) < LAPTOP_BYTES


@pytest.mark.parametrize("study", ON_PAPER)
def test_every_point_of_a_study_on_paper_is_estimated(study: str) -> None:
    found = expansion(study)
    assert len(found.points) > 1
    for draft in found.points:
        assert make_estimate(draft.config).metrics["tpot_ms"] > 0


def test_the_documentation_lists_every_study() -> None:
    text = (REPOSITORY / "docs" / "studies.md").read_text(encoding="utf-8")
    for study in STUDIES:
        described = yaml.safe_load((REPOSITORY / "experiments" / f"{study}.yaml").read_text())["study"]["description"]
        assert f"| `{study}` |" in text, study
        assert described.rstrip(".") in text, study
