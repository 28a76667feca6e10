"""The command as a user types it; what would run the points is replaced by a recorder."""

from __future__ import annotations

import errno
import importlib.util
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf.errors import ConfigKeyError

from runner.cli import main
from tests.config.conftest import FAMILY
from tests.config.recorder import Calls, replace_execution

SECRET = "tracking.uri='http://alice:hunter2@mlflow:5000?token=hunter2'"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return replace_execution(monkeypatch)


@pytest.fixture
def run(calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs a command in an empty folder; returns the exit code."""
    monkeypatch.chdir(tmp_path)
    handlers, level = list(logging.root.handlers), logging.root.level

    def command(*arguments: str) -> int:
        return main(["--config-dir", str(FAMILY), *arguments])

    yield command
    logging.root.handlers[:] = handlers  # --info leaves one that writes to this test's captured stream
    logging.root.setLevel(level)


def written(folder: Path) -> str:
    return "\n".join(file.read_text() for file in folder.rglob("*") if file.is_file())


def test_a_single_run(run: Any, calls: Calls, tmp_path: Path) -> None:
    assert run("kernel=toy", "shape.batch=3", SECRET) == 0
    (point,) = calls.points
    assert re.fullmatch(r"\d{2}-\d{2}-\d{2}-\d{6}-\d+", point.folder.name)
    assert re.fullmatch(r"outputs/\d{4}-\d{2}-\d{2}", point.folder.parent.relative_to(tmp_path).as_posix())
    assert point.config.kernel.params["B"] == 3 and point.number == 0
    assert sorted(file.name for file in point.folder.glob("[!.]*")) == ["config.yaml", "overrides.yaml"]
    assert "hunter2" in point.config.tracking.uri and "hunter2" not in written(tmp_path)
    assert point.repeat.startswith(f"python -m runner --config-dir {FAMILY} kernel=toy shape.batch=3")
    assert point.config_dirs == (FAMILY,) and point.sweep_id == calls.sweep_ids[0] != ""


def test_a_sweep(run: Any, calls: Calls, tmp_path: Path) -> None:
    assert run("kernel=toy", "shape=decode,long_ctx", "-m", SECRET) == 0
    assert [point.config.shape.context for point in calls.points] == [4096, 4096, 8192, 16384, 32768]
    folders = [point.folder.relative_to(tmp_path).as_posix() for point in calls.points]
    assert all(re.fullmatch(r"multirun/\d{4}-\d\d-\d\d/\d\d-\d\d-\d\d-\d{6}-\d+/\d", folder) for folder in folders)
    assert [folder[-1] for folder in folders] == list("01234")
    document = yaml.safe_load((calls.points[0].folder.parent / "multirun.yaml").read_text())
    assert list(document["points"]) == [0, 1, 2, 3, 4] and document["sweep_id"] == calls.sweep_ids[0]
    assert "hunter2" not in written(tmp_path)
    assert not list(tmp_path.rglob(".hydra")) and not list(tmp_path.rglob("*.log"))


def test_the_folder_of_a_command_is_a_sweeps_or_its_only_points(run: Any, calls: Calls, tmp_path: Path) -> None:
    below = tmp_path / "multirun"
    assert run("kernel=toy", f"hydra.run.dir={below}/day/one") == 0
    assert run("kernel=toy", f"hydra.sweep.dir={tmp_path}/all", "-m") == 0
    assert calls.folders == [below / "day" / "one", tmp_path / "all"]
    assert [point.folder for point in calls.points] == [below / "day" / "one", tmp_path / "all" / "0"]


def test_a_study_with_points_of_its_own_needs_no_m(run: Any, calls: Calls) -> None:
    assert run("experiments=together") == 0
    assert len(calls.points) == 10


def test_a_study_lists_what_it_skips(run: Any, calls: Calls) -> None:
    assert run("experiments=together", "-m") == 0
    assert len(calls.points) == 10
    assert [skipped.reason for skipped in calls.skipped] == ["too many heads"] * 2


def test_without_m_the_grid_left_out_is_named(
    run: Any,
    calls: Calls,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("kernel=toy", "shape=long_ctx") == 0
    assert len(calls.points) == 1
    hint = "shape=long_ctx carries a grid of 4 values of shape.context; add -m to sweep it"
    assert hint in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("arguments", [("kernel=toy",), ("kernel=toy", "seed=1,2", "-m")])
@pytest.mark.parametrize("code", [0, 1])
def test_the_exit_code_is_that_of_the_experiments(
    run: Any,
    calls: Calls,
    arguments: tuple[str, ...],
    code: int,
) -> None:
    calls.code = code
    assert run(*arguments) == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "kernel: choose a family, e.g. kernel="),
        (("kernel=tyo",), "error: kernel=tyo: no such option; did you mean 'toy'?"),
        (("kernel=toy", "shape.contxt=1"), "did you mean 'shape.context'?"),
        (("kernel=toy", "kernel.params.D=64,65", "-m"), "kernel.params.D=65: must be one of 64, 128, 192"),
        (("kernel=toy", "shape.batch=1,2"), "add -m to sweep over them"),
        (("kernel=toy", "hydra/launcher=slurmy"), "hydra/launcher=slurmy: no such option"),
        (("kernel=toy", "hydra.nope=1"), "hydra.nope"),
        (("kernel=toy", "hydra/launcher=slurm"), "hydra/launcher=slurm: a launcher takes sweeps; add -m"),
        (
            ("kernel=toy", "seed=1,2", "hydra/launcher=slurm", "hydra.launcher.partion=x", "-m"),
            "hydra.launcher.partion: hydra/launcher=slurm has no such option; did you mean 'hydra.launcher.partition'?",
        ),
        (("kernel=toy", "a=b=c"), "a=b=c: not a valid override"),
        (("kernel=toy", "--cfg", "job", "-m"), "--cfg prints one composed config"),
        (("kernel=toy", "--cfg", "job", "--info"), "only one of"),
        (("kernel=toy", "--resolve"), "--resolve goes with --cfg"),
        (("kernel=toy", "--config-name", "x"), "--config-name=x: the root config is fixed"),
        (("kernel=toy", "seed=1,2", "hydra.sweep.subdir=x", "-m"), "the same folder for several points"),
        (("kernel=toy", "dry_run=true,false", "-m"), "dry_run=true,false: holds for a whole command"),
        (("kernel=toy", "resume=false,true", "-m"), "resume=false,true: holds for a whole command"),
        (("kernel=toy", "tracking=mlflow,none", "-m"), "tracking.enabled=true,false: holds for a whole command"),
        (
            ("kernel=toy", "tracking.uri=sqlite:///a.db,'http://ann:s3cr3t@b'", "-m"),
            "tracking.uri=sqlite:///a.db,http://ann:***@b: holds for a whole command",
        ),
        (("kernel=toy", "seed=1,2", "hydra.sweeper.max_batch_size=0", "-m"), "must be at least 1"),
        (("experiments=uneven", "-m"), "must be equally long"),
    ],
)
def test_a_refused_command_runs_nothing(
    run: Any,
    calls: Calls,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error and error.count("error:") == 1
    assert not calls.points and not calls.single
    assert not written(tmp_path)


def test_the_folders_of_points_can_be_named(run: Any, calls: Calls, tmp_path: Path) -> None:
    assert run("kernel=toy", "seed=1,2", "hydra.sweep.dir=all", "hydra.sweep.subdir=x/${hydra.job.num}", "-m") == 0
    assert [point.folder for point in calls.points] == [tmp_path / "all/x/0", tmp_path / "all/x/1"]


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--config-dir", "/does/not/exist", "kernel=toy"]) == 2
    assert "--config-dir=/does/not/exist: no such folder" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("kernel=toy",), ("kernel=toy", "seed=1,2", "-m")])
def test_an_interrupt(run: Any, calls: Calls, arguments: tuple[str, ...]) -> None:
    calls.raises = KeyboardInterrupt()
    assert run(*arguments) == 130


def test_a_dry_run_leaves_no_files(run: Any, calls: Calls, tmp_path: Path) -> None:
    assert run("kernel=toy", "dry_run=true") == 0
    assert run("kernel=toy", "dry_run=true", "shape=long_ctx", "-m") == 0
    assert [point.config.dry_run for point in calls.points] == [True] * 5
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not list(tmp_path.glob("outputs/*/*"))


def test_a_launcher_that_is_not_ours(run: Any, calls: Calls, tmp_path: Path) -> None:
    lines = (
        "kernel=toy",
        "shape=long_ctx",
        "scale=smoke",
        "shape.context=8,16",
        "hydra/launcher=basic",
        SECRET,
    )
    assert run(*lines, "-m") == 0
    assert [point.config.kernel.params["T"] for point in calls.single] == [8, 16]
    assert [point.number for point in calls.single] == [0, 1]
    assert {point.folder.parent for point in calls.single} == {calls.single[0].folder.parent}
    assert len({point.sweep_id for point in calls.single}) == 1
    assert all((point.folder / "config.yaml").is_file() for point in calls.single)
    assert "hunter2" not in written(tmp_path)
    assert "++hydra" not in calls.single[0].repeat


def test_a_failed_job_of_another_launcher(run: Any, calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    calls.raises = RuntimeError("lost http://u:hunter2@h")
    assert run("kernel=toy", "seed=1,2", "hydra/launcher=basic", "tracking=none", "-m") == 1
    error = capsys.readouterr().err
    assert "RuntimeError" in error and "hunter2" not in error


def test_batches_for_another_launcher(run: Any, calls: Calls) -> None:
    assert run("kernel=toy", "seed=range(5)", "hydra/launcher=basic", "hydra.sweeper.max_batch_size=2", "-m") == 0
    assert [point.config.seed for point in calls.single] == [0, 1, 2, 3, 4]
    assert [point.number for point in calls.single] == [0, 1, 2, 3, 4]


def test_another_sweeper_with_our_launcher(run: Any, calls: Calls) -> None:
    calls.code = 1
    assert run("kernel=toy", "seed=1,2", "hydra/sweeper=basic", "-m") == 1
    assert [point.config.seed for point in calls.points] == [1, 2]


@pytest.mark.skipif(
    importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher") is None,
    reason="hydra-joblib-launcher is absent",
)
def test_joblib(run: Any, calls: Calls) -> None:
    backend = "hydra.launcher.backend=threading"
    assert run("kernel=toy", "seed=1,2", "hydra/launcher=joblib", backend, "hydra.launcher.n_jobs=1", "-m") == 0
    assert sorted(point.config.seed for point in calls.single) == [1, 2]


def test_the_composed_config_is_scaled_and_without_secrets(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("kernel=toy", "scale=smoke", SECRET, "--cfg", "job", "--resolve") == 0
    printed = capsys.readouterr().out
    shown = yaml.safe_load(printed)
    assert "hunter2" not in printed and "hydra" not in shown
    assert shown["shape"]["context"] == 256 and shown["kernel"]["params"]["T"] == 128


def test_the_config_of_one_section(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--cfg", "job", "--package", "shape", "shape=smoke") == 0
    assert capsys.readouterr().out.startswith("# @package shape\nname: smoke\n")
    assert run("--cfg", "job", "--package", "nope") == 2


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("runner ")


def python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_help_explains_and_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from runner.cli import main; code = main(['--help']);"
        "known = {'mlflow', 'pycuda', 'cuda', 'matplotlib', 'plotly', 'numpy', 'scipy', 'pandas', 'rich'};"
        "heavy = known & set(sys.modules);"
        "assert not heavy, heavy; sys.exit(code)"
    )
    answer = python(code, tmp_path)
    assert answer.returncode == 0, answer.stderr
    for word in (
        "kernel ",
        "shape ",
        "decode, long_ctx",
        "experiments ",
        "hydra/launcher",
        "-m",
        "dry_run=true",
    ):
        assert word in answer.stdout
    assert max(map(len, answer.stdout.splitlines())) <= 120
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("runner shape=", "shape=long_ctx"),
        ("runner kernel=t", "kernel=toy"),
        ("runner shape.ba", "shape.batch="),
    ],
)
def test_tab_completion(tmp_path: Path, line: str, offered: str) -> None:
    arguments = ["--config-dir", str(FAMILY), "-sc", "query=bash"]
    code = f"import sys; from runner.cli import main; sys.exit(main({arguments!r}))"
    answer = python(code, tmp_path, COMP_LINE=line, COMP_POINT=str(len(line)))
    assert answer.returncode == 0, answer.stderr
    assert offered in answer.stdout.split()


def test_info(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--info", "searchpath") == 0
    printed = capsys.readouterr().out
    assert "studies://" in printed and f"file://{FAMILY}" in printed


def test_the_module_and_its_exit_code(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "runner", "kernel=nope"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 2 and answer.stderr.startswith("error: kernel=nope: no such option")


@pytest.mark.parametrize(
    ("arguments", "key"),
    [((), "hydra.run.dir"), (("-m", "seed=1,2"), "hydra.sweep.dir")],
)
def test_a_folder_that_cannot_be_written_is_refused(
    run: Any, calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], key: str
) -> None:
    (tmp_path / "file").write_text("")
    assert run("kernel=toy", f"{key}={tmp_path / 'file' / 'x'}", *arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {tmp_path}/file/x") and "results cannot be written there" in error
    assert key in error and len(error.splitlines()) == 1 and not calls.points


def test_a_disk_that_is_full_before_anything_runs_is_refused(
    run: Any, calls: Calls, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: Path, *text: object, **how: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    assert run("kernel=toy") == 2 and run("kernel=toy", "-m", "seed=1,2") == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2 and all("No space left on device" in error for error in errors) and not calls.points


def test_a_word_that_is_no_text_is_refused(run: Any, calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("kernel=toy", "environment={A: '\udcffb'}") == 2
    error = capsys.readouterr().err
    assert error == "error: environment={A: '?b'}: not text in UTF-8, from character 18 on\n"
    assert not calls.points


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    line = f"{sys.executable} -m runner gpu=host kernel=kv_quant dry_run=true -m seed=range(1,40) | head -1"
    answer = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line.replace("(", "\\(").replace(")", "\\)")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0 and answer.stderr == "" and len(answer.stdout.splitlines()) == 1


def test_an_interruption_inside_omegaconf_is_no_bad_config(
    run: Any, calls: Calls, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its ``finally`` blocks fail on what they find half-made; the failure hides the Ctrl-C."""

    def interrupted(*arguments: object, **options: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise ConfigKeyError("'NoneType' object has no attribute '_invalidate_flags_cache'")

    monkeypatch.setattr("hydra._internal.hydra.Hydra.compose_config", interrupted)
    assert run("kernel=toy") == 130
    assert capsys.readouterr().err == "interrupted\n" and not calls.points


def test_an_interruption_while_importing_leaves_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "hydra.py").write_text("raise KeyboardInterrupt\n")
    answer = python("import sys; from runner.__main__ import run; sys.exit(run())", tmp_path)
    assert answer.returncode == 130 and answer.stderr == "interrupted\n"


@pytest.mark.parametrize(
    ("redirection", "encoding", "told"),
    [
        ("", "ascii", ""),
        (">&-", "utf-8", ""),
        (">/dev/full", "utf-8", "standard output cannot be written: No space left on device; going on without it\n"),
    ],
)
def test_a_poor_standard_output_stops_nothing(tmp_path: Path, redirection: str, encoding: str, told: str) -> None:
    line = f"{sys.executable} -m runner gpu=host kernel=kv_quant \"model.title='ü'\" dry_run=true {redirection}"
    answer = subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (answer.returncode, answer.stderr) == (0, told)


@pytest.mark.parametrize("mode", [[], ["-m"]])
def test_two_options_of_one_group_are_refused(capsys: pytest.CaptureFixture[str], mode: list[str]) -> None:
    assert main(["kernel=kv_quant", "profiler=[nsys,ncu]", "dry_run=true", *mode]) == 2
    said = capsys.readouterr().err
    assert "profiler=[nsys,ncu]: name one option" in said
    assert "profiler.tools=[nsys,ncu]" in said


def test_a_dry_run_names_the_tools_that_would_follow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_NSYS", "/not/there/nsys")
    assert main(["kernel=kv_quant", "gpu=host", "profiler.tools=[nsys,timeline]", "dry_run=true"]) == 0
    said = capsys.readouterr().out
    assert "then nsys, UNAVAILABLE: RUNNER_NSYS=/not/there/nsys is not a working nsys" in said
    assert "then timeline, by timeline" in said
