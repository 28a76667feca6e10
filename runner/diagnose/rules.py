"""The rules of the diagnosis as they stand in YAML, checked when they are read."""

from __future__ import annotations

import ast
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from runner.plan.errors import FamilyError, PlanError
from runner.plan.expressions import FUNCTIONS

OWN_FILE = Path(__file__).with_name("rules.yaml")
USER_FILE = "diagnosis.yaml"
"""In a folder of the user's own options: rules that replace ours of the same name, or are added."""
CERTAINTY = {"sure": 1.0, "likely": 0.7, "possible": 0.4}
"""How much a cause counts for its share of the time."""
_KEYS = ("name", "bound", "confidence", "when", "share", "evidence", "advice", "settle", "instead_of", "last_resort")
_CONSTANTS = frozenset({"True", "False", "None"})


@dataclass(frozen=True)
class Line:
    """A sentence with figures in braces, and when it may be said."""

    say: str
    """``DRAM throughput is {dram_throughput_pct:.0f} % of peak``; left out where a figure is not known."""
    when: str = "True"


@dataclass(frozen=True)
class Rule:
    """One cause, and what has to be so for it to apply. It applies only where every figure it asks about is known."""

    name: str
    bound: str
    """What the time goes to."""
    confidence: str
    """``sure``, ``likely`` or ``possible``."""
    when: str
    """Expression over the facts."""
    share: str
    """Expression: the share of the step's time that this cause accounts for, 0 to 1."""
    evidence: tuple[Line, ...]
    """The first must always be sayable where the rule applies."""
    advice: tuple[Line, ...] = ()
    settle: str = ""
    """Which profiler would make it certain."""
    instead_of: tuple[str, ...] = ()
    """Rules that say the same with less behind it: they are dropped where this one applies."""
    last_resort: bool = False
    """Applies only where no other rule did."""


@lru_cache(maxsize=512)
def names_in(expression: str) -> frozenset[str]:
    """The facts that an expression asks about. Raises ``SyntaxError``."""
    tree = ast.parse(expression.strip(), mode="eval")
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)) - _CONSTANTS - set(FUNCTIONS)


def figures_in(sentence: str) -> frozenset[str]:
    """The facts that a sentence shows. Raises ``ValueError`` for braces that do not match."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(sentence) if name)


def rules(folders: Sequence[Path] = ()) -> tuple[Rule, ...]:
    """Our rules, with those of a ``diagnosis.yaml`` in one of ``folders`` in their place or after them.

    Raises ``PlanError`` naming file, rule and key.
    """
    return _read(tuple(path for folder in folders if (path := folder / USER_FILE).is_file()))


@lru_cache(maxsize=8)
def _read(files: tuple[Path, ...]) -> tuple[Rule, ...]:
    found: dict[str, Rule] = {}
    for file in (OWN_FILE, *files):
        for rule in _rules_of(file):
            found[rule.name] = rule
    for rule in found.values():
        for name in rule.instead_of:
            if name not in found:
                raise PlanError(f"rules: {rule.name}.instead_of", name, f"no such rule; known: {', '.join(found)}")
    return tuple(found.values())


def _rules_of(file: Path) -> list[Rule]:
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise FamilyError(f"{file}: cannot be read as YAML: {error}") from error
    if not isinstance(document, list):
        raise FamilyError(f"{file}: expected a list of rules")
    made: list[Rule] = []
    for number, entry in enumerate(document):
        if not isinstance(entry, Mapping) or not entry.get("name"):
            raise FamilyError(f"{file}: rule {number + 1} has no name")
        rule = _rule(entry, f"{file}: {entry['name']}")
        if rule.name in {other.name for other in made}:
            raise FamilyError(f"{file}: {rule.name}: there are two rules of this name")
        made.append(rule)
    return made


def _rule(entry: Mapping[str, Any], where: str) -> Rule:
    for key in entry:
        if key not in _KEYS:
            raise FamilyError(f"{where}: unknown key '{key}'; known: {', '.join(_KEYS)}")
    for key in ("bound", "when", "share", "evidence"):
        if key not in entry:
            raise FamilyError(f"{where}: the key '{key}' is missing")
    if entry.get("confidence") not in CERTAINTY:
        raise FamilyError(f"{where}: confidence={entry.get('confidence')}: must be one of {', '.join(CERTAINTY)}")
    return Rule(
        name=str(entry["name"]),
        bound=str(entry["bound"]),
        confidence=str(entry["confidence"]),
        when=_expression(entry["when"], f"{where}.when"),
        share=_expression(entry["share"], f"{where}.share"),
        evidence=_lines(entry["evidence"], f"{where}.evidence"),
        advice=_lines(entry.get("advice", []), f"{where}.advice"),
        settle=" ".join(str(entry.get("settle", "")).split()),
        instead_of=tuple(str(name) for name in entry.get("instead_of", [])),
        last_resort=bool(entry.get("last_resort", False)),
    )


def _expression(value: object, where: str) -> str:
    text = " ".join(str(value).split())
    try:
        names_in(text)
    except SyntaxError:
        raise FamilyError(f"{where}: '{text}' is not an expression") from None
    return text


def _lines(entries: object, where: str) -> tuple[Line, ...]:
    """Sentences, or ``{when: expression, say: sentence}``."""
    if not isinstance(entries, list):
        raise FamilyError(f"{where}: expected a list of sentences")
    return tuple(_line(entry, f"{where}[{number}]") for number, entry in enumerate(entries))


def _line(entry: object, where: str) -> Line:
    if isinstance(entry, Mapping):
        if set(entry) != {"when", "say"}:
            raise FamilyError(f"{where}: expected the keys 'when' and 'say', found {', '.join(map(str, entry))}")
        line = Line(" ".join(str(entry["say"]).split()), _expression(entry["when"], f"{where}.when"))
    else:
        line = Line(" ".join(str(entry).split()))
    try:
        figures_in(line.say)
    except ValueError as error:
        raise FamilyError(f"{where}: '{line.say}': {error}; figures stand in braces, as in {{time_us:.1f}}") from None
    return line
