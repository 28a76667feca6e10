"""Names, sizes and NumPy types agree."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from runner.plan import dtypes


@pytest.mark.parametrize("name", dtypes.NAMES)
def test_size_is_the_numpy_types_size(name: str) -> None:
    assert dtypes.itemsize(name) == dtypes.numpy_dtype(name).itemsize


@pytest.mark.parametrize("name", dtypes.NAMES)
def test_integers_and_floats_are_told_apart(name: str) -> None:
    assert dtypes.is_float(name) == (dtypes.numpy_dtype(name).kind not in "iu")


def test_float8_is_the_finite_format() -> None:
    largest = np.array([0x7E], np.uint8).view(dtypes.numpy_dtype("float8_e4m3"))
    assert float(largest[0]) == 448.0


@pytest.mark.parametrize("call", [dtypes.itemsize, dtypes.numpy_dtype, dtypes.is_float])
def test_unknown_name_gives_the_nearest_and_the_list(call: object) -> None:
    assert callable(call)
    with pytest.raises(dtypes.UnknownDtype, match=r"'flaot16': did you mean 'float16'.*float8_e4m3"):
        call("flaot16")


def test_unlike_anything_gives_only_the_list() -> None:
    with pytest.raises(dtypes.UnknownDtype, match=r"'zzz': allowed are float64, float32"):
        dtypes.itemsize("zzz")


def test_sizes_cost_no_numpy_import() -> None:
    code = "import sys; from runner.plan import dtypes; dtypes.itemsize('bfloat16'); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
