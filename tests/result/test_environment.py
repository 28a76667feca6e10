from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.result import commit, environment


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    caches = (environment._fixed, commit.checkout, commit.uncommitted)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    (tmp_path / "kernel.cu").write_text("one\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_clean_checkout(checkout: Path) -> None:
    found = environment.collect(checkout)
    assert found["git_commit"] == git(checkout, "rev-parse", "HEAD")
    assert (found["git_branch"], found["git_dirty"]) == ("main", False)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "kernel.cu").write_text("two\n"),
        lambda folder: (folder / "new.cu").write_text("new\n"),
        lambda folder: (folder / "kernel.cu").unlink(),
    ],
    ids=["edited", "untracked", "deleted"],
)
def test_any_difference_makes_it_dirty(checkout: Path, change: Callable[[Path], object]) -> None:
    change(checkout)
    assert environment.collect(checkout)["git_dirty"] is True


def test_outside_a_checkout_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = environment.collect(tmp_path)
    assert (found["git_commit"], found["git_branch"], found["git_dirty"]) == ("", "", None)


def test_without_git_nothing_is_claimed(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert environment.collect(checkout)["git_dirty"] is None


def test_a_git_hook_does_not_point_elsewhere(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path_factory.mktemp("elsewhere")))
    assert environment.collect(checkout)["git_branch"] == "main"


def test_the_document_is_plain_and_complete(tmp_path: Path) -> None:
    device = {"driver": "580.159", "cuda": "13.0", "uuid": "GPU-1", "name": "H200"}
    found = environment.collect(tmp_path, device=device)
    assert json.loads(json.dumps(found)) == found
    assert (found["driver"], found["cuda"], found["device_uuid"]) == ("580.159", "13.0", "GPU-1")
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["cores"] >= found["cores_usable"] >= 1
    assert found["memory_bytes"] > 2**28
    assert found["packages"]["numpy"]
    for key in ("os", "kernel", "hostname", "user", "cpu"):
        assert found[key], key


def test_each_caller_gets_its_own_copy_and_git_is_asked_once(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = environment.collect(checkout)
    first["packages"].clear()
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("asked again"))
    assert environment.collect(checkout)["packages"]


def test_variables_that_matter_are_kept_and_credentials_are_not() -> None:
    given = {
        "CUDA_VISIBLE_DEVICES": "0",
        "NCCL_DEBUG": "INFO",
        "NCCL_SOCKET_TOKEN": "hunter2",
        "OMP_NUM_THREADS": "4",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "VLLM_API_KEY": "hunter2",
        "RUNNER_PROXY": "http://me:hunter2@proxy",
        "MLFLOW_TRACKING_PASSWORD": "hunter2",
        "HOME": "/home/me",
    }
    assert environment.variables(given) == {
        "CUDA_VISIBLE_DEVICES": "0",
        "NCCL_DEBUG": "INFO",
        "OMP_NUM_THREADS": "4",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    }


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("HF_TOKEN", "x", True),
        ("GITHUBTOKEN", "x", True),
        ("PGPASSWORD", "x", True),
        ("DB_PWD", "x", True),
        ("openai_api_key", "x", True),
        ("INDEX", "https://user:pw@host/simple", True),
        ("INDEX", "https://token@host/simple", True),
        ("INDEX", "https://host/a@b", False),
        ("PWD", "/home/me", False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("PATH", "/bin", False),
        ("KEYBOARD", "de", False),
    ],
)
def test_what_looks_like_a_credential(name: str, value: str, secret: bool) -> None:
    assert environment.is_secret(name, value) is secret


def test_a_processor_without_a_model_name_falls_back_to_its_architecture(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz: rev 1\n")
    assert environment._cpu_model(cpuinfo) == "Some CPU @ 2 GHz: rev 1"
    cpuinfo.write_text("processor\t: 0\n")
    assert environment._cpu_model(cpuinfo)
    assert environment._cpu_model(tmp_path / "none")
