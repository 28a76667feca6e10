"""Constraints: what they see, and what is refused."""

from __future__ import annotations

import pytest

from runner.config.constraints import violated
from runner.config.errors import ConfigError
from runner.config.schema import Config, Constraint, Gpu, Kernel, Model, Shape, Study


def config(*rules: tuple[str, str]) -> Config:
    return Config(
        kernel=Kernel(name="toy", phase="decode", baseline="fp32", params={"B": 2, "T": 4096}),
        shape=Shape(name="decode", batch=2, context=4096),
        model=Model(name="tiny", layers=1, hidden=64, heads=4, kv_heads=2, head_dim=16, intermediate=1, vocab=1),
        gpu=Gpu(name="host"),
        study=Study(name="s", constraints=[Constraint(require=rule, reason=reason) for rule, reason in rules]),
    )


@pytest.mark.parametrize(
    "rule",
    [
        "B * T == 8192",
        "shape.batch == B and shape.name == 'decode'",
        "model.heads % model.kv_heads == 0",
        "kernel == 'toy' and gpu == 'host'",
        "ceil_div(T, 4095) == 2 and max(B, 3) == 3",
    ],
)
def test_holds(rule: str) -> None:
    assert violated(config((rule, "no"))) == ""


def test_the_first_that_fails_gives_the_reason() -> None:
    rules = (("B == 2", "first"), ("T < 1000", "too long"), ("B == 3", "third"))
    assert violated(config(*rules)) == "too long"


def test_none_at_all() -> None:
    assert violated(config()) == ""


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("X > 1", r"'X > 1' uses the unknown name 'X'"),
        ("shap.batch > 1", r"unknown name 'shap'; did you mean 'shape'\?"),
        ("shape.foo > 1", "cannot be evaluated"),
        ("B >", "cannot be evaluated"),
        ("B / 0 > 1", "cannot be evaluated"),
        ("__import__('os')", "cannot be evaluated"),
        ("shape.__class__", "cannot be evaluated"),
        ("9**9**9 > 1", "cannot be evaluated"),
    ],
)
def test_refused(rule: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        violated(config((rule, "no")))
