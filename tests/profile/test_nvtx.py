from __future__ import annotations

from types import SimpleNamespace

import pytest

from runner.profile import nvtx


class Recorder:
    """Stands for the nvtx package and for a backend at once, and keeps the order of what is called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def push_range(self, name: str) -> None:
        self.calls.append(f"push {name}")

    def pop_range(self) -> None:
        self.calls.append("pop")

    def start_profiler(self) -> None:
        self.calls.append("start")

    def stop_profiler(self) -> None:
        self.calls.append("stop")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(nvtx, "_package", lambda: recorder)
    return recorder


def test_capture_opens_the_named_range_inside_both_triggers(recorder: Recorder) -> None:
    with nvtx.capture(recorder, "decode/kv_quant/q8"):
        recorder.calls.append("steps")
    assert recorder.calls == [
        "push runner_capture",
        "start",
        "push decode/kv_quant/q8",
        "steps",
        "pop",
        "stop",
        "pop",
    ]


def test_a_failing_block_closes_everything_it_opened(recorder: Recorder) -> None:
    with pytest.raises(ZeroDivisionError), nvtx.capture(recorder, "x"):
        _ = 1 / 0
    assert recorder.calls[-3:] == ["pop", "stop", "pop"]


def test_a_profiler_that_cannot_start_leaves_no_range_open(recorder: Recorder) -> None:
    def refuse() -> None:
        raise RuntimeError("no context")

    backend = SimpleNamespace(start_profiler=refuse, stop_profiler=recorder.stop_profiler)
    with pytest.raises(RuntimeError, match="no context"), nvtx.capture(backend, "x"):
        pass
    assert recorder.calls == ["push runner_capture", "pop"]


def test_without_the_package_ranges_do_nothing_and_the_profiler_is_still_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvtx, "_package", lambda: None)
    backend = Recorder()
    with nvtx.capture(backend, "x"), nvtx.range("y"):
        pass
    assert backend.calls == ["start", "stop"]


@pytest.mark.parametrize(
    ("package", "tool", "told"),
    [
        ("0.2.11", "2023.4.4.54-234433681190v0", False),
        ("0.2.12", "2023.4.4.54-234433681190v0", True),
        ("0.2.17", "2023.2.3.1004", True),
        ("0.2.17", "2025.1.1.131", False),
        ("0.2.17", "", False),
        ("", "2025.1.1.131", True),
    ],
)
def test_unrecorded_names_the_versions_and_the_remedy(package: str, tool: str, told: bool) -> None:
    reason = nvtx.unrecorded(package, tool)
    assert bool(reason) == told
    if told:
        assert package in reason
        assert "pip install 'nvtx<0.2.12'" in reason


def test_attached_tells_a_profiled_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert nvtx.attached() == ""
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/somewhere.so")
    assert nvtx.attached() == "an NVTX injection library"
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    assert nvtx.attached() == "nsys"
