"""The command line of ``nsys profile``, to the last argument."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from runner.profile import isolate, nvtx
from runner.profile.base import ProfileSettings, Subject
from runner.profile.report import last_words

_CUDA_LIBRARIES = ("cuda", "cublas", "cudnn", "cusolver", "cusparse")
_PROBE_S = 30.0


def command_line(
    nsys: Path, settings: ProfileSettings, stem: Path, subject: Subject, captures: int, session: str = ""
) -> tuple[str, ...]:
    """What stands before the profiled command.

    ``stem``: of the report files. ``captures``: how many this process serves. ``session``: name to start and stop the
    collection by, for a subject that is windowed.
    """
    trace = [what for what in settings.trace if subject.backend == "cuda" or not what.startswith(_CUDA_LIBRARIES)]
    if "nvtx" not in trace:
        trace.append("nvtx")  # a variant's range is how its report is recognised
    options = [f"--trace={','.join(trace)}"]
    # CPU sampling and context switches need privileges that containers do not give.
    options += ["--sample=none", "--cpuctxsw=none"]
    if any(what.startswith("cuda") for what in trace):
        options.append(f"--cuda-graph-trace={settings.graph_trace}")
    if settings.gpu_metrics and subject.backend == "cuda":
        options += gpu_metrics(str(nsys))[0]
    if subject.windowed:
        # The program outlives the collection and is ended by whoever started it.
        options += [f"--session-new={session}", "--start-later=true", "--kill=none"]
    elif subject.kind == "worker":
        options += _range(settings, subject, captures)
    # A process that the program leaves behind must not keep the tool waiting.
    options += ["--force-overwrite=true", "--wait=primary", f"--output={stem}"]
    return (str(nsys), "profile", *options)


def _range(settings: ProfileSettings, subject: Subject, captures: int) -> list[str]:
    """Options that limit the collection to the worker's hot regions."""
    if settings.capture == "all":
        return []
    capture = ["--capture-range=cudaProfilerApi"]
    if settings.capture == "nvtx" or subject.backend != "cuda":
        # Whatever domain: versions of the nvtx package differ in what they call the default one.
        capture = ["--capture-range=nvtx", f"--nvtx-capture={nvtx.CAPTURE}@*"]
    # ``none``: what the first range opens stays open to the end, so that one report holds them all.
    end = "none" if settings.reports == "experiment" else f"repeat:{captures}"
    return [*capture, f"--capture-range-end={end}"]


@lru_cache(maxsize=8)
def gpu_metrics(nsys: str) -> tuple[tuple[str, ...], str]:
    """The option that samples the metrics of all GPUs, and an empty text; or no option, and why it cannot be used.

    Tried on a program that does nothing: it is refused without permission, without a supported GPU and while another
    tool samples. The option's name changed after Nsight Systems 2024.
    """
    said = ""
    with tempfile.TemporaryDirectory(prefix="runner-nsys-") as folder:
        for option in ("--gpu-metrics-devices=all", "--gpu-metrics-device=all"):
            command = [
                *isolate.namespace_prefix(), nsys, "profile", "--trace=none", "--sample=none", "--cpuctxsw=none",
                option, f"--output={folder}/probe", "true",
            ]  # fmt: skip
            try:
                done = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=_PROBE_S,
                    check=False,
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, **isolate.blanked(os.environ), **isolate.of_scratch(Path(folder))},
                )
            except subprocess.TimeoutExpired:
                isolate.end_all(Path(folder))
                return (), f"nsys with {option} did not end within {_PROBE_S:g} s"
            if done.returncode == 0:
                return (option,), ""
            if "unrecognised option" not in done.stderr:
                said = last_words(done.stderr) or f"nsys with {option} ended with code {done.returncode}"
    return (), said or "this nsys does not know the option"
