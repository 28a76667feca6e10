"""Element types of buffers: the names a family's YAML may use, their sizes, and their NumPy types.

``float8_e4m3`` is the finite E4M3 format of NVIDIA GPUs (no infinity, largest value 448).
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_SIZES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3": 1,
    "float8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
}
_FROM_ML_DTYPES = {"bfloat16": "bfloat16", "float8_e4m3": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}

NAMES: tuple[str, ...] = tuple(_SIZES)
"""Every name that is allowed."""


class UnknownDtype(ValueError):
    """A name that is not in ``NAMES``; the message gives the nearest one."""


def itemsize(name: str) -> int:
    """Bytes of one element. Raises ``UnknownDtype``."""
    try:
        return _SIZES[name]
    except KeyError:
        raise _unknown(name) from None


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy type of a name (an ``ml_dtypes`` one where NumPy has none). Raises ``UnknownDtype``."""
    if name not in _SIZES:
        raise _unknown(name)
    import numpy as np

    if name in _FROM_ML_DTYPES:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _FROM_ML_DTYPES[name]))
        return found
    return np.dtype(name)


def is_float(name: str) -> bool:
    """True for floating-point types, False for integers. Raises ``UnknownDtype``."""
    itemsize(name)
    return "float" in name


def _unknown(name: str) -> UnknownDtype:
    near = difflib.get_close_matches(str(name), NAMES, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UnknownDtype(f"unknown dtype {name!r}: {hint}allowed are {', '.join(NAMES)}")
