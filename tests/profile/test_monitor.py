"""Sampling while a region runs: what is sampled, what is made of it, and how it ends."""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from runner.backend import nvml
from runner.profile import sampling
from runner.profile.base import Capture, Ended, Launch, ProfileSettings, Subject
from runner.profile.monitor import MonitorProfiler, metrics
from runner.profile.sampling import Samples
from runner.result.model import ProfileStatus

FAST = ProfileSettings(interval_s=0.005, duration_s=0.5)
GPU = Subject("worker", "cuda", ("GPU-a",))


class FakeGpu:
    """A GPU whose power rises by a watt a reading; its clock is lowered by the power cap at every second one."""

    reason = ""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self.readings = 0
        self.silent_after = 10**9

    def power_w(self) -> float | None:
        self.readings += 1
        return None if self.readings > self.silent_after else 100.0 + self.readings

    def power_limit_w(self) -> float:
        return 200.0

    def sm_clock_mhz(self) -> int:
        return 1980 - 100 * (self.readings % 2)

    def memory_clock_mhz(self) -> int:
        return 3201

    def temperature_c(self) -> int:
        return 40

    def utilization_pct(self) -> tuple[int, int]:
        return 100, 7

    def memory_bytes(self) -> tuple[int, int]:
        return 2_000_000, 8_000_000

    def throttle_reasons(self) -> list[str]:
        return ["power_cap"] if self.readings % 2 else ["idle"]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    fake = FakeGpu("GPU-a")
    monkeypatch.setattr(nvml, "reason", lambda: "")
    monkeypatch.setattr(nvml, "detect", lambda: [SimpleNamespace(uuid="GPU-a", index=2)])
    monkeypatch.setattr(nvml, "Gpu", lambda uuid: fake)
    return fake


def wait_for(condition: Callable[[], object]) -> None:
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("the condition never held")


def monitored(launch: Launch, *names: str, enough: Callable[[], object] = lambda: True) -> None:
    """What the driver does for each region; each lasts until it has samples and ``enough`` holds."""
    window: Any = launch.window
    for name in names:
        window.begin(name)
        wait_for(lambda: window._running[1]._samples.times_s and enough())
        window.end(name)


def collected(captures: list[Capture], subject: Subject) -> tuple[MonitorProfiler, Launch]:
    profiler = MonitorProfiler(FAST)
    assert profiler.unavailable(subject) == ""
    (launch,) = profiler.launches(captures, subject)
    assert (launch.min_time_s, launch.command) == (0.5, ())
    return profiler, launch


def test_each_variant_gets_its_own_series(captures: Callable[..., list[Capture]], gpu: FakeGpu) -> None:
    both = captures("a", "b")
    profiler, launch = collected(both, GPU)
    monitored(launch, "a", enough=lambda: gpu.readings >= 4)
    seen = gpu.readings
    monitored(launch, "b", enough=lambda: gpu.readings >= seen + 3)
    a, b = profiler.collect(launch, Ended(0))
    assert (a.status, a.reason, a.ranges) == (ProfileStatus.OK, "", []), "no NVTX range is recorded"
    watts = [value for _, value in a.series["system/gpu_2_power_usage_watts"]]
    assert watts[:4] == [101.0, 102.0, 103.0, 104.0]
    assert b.series["system/gpu_2_power_usage_watts"][0][1] > watts[-1]
    assert {
        "system/gpu_2_utilization_percentage",
        "system/gpu_2_memory_usage_megabytes",
        "system/gpu_2_memory_usage_percentage",
        "system/gpu_2_power_usage_percentage",
        "system/gpu_2_sm_clock_mhz",
        "system/gpu_2_memory_clock_mhz",
        "system/gpu_2_temperature_c",
        "system/gpu_2_throttled",
        "system/cpu_utilization_percentage",
        "system/system_memory_usage_megabytes",
        "system/system_memory_usage_percentage",
    } <= set(a.series)
    times = [at for at, _ in a.series["system/gpu_2_throttled"]]
    assert times == sorted(times) and times[0] > 0
    assert a.started.endswith("+00:00")
    assert not launch.scratch.exists()


