"""Fixtures shared by all tests: paths that hurt, a compile cache apart, and skips for what is not here."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from filelock import FileLock

from runner.build.host import compiler
from runner.build.model import CompilerMissing
from runner.profile.find_tool import Missing
from runner.profile.nsys import TOOL
from runner.record.location import locate
from runner.record.mlflow_store import MlflowStore
from tests import postgres
from tests.launch import ray_here, slurm_here

REPOSITORY = Path(__file__).resolve().parent.parent
_FOREIGN = (
    "MLFLOW_TRACKING_URI",
    "MLFLOW_REGISTRY_URI",
    "MLFLOW_RUN_ID",
    "MLFLOW_EXPERIMENT_ID",
    "MLFLOW_EXPERIMENT_NAME",
)
"""Settings of the user's shell that must not reach a test."""


_LONG = (
    *("execute/test_resume.py", "execute/test_sanitizers.py", "execute/test_measured_kernels.py"),
    *("execute/test_sweep.py", "execute/test_served.py", "execute/test_profiling.py", "execute/test_estimate.py"),
    *("kernels/test_compile.py", "kernels/test_mini_llm_host.py", "kernels/test_layer_ops_host.py"),
    *("kernels/test_mini_llm_serve_host.py", "kernels/test_mini_llm_spec_host.py"),
    *("kernels/test_mini_llm_quality_host.py", "weights/test_generated.py", "weights/test_gpt2.py"),
    *("record/test_writers.py", "record/test_postgres.py", "test_docs.py", "test_studies.py", "test_cli.py"),
)
"""Half a minute and more each."""


@lru_cache(maxsize=1)
def gpu_reason() -> str:
    """Why tests marked ``gpu`` cannot run here; empty when they can."""
    if not shutil.which("nvidia-smi"):
        return "no NVIDIA driver (nvidia-smi is not on the PATH)"
    listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False)
    if listing.returncode != 0 or "GPU" not in listing.stdout:
        return "no NVIDIA GPU (nvidia-smi -L lists none)"
    return ""


@lru_cache(maxsize=1)
def nsys_reason() -> str:
    """Why tests marked ``nsys`` cannot run here; empty when they can."""
    found = TOOL.find()
    return str(found) if isinstance(found, Missing) else ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest begin first: a long one at the end would have one process wait for the other."""
    items.sort(key=lambda item: item.path.relative_to(REPOSITORY / "tests").as_posix() not in _LONG)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, reason in (
        ("gpu", gpu_reason),
        ("nsys", nsys_reason),
        ("postgres", postgres.reason),
        ("slurm", slurm_here.reason),
        ("ray", ray_here.reason),
    ):
        if item.get_closest_marker(marker) and reason():
            pytest.skip(reason())


@pytest.fixture(scope="session", autouse=True)
def _own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One compile cache for the session (compiling is slow), apart from the user's; a clean environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _FOREIGN:
            patch.delenv(name, raising=False)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # Started in the background of a script: children would not hear the Ctrl-C that tests send them.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        patch.setenv("RUNNER_CACHE", str(_cache(tmp_path_factory)))
        if quick := _quick_compiler(tmp_path_factory):
            patch.setenv("CXX", quick)
        # A test never waits for an experiment of another command on this machine.
        patch.setenv("RUNNER_LOCKS", str(tmp_path_factory.mktemp("runner-locks")))
        # Child processes started in another folder find this checkout, installed or not.
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")])))
        yield


def _quick_compiler(factory: pytest.TempPathFactory) -> str:
    """The compiler that the host backend would take, asked to optimise less: tests compile a kernel far longer than
    they run it, least of all the unit ``prepare``. Empty where the user named one, or there is none."""
    try:
        found = compiler().path
    except CompilerMissing:
        return ""
    if os.environ.get("CXX"):
        return ""
    quick = factory.mktemp("compiler") / Path(found).name
    level = 'case " $* " in *" -ffp-contract=off "*) level=-O0 ;; *) level=-O1 ;; esac'
    quick.write_text(f'#!/bin/sh\n{level}\nexec {shlex.quote(found)} "$@" $level\n')
    quick.chmod(0o755)
    return str(quick)


def _cache(factory: pytest.TempPathFactory) -> Path:
    """Processes that share the tests share what they compile."""
    shared = _shared(factory) / "runner-cache"
    shared.mkdir(exist_ok=True)
    return shared


def _shared(factory: pytest.TempPathFactory) -> Path:
    """A folder of this session, the same in all processes that share its tests."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def ready_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store with MLflow's tables and nothing in them: making one takes seconds, a copy none."""
    folder = _shared(tmp_path_factory) / "ready-store"
    folder.mkdir(exist_ok=True)
    location = locate("sqlite:///mlflow.db", folder)
    with FileLock(folder / "lock"):
        if not location.database.is_file():
            MlflowStore(location).open()
    return location.database


@pytest.fixture
def new_store(ready_database: Path, tmp_path: Path) -> str:
    """The URI of an empty store, ``mlflow.db`` in the test's own folder."""
    copy_store(ready_database, tmp_path)
    return f"sqlite:///{tmp_path}/mlflow.db"


def copy_store(ready: Path, folder: Path) -> None:
    """``mlflow.db`` and its write-ahead log, into ``folder``."""
    for path in ready.parent.glob(f"{ready.name}*"):
        shutil.copy(path, folder / path.name)


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty compile cache for one test that looks at the cache itself."""
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("RUNNER_CACHE", str(cache))
    return cache


@pytest.fixture
def weird_path(tmp_path: Path) -> Path:
    """A folder whose name holds spaces, quotes, a dollar, a bracket and letters beyond ASCII."""
    folder = tmp_path / 'it\'s a "weird" $HOME [1] häß'
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY
