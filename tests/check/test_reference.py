"""Loading references and looking at what they answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from runner.check import reference
from runner.check.case import Case
from runner.check.reference import BadReference
from runner.plan.model import Buffer, Check, Plan
from tests.plan.plans import plan_with

CHECK = Check("scan", output="y", row_dims=1, row_cost=1, atol=0, rtol=0)
ROWS = np.array([0, 2], np.int64)


def plan() -> Plan:
    return plan_with(reference="refs.scan", buffers=(Buffer("y", (3, 4), "float32"),))


def evaluate(answer: Any) -> npt.NDArray[Any]:
    return reference.evaluate(lambda case, check, rows: answer, plan(), Case(plan()), CHECK, ROWS)


def test_a_file_is_loaded_by_path(weird_path: Path) -> None:
    file = weird_path / "reference.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "@dataclass\nclass Row:\n    index: int\n"
        "def expected(case, check, rows):\n    return [Row(int(row)).index for row in rows]\n"
    )
    expected: Any = reference.load(str(file))
    assert expected(None, CHECK, ROWS) == [0, 2]


def test_two_files_of_one_name_stay_apart(tmp_path: Path) -> None:
    answers = []
    for value in (1, 2):
        folder = tmp_path / str(value)
        folder.mkdir()
        (folder / "reference.py").write_text(f"def expected(case, check, rows): return {value}\n")
        answers.append(reference.load(str(folder / "reference.py"))(None, CHECK, ROWS))  # type: ignore[arg-type]
    assert answers == [1, 2]


def test_a_module_is_loaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scan_reference_for_test.py").write_text("def expected(case, check, rows): return 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert reference.load("scan_reference_for_test")(None, CHECK, ROWS) == 7  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "has no function expected.case, check, rows."),
        ("expected = 3\n", "has no function expected"),
        ("import no_such_package_here\n", "fails while loading: ModuleNotFoundError.*no_such_package_here"),
        ("def expected(\n", "fails while loading: SyntaxError"),
    ],
)
def test_a_file_that_is_no_reference(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(text)
    with pytest.raises(BadReference, match=message):
        reference.load(str(file))


@pytest.mark.parametrize("name", ["/no/such/file.py", "relative/file.py"])
def test_a_path_must_exist_and_be_absolute(name: str) -> None:
    with pytest.raises(BadReference, match=f"reference {name} must be the absolute path of an existing"):
        reference.load(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("runner.references.no_such_family", "module 'runner.references.no_such_family' does not exist"),
        ("no_such_package.family", "module 'no_such_package.family' does not exist"),
    ],
)
def test_a_missing_module(name: str, message: str) -> None:
    with pytest.raises(BadReference, match=message):
        reference.load(name)


def test_a_module_that_needs_a_missing_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needy_reference_for_test.py").write_text("import no_such_package_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadReference, match="needs 'no_such_package_here', which is not installed"):
        reference.load("needy_reference_for_test")


def test_a_module_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_reference_for_test.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadReference, match="fails while loading: ZeroDivisionError"):
        reference.load("failing_reference_for_test")


def test_a_good_answer_passes_through() -> None:
    answer = np.arange(8.0).reshape(2, 4)
    assert evaluate(answer) is answer


def test_integers_stay_integers() -> None:
    assert evaluate(np.full((2, 4), 1 << 60, np.int64))[0, 0] == 1 << 60
    assert evaluate(np.ones((2, 4), np.uint8)).dtype == np.int64


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "refs.scan, check 'scan': returned NoneType, must be a NumPy array"),
        (np.zeros((3, 4)), r"returned shape \(3, 4\), must be \(2, 4\)"),
        (np.zeros((2, 4), np.float32), "returned float32, must be float64"),
        (np.array([[0.0] * 4, [0, 0, np.nan, 0]]), r"nan in row 2 at \[2\]; must be finite"),
        (np.full((2, 4), np.inf), r"inf in row 0 at \[0\]; must be finite"),
    ],
)
def test_a_bad_answer_is_refused(answer: Any, message: str) -> None:
    with pytest.raises(BadReference, match=message):
        evaluate(answer)


@pytest.mark.parametrize("error", [KeyError("boom"), ZeroDivisionError("boom"), SystemExit("boom")])
def test_a_reference_that_raises_is_named_with_its_line(error: BaseException) -> None:
    def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        raise error

    with pytest.raises(
        BadReference, match=rf"refs\.scan, check 'scan': {type(error).__name__}: .*boom.*{__file__}:\d+"
    ):
        reference.evaluate(expected, plan(), Case(plan()), CHECK, ROWS)
