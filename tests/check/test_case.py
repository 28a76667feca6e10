"""What a reference sees: symbols and exactly the values the device holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runner.check import generator
from runner.check.case import Case, CaseError
from runner.check.modules import BadReference
from runner.plan import dtypes
from runner.plan.model import Buffer, Fill, Plan
from tests.plan.plans import plan_with

KINDS = {True: Fill("uniform"), False: Fill("integers", low=0, high=100)}


def plan(*buffers: Buffer) -> Plan:
    return plan_with(kernel="kv", symbols={"T": 64, "D": 16}, buffers=buffers, seed=5)


def test_symbols_and_seed() -> None:
    case = Case(plan())
    assert (case["T"], case["D"], case.seed) == (64, 16, 5)
    with pytest.raises(CaseError, match="unknown symbol 'H' of kv; known are: D, T"):
        case["H"]


@pytest.mark.parametrize("name", dtypes.NAMES)
def test_inputs_are_the_devices_values(name: str) -> None:
    buffer = Buffer("k", (3, 4, 5), name, KINDS[dtypes.is_float(name)])
    held = generator.values(buffer, 5, 0, 60).reshape(3, 4, 5)
    made = Case(plan(buffer)).input("k")
    wide = {"float64": np.float64}.get(name, np.float32 if dtypes.is_float(name) else np.int64)
    assert made.dtype == wide
    assert made.shape == (3, 4, 5)
    assert np.array_equal(made.astype(np.float64), held.astype(np.float64))


def test_leading_indices_select_a_block() -> None:
    case = Case(plan(Buffer("k", (3, 4, 5), "float16", Fill("uniform"))))
    whole = case.input("k")
    assert np.array_equal(case.input("k", 2), whole[2])
    assert np.array_equal(case.input("k", 2, np.int64(1)), whole[2, 1])
    assert case.input("k", 2, 1, 4) == whole[2, 1, 4]
    assert case.input("k", 2, 1, 4).shape == ()


def test_a_far_block_of_a_huge_buffer_costs_only_itself() -> None:
    buffer = Buffer("k", (1 << 20, 1 << 20, 8), "int8", Fill("integers", low=-8, high=8))
    made = Case(plan(buffer)).input("k", (1 << 20) - 1, 3)
    start = (((1 << 20) - 1) * (1 << 20) + 3) * 8
    assert made.tolist() == generator.values(buffer, 5, start, 8).tolist()


def test_a_repeated_call_is_remembered_and_cannot_be_written() -> None:
    case = Case(plan(Buffer("k", (3, 4), "float32", Fill("uniform"))))
    first = case.input("k", 1)
    assert case.input("k", 1) is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_memory_stays_below_the_cap() -> None:
    case = Case(plan(Buffer("k", (5, 256), "float32", Fill("uniform"))), memo_bytes=2048)
    first, second = case.input("k", 0), case.input("k", 1)
    assert case.input("k", 0) is first  # now the most recently used
    case.input("k", 2)  # a third kilobyte: the least recently used goes
    assert case.input("k", 0) is first
    assert case.input("k", 1) is not second
    assert np.array_equal(case.input("k", 1), second)


def test_a_block_larger_than_the_cap_is_given_and_not_kept() -> None:
    case = Case(plan(Buffer("k", (5, 256), "float32", Fill("uniform"))), memo_bytes=100)
    assert case.input("k", 0) is not case.input("k", 0)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (("v",), "unknown buffer 'v'; the plan has: k, q"),
        (("q",), "'q' has no fill, a kernel computes it: .*filled buffers .k."),
        (("k", 3), "'k': index 3 of axis 0 is outside 0 … 2"),
        (("k", 0, -1), "index -1 of axis 1 is outside 0 … 3"),
        (("k", 0, 0, 0), "has 2 dimensions, 3 indices given"),
    ],
)
def test_what_is_not_there_is_refused(ask: tuple[str, int], message: str) -> None:
    case = Case(plan(Buffer("k", (3, 4), "float32", Fill("uniform")), Buffer("q", (3,), "int8")))
    with pytest.raises(CaseError, match=message):
        case.input(*ask)


TABLES = """
import numpy as np

