"""What a launcher's library carries to a node and calls there."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner.config.points import Point
from runner.config.secrets import redact_overrides, redact_text, redact_uri
from runner.execute import on_node, resume
from runner.execute.on_node import Answer
from runner.exit_codes import FAILED

CARRIED = ("RUNNER_CACHE", "RUNNER_LOCKS", "RUNNER_NSYS", "CXX", "CUDA_HOME")
"""Variables that are the same on every node, for launchers that do not pass the environment on by themselves."""


def carried() -> dict[str, str]:
    """Those of them that are set here."""
    return {name: os.environ[name] for name in CARRIED if name in os.environ}


def for_node(point: Point) -> Point:
    """The point without the secrets of ``tracking.uri``: results are filed by who submits. Where earlier results are
    looked up on the node (``resume``, ``retry``, an estimate by measured times) it needs them."""
    config = point.config
    if resume.asked(config) or config.kernel.kind == "estimate":
        return point
    tracking = replace(config.tracking, uri=redact_uri(config.tracking.uri))
    lines = [
        redact_overrides([line])[0] if line.lstrip("+").startswith("tracking") else line for line in point.overrides
    ]
    return replace(point, config=replace(config, tracking=tracking), overrides=tuple(lines))


@dataclass
class NodeJob:
    """One point. The folder of the results, the working folder and the checkout lie on every node under the same
    path."""

    point: Point
    folder: Path
    """The sweep's."""
    working: str
    """The folder that the command was started in."""
    variables: dict[str, str] = field(default_factory=dict)

    def require_folder(self) -> None:
        """Raises ``FileNotFoundError`` on a node that does not see the results' folder."""
        if not self.point.folder.is_dir():
            raise FileNotFoundError(
                f"{self.point.folder} is not there on {socket.gethostname()}: results must lie in a folder that all "
                "nodes share"
            )

    def run(self, launcher: str, identity: str, log: str) -> Answer:
        """Runs it; what goes wrong with the whole job is part of the answer, and a traceback in its log.
        Raises ``DocumentError`` where no answer can be written."""
        os.environ.update(self.variables)
        job = {"launcher": launcher, "id": identity, "node": socket.gethostname(), "log": log}
        node = os.environ.get("SLURMD_NODENAME")
        if node:
            job["node"] = node
        try:
            os.chdir(self.working)
            return on_node.run_one(self.point, self.folder, job)
        except Exception as error:  # a defect of ours, or a node that lacks what the others have
            print(redact_text(traceback.format_exc()), file=sys.stderr)
            message = redact_text(f"{launcher} job {identity} on {job['node']}: {type(error).__name__}: {error}")
            answer = Answer(self.point.sweep_id, FAILED, message, job=job)
            on_node.write(answer, self.point.folder)
            return answer
