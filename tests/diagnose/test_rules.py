"""The rules file: complete, readable, and refused with a clear message when it is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.config.errors import ConfigError
from runner.diagnose.rules import OWN_FILE, USER_FILE, figures_in, names_in, rules

ROOT = Path(__file__).resolve().parents[2]
RULE = """
- name: {name}
  bound: memory
  confidence: sure
  when: gbps > 1
  share: 1
  evidence: ["{{gbps:.0f}} GB/s"]
"""


def asked() -> set[str]:
    """Every figure that a rule asks about or shows."""
    found: set[str] = set()
    for rule in rules():
        found |= names_in(rule.when) | names_in(rule.share)
        for line in (*rule.evidence, *rule.advice):
            found |= names_in(line.when) | figures_in(line.say)
    return found


def test_every_figure_is_documented() -> None:
    documented = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "diagnosis.md").read_text(encoding="utf-8")))
    assert asked() - documented == set()


def test_utilisation_appears_nowhere() -> None:
    text = "\n".join(line for line in OWN_FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    assert "util" not in text.lower()


def test_every_open_rule_says_what_would_settle_it_or_what_to_do() -> None:
    for rule in rules():
        assert rule.settle or rule.advice, rule.name
        assert "profiler=" in rule.settle or not rule.settle, rule.name


def test_the_users_rules_replace_and_add(tmp_path: Path) -> None:
    (tmp_path / USER_FILE).write_text(RULE.format(name="roofline_memory") + RULE.format(name="mine"))
    found = {rule.name: rule for rule in rules([tmp_path])}
    assert found["roofline_memory"].when == "gbps > 1"
    assert list(found)[-1] == "mine"
    assert "mine" not in {rule.name for rule in rules()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("confidence: sure", "confidence: certain"), "confidence=certain: must be one of sure, likely, possible"),
        (("when: gbps > 1", "when: gbps >"), "'gbps >' is not an expression"),
        (("when: gbps > 1", "wen: gbps > 1"), "unknown key 'wen'"),
        (("  share: 1\n", ""), "the key 'share' is missing"),
        (("{gbps:.0f} GB/s", "{gbps GB/s"), "figures stand in braces"),
        (("name: x", "title: x"), "rule 1 has no name"),
        (("evidence:", "instead_of: [nothing]\n  evidence:"), "instead_of=nothing: no such rule"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    text = RULE.format(name="x")
    assert change[0] in text
    (tmp_path / USER_FILE).write_text(text.replace(*change))
    with pytest.raises(ConfigError, match=re.escape(message)):
        rules([tmp_path])
