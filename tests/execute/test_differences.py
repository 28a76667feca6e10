"""What differs between then and now, in words."""

from __future__ import annotations

from typing import Any

import pytest

from runner.execute.differences import differences, same_code

THEN: dict[str, Any] = {
    "git_commit": 40 * "a",
    "git_dirty": True,
    "git_diff_sha256": "1",
    "devices": [{"name": "NVIDIA H200", "uuid": "GPU-1"}],
    "driver": "580.65",
    "nvcc": "13.0.48",
    "python": "3.12.1",
    "packages": {"numpy": "2.4.6"},
    "fingerprint": "f",
}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"git_commit": 40 * "b"}, f"commit: {12 * 'a'} then, {12 * 'b'} now"),
        ({"git_dirty": False, "git_diff_sha256": None}, "uncommitted changes: with then, without now"),
        ({"git_diff_sha256": "2"}, "uncommitted changes: other ones than then"),
        ({"devices": [{"name": "NVIDIA L4", "uuid": "GPU-2"}]}, "device: NVIDIA H200 then, NVIDIA L4 now"),
        (
            {"devices": [{"name": "NVIDIA H200", "uuid": "GPU-2"}]},
            "device: another NVIDIA H200 than then (GPU-1, now GPU-2)",
        ),
        ({"driver": "590.1"}, "driver: 580.65 then, 590.1 now"),
        ({"nvcc": "13.1"}, "nvcc: 13.0.48 then, 13.1 now"),
        ({"packages": {"numpy": "2.5"}}, "package numpy: 2.4.6 then, 2.5 now"),
        (
            {"packages": {"numpy": "2.4.6", "pycuda": "2025.1"}},
            "package pycuda: none then, 2025.1 now",
        ),
        (
            {"fingerprint": "g"},
            "fingerprint: the source, its options, the measuring code or a file that is read has changed",
        ),
    ],
)
def test_each_difference_is_a_line(change: dict[str, Any], line: str) -> None:
    now = {**THEN, **change}
    assert differences(THEN, now) == [line]
    assert same_code(THEN, now) is not any(key.startswith("git") for key in change)


def test_the_same_and_the_unknown_are_not_said() -> None:
    assert differences(THEN, THEN) == []
    assert differences(THEN, {}) == []
    assert differences({}, THEN) == []
    assert differences(THEN, {**THEN, "driver": "590.1", "fingerprint": "g"}) == ["driver: 580.65 then, 590.1 now"]
    assert not same_code({}, {}), "of no known commit"
