"""What of a checkout is in no commit: kept whole or cut, and never with a credential."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.result import commit
from tests.result.test_environment import git

PRIVATE_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n+b3BlbnNzaC1rZXk\n+-----END OPENSSH PRIVATE KEY-----"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    yield
    commit.checkout.cache_clear()
    commit.uncommitted.cache_clear()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    (tmp_path / "kernel.cu").write_text("one\n")
    (tmp_path / ".env").write_text("A=1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    return tmp_path


def test_nothing_is_kept_of_a_clean_checkout(project: Path) -> None:
    assert commit.uncommitted(project) == ""


def test_tracked_changes_are_kept_and_untracked_files_named(project: Path) -> None:
    (project / "kernel.cu").write_text("two\n")
    (project / "new file.cu").write_text("do not keep me\n")
    text = commit.uncommitted(project)
    assert text.startswith(f"# commit {git(project, 'rev-parse', 'HEAD')}\n# untracked: new file.cu\ndiff --git ")
    assert "-one\n+two\n" in text
    assert "do not keep me" not in text


def test_staged_changes_count(project: Path) -> None:
    (project / "kernel.cu").write_text("two\n")
    git(project, "add", ".")
    assert "+two\n" in commit.uncommitted(project)


def test_before_the_first_commit_files_are_named(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.cu").write_text("a\n")
    assert commit.uncommitted(tmp_path) == "# commit none yet\n# untracked: a.cu\n"


def test_a_large_difference_is_cut_and_says_so(project: Path) -> None:
    (project / "kernel.cu").write_text("".join(f"{number:063}\n" for number in range(10_000)))
    text = commit.uncommitted(project)
    assert len(text.encode()) <= commit.LIMIT_BYTES + 300
    assert f"# cut off: the first {commit.LIMIT_BYTES} of 6" in text
    assert "SHA-256 of the whole " in text
    assert text.endswith("\n") and len(text.splitlines()[-1]) == 64  # whole lines only


def test_a_binary_file_is_only_named(project: Path) -> None:
    (project / "kernel.cu").write_bytes(b"\x00\xff" * 1000)
    assert "Binary files a/kernel.cu and b/kernel.cu differ" in commit.uncommitted(project)


def test_a_file_of_credentials_is_only_named(project: Path) -> None:
    (project / ".env").write_text("HARMLESS=hunter2hunter2\n")
    (project / "kernel.cu").write_text("two\n")
    text = commit.uncommitted(project)
    assert "hunter2" not in text
    assert "diff --git a/.env b/.env\n# not kept" in text
    assert "+two" in text


@pytest.mark.parametrize(
    "line",
    [
        "+API_KEY=hunter2hunter2",
        "+    password: 'hunter2'",
        '+{"secret": "hunter2"}',
        "+uri: postgresql://ada:hunter2@host/db",
        "+headers = {'Authorization': 'Bearer hunter2hunter2hunter2'}",
        "+login('hf_hunter2hunter2hunter2')",
        "+x = 'ghp_hunter2hunter2hunter2'",
        PRIVATE_KEY.replace("b3BlbnNzaC1rZXk", "hunter2"),
    ],
)
def test_what_looks_like_a_credential_is_masked(line: str) -> None:
    text = commit.redacted(f"diff --git a/run.py b/run.py\n@@ -1 +1 @@\n{line}\n+kept\n")
    assert "hunter2" not in text
    assert "***" in text
    assert "+kept" in text


@pytest.mark.parametrize(
    "line",
    [
        "+    tokens = tokenizer(prompt)",
        "+int key = hash(seed, name);",
        "+token = next(stream)",
        "+prompt_tokens=4096",
        "+__global__ void kv_scan(const float* keys, long long T)",
        "+sha256: 0123456789abcdef0123456789abcdef",
    ],
)
def test_code_stays_as_it_is(line: str) -> None:
    text = f"diff --git a/run.py b/run.py\n{line}\n"
    assert commit.redacted(text) == text
