"""Which results of the micro-benchmarks belong to a load: the newest whole set of each phase, or two around it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from runner.estimate import decoder, kernels
from runner.estimate.kernels import CHAIN, DECODE, EMPTY, PREFILL, Kernels, Launch, Timing
from runner.result.model import INTERRUPTED, Quality, Result, Status
from runner.result.names import plain

FAMILY = "layer_ops"
"""Measures each operator of a decoder alone, in the kernels that ``mini_llm`` runs."""


@dataclass(frozen=True)
class Found:
    """A result, and where it was found."""

    source: str
    """``run 1a2b…``, or the path of its folder."""
    result: Result


@dataclass(frozen=True)
class Wanted:
    """What must have been measured."""

    gpu: str
    """Option of the ``gpu`` group."""
    backend: str
    letters: Mapping[str, str]
    """Parameter of the family → value as text: batch, figures of the model, precisions."""
    prompt: int
    context: float
    """Tokens that a decode step sees, itself included; the mean over the output."""
    operators: Collection[str]
    """Variants that the family has today; empty = whichever were measured."""

    @property
    def steps_at(self) -> int:
        """The context to measure: the mean, rounded down to whole tokens."""
        return int(self.context)

    @property
    def shown(self) -> str:
        letters = " ".join(f"{key}={value}" for key, value in self.letters.items())
        return f"{letters} prompt={self.prompt} context={self.steps_at} on {self.gpu}"

    def fits(self, result: Result) -> bool:
        """Measured on that device, with these figures; prompt and context are looked at later."""
        alike = (result.gpu, result.backend) == (self.gpu, self.backend) and "sanitize=true" not in result.overrides
        alike = alike and not decoder.otherwise(result.params)
        return alike and all(plain(result.params.get(key, "")) == value for key, value in self.letters.items())


@dataclass(frozen=True)
class _Set:
    """The variants of one phase out of one experiment."""

    found: tuple[Found, ...]

    @property
    def timings(self) -> tuple[Timing, ...]:
        return tuple(
            Timing(
                operator=one.result.variant,
                time_us=metrics.get("call_us", metrics["time_us"]),
                calls=metrics["calls"],
                source=one.source,
                nodes=int(metrics.get("nodes", 0)),
            )
            for one in self.found
            for metrics in (one.result.metrics,)
        )

    @property
    def prompt(self) -> int:
        return self._number("prompt")

    @property
    def context(self) -> int:
        """Tokens that a decode step saw: one more than the prompt where nothing else was asked for."""
        return self._number("context") or self.prompt + 1

    def _number(self, key: str) -> int:
        return int(float(self.found[0].result.params.get(key, 0)))


def chosen(found: Sequence[Found], wanted: Wanted, where: str) -> Kernels | str:
    """The kernels of a load, or what is missing, in words. ``found``: the newest first. ``where``: the store or the
    folder that was looked through."""
    alike = [one for one in found if one.result.kernel == FAMILY and wanted.fits(one.result)]
    if not alike:
        return f"no result of kernel={FAMILY} for {wanted.shown}"
    experiments = list(_experiments(alike).values())
    decode = _steps([_phase(one, DECODE, wanted) for one in experiments], wanted)
    if isinstance(decode, str):
        return decode
    timings, notes, used = decode
    prefills = [one for one in (_phase(each, PREFILL, wanted) for each in experiments) if isinstance(one, _Set)]
    prefill = next((one for one in prefills if one.prompt == wanted.prompt), None)
    if prefill is None:
        lengths = sorted({one.prompt for one in prefills})
        have = f"; there are prompts of {', '.join(map(str, lengths))}" if lengths else ""
        return f"no complete prefill of kernel={FAMILY} for {wanted.shown}{have}"
    notes += _doubts([*used, prefill])
    lacking = [name for name in kernels.AFTER_PREFILL if all(timing.operator != name for timing in timings)]
    if lacking:
        notes.append(f"the choice of the first token is without {' and '.join(lacking)}, which was not measured")
    launch = _launch(used[0].found[0].result.experiment_id, alike)
    if launch is None:
        notes.append(
            "times of kernels are taken as they were measured alone, starting and ending included: the variants "
            f"{EMPTY} and {CHAIN} of kernel={FAMILY}, which tell what that costs, were not measured"
        )
    return kernels.combined(prefill.timings, timings, f"kernel={FAMILY} in {where}", launch, notes)


def _experiments(found: Sequence[Found]) -> dict[str, list[Found]]:
    """By experiment, in the order of ``found``; of a variant that an experiment has twice the first counts."""
    grouped: dict[str, list[Found]] = {}
    for one in found:
        group = grouped.setdefault(one.result.experiment_id, [])
        if all(one.result.variant != other.result.variant for other in group):
            group.append(one)
    return grouped


def _phase(experiment: Sequence[Found], prefix: str, wanted: Wanted) -> _Set | str:
    """The variants of a phase, or why they are not usable: one is missing, or did not pass. One that the family left
    out for a reason does not belong to this load."""
    there = {one.result.variant: one for one in experiment if one.result.variant.startswith(prefix)}
    expected = {name for name in wanted.operators if name.startswith(prefix)}
    missing = sorted(expected - set(there))
    if missing:
        return f"{', '.join(missing)} missing"
    for name, one in there.items():
        left_out = one.result.status is Status.SKIPPED and one.result.message != INTERRUPTED
        if one.result.status is not Status.PASSED and not left_out:
            return f"{name} ended as {one.result.status.value}"
        if one.result.status is Status.PASSED and not {"time_us", "calls"} <= set(one.result.metrics):
            return f"{name} has no time_us or no calls"
    passed = tuple(one for one in there.values() if one.result.status is Status.PASSED)
    return _Set(passed) if passed else f"no {prefix}* passed"


def _steps(phases: Sequence[_Set | str], wanted: Wanted) -> tuple[tuple[Timing, ...], list[str], list[_Set]] | str:
    """Timings of a step at the wanted context, what is to be said of them, and the sets that they come from."""
    sets: dict[int, _Set] = {}
    for one in phases:
        if isinstance(one, _Set):
            sets.setdefault(one.context, one)
    if not sets:
        reasons = "; ".join(dict.fromkeys(one for one in phases if isinstance(one, str)))
        return f"no complete decode step of kernel={FAMILY} for {wanted.shown}: {reasons}"
    near = [context for context in sets if abs(context - wanted.context) < 1]
    if near:
        best = min(near, key=lambda context: abs(context - wanted.context))
        rounded = [] if best == wanted.context else [f"a step is measured at {best} tokens, of {wanted.context:g}"]
        return sets[best].timings, rounded, [sets[best]]
    low = max((context for context in sets if context < wanted.context), default=None)
    high = min((context for context in sets if context > wanted.context), default=None)
    if low is None or high is None:
        have = ", ".join(map(str, sorted(sets)))
        return f"no decode step of kernel={FAMILY} for {wanted.shown}; there are contexts of {have}"
    try:
        timings = kernels.between(wanted.context, {low: sets[low].timings, high: sets[high].timings})
    except ValueError as error:
        return str(error)
    told = f"a step at {wanted.context:g} tokens is interpolated between those measured at {low} and {high}"
    return timings, [told], [sets[low], sets[high]]


def _doubts(used: Sequence[_Set]) -> list[str]:
    """Operators whose times are not to be trusted fully, by their own quality."""
    doubtful: dict[Quality, list[str]] = {}
    for one in (found.result for each in used for found in each.found):
        if one.quality not in (Quality.OK, Quality.L2_RESIDENT, Quality.UNMEASURED):
            doubtful.setdefault(one.quality, []).append(one.variant)
    return [f"measured times are {quality.value}: {', '.join(names)}" for quality, names in doubtful.items()]


def _launch(experiment: str, alike: Sequence[Found]) -> Launch | None:
    """What a launch costs, by the experiment's own empty kernel and chain of them, else by the newest of each."""
    empty = _nearest(EMPTY, experiment, alike, ("time_us",))
    chain = _nearest(CHAIN, experiment, alike, ("time_us", "nodes"))
    if empty is None or chain is None:
        return None
    sources = " and ".join(dict.fromkeys([empty.source, chain.source]))
    measured = chain.result.metrics
    return Launch(empty.result.metrics["time_us"], measured["time_us"] / measured["nodes"], sources)


def _nearest(variant: str, experiment: str, alike: Sequence[Found], needed: Sequence[str]) -> Found | None:
    """The variant of that experiment, else the newest, that passed and has the ``needed`` metrics above 0."""
    passed = [one for one in alike if one.result.variant == variant and one.result.status is Status.PASSED]
    whole = [one for one in passed if all(one.result.metrics.get(name, 0.0) > 0 for name in needed)]
    return min(whole, key=lambda one: one.result.experiment_id != experiment, default=None)
