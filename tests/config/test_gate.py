"""``study.gate``: what it may hold."""

from __future__ import annotations

import pytest

from runner.config.errors import ConfigError
from runner.config.gate import share
from runner.config.schema import Gate
from tests.config.test_stored import composed

KERNEL = "kernel=kv_quant"


@pytest.mark.parametrize(("given", "meant"), [("3%", 0.03), ("0.5 %", 0.005), (0.03, 0.03), ("0.03", 0.03), (0, 0.0)])
def test_a_percentage_is_text_or_a_share(given: object, meant: float) -> None:
    assert share(given) == pytest.approx(meant)


def test_it_can_be_given_with_any_command() -> None:
    assert composed(KERNEL).study.gate == Gate(None, 1)
    assert composed(KERNEL, "study.gate={max_slowdown: 3%, min_experiments: 2}").study.gate == Gate("3%", 2)
    assert composed(KERNEL, "study.gate.max_slowdown=0.05").study.gate == Gate(0.05, 1)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["study.gate.max_slowdown=fast"], "study.gate.max_slowdown=fast: must be a percentage or a share from 0"),
        (["study.gate.max_slowdown=300"], "study.gate.max_slowdown=300: must be a percentage"),
        (["study.gate.max_slowdown=-1%"], "study.gate.max_slowdown=-1%: must be"),
        (["study.gate.max_slowdown=true"], "study.gate.max_slowdown=True: must be"),
        (["study.gate.max_slowdown=nan"], "study.gate.max_slowdown=nan: must be"),
        (["study.gate.max_slowdown=[3]"], "study.gate.max_slowdown="),
        (["study.gate={max_slowdown: 3%, min_experiments: 0}"], "study.gate.min_experiments=0: must be at least 1"),
        (["study.gate.min_experiments=0"], "study.gate.min_experiments=0: must be at least 1"),
        (["study.gate.max_slowdwn=3%"], "max_slowdown"),
        (["study.gate.max_slowdown=3%", "tracking=none"], "tracking=none: study.gate needs the store"),
    ],
)  # fmt: skip
def test_what_it_may_not_hold_is_named(lines: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        composed(KERNEL, *lines)
    assert message in str(raised.value)


def test_an_estimate_has_no_gate() -> None:
    with pytest.raises(ConfigError, match=r"^study\.gate: kernel=estimate measures nothing"):
        composed("kernel=estimate", "study.gate.max_slowdown=3%")