def test_the_table_names_the_throttle_reasons(captures: Callable[..., list[Capture]], gpu: FakeGpu) -> None:
    (one,) = captures("a")
    profiler, launch = collected([one], GPU)
    monitored(launch, "a", enough=lambda: gpu.readings >= 3)
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.artifacts == ["model_a_monitor.csv"]
    with (one.folder / "model_a_monitor.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["gpu_2_throttle_reasons"] for row in rows[:2]] == ["power_cap", "idle"]
    assert [row["gpu_2_throttled"] for row in rows[:2]] == ["1", "0"]
    assert float(rows[0]["time_s"]) > 0


def test_figures_of_a_window_are_exact() -> None:
    samples = Samples(
        "",
        times_s=[0.1, 0.2, 0.3, 0.4],
        values={
            "gpu_0_power_usage_watts": [100.0, 200.0, 300.0, 200.0],
            "gpu_1_power_usage_watts": [10.0, 10.0, 10.0, 10.0],
            "gpu_0_sm_clock_mhz": [1980.0, 1700.0, 1980.0, 1980.0],
            "gpu_1_sm_clock_mhz": [1900.0, 1900.0, 1900.0, 1900.0],
            "gpu_0_temperature_c": [40.0, 41.0, 45.0, 44.0],
            "gpu_0_memory_usage_megabytes": [1.0, 9.0, 9.0, 9.0],
            "gpu_0_throttled": [0.0, 1.0, 0.0, 0.0],
            "gpu_0_utilization_percentage": [100.0] * 4,
            "cpu_utilization_percentage": [10.0, 20.0, 30.0, 20.0],
            "system_memory_usage_megabytes": [5.0, 6.0, 5.0, 5.0],
        },
        throttled_by={0: [("idle",), ("power_cap", "thermal"), (), ("power_cap",)]},
    )
    assert metrics(samples) == {
        "gpu_power_w": 210.0,
        "gpu_power_w_max": 310.0,
        "gpu_clock_mhz_min": 1700.0,
        "gpu_clock_mhz_median": 1900.0,
        "gpu_temperature_c_max": 45.0,
        "gpu_memory_used_mb_max": 9.0,
        "throttled_share": 0.25,
        "throttle_samples_power_cap": 2.0,
        "throttle_samples_thermal": 1.0,
        "cpu_utilization_pct": 20.0,
        "memory_used_mb_max": 6.0,
        "monitor_samples": 4.0,
    }


def test_without_a_gpu_cpu_and_memory_are_sampled(captures: Callable[..., list[Capture]]) -> None:
    profiler, launch = collected(captures("a"), Subject("worker", "host"))
    monitored(launch, "a")
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.status is ProfileStatus.OK
    assert not [name for name in [*profile.series, *profile.metrics] if "gpu" in name]
    assert profile.metrics["memory_used_mb_max"] > 0


def test_cpu_use_is_counted_from_the_start_of_the_window(
    captures: Callable[..., list[Capture]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """psutil keeps the last count by thread: a first call in the sampling thread gives nothing."""
    calls: dict[int, int] = {}

    def cpu_percent(interval: object) -> float:
        thread = threading.get_ident()
        calls[thread] = calls.get(thread, 0) + 1
        return 0.0 if calls[thread] == 1 else 40.0 + calls[thread]

    monkeypatch.setattr(psutil, "cpu_percent", cpu_percent)
    profiler, launch = collected(captures("a"), Subject("worker", "host"))
    monitored(launch, "a")
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.series["system/cpu_utilization_percentage"][0][1] == 42.0
    assert threading.get_ident() not in calls


@pytest.mark.parametrize(("windowed", "status"), [(False, ProfileStatus.FAILED), (True, ProfileStatus.OK)])
def test_the_exit_code_counts_unless_the_program_was_stopped(
    captures: Callable[..., list[Capture]], windowed: bool, status: ProfileStatus
) -> None:
    profiler, launch = collected(captures("python"), Subject("program", "host", windowed=windowed))
    monitored(launch, "python")
    (profile,) = profiler.collect(launch, Ended(-15))
    assert profile.status is status
    assert ("code -15" in profile.reason) is (not windowed)
    assert profile.metrics["monitor_samples"] >= 1


def test_a_gpu_that_falls_silent_is_told(captures: Callable[..., list[Capture]], gpu: FakeGpu) -> None:
    profiler, launch = collected(captures("a"), GPU)
    gpu.silent_after = 3
    monitored(launch, "a", enough=lambda: gpu.readings > 3)
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.status is ProfileStatus.FAILED
    assert profile.reason.startswith("the sampling ended after 3 samples: ")
    assert "gpu_2_power_usage_watts" in profile.reason
    assert len(profile.series["system/gpu_2_power_usage_watts"]) == 3


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (Ended(None, timed_out=True), "profiler.timeout_s=300"),
        (Ended(3, problem="the device is gone"), "the device is gone"),
    ],
)
def test_a_process_that_fails_ends_the_sampling(
    captures: Callable[..., list[Capture]], ended: Ended, reason: str
) -> None:
    profiler, launch = collected(captures("a", "b"), Subject("worker", "host"))
    launch.window.begin("a")  # and never ends
    profiles = profiler.collect(launch, ended)
    assert not [thread for thread in threading.enumerate() if thread.name == "monitor"]
    assert [profile.status for profile in profiles] == [ProfileStatus.FAILED] * 2
    assert all(reason in profile.reason for profile in profiles)


def test_a_window_shorter_than_the_interval_is_no_measurement(captures: Callable[..., list[Capture]]) -> None:
    profiler = MonitorProfiler(ProfileSettings(interval_s=60.0))
    (launch,) = profiler.launches(captures("a"), Subject("worker", "host"))
    launch.window.begin("a")
    launch.window.end("a")
    (profile,) = profiler.collect(launch, Ended(0))
    assert (profile.status, profile.series, profile.metrics) == (ProfileStatus.FAILED, {}, {})
    assert "profiler.interval_s=60" in profile.reason


def test_a_region_that_never_began_says_so(captures: Callable[..., list[Capture]]) -> None:
    profiler, launch = collected(captures("a"), Subject("worker", "host"))
    (profile,) = profiler.collect(launch, Ended(1))
    assert profile.status is ProfileStatus.FAILED
    assert "before its hot region began (code 1)" in profile.reason


def test_a_reading_that_hangs_does_not_block(captures: Callable[..., list[Capture]], monkeypatch: Any) -> None:
    asked, gate = threading.Event(), threading.Event()

    def hang() -> dict[str, float]:
        asked.set()
        gate.wait()
        return {}

    monkeypatch.setattr(sampling, "machine_values", hang)
    monkeypatch.setattr(sampling, "_JOIN_S", 0.01)
    profiler, launch = collected(captures("a"), Subject("worker", "host"))
    launch.window.begin("a")
    assert asked.wait(10)
    (profile,) = profiler.collect(launch, Ended(0))
    gate.set()
    assert (profile.status, profile.series) == (ProfileStatus.FAILED, {})
    assert "did not return" in profile.reason


def test_no_nvml_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "reason", lambda: "nvidia-ml-py is not installed (pip install '.[cuda]')")
    profiler = MonitorProfiler(FAST)
    assert "nvidia-ml-py" in profiler.unavailable(Subject("program", "cuda"))
    assert profiler.unavailable(Subject("program", "host")) == ""


def test_a_full_disk_is_told(captures: Callable[..., list[Capture]]) -> None:
    (one,) = captures("a")
    one.folder.parent.mkdir()
    one.folder.write_text("a file where the folder should be")
    profiler, launch = collected([one], Subject("worker", "host"))
    monitored(launch, "a")
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.status is ProfileStatus.FAILED
    assert "could not be filed" in profile.reason
    assert profile.metrics["monitor_samples"] >= 1
