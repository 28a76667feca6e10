"""Tracking URIs: made absolute, refused when MLflow cannot use them, never shown with a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.record.location import TrackingUnavailable, locate


def test_the_default_store_is_in_mlruns(tmp_path: Path) -> None:
    found = locate("", tmp_path)
    assert found.uri == f"sqlite:///{tmp_path}/mlruns/mlflow.db"
    assert found.database == tmp_path / "mlruns" / "mlflow.db"
    assert found.artifacts == str(tmp_path / "mlruns" / "artifacts")
    assert found.endpoint is None


def test_relative_sqlite_paths_become_absolute(tmp_path: Path) -> None:
    found = locate("sqlite:///some/store.db", tmp_path)
    assert found.database == tmp_path / "some" / "store.db"
    assert found.artifacts == str(tmp_path / "some" / "artifacts")


@pytest.mark.parametrize(
    ("uri", "kind", "endpoint"),
    [
        ("http://tracker:5000/", "server", ("tracker", 5000)),
        ("https://tracker", "server", ("tracker", 443)),
        ("postgresql+psycopg2://ada:pw@db/runs", "database", ("db", 5432)),
        ("mysql://db:3307/runs", "database", ("db", 3307)),
    ],
)
def test_servers_and_databases(uri: str, kind: str, endpoint: tuple[str, int]) -> None:
    found = locate(uri)
    assert (found.kind, found.endpoint) == (kind, endpoint)
    assert bool(found.artifacts) == (kind == "database")


@pytest.mark.parametrize(
    "uri",
    [
        "file:///tmp/mlruns",
        "mlruns",
        "./mlruns",
        "ftp://host",
        "sqlite://",
        "sqlite:///",
        "http://",
        "http://host:abc",
        "http://[::1",
    ],
)
def test_what_mlflow_cannot_use_is_refused(uri: str) -> None:
    with pytest.raises(TrackingUnavailable, match="sqlite:///"):
        locate(uri)


@pytest.mark.parametrize(
    "uri", ["http://ada:s3cr3t%21@tracker:5000", "postgresql://ada:s3cr3t%21@db/runs", "ftp://ada:s3cr3t%21@host"]
)
def test_passwords_are_never_shown(uri: str) -> None:
    try:
        found = locate(uri)
    except TrackingUnavailable as error:
        assert "s3cr3t" not in str(error)
        return
    text = f"request to {uri}/api failed for ada:s3cr3t%21@ and s3cr3t! at last"
    assert "s3cr3t" not in found.shown
    assert "s3cr3t" not in found.scrub(text)
    assert "request to" in found.scrub(text)
