"""Evidence of a command that its results share: how the kernels were compiled, how the GPUs hang together, and what of
the code is in no commit."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.backend import topology
from runner.build import cuda
from runner.build.host import compiler
from runner.build.model import BuildRequest, CompileError, Program
from runner.config.secrets import redact_text
from runner.execute.planning import Experiment
from runner.paths import project_dir
from runner.record.spool import EVIDENCE_FOLDER
from runner.result import commit
from runner.result.document import write_text

TOPOLOGY_FILE = "topology.txt"


def compilation(experiment: Experiment, built: Mapping[BuildRequest, Program | CompileError]) -> dict[str, Any]:
    """``nvcc`` (its version; empty where none was used), ``host_compiler`` and ``compile_commands`` by unit."""
    programs = {unit: built[request] for unit, request in experiment.requests.items() if built.get(request) is not None}
    used = {unit: program for unit, program in programs.items() if isinstance(program, Program)}
    found: dict[str, Any] = {"nvcc": "", "host_compiler": ""}
    for program in used.values():
        if program.request.backend == "cuda":
            device, host = cuda.versions(cuda.compiler())  # read while building: no process is started
            found["nvcc"], found["host_compiler"] = nvcc_release(device), host.partition("\n")[0]
        else:
            found["host_compiler"] = compiler().version
    found["compile_commands"] = {unit: redact_text(shlex.join(program.command)) for unit, program in used.items()}
    return found


def nvcc_release(text: str) -> str:
    """``13.0.48`` of what ``nvcc --version`` prints."""
    found = re.search(r"release [\d.]+, V([\d.]+)", text)
    return found[1] if found else ""


def keep(folder: Path, experiments: Sequence[Experiment]) -> None:
    """Writes ``topology.txt`` (where a GPU is used) and ``uncommitted.diff`` (where the code differs from its commit)
    into the evidence folder of the command at ``folder``. Raises ``DocumentError``."""
    on_gpu = any(device.backend == "cuda" for e in experiments for device in e.devices)
    texts = {
        TOPOLOGY_FILE: topology.text() if on_gpu else "",
        commit.FILE_NAME: commit.uncommitted(project_dir().resolve()),
    }
    for name, text in texts.items():
        if text:
            write_text(folder / EVIDENCE_FOLDER / name, text)
