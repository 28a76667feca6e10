"""Which points a command stands for: the command line's grid × the study's lists × the shape's own grid.

Order of the axes, the last one changing fastest: choices of groups on the command line, values on the command line,
the study's lists walked together, the study's grid, the grid of the chosen shape.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.types import Override

from runner.config.check import check
from runner.config.compose import Composer, Head
from runner.config.constraints import violated
from runner.config.errors import ConfigError
from runner.config.grammar import line_of
from runner.config.load import section_names
from runner.config.overrides import alternatives, parse
from runner.config.schema import Config
from runner.config.secrets import redact_overrides

Axis = list[tuple[str, ...]]
"""Alternatives of one axis; each is the lines that are applied together."""


@dataclass(frozen=True)
class Draft:
    """One point: its override lines, and the checked, scaled config."""

    overrides: tuple[str, ...]
    config: Config


@dataclass(frozen=True)
class Skipped:
    """A combination that is not run, and why. For display: without secrets."""

    overrides: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Expansion:
    points: tuple[Draft, ...]
    skipped: tuple[Skipped, ...]


def expand(composer: Composer, lines: Sequence[str], sweep: bool) -> Expansion:
    """All points of a command, composed and checked; the first error anywhere is raised as ``ConfigError``.

    ``lines`` are the command's overrides without ``hydra.…``. Without ``sweep`` (no ``-m``) there is one point,
    and the grids of shape and study are left alone.
    """
    return _Expander(composer, lines, sweep).run()


class _Expander:
    def __init__(self, composer: Composer, lines: Sequence[str], sweep: bool) -> None:
        self.composer = composer
        self.sweep = sweep
        given: dict[str, Override] = {}
        for line in lines:
            override = parse(line, composer.loader)
            given.pop(override.get_key_element(), None)  # the last one of a key counts, in its own place
            given[override.get_key_element()] = override
        self.given = list(given.values())
        self.taken = {override.key_or_group for override in self.given}
        self.choices = [o for o in self.given if composer.is_group_choice(o)]
        self.values = [o for o in self.given if not composer.is_group_choice(o)]
        self.fixed = [str(o.input_line) for o in self.values if not o.is_sweep_override()]
        self.points: list[Draft] = []
        self.skipped: list[Skipped] = []
        self.seen: dict[str, tuple[str, ...]] = {}

    def run(self) -> Expansion:
        if not self.sweep:
            self._refuse_sweeps()
        group_axes = [alternatives(override) for override in self.choices]
        for choices in itertools.product(*group_axes):
            head = self.composer.head(choices, self.fixed)
            head.require_kernel()
            for lines in _product([*self._command_axes(), *self._study_axes(head)]):
                self._with_own_grid(list(choices), lines)
        return Expansion(tuple(self.points), tuple(self.skipped))

    def _refuse_sweeps(self) -> None:
        for override in self.given:
            if override.is_sweep_override():
                raise ConfigError(
                    f"{override.input_line}: several values; add -m to sweep over them, or write "
                    f"{override.get_key_element()}=[…] for a list"
                )

    def _command_axes(self) -> list[Axis]:
        return [[(line,) for line in alternatives(o)] for o in self.values if o.is_sweep_override()]

    def _study_axes(self, head: Head) -> list[Axis]:
        if not self.sweep:
            return []
        study = head.study
        axes: list[Axis] = []
        for index, entry in enumerate(study["zip"]):
            axis = self._zip_axis(f"study.zip[{index}]", entry)
            if axis:
                axes.append(axis)
        return axes + self._grid_axes("study.grid", study["grid"], self.taken)

    def _with_own_grid(self, choices: list[str], lines: Sequence[str]) -> None:
        """Adds the points of one combination; the study may have chosen groups, the shape among them."""
        parsed = [parse(line, self.composer.loader) for line in lines]
        further = [str(o.input_line) for o in parsed if self.composer.is_group_choice(o)]
        values = [str(o.input_line) for o in parsed if not self.composer.is_group_choice(o)]
        chosen = choices + further
        head = self.composer.head(chosen, self.fixed)
        taken = self.taken | {o.key_or_group for o in parsed}
        own = self._grid_axes("shape.sweep", head.own_grid, taken) if self.sweep else []
        for own_lines in _product(own):
            self._add(head, chosen, [*values, *own_lines])

    def _add(self, head: Head, choices: Sequence[str], values: Sequence[str]) -> None:
        config, capped = head.point(values)
        overrides = (*choices, *self.fixed, *values)
        reason = violated(config)
        if not reason:
            check(config)
            reason = self._same_as_before(config, overrides) if capped else ""
        if reason:
            self.skipped.append(Skipped(tuple(redact_overrides(overrides)), reason))
        else:
            self.points.append(Draft(overrides, config))

    def _same_as_before(self, config: Config, overrides: tuple[str, ...]) -> str:
        """Points that differ only above the caps of the scale are one experiment."""
        kernel = config.kernel
        # Parts of the family that no point changes are one object in all of them, alive as long as the points are.
        parts = [id(getattr(kernel, f.name)) for f in dataclasses.fields(kernel) if f.name != "params"]
        others = [getattr(config, name) for name in section_names() if name not in ("kernel", "study", "scale")]
        varied = repr((kernel.params, parts, others))
        if varied in self.seen:
            first = " ".join(redact_overrides(self.seen[varied]))
            return f"the same as {first} once scale={config.scale.name} has capped it"
        self.seen[varied] = overrides
        return ""

    def _grid_axes(self, where: str, grid: Mapping[str, Any], taken: set[str]) -> list[Axis]:
        return [
            [(line,) for line in self._lines(where, key, values)] for key, values in grid.items() if key not in taken
        ]

    def _zip_axis(self, where: str, entry: Mapping[str, Any]) -> Axis:
        """The lists of one entry walked together; a key the user gave keeps the user's value."""
        lists = {key: self._lines(where, key, values) for key, values in entry.items()}
        lengths = {key: len(lines) for key, lines in lists.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{key} has {length}" for key, length in lengths.items())
            raise ConfigError(f"{where}: lists that are walked together must be equally long; {shown}")
        kept = [lines for key, lines in lists.items() if key not in self.taken]
        return [tuple(together) for together in zip(*kept, strict=True)]

    def _lines(self, where: str, key: str, values: Any) -> list[str]:
        """Override lines of one grid key: a list of values, or text in Hydra's sweep syntax (``range(1,5)``)."""
        if key == "experiments" or key.startswith("hydra"):
            raise ConfigError(f"{where}: '{key}' cannot be part of a grid")
        if isinstance(values, str):
            return alternatives(parse(f"{key}={values}", self.composer.loader))
        listed = _as_list(values)
        if not listed:
            raise ConfigError(f"{where}: '{key}' has no values")
        return [line_of(key, value) for value in listed]


def _product(axes: Sequence[Axis]) -> Iterator[list[str]]:
    for combination in itertools.product(*axes):
        yield [line for together in combination for line in together]


def own_grid_hint(config: Config, lines: Sequence[str]) -> str:
    """What a command without ``-m`` leaves out, in one line; empty when nothing."""
    taken = {parse(line).key_or_group for line in lines}
    own = _sizes(config.shape.sweep, taken)
    study = _sizes(config.study.grid, taken)
    for entry in config.study.zip:
        kept = _sizes(entry, taken)
        if kept:
            study[" with ".join(kept)] = next(iter(kept.values()))
    if study:
        return f"study '{config.study.name}' walks {_described(study | own)}; add -m to sweep it"
    if own:
        return f"shape={config.shape.name} carries a grid of {_described(own)}; add -m to sweep it"
    return ""


def _sizes(grid: Mapping[str, Any], taken: set[str]) -> dict[str, int]:
    return {
        key: len(alternatives(parse(f"{key}={values}"))) if isinstance(values, str) else len(_as_list(values))
        for key, values in grid.items()
        if key not in taken and not (isinstance(values, str) and "glob" in values)
    }


def _as_list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]


def _described(sizes: Mapping[str, int]) -> str:
    return " × ".join(f"{count} values of {key}" for key, count in sizes.items())