def inputs(case, name):
    if name == "table":
        return np.arange(12).reshape(3, 4) * case["scale"]
    return np.zeros(2) if name == "short" else np.full((3, 4), 300)
"""


def test_tables_come_from_the_reference_and_are_what_the_device_gets(tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(TABLES)
    fill = Fill("reference")
    buffers = (
        Buffer("table", (3, 4), "int32", fill),
        Buffer("short", (3,), "int32", fill),
        Buffer("wide", (3, 4), "int8", fill),
    )
    case = Case(replace(plan(*buffers), reference=str(tmp_path / "ref.py"), symbols={"scale": 2}))
    assert case.stored("table").dtype == np.int32
    assert case.input("table", 1).tolist() == [8, 10, 12, 14]
    assert case.input("table", 2, 3).tolist() == 22
    with pytest.raises(BadReference, match=r"inputs 'short': returned shape \(2,\), must be \(3,\)"):
        case.input("short")
    with pytest.raises(BadReference, match="inputs 'wide': values do not fit int8"):
        case.input("wide")


@pytest.mark.parametrize("name", dtypes.NAMES)
def test_rows_are_those_of_the_input(name: str) -> None:
    case = Case(plan(Buffer("k", (3, 7, 5), name, KINDS[dtypes.is_float(name)])))
    whole = case.input("k")
    for made, wanted in (
        (case.rows("k", 1, 2), whole[1:3]),
        (case.rows("k", 2, 4, 1), whole[1, 2:6]),
        (case.rows("k", 0, 7, np.int64(2)), whole[2]),
        (case.rows("k", 3, 2, 1, 6), whole[1, 6, 3:5]),
        (case.rows("k", 5, 0, 1), whole[1, 5:5]),
    ):
        assert made.dtype == wanted.dtype and made.shape == wanted.shape
        assert np.array_equal(made, wanted)


def test_rows_of_a_table_are_those_of_the_input_too(tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(TABLES)
    tables = plan(Buffer("table", (3, 4), "int32", Fill("reference")))
    case = Case(replace(tables, reference=str(tmp_path / "ref.py"), symbols={"scale": 2}))
    assert case.rows("table", 1, 2).tolist() == [[8, 10, 12, 14], [16, 18, 20, 22]]
    assert case.rows("table", 1, 2, 2).tolist() == [18, 20]


COUNTED = """
import time
import numpy as np

calls = []


def inputs(case, name):
    calls.append(name)
    time.sleep(0.05)
    return np.arange(12).reshape(3, 4) + 100 * len(calls)
"""


def test_threads_that_ask_for_rows_of_a_table_have_it_made_once(tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(COUNTED)
    tables = plan(Buffer("table", (3, 4), "int32", Fill("reference")))
    case = Case(replace(tables, reference=str(tmp_path / "ref.py")))
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda first: case.rows("table", first, 1).tolist(), (0, 1, 2, 0)))
    assert rows == [[[100, 101, 102, 103]], [[104, 105, 106, 107]], [[108, 109, 110, 111]], [[100, 101, 102, 103]]]


def test_dims_are_those_of_a_filled_buffer() -> None:
    case = Case(plan(Buffer("k", (3, 4), "float32", Fill("uniform")), Buffer("q", (3,), "int8")))
    assert case.dims("k") == (3, 4)
    for ask in (lambda: case.dims("q"), lambda: case.rows("q", 0, 1)):
        with pytest.raises(CaseError, match="'q' has no fill"):
            ask()


def test_an_output_is_seen_within_a_check_only() -> None:
    case = Case(plan(Buffer("k", (3, 4), "float32", Fill("uniform")), Buffer("q", (2, 3), "int8")))
    with pytest.raises(CaseError, match="output 'q' asked for outside a check"):
        case.output("q")
    case.left(lambda name, start, count: np.arange(6, dtype=np.int8)[start : start + count])
    assert case.output("q").tolist() == [[0, 1, 2], [3, 4, 5]] and case.output("q").dtype == np.int8
    assert case.outputs_seen == 2
    with pytest.raises(CaseError, match="unknown buffer 'v'; the plan has: k, q"):
        case.output("v")
    case.left(None)
    with pytest.raises(CaseError, match="outside a check"):
        case.output("q")
