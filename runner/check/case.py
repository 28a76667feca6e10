"""What a reference sees of an experiment: its symbols, and the inputs exactly as the device holds them."""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from runner.check import generator
from runner.check.modules import BadReference, function
from runner.plan import dtypes
from runner.plan.model import Buffer, Plan

MEMO_BYTES = 128 << 20
"""Inputs kept for repeated calls; the least recently used goes first."""


Read = Callable[[str, int, int], npt.NDArray[Any]]
"""``read(buffer, start, count)``: elements of an output from a flat index, in its own dtype, on the host."""


class CaseError(ValueError):
    """A reference asked for something the plan does not have; names what it asked for and what exists."""


class Case:
    """One plan's symbols and generated inputs.

    ``case["T"]`` is a symbol, ``case.input("k", b, h)`` the block of ``k`` at those leading indices. Where what is
    right follows from what the device chose before, as the next token of a text does, ``case.output("tokens")`` is
    that.
    """

    def __init__(self, plan: Plan, memo_bytes: int = MEMO_BYTES) -> None:
        self._plan = plan
        self._buffers = {buffer.name: buffer for buffer in plan.buffers}
        self._memo: OrderedDict[tuple[str, tuple[int, ...]], npt.NDArray[Any]] = OrderedDict()
        self._memo_left = memo_bytes
        self._tables: dict[str, npt.NDArray[Any]] = {}
        self._making = threading.RLock()  # a reference may look at one table to make another
        self._read: Read | None = None
        self.outputs_seen = 0
        """How often a reference has looked at an output: its answer then holds for this check alone."""

    @property
    def seed(self) -> int:
        return self._plan.seed

    def __getitem__(self, symbol: str) -> Any:
        """A kernel parameter or derived value. Raises ``CaseError``."""
        try:
            return self._plan.symbols[symbol]
        except KeyError:
            known = ", ".join(sorted(self._plan.symbols))
            raise CaseError(f"unknown symbol {symbol!r} of {self._plan.kernel}; known are: {known}") from None

    def input(self, name: str, *leading: SupportsIndex) -> npt.NDArray[Any]:
        """Elements of buffer ``name`` at the leading indices, shape ``dims[len(leading):]``, read-only.

        float32 for floating-point types (float64 for float64) and int64 for integers: the values the device
        holds after the fill, without rounding. Raises ``CaseError`` for an unknown buffer or index and
        for a buffer that a kernel computes, not the generator.
        """
        key = (name, tuple(operator.index(index) for index in leading))
        if key in self._memo:
            self._memo.move_to_end(key)
            return self._memo[key]
        buffer = self._buffer(name)
        made = np.array(_widen(self._values(buffer, key[1]), buffer.dtype))
        made.flags.writeable = False
        self._remember(key, made)
        return made

    def dims(self, name: str) -> tuple[int, ...]:
        """Of a buffer that is filled. Raises ``CaseError`` like ``input``."""
        return self._buffer(name).dims

    def rows(self, name: str, first: int, count: int, *leading: SupportsIndex) -> npt.NDArray[Any]:
        """``count`` entries from ``first`` on of ``input(name, *leading)``. None of them is kept, so several threads
        may ask."""
        buffer = self._buffer(name)
        before = tuple(operator.index(index) for index in leading)
        start = _flat(buffer, before)
        dims = buffer.dims[len(before) + 1 :]
        if buffer.fill.kind == "reference":
            return _widen(self._table(name)[before][first : first + count], buffer.dtype)
        each = int(np.prod(dims, dtype=np.int64))
        made = generator.values(buffer, self.seed, start + first * each, count * each)
        return _widen(made.reshape(count, *dims), buffer.dtype)

    def output(self, name: str) -> npt.NDArray[Any]:
        """A whole output as the step being checked left it: shape ``dims``, in its own dtype, where nothing was written
        all ones. Raises ``CaseError`` for an unknown buffer and outside a check."""
        return self.output_rows(name, 0, self._planned(name).dims[0])

    def output_rows(self, name: str, first: int, count: int) -> npt.NDArray[Any]:
        """``count`` entries from ``first`` on of ``output(name)``, along its first dimension: a large one in parts."""
        dims = self._planned(name).dims
        if self._read is None:
            raise CaseError(f"output {name!r} asked for outside a check")
        if not 0 <= first <= first + count <= dims[0]:
            raise CaseError(f"output {name!r}: rows {first} … {first + count - 1} are outside 0 … {dims[0] - 1}")
        self.outputs_seen += 1
        each = self._planned(name).elements // dims[0]
        return self._read(name, first * each, count * each).reshape(count, *dims[1:])

    def left(self, read: Read | None) -> None:
        """What ``output`` reads from; None when a check has ended."""
        self._read = read

    def under(self, **symbols: float | int | str) -> Case:
        """The same inputs where some symbols have other values: what the formats of the plan cost is asked so.

        Raises ``CaseError`` for a symbol that the plan does not have. There is no output to see.
        """
        for symbol in symbols:
            _ = self[symbol]
        other = Case(replace(self._plan, symbols={**self._plan.symbols, **symbols}))
        other._tables, other._making = self._tables, self._making
        return other

    def stored(self, name: str) -> npt.NDArray[Any]:
        """A whole buffer with ``fill: reference``, in its own dtype: what the reference's ``inputs(case, name)``
        made. Raises ``BadReference`` when that has another shape, or values the dtype cannot hold."""
        buffer = self._buffer(name)
        make = function(self._plan.reference, "inputs", "inputs(case, name), which fills " + name)
        made = np.asarray(make(self, name))
        where = f"reference {self._plan.reference}, inputs {name!r}"
        if made.shape != buffer.dims:
            raise BadReference(f"{where}: returned shape {made.shape}, must be {buffer.dims}")
        stored = made.astype(dtypes.numpy_dtype(buffer.dtype))
        if not dtypes.is_float(buffer.dtype) and not np.array_equal(stored.astype(np.int64), made):
            raise BadReference(f"{where}: values do not fit {buffer.dtype}")
        return stored

    def _values(self, buffer: Buffer, leading: tuple[int, ...]) -> npt.NDArray[Any]:
        block = buffer.dims[len(leading) :]
        start = _flat(buffer, leading)
        if buffer.fill.kind == "reference":
            return np.asarray(self._table(buffer.name)[leading]).reshape(block)
        count = int(np.prod(block, dtype=np.int64))
        return generator.values(buffer, self.seed, start, count).reshape(block)

    def _table(self, name: str) -> npt.NDArray[Any]:
        """What the reference made of a buffer, once."""
        with self._making:
            if name not in self._tables:
                self._tables[name] = self.stored(name)
            return self._tables[name]

    def _planned(self, name: str) -> Buffer:
        if name not in self._buffers:
            raise CaseError(f"unknown buffer {name!r}; the plan has: {', '.join(sorted(self._buffers))}")
        return self._buffers[name]

    def _buffer(self, name: str) -> Buffer:
        buffer = self._planned(name)
        if buffer.fill.kind == "none":
            filled = sorted(b.name for b in self._buffers.values() if b.fill.kind != "none")
            raise CaseError(
                f"buffer {name!r} has no fill, a kernel computes it: a reference starts from the filled "
                f"buffers ({', '.join(filled) or 'there are none'})"
            )
        return buffer

    def _remember(self, key: tuple[str, tuple[int, ...]], made: npt.NDArray[Any]) -> None:
        self._memo[key] = made
        self._memo_left -= made.nbytes
        while self._memo_left < 0:
            _, dropped = self._memo.popitem(last=False)
            self._memo_left += dropped.nbytes


