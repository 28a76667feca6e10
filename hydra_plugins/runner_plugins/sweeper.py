"""Walks grids, lists together and constraints: ``hydra/sweeper=study``, the default under ``-m``."""

from __future__ import annotations

from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from runner.config import sweep
from runner.estimate import model_file


class StudySweeper(Sweeper):
    """Composes and checks every point before the first one starts; see ``runner.config.study`` for what is walked."""

    def __init__(self, max_batch_size: int | None = None) -> None:
        """``max_batch_size``: jobs handed to a launcher other than ours at a time; None = all."""
        self._batch = max_batch_size
        self.hydra_context: HydraContext | None = None
        self.config: DictConfig | None = None
        self.launcher: Launcher | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context = hydra_context
        self.config = config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> int:
        """``arguments`` are the command's overrides without ``hydra.…``. Returns the exit code."""
        assert self.hydra_context is not None and self.config is not None
        if self._batch is not None and self._batch < 1:
            raise sweep.ConfigError(f"hydra.sweeper.max_batch_size={self._batch}: must be at least 1, or null")
        planned = sweep.plan_sweep(self.hydra_context.config_loader, self.config, arguments, model_file.read)
        assert self.launcher is not None
        planned.write()
        # By what it can do, not by its class: Hydra's plugin scan may have loaded that a second time.
        launch_points = getattr(self.launcher, "launch_points", None)
        if launch_points is not None:
            return int(launch_points(planned.points, planned.skipped, planned.sweep_id, planned.folder))
        from runner.launch import foreign

        return foreign.run(
            planned.points, planned.skipped, planned.sweep_id, planned.folder, self.launcher, self._batch
        )
