"""Config → Plan. Pure arithmetic: no file is compiled, no device is touched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from runner.config.schema import Config, Kernel
from runner.plan import family
from runner.plan.errors import FamilyError, PlanError
from runner.plan.expressions import Evaluator, Value
from runner.plan.limits import capability, check_launches, shared_limit
from runner.plan.memory import check_memory, nbytes
from runner.plan.model import Buffer, Launch, Plan, Target, Variant, WorkloadRef
from runner.plan.parameters import checked_parameters, filed, long_names

WORKLOADS = ("runner.workload.",)
"""``_target_`` prefixes that may be instantiated."""


def make_plan(
    config: Config, target: Target, roots: Sequence[Path], companion: Plan | None = None
) -> tuple[Plan, dict[str, str]]:
    """Resolves one experiment.

    ``companion``, planned before, stands beside it: its symbols are known as ``companion_…``. ``roots`` are folders
    searched for the family's ``.cu`` and a reference given as a file. Returns the plan and the variants left out, with
    their reasons. Raises ``PlanError`` (the user's config; ``TooLarge`` for memory) or ``FamilyError`` (the YAML).
    """
    kernel = config.kernel
    _check_source(kernel)
    params = checked_parameters(kernel)
    symbols = _symbols(kernel, params, target, companion, len(config.devices))
    evaluate = Evaluator(symbols)
    for rule, message in kernel.require.items():
        if not evaluate.truth(rule, f"{kernel.name}: require"):
            raise PlanError("kernel", kernel.name, f"{message} (needs {rule}; {_used(rule, symbols)})")

    arrays = family.buffers(kernel, evaluate, len(config.devices))
    known = {buffer.name: buffer for buffer in arrays}
    evaluate = Evaluator(symbols, {"bytes": lambda name: nbytes(_known(known, name))})
    evaluate.symbols.update({name: name for name in known if name not in symbols})

    variants, left_out = _variants(config, known, evaluate, symbols)
    prepare = family.launches(kernel.name, kernel.prepare, known, evaluate, "prepare", "prepare")
    prepare = tuple(launch for launch in prepare if 0 not in launch.grid)
    if not kernel.workload:
        arrays, prepare = _in_use(arrays, prepare, variants)
    plan = Plan(
        kernel=kernel.name,
        phase=kernel.phase,
        params=filed(params, long_names(kernel)),
        symbols=symbols,
        model=config.model.name,
        shape=config.shape.name,
        target=target,
        devices=tuple(config.devices),
        source=str(_source(kernel, roots)) if kernel.source else "",
        reference=_reference(kernel, roots),
        defines={
            macro: str(evaluate.integer(text, f"{kernel.name}: defines.{macro}"))
            for macro, text in kernel.defines.items()
        },
        flags=tuple(kernel.flags),
        buffers=arrays,
        prepare=prepare,
        variants=variants,
        baseline=kernel.baseline,
        seed=config.seed,
        workload=_workload(kernel),
        sanitize=config.sanitize,
        shape_line=_filled_in(kernel, symbols),
        companion=companion,
    )
    _check_devices(config, plan)
    check_memory(plan)  # before the launches: what is too large for a grid is too large for memory as a rule
    check_launches(plan)
    return plan, left_out


def _symbols(
    kernel: Kernel, params: dict[str, Value], target: Target, companion: Plan | None, devices: int
) -> dict[str, Value]:
    beside = companion.symbols if companion else {}
    symbols: dict[str, Value] = {
        **params,
        "devices": devices,
        "has_companion": int(companion is not None),
        **{f"companion_{name}": value for name, value in beside.items()},
        "sms": target.sms or 1,
        "l2_bytes": target.l2_bytes,
        "memory_bytes": target.memory_bytes,
        "shared_limit": shared_limit(target.arch),
        "capability": capability(target.arch),
        "is_host": int(target.backend == "host"),
    }
    evaluate = Evaluator(symbols)
    for name, text in kernel.derived.items():
        value = evaluate.value(text, f"{kernel.name}: derived.{name}")
        symbols[name] = value
        evaluate.symbols[name] = value
    return symbols


def _variants(
    config: Config, known: dict[str, Buffer], evaluate: Evaluator, symbols: dict[str, Value]
) -> tuple[tuple[Variant, ...], dict[str, str]]:
    kernel = config.kernel
    chosen = list(kernel.variants) if config.variants is None else list(config.variants)
    if kernel.baseline not in kernel.variants:
        raise FamilyError(f"{kernel.name}: baseline '{kernel.baseline}' is not one of its variants")
    _check_drifts(kernel, known)
    planned: list[Variant] = []
    left_out: dict[str, str] = {}
    for name in chosen:
        spec = kernel.variants[name]
        for rule, message in spec.require.items():
            if not evaluate.truth(rule, f"{kernel.name}: variants.{name}.require"):
                left_out[name] = f"{message} (needs {rule}; {_used(rule, symbols)})"
                break
        else:
            planned.append(family.variant(kernel, name, spec, known, evaluate))
    return tuple(planned), left_out


def _filled_in(kernel: Kernel, symbols: dict[str, Value]) -> str:
    """The shape line with its symbols replaced; only plain names are looked up."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in symbols:
            raise FamilyError(f"{kernel.name}: shape_line uses the unknown name '{match[1]}'")
        return str(symbols[match[1]])

    return re.sub(r"\{(\w+)\}", value, kernel.shape_line)


def _check_drifts(kernel: Kernel, known: dict[str, Buffer]) -> None:
    """A drift names a check of the family whose output looks like that of the variant's own first check."""
    checks = {name: check for spec in kernel.variants.values() for name, check in spec.checks.items()}
    for name, spec in kernel.variants.items():
        if not spec.drift:
            continue
        where = f"{kernel.name}: variants.{name}.drift={spec.drift}"
        if spec.drift not in checks:
            raise FamilyError(f"{where}: no such check; there are {', '.join(checks)}")
        if not spec.checks:
            raise FamilyError(f"{where}: the variant has no check of its own whose output could drift")
        own, other = next(iter(spec.checks.values())), checks[spec.drift]
        shapes = [(known[c.output].dims, c.row_dims) for c in (own, other) if c.output in known]
        if len(set(shapes)) > 1:
            raise FamilyError(f"{where}: outputs differ in shape or row_dims: {shapes[0]} and {shapes[1]}")


def _in_use(
    arrays: tuple[Buffer, ...], prepare: tuple[Launch, ...], variants: tuple[Variant, ...]
) -> tuple[tuple[Buffer, ...], tuple[Launch, ...]]:
    """Drops what the chosen variants never touch, so that a subset needs only its own memory.

    A preparation launch stays when it touches a needed buffer that no fill produces.
    """
    needed = {a.buffer for v in variants for launch in v.launches for a in launch.arguments if a.buffer}
    needed |= {check.output for variant in variants for check in variant.checks}
    produced = {buffer.name for buffer in arrays if buffer.fill.kind in ("none", "zeros")}
    kept: list[Launch] = []
    for launch in reversed(prepare):
        touched = {argument.buffer for argument in launch.arguments if argument.buffer}
        if touched & needed & produced:
            kept.append(launch)
            needed |= touched
    return tuple(b for b in arrays if b.name in needed), tuple(reversed(kept))


def _known(known: dict[str, Buffer], name: str) -> Buffer:
    if name not in known:
        raise FamilyError(f"bytes({name}): no such buffer; there are {', '.join(known)}")
    return known[name]


def _used(rule: str, symbols: dict[str, Value]) -> str:
    names = [name for name in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", rule)) if name in symbols]
    return ", ".join(f"{name}={symbols[name]}" for name in names)


def _check_source(kernel: Kernel) -> None:
    launches = [*kernel.prepare, *(launch for variant in kernel.variants.values() for launch in variant.launches)]
    if launches and not kernel.source:
        raise FamilyError(f"{kernel.name}: source: name the .cu file that holds {launches[0].function}")


def _source(kernel: Kernel, roots: Sequence[Path]) -> Path:
    return _find(kernel.source, roots, f"{kernel.name}: source")


def _reference(kernel: Kernel, roots: Sequence[Path]) -> str:
    if not kernel.reference:
        return f"runner.references.{kernel.name}"
    if kernel.reference.endswith(".py"):
        return str(_find(kernel.reference, roots, f"{kernel.name}: reference"))
    return kernel.reference


def _find(name: str, roots: Sequence[Path], where: str) -> Path:
    given = Path(name)
    candidates = [given] if given.is_absolute() else [root / name for root in roots]
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    raise PlanError(where, name, f"no such file; looked in {', '.join(str(c.parent) for c in candidates)}")


def _workload(kernel: Kernel) -> WorkloadRef:
    if not kernel.workload:
        return WorkloadRef()
    options = dict(kernel.workload)
    target = str(options.pop("_target_", ""))
    if not target.startswith(WORKLOADS):
        raise PlanError("kernel.workload._target_", target, f"must start with {' or '.join(WORKLOADS)}")
    return WorkloadRef(target=target, options=options)


def _check_devices(config: Config, plan: Plan) -> None:
    variants = config.kernel.variants.values()
    launches = [*config.kernel.prepare, *(launch for variant in variants for launch in variant.launches)]
    named = [*(buffer.device for buffer in plan.buffers), *(launch.device for launch in launches)]
    if min(named, default=0) < 0:
        raise FamilyError(f"{config.kernel.name}: device={min(named)}: devices count from 0")
    highest = max(named, default=0)
    if highest >= len(plan.devices):
        example = ",".join(map(str, range(highest + 1)))
        needs = f"{config.kernel.name} needs {highest + 1} devices: devices=[{example}]"
        raise PlanError("devices", list(plan.devices), needs)
