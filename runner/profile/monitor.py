"""``monitor``: what the machine shows while the hot region is repeated, sampled by the driver.

Nothing is sampled in the worker, and nothing during the timed run. Utilisation (GPU-Util) stays in the series: it says
that something ran, not what bounds it.
"""

from __future__ import annotations

import csv
import shutil
import statistics
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from runner.backend import nvml
from runner.profile.base import Capture, Ended, Launch, ProfileSettings, Subject, Window
from runner.profile.sampling import Sampler, Samples
from runner.result.model import Profile, ProfileStatus

PREFIX = "system/"
"""Of the series' names, as MLflow's own system metrics have it."""
SUFFIX = "_monitor.csv"
_HIGHEST = {"temperature_c": "gpu_temperature_c_max", "memory_usage_megabytes": "gpu_memory_used_mb_max"}
"""Series of a GPU → the metric that is its highest value."""


class SampledWindow(Window):
    """Samples from ``begin`` to ``end``, under the name it is given."""

    def __init__(self, gpus: Mapping[int, nvml.Gpu], interval_s: float, serves: bool) -> None:
        """``serves``: the process is stopped when the window has closed, so that its exit code says nothing."""
        self.serves = serves
        self._gpus = gpus
        self._interval_s = interval_s
        self._running: tuple[str, Sampler] | None = None
        self.samples: dict[str, Samples] = {}

    def begin(self, name: str) -> None:
        self.close()
        self._running = name, Sampler(self._gpus, self._interval_s)

    def end(self, name: str) -> None:
        self.close()

    def close(self) -> None:
        """Ends what still runs, after a process that died."""
        if self._running is not None:
            name, sampler = self._running
            self._running = None
            self.samples[name] = sampler.stop()


class MonitorProfiler:
    """See ``runner.profile.base.Profiler``."""

    name = "monitor"
    verdict = False
    title = f"monitor (psutil {psutil.__version__})"

    def __init__(self, settings: ProfileSettings) -> None:
        self._settings = settings

    def unavailable(self, subject: Subject) -> str:
        if subject.backend != "cuda":
            return ""
        unknown = (nvml.Gpu(uuid).reason for uuid in subject.uuids)
        return nvml.reason() or next(filter(None, unknown), "")

    def launches(self, captures: Sequence[Capture], subject: Subject) -> list[Launch]:
        """One process for all captures."""
        window = SampledWindow(_gpus(subject), self._settings.interval_s, subject.windowed)
        return [
            Launch(
                tuple(captures),
                Path(tempfile.mkdtemp(prefix="runner-monitor-")),
                backend=subject.backend,
                steps=self._settings.steps,
                min_time_s=self._settings.duration_s,
                window=window,
            )
        ]

    def collect(self, launch: Launch, ended: Ended) -> list[Profile]:
        shutil.rmtree(launch.scratch, ignore_errors=True)
        window = launch.window
        assert isinstance(window, SampledWindow)
        window.close()
        return [self._one(capture, window, ended) for capture in launch.captures]

    def _one(self, capture: Capture, window: SampledWindow, ended: Ended) -> Profile:
        samples = window.samples.get(capture.variant)
        profile = Profile(ProfileStatus.FAILED, tool=self.title)
        if samples is not None and samples.times_s:
            profile.started = samples.started
            profile.series = _series(samples)
            profile.metrics = metrics(samples)
            try:
                profile.artifacts = [write_csv(samples, capture.folder, f"{capture.name}{SUFFIX}")]
            except OSError as error:
                profile.reason = f"the samples could not be filed in {capture.folder}: {error.strerror or error}"
                return profile
        profile.reason = self._what_lacks(samples, ended, window.serves)
        if not profile.reason:
            profile.status = ProfileStatus.OK
        return profile

    def _what_lacks(self, samples: Samples | None, ended: Ended, serves: bool) -> str:
        """Why the samples are not good enough; empty when they are."""
        if ended.timed_out:
            limit = self._settings.timeout_s
            return (
                f"the monitored process did not end within profiler.timeout_s={limit:g} and was killed; raise it, "
                f"or lower profiler.duration_s"
            )
        if ended.problem:
            return f"it failed while being monitored: {ended.problem}"
        if samples is None:
            return f"the monitored process ended before its hot region began (code {ended.returncode})"
        if ended.returncode and not serves:
            return f"the monitored process ended with code {ended.returncode}"
        if samples.problem:
            return samples.problem
        if not samples.times_s:
            return f"it ended before the first sample was due; lower profiler.interval_s={self._settings.interval_s:g}"
        return ""


def _gpus(subject: Subject) -> dict[int, nvml.Gpu]:
    """The subject's GPUs by the number the runner knows them by; a program's are all those it may use."""
    if subject.backend != "cuda":
        return {}
    numbers = {state.uuid: state.index for state in nvml.detect()}
    uuids = subject.uuids or tuple(numbers)
    return {numbers.get(uuid, place): nvml.Gpu(uuid) for place, uuid in enumerate(uuids)}


def _series(samples: Samples) -> dict[str, list[list[float]]]:
    return {
        PREFIX + name: [[round(at, 4), value] for at, value in zip(samples.times_s, values, strict=True)]
        for name, values in samples.values.items()
    }


def metrics(samples: Samples) -> dict[str, float]:
    """Figures of the whole window. Of several GPUs: power summed, otherwise the worst one's."""
    found: dict[str, float] = {}
    numbers = sorted({int(name.split("_")[1]) for name in samples.values if name.startswith("gpu_")})

    def of(what: str) -> list[list[float]]:
        names = (f"gpu_{number}_{what}" for number in numbers)
        return [samples.values[name] for name in names if name in samples.values]

    power, clocks = of("power_usage_watts"), of("sm_clock_mhz")
    if power:
        together = [sum(at) for at in zip(*power, strict=True)]
        found["gpu_power_w"] = statistics.fmean(together)
        found["gpu_power_w_max"] = max(together)
    if clocks:
        found["gpu_clock_mhz_min"] = min(map(min, clocks))
        found["gpu_clock_mhz_median"] = min(map(statistics.median, clocks))
    for what, name in _HIGHEST.items():
        if of(what):
            found[name] = max(map(max, of(what)))
    if of("throttled"):
        found["throttled_share"] = max(map(statistics.fmean, of("throttled")))
    for reason, count in throttle_counts(samples).items():
        found[f"throttle_samples_{reason}"] = float(count)
    found["cpu_utilization_pct"] = statistics.fmean(samples.values["cpu_utilization_percentage"])
    found["memory_used_mb_max"] = max(samples.values["system_memory_usage_megabytes"])
    found["monitor_samples"] = float(len(samples.times_s))
    return found


def throttle_counts(samples: Samples) -> Counter[str]:
    """Samples by the reason a clock was below its maximum, ``idle`` left out."""
    seen = (reasons for each in samples.throttled_by.values() for reasons in each)
    return Counter(reason for reasons in seen for reason in reasons if reason != "idle")


def write_csv(samples: Samples, folder: Path, name: str) -> str:
    """A row per sample: time, every figure, and per GPU the throttle reasons in words. Returns the name."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = ["time_s", *samples.values, *(f"gpu_{number}_throttle_reasons" for number in samples.throttled_by)]
    with (folder / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for index, at in enumerate(samples.times_s):
            values = [f"{series[index]:.6g}" for series in samples.values.values()]
            writer.writerow([f"{at:.4f}", *values, *(" ".join(s[index]) for s in samples.throttled_by.values())])
    return name
