"""The launches that give a buffer its first contents on the device, equal to ``generator.values``."""

from __future__ import annotations

from runner.check import generator
from runner.plan import dtypes
from runner.plan.model import Argument, Buffer, Launch, Plan

BLOCK = 256
MAX_BLOCKS = 4096
"""The kernels walk the buffer with the whole grid as stride: more blocks are not faster."""

_STORE_BYTES = 16
"""What one thread stores at a time."""


def fill_launches(plan: Plan, buffer: Buffer) -> list[Launch]:
    """Launches (unit ``fill``) that fill ``buffer`` for ``plan.seed``.

    Empty for ``none``, for a buffer without elements, for ``zeros`` (that is ``Stream.fill(buffer, 0)``) and for
    ``reference`` (that is ``Case.stored``, copied to the device).
    Raises ``generator.FillError`` when the buffer's type cannot hold the fill.
    """
    fill = buffer.fill
    if fill.kind in ("none", "zeros", "reference") or buffer.elements == 0:
        return []
    generator.require_fill(buffer)
    arguments = [Argument("buffer", buffer=buffer.name), Argument("int64", value=buffer.elements)]
    if fill.kind == "constant":
        function = f"fill_constant_{8 * dtypes.itemsize(buffer.dtype)}bit"
        arguments += [Argument("uint64", value=_bits(buffer))]
    else:
        function = f"fill_{fill.kind}_{buffer.dtype}"
        arguments += [Argument("uint64", value=generator.key(plan.seed, buffer.name))]
    if fill.kind == "uniform":
        low, width = generator.limits(fill.low, fill.high)
        arguments += [Argument("float32", value=float(low)), Argument("float32", value=float(width))]
    if fill.kind == "integers":
        arguments += [
            Argument("int64", value=int(fill.low)),
            Argument("int64", value=int(fill.high - fill.low)),
        ]
    stores = -(-buffer.elements * dtypes.itemsize(buffer.dtype) // _STORE_BYTES)
    blocks = min(MAX_BLOCKS, -(-stores // BLOCK))
    return [Launch(function, (blocks, 1, 1), (BLOCK, 1, 1), tuple(arguments), unit="fill", device=buffer.device)]


def _bits(buffer: Buffer) -> int:
    """Bit pattern of a constant buffer's element."""
    return int.from_bytes(generator.constant(buffer).tobytes(), "little")
