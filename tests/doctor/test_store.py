"""The store as the doctor sees it, and the launchers."""

from __future__ import annotations

import importlib.metadata
import socket
from pathlib import Path

import pytest

from runner.doctor import store
from runner.doctor.model import State


def test_a_file_that_is_not_there_yet_is_possible_and_not_made(tmp_path: Path) -> None:
    answer = store.store(f"sqlite:///{tmp_path}/new/store.db")
    assert answer.state is State.OK
    assert "will be made" in answer.found
    assert list(tmp_path.iterdir()) == []


def test_a_dead_server_is_broken_and_shows_no_password() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answer = store.store(f"http://ada:s3cret@127.0.0.1:{port}")
    assert answer.state is State.BROKEN
    assert "does not answer" in answer.found
    assert "s3cret" not in answer.found + answer.mend
    assert "tracking=none" in answer.mend


@pytest.mark.parametrize("uri", ["ftp://host", "sqlite:///"])
def test_a_uri_that_mlflow_cannot_use_is_broken(uri: str) -> None:
    assert store.store(uri).state is State.BROKEN


def test_launchers_that_are_not_installed_are_named_by_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "hydra-joblib-launcher":
            return "1.2.0"
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    answer = store.launchers()
    assert answer.found == "local, gpus, joblib (hydra-joblib-launcher 1.2.0)"
    assert answer.mend == "for more: pip install '.[slurm,ray]'"
