"""Who runs the points of a sweep: ``hydra/launcher=local``, the default, ``gpus``, ``slurm`` and ``ray``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from runner.config import sweep
from runner.config.points import Point, Skipped
from runner.estimate import model_file


class PointsLauncher(Launcher):
    """Takes all points of a sweep at once, composed and checked."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._context = hydra_context
        self._config = config

    @abstractmethod
    def launch_points(self, points: Sequence[Point], skipped: Sequence[Skipped], sweep_id: str, folder: Path) -> int:
        """Our sweeper's entry; ``folder`` is the sweep's. Returns the exit code."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Hydra's entry, for a sweeper that is not ours (Optuna, Hydra's own)."""
        lines = [list(overrides) for overrides in job_overrides]
        planned = sweep.given_points(self._context.config_loader, self._config, lines, initial_job_idx, model_file.read)
        planned.write()
        code = self.launch_points(planned.points, planned.skipped, planned.sweep_id, planned.folder)
        returns: list[JobReturn] = []
        for overrides in lines:
            job = JobReturn(overrides=overrides, working_dir=str(Path.cwd()), status=JobStatus.COMPLETED)
            job.return_value = {"exit_code": code}
            returns.append(job)
        return returns


class LocalLauncher(PointsLauncher):
    """One after another in this process; everything is planned and built before the first is timed."""

    def launch_points(self, points: Sequence[Point], skipped: Sequence[Skipped], sweep_id: str, folder: Path) -> int:
        from runner.execute import command

        return int(command.run(points, skipped, sweep_id, folder))


class GpusLauncher(PointsLauncher):
    """Side by side on the GPUs of this machine."""

    def launch_points(self, points: Sequence[Point], skipped: Sequence[Skipped], sweep_id: str, folder: Path) -> int:
        from runner.launch import gpus

        return int(gpus.run(points, skipped, sweep_id, folder, self.options))


class SlurmLauncher(PointsLauncher):
    """As jobs of a Slurm cluster."""

    def launch_points(self, points: Sequence[Point], skipped: Sequence[Skipped], sweep_id: str, folder: Path) -> int:
        from runner.launch import slurm

        return int(slurm.run(points, skipped, sweep_id, folder, self.options))


class RayLauncher(PointsLauncher):
    """As tasks of a Ray cluster."""

    def launch_points(self, points: Sequence[Point], skipped: Sequence[Skipped], sweep_id: str, folder: Path) -> int:
        from runner.launch import ray_cluster

        return int(ray_cluster.run(points, skipped, sweep_id, folder, self.options))
