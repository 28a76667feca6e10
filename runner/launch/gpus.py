"""``hydra/launcher=gpus``: a sweep on all GPUs of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.config.points import Point, Skipped
from runner.execute import command
from runner.execute.side_by_side import SideBySide, choose
from runner.launch import options


@dataclass
class Gpus:
    """``conf/hydra/launcher/gpus.yaml`` says what each means."""

    devices: list[int] | None = None


def run(
    points: Sequence[Point], skipped: Sequence[Skipped], sweep_id: str, folder: Path, given: Mapping[str, Any]
) -> int:
    """The exit code. Raises ``ConfigError``."""
    chosen = options.read(Gpus, "gpus", given)
    devices = choose(chosen.devices, on_host=all(point.config.gpu.backend == "host" for point in points))
    return command.run(points, skipped, sweep_id, folder, SideBySide(devices))
