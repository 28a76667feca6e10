"""Data folders are found in a checkout and in an installed wheel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from runner import baseline, calibrate, compare, export, paths, prune, repeat, sync, ui
from runner.config.errors import ConfigError
from runner.execute.result_files import below
from runner.report.comparison import load
from runner.result.document import DocumentError

NOWHERE = ("~nobody-of-this-name/x", "x" * 300, "a/" + "x" * 300)
"""A home that there is not, and what is too long for a name."""


def test_in_this_checkout(repository: Path) -> None:
    assert paths.conf_dir() == repository / "conf"
    assert paths.cuda_src_dir() == repository / "cuda_src"
    assert paths.experiments_dir() == repository / "experiments"
    assert paths.project_dir() == repository


def test_in_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "runner"
    (package / "conf").mkdir(parents=True)
    (package / "cuda_src").mkdir()
    monkeypatch.setattr(paths, "PACKAGE", package)
    monkeypatch.chdir(tmp_path)
    assert paths.conf_dir() == package / "conf"
    assert paths.cuda_src_dir() == package / "cuda_src"
    assert paths.experiments_dir() is None
    assert paths.project_dir() == tmp_path


def test_an_incomplete_installation_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "runner")
    with pytest.raises(FileNotFoundError, match="the folder 'conf' is missing"):
        paths.conf_dir()


def test_what_a_word_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert paths.given("~/runs") == Path("/home/ada/runs")
    assert paths.given("~nobody-of-this-name/x") == Path("~nobody-of-this-name/x")


@pytest.mark.parametrize("word", NOWHERE)
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (repeat.main, ["{}"]),
        (compare.main, ["baseline=file:{}", "candidate=file:{}"]),
        (compare.main, ["baseline={}", "candidate={}", "out={}", "markdown={}"]),
        (export.main, ["out={}.csv", "uri=sqlite:///{}"]),
        (prune.main, ["last=1", "uri=sqlite:///{}"]),
        (baseline.main, ["show", "uri=sqlite:///{}"]),
        (sync.main, ["{}"]),
        (calibrate.main, ["data={}"]),
        (ui.main, ["uri=sqlite:///{}"]),
    ],
)
def test_a_path_that_cannot_be_is_one_line(
    command: Callable[[Sequence[str]], int],
    words: list[str],
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command([each.format(word) for each in words]) in (1, 2)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("error: ") and not any(line.startswith("error: ") for line in said[1:])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("word", NOWHERE)
def test_results_that_cannot_be_are_refused(word: str) -> None:
    with pytest.raises(DocumentError, match="there is no such file or folder"):
        load(paths.given(word))
    with pytest.raises(ConfigError, match="no such file"):
        below("estimate.kernels", paths.given(word))