def _flat(buffer: Buffer, leading: tuple[int, ...]) -> int:
    """First element of the block under ``leading``."""
    if len(leading) > len(buffer.dims):
        raise CaseError(f"buffer {buffer.name!r} has {len(buffer.dims)} dimensions, {len(leading)} indices given")
    start = 0
    for axis, (index, dim) in enumerate(zip(leading, buffer.dims, strict=False)):
        if not 0 <= index < dim:
            raise CaseError(f"buffer {buffer.name!r}: index {index} of axis {axis} is outside 0 … {dim - 1}")
        start = start * dim + index
    for dim in buffer.dims[len(leading) :]:
        start *= dim
    return start


def _widen(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Exact: float32 (float64 stays) or int64; uint64 beyond int64 cannot be generated."""
    if dtype == "float64":
        return values
    if not dtypes.is_float(dtype):
        return values.astype(np.int64, copy=False)
    if dtype == "bfloat16":  # the upper half of a float32; ml_dtypes' conversion takes turns between threads
        return (values.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtypes.itemsize(dtype) == 1:  # a table of 256 is several times faster than ml_dtypes' conversion
        table = np.arange(256, dtype=np.uint8).view(values.dtype).astype(np.float32)
        return table[values.view(np.uint8)]
    return values.astype(np.float32, copy=False)
