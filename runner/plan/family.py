"""A family's YAML and a set of symbols, turned into buffers, launches and variants."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runner.config.schema import BufferSpec, CheckSpec, Kernel, LaunchSpec, VariantSpec
from runner.plan import dtypes
from runner.plan.errors import FamilyError, PlanError
from runner.plan.expressions import Evaluator, Number
from runner.plan.memory import nbytes
from runner.plan.model import Argument, Buffer, Check, Fill, Launch, Unit, Variant

_FORCED = re.compile(r"^(int32|int64|uint64|float32)\((.*)\)$", re.DOTALL)
EACH = "each"
"""``device`` of a buffer that every device has one of."""
_FILLS = ("none", "zeros", "constant", "uniform", "integers", "reference")


def on_device(name: str, position: int) -> str:
    """What a buffer or a check that every device has is called on one of them."""
    return f"{name}_gpu{position}"


def buffers(kernel: Kernel, evaluate: Evaluator, devices: int = 1) -> tuple[Buffer, ...]:
    """Every array of the family with its dimensions resolved; of one on each device as many as there are devices."""
    made: list[Buffer] = []
    for name, spec in kernel.buffers.items():
        one = _buffer(kernel.name, name, spec, evaluate)
        if spec.device == EACH:
            made += [replace(one, name=on_device(name, place), device=place) for place in range(devices)]
        else:
            made.append(replace(one, device=evaluate.integer(spec.device, f"{kernel.name}: buffers.{name}.device")))
    return tuple(made)


def _buffer(family: str, name: str, spec: BufferSpec, evaluate: Evaluator) -> Buffer:
    where = f"{family}: buffers.{name}"
    dims = tuple(evaluate.integer(dim, f"{where}.dims") for dim in spec.dims)
    if not dims or any(dim < 1 for dim in dims):
        raise PlanError(where, list(dims), f"every dimension of {spec.dims} must be at least 1")
    # An element type may be that of a symbol: storage that is a parameter of the family.
    dtype = str(evaluate.symbols.get(spec.dtype, spec.dtype))
    try:
        dtypes.itemsize(dtype)
    except ValueError as error:
        raise FamilyError(f"{where}: {error}") from None
    fill = Fill(
        kind=_fill_kind(spec.fill, evaluate, f"{where}.fill={spec.fill}"),  # type: ignore[arg-type]
        low=float(evaluate.number(spec.low, f"{where}.low")),
        high=float(evaluate.number(spec.high, f"{where}.high")),
        value=float(evaluate.number(spec.value, f"{where}.value")),
    )
    return Buffer(name=name, dims=dims, dtype=dtype, fill=fill)


def _fill_kind(fill: str, evaluate: Evaluator, where: str) -> str:
    """A name of ``_FILLS``, as written or as the expression gives it."""
    if fill in _FILLS:
        return fill
    allowed = f"must be one of {', '.join(_FILLS)}, or an expression that gives one"
    if fill.isidentifier() and fill not in evaluate.symbols:  # a slip in a name, not an expression
        raise FamilyError(f"{where}: {allowed}")
    kind = evaluate.value(fill, where)
    if kind not in _FILLS:
        raise FamilyError(f"{where}: gives {kind!r}; {allowed}")
    return str(kind)


def launches(
    family: str,
    specs: Sequence[LaunchSpec],
    known: Mapping[str, Buffer],
    evaluate: Evaluator,
    unit: Unit,
    where: str,
) -> tuple[Launch, ...]:
    """Launches with grid, block, shared memory and arguments resolved; impossible ones are refused."""
    return tuple(
        _launch(spec, known, evaluate, unit, f"{family}: {where}[{index}] {spec.function}")
        for index, spec in enumerate(specs)
    )


def _launch(spec: LaunchSpec, known: Mapping[str, Buffer], evaluate: Evaluator, unit: Unit, where: str) -> Launch:
    grid = _dim3(spec.grid, evaluate, f"{where}.grid")
    block = _dim3(spec.block, evaluate, f"{where}.block")
    shared = evaluate.integer(spec.shared, f"{where}.shared")
    if shared < 0:
        raise PlanError(f"{where}.shared", shared, "must not be negative")
    return Launch(
        function=spec.function,
        grid=grid,
        block=block,
        shared_bytes=shared,
        arguments=tuple(_argument(entry, known, evaluate, f"{where}.args") for entry in spec.args),
        unit=unit,
        device=spec.device,
    )


def _dim3(entries: Sequence[Any], evaluate: Evaluator, where: str) -> tuple[int, int, int]:
    if not 1 <= len(entries) <= 3:
        raise FamilyError(f"{where}: one to three entries (x, y, z), not {len(entries)}")
    values = [evaluate.integer(entry, where) for entry in entries] + [1, 1]
    return values[0], values[1], values[2]


def _argument(entry: Any, known: Mapping[str, Buffer], evaluate: Evaluator, where: str) -> Argument:
    if isinstance(entry, str):
        if entry in known:
            return Argument(kind="buffer", buffer=entry)
        forced = _FORCED.match(entry)
        if forced:
            kind, inner = forced.groups()
            if kind == "float32":
                return Argument(kind="float32", value=float(evaluate.number(inner, where)))
            return Argument(kind=kind, value=evaluate.integer(inner, where))  # type: ignore[arg-type]
    value = evaluate.number(entry, where)
    if isinstance(value, float):
        return Argument(kind="float32", value=value)
    return Argument(kind="int64", value=value)


def variant(kernel: Kernel, name: str, spec: VariantSpec, known: Mapping[str, Buffer], evaluate: Evaluator) -> Variant:
    """One variant with its bytes, FLOPs and checks resolved."""
    where = f"{kernel.name}: variants.{name}"
    return Variant(
        name=name,
        launches=launches(kernel.name, spec.launches, known, evaluate, "main", f"variants.{name}.launches"),
        checks=tuple(
            made
            for check_name, check in spec.checks.items()
            for made in _checks(check_name, check, known, evaluate, f"{where}.checks.{check_name}")
        ),
        bytes_read=_traffic(spec.bytes_read, spec.reads, known, evaluate, f"{where}.reads"),
        bytes_written=_traffic(spec.bytes_written, spec.writes, known, evaluate, f"{where}.writes"),
        flops=evaluate.integer(spec.flops, f"{where}.flops"),
        dtype=spec.dtype,
        compute=str(evaluate.symbols.get(spec.compute, spec.compute)),
        drift=spec.drift,
        timed=_checked_timed(spec, evaluate, where),
        report={metric: float(value) for metric, value in _reported(spec, evaluate, where).items()},
    )


def _reported(spec: VariantSpec, evaluate: Evaluator, where: str) -> dict[str, Number]:
    """Every figure that has a value here; one whose expression gives an empty text is not known."""
    found: dict[str, Number] = {}
    for metric, text in spec.report.items():
        if evaluate.value(text, f"{where}.report.{metric}") != "":
            found[metric] = evaluate.number(text, f"{where}.report.{metric}")
    return found


def _checked_timed(spec: VariantSpec, evaluate: Evaluator, where: str) -> dict[str, str]:
    """The expressions as they stand, tried with a time of 1 µs so that a wrong name is found before anything runs."""
    trial = Evaluator({**evaluate.symbols, "time_us": 1.0})
    trial.symbols.update(_reported(spec, evaluate, where))
    for metric, text in spec.timed.items():
        trial.number(text, f"{where}.timed.{metric}")
    return dict(spec.timed)


def _traffic(
    expression: Any, names: Sequence[str], known: Mapping[str, Buffer], evaluate: Evaluator, where: str
) -> int:
    if expression is not None:
        return evaluate.integer(expression, where)
    for name in names:
        if name not in known:
            raise FamilyError(f"{where}: no buffer '{name}'; there are {', '.join(known)}")
    return sum(nbytes(known[name]) for name in names)


def _checks(
    name: str, spec: CheckSpec, known: Mapping[str, Buffer], evaluate: Evaluator, where: str
) -> Iterator[Check]:
    """The check itself, or one for every device that has the output."""
    place = EACH if spec.device is None else evaluate.value(spec.device, f"{where}.device")
    if place != EACH:
        place = evaluate.integer(spec.device, f"{where}.device")
        yield _check(name, on_device(spec.output, place), spec, known, evaluate, where)
    elif spec.output not in known and on_device(spec.output, 0) in known:
        for one in itertools.takewhile(lambda one: on_device(spec.output, one) in known, itertools.count()):
            yield _check(on_device(name, one), on_device(spec.output, one), spec, known, evaluate, where)
    else:
        yield _check(name, spec.output, spec, known, evaluate, where)


def _check(
    name: str, output: str, spec: CheckSpec, known: Mapping[str, Buffer], evaluate: Evaluator, where: str
) -> Check:
    if output not in known:
        raise FamilyError(f"{where}: no buffer '{output}'; there are {', '.join(known)}")
    if not 0 <= spec.row_dims <= len(known[output].dims):
        raise FamilyError(f"{where}: row_dims={spec.row_dims}; {output} has {known[output].dims}")
    return Check(
        name=name,
        output=output,
        row_dims=spec.row_dims,
        row_cost=max(1, evaluate.integer(spec.row_cost, f"{where}.row_cost")),
        atol=float(evaluate.number(spec.atol, f"{where}.atol")),
        rtol=float(evaluate.number(spec.rtol, f"{where}.rtol")),
        exact=spec.exact,
        zero_ok=spec.zero_ok,
        varies=spec.varies,
    )
