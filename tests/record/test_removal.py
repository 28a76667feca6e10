"""Which folders a run may take with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.record.filed import Filed
from runner.record.location import Location
from runner.record.removal import ELSEWHERE, ON_A_SERVER, obstacle

ID = "0123456789abcdef0123456789abcdef"


def run(artifacts: object) -> Filed:
    return Filed(ID, {}, {}, {}, 0, artifacts=str(artifacts))


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (f"store/artifacts/kv_quant/{ID}/artifacts", ""),
        (f"store/artifacts/{ID}/artifacts", ""),
        ("store/artifacts", ELSEWHERE),
        (f"store/artifacts/kv_quant/{ID}", ELSEWHERE),
        ("store/artifacts/kv_quant/other/artifacts", ELSEWHERE),
        (f"store/artifacts/../../home/{ID}/artifacts", ELSEWHERE),
        (f"home/{ID}/artifacts", ELSEWHERE),
        (f"store/artifacts/link/{ID}/artifacts", ELSEWHERE),
    ],
)
def test_only_a_runs_own_folder_goes(tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "store" / "artifacts").mkdir(parents=True)
    (tmp_path / "store" / "artifacts" / "link").symlink_to(tmp_path / "home")
    here = Location("sqlite:///x.db", "sqlite", str(tmp_path / "store" / "artifacts"))
    assert obstacle(here, run(tmp_path / path)) == reason
    assert obstacle(here, run(f"file://{tmp_path / path}")) == reason
    assert obstacle(Location("http://127.0.0.1:1", "server"), run(tmp_path / path)) == ON_A_SERVER


def test_what_others_keep_is_removed_through_them() -> None:
    for artifacts in ("mlflow-artifacts:/1/abc/artifacts", "s3://bucket/1/abc/artifacts"):
        assert obstacle(Location("http://127.0.0.1:1", "server"), run(artifacts)) == ""


def test_a_run_that_names_no_place_stays() -> None:
    assert obstacle(Location("sqlite:///x.db", "sqlite", "/store/artifacts"), run("")) == ELSEWHERE
