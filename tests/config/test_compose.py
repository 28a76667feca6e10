"""A point varied from a head is what Hydra composes from the files; a refused one leaves the head untouched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict

from runner.config.compose import Composer
from runner.config.errors import ConfigError
from runner.config.load import to_experiment
from runner.config.schema import Config

POINTS = [
    [],
    ["shape.context=777"],
    ["model.heads=3", "shape.batch=2"],
    ["kernel.params.S=5", "kernel.params.mode=exact"],
    ["kernel.params.B=9", "shape.batch=2"],
    ["kernel.variants.fp32.flops=7*n"],
    ["kernel.flags=[-O3,--use_fast_math]", "kernel.params.S=2"],
    ["+environment.CUDA_DEVICE_MAX_CONNECTIONS='8'"],
    ["measure.host.max_rsd=0.5", "devices=[1,0]", "variants=[q8]", "seed=3", "dry_run=true"],
    ["shape={batch: 5, context: 6}"],
    ["timeout_s=${measure.max_time_s}"],
    ["kernel.params.T=${shape.prompt}", "shape.prompt=99"],
]


def by_hydra(loader: ConfigLoaderImpl, family: Path, lines: list[str]) -> Config:
    cfg = loader.load_configuration("config", [f"hydra.searchpath=[file://{family}]", *lines], RunMode.RUN)
    with open_dict(cfg):
        del cfg["hydra"]
    return to_experiment(cfg)


@pytest.mark.parametrize("values", POINTS, ids=" ".join)
def test_a_point_equals_hydras_own_composition(
    loader: ConfigLoaderImpl, composer: Composer, family_dir: Path, values: list[str]
) -> None:
    config, capped = composer.head(["kernel=toy", "shape=long_ctx"], []).point(values)
    assert config == by_hydra(loader, family_dir, ["kernel=toy", "shape=long_ctx", *values])
    assert not capped


def test_a_binding_across_sections_is_followed(composer: Composer) -> None:
    head = composer.head(["kernel=toy", "shape=bound"], [])
    config, _ = head.point(["model.hidden=640"])
    assert config.shape.context == 640 and config.kernel.params["T"] == 640
    assert head.point([])[0].shape.context == 4096


def test_the_head_is_untouched_by_points(composer: Composer) -> None:
    head = composer.head(["kernel=toy"], ["shape.batch=3"])
    before = OmegaConf.to_yaml(head.cfg)
    head.point(["shape.batch=8", "kernel.params.S=1", "kernel.flags=[-G]", "+environment.A=1", "~kernel.derived.n"])
    with pytest.raises(ConfigError):
        head.point(["model.layers=5", "shape.batch=abc"])
    assert OmegaConf.to_yaml(head.cfg) == before
    assert head.point([])[0].shape.batch == 3


def test_points_share_what_they_do_not_change(composer: Composer) -> None:
    head = composer.head(["kernel=toy"], [])
    first, second = head.point(["shape.batch=1"])[0], head.point(["shape.batch=2"])[0]
    assert first.kernel.variants is second.kernel.variants and first.model is second.model
    assert first.shape is not second.shape and first.kernel.params is not second.kernel.params


def test_heads_are_composed_once(loader: ConfigLoaderImpl, family_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    composer = Composer(loader, [f"hydra.searchpath=[file://{family_dir}]"])
    loads: list[list[str]] = []
    original = loader.load_configuration

    def counted(config_name: str, overrides: list[str], **options: object) -> object:
        loads.append(overrides)
        return original(config_name, overrides, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(loader, "load_configuration", counted)
    for _ in range(3):
        composer.head(["kernel=toy"], [])
        composer.head(["kernel=toy", "shape=smoke"], [])
    assert len(loads) == 2


def test_points_of_a_head_are_composed_without_the_files(composer: Composer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them anew takes fifty times as long as a point, and a sweep has thousands."""
    head = composer.head(["kernel=toy"], [])

    def read(*_: object, **__: object) -> None:
        raise AssertionError("composed anew")

    monkeypatch.setattr(composer.loader, "load_configuration", read)
    points = [head.point([f"shape.context={size}"])[0] for size in (10, 11)]
    assert [point.shape.context for point in points] == [10, 11]


def test_no_kernel_names_the_families(composer: Composer) -> None:
    with pytest.raises(ConfigError, match=r"choose a family, e\.g\. kernel=\w+; known: .*toy"):
        composer.head([], []).require_kernel()


def test_a_family_without_a_name_is_told_apart_from_none_at_all(composer: Composer) -> None:
    with pytest.raises(
        ConfigError, match=r"the chosen family \(variants fp32, q8\) has no name: add name: … to its YAML"
    ):
        composer.head(("kernel=toy",), ("kernel.name='???'",)).require_kernel()
