"""The trace that parameters ask for: drawn, or a file that gives them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runner.config.errors import ConfigError
from runner.serving.source import figures, filled_in, of
from runner.serving.synthetic import Synthetic, synthetic
from runner.serving.trace import Request

DRAWN: dict[str, Any] = {
    **{"trace": "", "requests": 20, "rate": 5.0, "prompt_low": 3, "prompt": 30, "output_low": 1, "steps": 6},
    **{"shared": 2, "groups": 3, "B": 4},
}
LINES = "arrival_s,prompt,output,shared,group\n2,9,4,0,0\n1,7,2,3,1\n5,30,1,5,2\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(LINES)
    return path


def test_without_a_file_the_trace_is_drawn_from_the_seed() -> None:
    assert filled_in(DRAWN) == DRAWN
    assert of(DRAWN, 3) == synthetic(Synthetic(20, 5.0, (3, 30), (1, 6), shared=2, groups=3, seed=3))
    assert of(DRAWN, 3) != of(DRAWN, 4)


def test_a_rate_of_zero_is_all_at_once() -> None:
    assert {one.arrival_s for one in of({**DRAWN, "rate": 0.0}, 0)} == {0.0}


def test_a_file_gives_the_parameters(file: Path) -> None:
    filled = filled_in({**DRAWN, "trace": str(file)})
    given = {"requests": 3, "rate": 0.5, "prompt_low": 7, "prompt": 30, "output_low": 1, "steps": 4}
    assert filled == {**DRAWN, **given, "shared": 5, "groups": 3, "trace": str(file)}
    assert of(filled, 0) == (Request(0, 0.0, 7, 2, 3, 1), Request(1, 1.0, 9, 4), Request(2, 4.0, 30, 1, 5, 2))


def test_a_relative_name_is_that_of_the_folder_of_the_command(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert filled_in({**DRAWN, "trace": "t.csv"})["trace"] == str(file)


def test_one_request_or_one_moment_has_no_rate() -> None:
    assert (
        figures((Request(0, 0.0, 2, 1),))["rate"]
        == figures((Request(0, 0.0, 2, 1), Request(1, 0.0, 2, 1)))["rate"]
        == 0
    )


def test_a_file_that_has_changed_since_is_refused(file: Path) -> None:
    filled = filled_in({**DRAWN, "trace": str(file)})
    file.write_text(LINES + "9,31,1,0,0\n")
    with pytest.raises(ConfigError, match=re.escape(f"kernel.params.trace={file}: has changed since")):
        of(filled, 0)


def test_the_error_names_the_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^kernel.params.trace={tmp_path}/none.csv: no such file"):
        filled_in({**DRAWN, "trace": f"{tmp_path}/none.csv"})
