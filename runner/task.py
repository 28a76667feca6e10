"""What Hydra calls for one composed job: a single run, or a job of a launcher that is not ours."""

from __future__ import annotations

import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from socket import gethostname
from typing import Any, cast

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from runner.config.alone import claim
from runner.config.check import check
from runner.config.constraints import violated
from runner.config.errors import ConfigError, no_kernel, was_interrupted
from runner.config.load import to_experiment
from runner.config.model_file import fill_in
from runner.config.points import Point, Skipped, origin, results_folder, write_inputs
from runner.config.scale import apply_scale
from runner.config.secrets import redact_text
from runner.config.study import own_grid_hint
from runner.config.sweep import sweep_id_of
from runner.estimate import model_file
from runner.exit_codes import FAILED, PASSED, REFUSED


def task(cfg: DictConfig) -> dict[str, Any]:
    """Never raises and returns a small dict: anything else ends a sweep early under one launcher or another.

    The dict holds ``exit_code`` and, for a job of a sweep, all of its :class:`runner.execute.on_node.Answer`.
    """
    try:
        return _run(cfg)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return {"exit_code": REFUSED, "message": str(error)}
    except Exception as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        # A defect of ours; the sweep goes on, the traceback says where.
        print(redact_text(traceback.format_exc()), file=sys.stderr)
        return {"exit_code": FAILED, "message": redact_text(f"{type(error).__name__}: {error}")}


def _run(cfg: DictConfig) -> dict[str, Any]:
    from runner.execute import command

    hydra = HydraConfig.get()
    folder = Path(str(hydra.runtime.output_dir))
    launcher = hydra.runtime.choices["hydra/launcher"]
    if hydra.mode == RunMode.RUN and launcher != "local":
        # Hydra ignores a launcher where there is no sweep, and the experiment would run on the wrong machine.
        _drop_empty(folder)
        raise ConfigError(f"hydra/launcher={launcher}: a launcher takes sweeps; add -m, also for a single experiment")
    point = _point(cfg, folder)
    single = hydra.mode == RunMode.RUN
    hint = own_grid_hint(point.config, point.overrides) if single else ""
    if hint:
        print(hint, file=sys.stderr)
    reason = violated(point.config)
    if not reason and not point.config.dry_run:
        if single:
            with results_folder(folder):
                claim(folder)
        write_inputs(point)
    if single:
        points = [] if reason else [point]
        skipped = [Skipped(point.shown, reason)] if reason else []
        code = command.run(points, skipped, point.sweep_id, point.folder)
        _drop_empty(folder)
        return {"exit_code": int(code)}
    if reason:
        return {"exit_code": PASSED, "message": reason}
    from runner.execute import on_node

    sweep = Path(str(hydra.sweep.dir)).absolute()
    return asdict(on_node.run_one(point, sweep, {"launcher": "hydra", "id": str(hydra.job.id), "node": gethostname()}))


def _point(cfg: DictConfig, folder: Path) -> Point:
    hydra = cast(DictConfig, HydraConfig.get())
    if OmegaConf.is_missing(cfg.kernel, "name"):
        raise no_kernel(GlobalHydra.instance().config_loader().get_group_options("kernel"), cfg.kernel)
    fill_in(cfg, model_file.read, hydra.overrides.task)
    apply_scale(cfg)
    config = to_experiment(cfg)
    check(config)
    options, folders = origin(hydra)
    number = 0 if "num" not in hydra.job else int(hydra.job.num)
    return Point(config, tuple(hydra.overrides.task), folder, number, sweep_id_of(hydra), options, folders)


def _drop_empty(folder: Path) -> None:
    """Hydra makes the folder before a dry run can say that it needs none."""
    try:
        folder.rmdir()
    except OSError:
        return  # not empty: the run left its results there
