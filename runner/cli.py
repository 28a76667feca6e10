"""The command ``runner`` (``python -m runner``): composes, then hands the points to ``runner.execute``.

Exit codes are those of ``runner.exit_codes``.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import string
import sys
import textwrap
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.object_type import ObjectType
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import runner
from runner import paths, streams
from runner.config.compose import CONFIG_NAME, Composer
from runner.config.errors import ConfigError, choose_from, from_exception, was_interrupted
from runner.config.model_file import fill_in
from runner.config.overrides import of_hydra, refuse_lists
from runner.config.points import results_folder
from runner.config.register import register
from runner.config.resolvers import register_resolvers
from runner.config.scale import apply_scale
from runner.config.secrets import redact_config
from runner.config.study import expand
from runner.estimate import model_file
from runner.exit_codes import FAILED, INTERRUPTED, PASSED, REFUSED

_GROUPS = (
    "kernel",
    "shape",
    "model",
    "gpu",
    "profiler",
    "measure",
    "tracking",
    "scale",
    "experiments",
    "hydra/launcher",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole command; returns the exit code. Hydra's own exceptions never reach the user."""
    streams.prepare()
    parser = get_args_parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--version" in given:
        print(f"runner {runner.__version__}")
        return PASSED
    args = parser.parse_intermixed_args(given)  # options may follow overrides: kernel=rope -m seed=1,2
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _stop)
    try:
        _check_text(given)
        code = _dispatch(args, parser)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read our output has seen enough
        streams.silence()
        return PASSED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except ConfigError as error:
        if was_interrupted(error):
            print("interrupted", file=sys.stderr)
            return INTERRUPTED
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    finally:
        GlobalHydra.instance().clear()


def _check_text(words: Iterable[str]) -> None:
    try:
        streams.refuse_bytes(words)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _stop(number: int, frame: object) -> None:
    """A batch system or a container ends jobs with SIGTERM: as with Ctrl-C, what is finished is kept."""
    raise KeyboardInterrupt


def _dispatch(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    _check_flags(args)
    version.setbase("1.3")
    register()
    register_resolvers()
    hydra = _Hydra.create_main_hydra2(task_name="runner", config_search_path=_search_path(args))
    try:
        return _command(hydra, args, parser)
    except (HydraException, OmegaConfBaseException) as error:
        raise from_exception(error) from error


class _Hydra(Hydra):
    """Hydra, with failures of composition said in our words."""

    def compose_config(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        with_log_configuration: bool = False,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        refuse_lists(overrides, self.config_loader.get_group_options("", ObjectType.GROUP))
        try:
            return super().compose_config(
                config_name, overrides, run_mode, with_log_configuration, from_shell, validate_sweep_overrides
            )
        except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, OSError) as error:
            if was_interrupted(error):
                raise KeyboardInterrupt from error
            raise _diagnosed(self, overrides, run_mode, error) from error


def _command(hydra: Hydra, args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if args.help:
        _show_help(hydra, args.overrides)
    elif args.hydra_help:
        hydra.hydra_help(config_name=CONFIG_NAME, args_parser=parser, args=args)
    elif args.cfg:
        _show_config(hydra, args)
    elif args.shell_completion:
        _complete(hydra, args.overrides)
    elif args.info is not None:
        # Composed first, since Hydra's own report of a failure is a traceback.
        hydra.compose_config(CONFIG_NAME, args.overrides, RunMode.RUN)
        hydra.show_info(args.info, config_name=CONFIG_NAME, overrides=args.overrides)
    else:
        return _run(hydra, args)
    return PASSED


def _run(hydra: Hydra, args: argparse.Namespace) -> int:
    from runner.task import task

    args.multirun = args.multirun or _study_sweeps(hydra, args.overrides)
    mode = "hydra.mode=MULTIRUN" if args.multirun else "hydra.mode=RUN"
    chosen = [line for line in args.overrides if line.startswith("hydra.mode=")]
    if args.multirun or not chosen:
        args.overrides = [line for line in args.overrides if line not in chosen] + [mode]
        chosen = [mode]
    if chosen[-1].upper() == "HYDRA.MODE=MULTIRUN":
        answer = hydra.multirun(config_name=CONFIG_NAME, task_function=task, overrides=args.overrides)
    else:
        # The task raises nothing: what is left is Hydra making the job's folder.
        with results_folder(Path.cwd()):
            answer = hydra.run(config_name=CONFIG_NAME, task_function=task, overrides=args.overrides)
    return _exit_code(answer)


def _study_sweeps(hydra: Hydra, overrides: list[str]) -> bool:
    """Whether a study was named that has points of its own: then no -m is needed."""
    if not any(line.startswith("experiments=") for line in overrides):
        return False
    study = hydra.compose_config(CONFIG_NAME, overrides, RunMode.RUN).study
    return bool(study.grid or study.zip)


def _exit_code(answer: Any) -> int:
    """Our sweeper returns the code itself; others return nested lists of Hydra's ``JobReturn``."""
    if isinstance(answer, int):
        return answer
    return max((int(summary.get("exit_code", FAILED)) for summary in _summaries(answer)), default=PASSED)


def _summaries(answer: Any) -> Iterator[dict[str, Any]]:
    if isinstance(answer, JobReturn):
        yield answer.return_value
    elif isinstance(answer, (list, tuple)):
        for item in answer:
            yield from _summaries(item)


def _check_flags(args: argparse.Namespace) -> None:
    if args.cfg and args.multirun:
        raise ConfigError(
            "--cfg prints one composed config; leave out -m (dry_run=true -m prints every point of a sweep)"
        )
    flags = [args.run, args.cfg is not None, args.multirun, args.shell_completion, args.info is not None]
    if sum(map(bool, flags)) > 1:
        raise ConfigError("only one of --run, --multirun, --cfg, --info and --shell-completion can be given")
    if args.resolve and not args.cfg and not args.help:
        raise ConfigError("--resolve goes with --cfg or --help")
    for flag, value in (("--config-path", args.config_path), ("--config-name", args.config_name)):
        if value is not None:
            raise ConfigError(f"{flag}={value}: the root config is fixed; add a folder of options with --config-dir")
    if args.experimental_rerun is not None:
        raise ConfigError("--experimental-rerun reads a pickle; use the repeat command of the result instead")


def _search_path(args: argparse.Namespace) -> ConfigSearchPath:
    search_path = create_config_search_path(str(paths.conf_dir()))
    if args.config_dir is not None:
        folder = Path(args.config_dir).absolute()
        if not folder.is_dir():
            raise ConfigError(f"--config-dir={args.config_dir}: no such folder")
        search_path.prepend("command-line", f"file://{folder}", SearchPathQuery(provider="schema", path=None))
    return search_path


def _show_help(hydra: Hydra, overrides: list[str]) -> None:
    """The template of ``hydra/help`` with the groups filled in; Hydra's own listing takes seconds."""
    cfg = hydra.compose_config(CONFIG_NAME, overrides, RunMode.RUN)
    composer = Composer(hydra.config_loader, of_hydra(cfg.hydra))
    lines: list[str] = []
    for group in _GROUPS:
        options = ", ".join(composer.options(group)) or "none installed"
        lines.append(textwrap.fill(options, 110, initial_indent=f"{group:<16}", subsequent_indent=" " * 16))
    groups = textwrap.indent("\n".join(lines), "  ")
    print(string.Template(str(cfg.hydra.help.template)).safe_substitute(APP_CONFIG_GROUPS=groups))


def _show_config(hydra: Hydra, args: argparse.Namespace) -> None:
    """``--cfg``: what would run, scaled and without secrets."""
    cfg = hydra.compose_config(CONFIG_NAME, args.overrides, RunMode.RUN)
    HydraConfig.instance().set_config(cfg)
    fill_in(cfg, model_file.read, [str(line) for line in cfg.hydra.overrides.task])
    apply_scale(cfg)
    shown: Any = hydra.get_sanitized_cfg(cfg, args.cfg)
    if args.package not in (None, "_global_"):
        shown = OmegaConf.select(shown, args.package)
        if shown is None:
            raise ConfigError(f"--package={args.package}: no such part of the config")
        print(f"# @package {args.package}")
    if not isinstance(shown, Container):
        print(redact_config(shown, args.package or ""))
        return
    if args.resolve:
        OmegaConf.resolve(shown)
    print(OmegaConf.to_yaml(OmegaConf.create(redact_config(shown))), end="")


def _complete(hydra: Hydra, overrides: list[str]) -> None:
    try:
        hydra.shell_completion(config_name=CONFIG_NAME, overrides=overrides)
    except (ValueError, KeyError) as error:
        raise ConfigError(f"--shell-completion: {error} (install it with: runner -sc install=bash)") from error


def _diagnosed(hydra: Hydra, lines: Sequence[str], mode: RunMode, error: Exception) -> ConfigError:
    """Hydra's exceptions say what broke, not what to write instead: compose step by step to find out."""
    unknown = re.search(r"Could not override 'hydra\.launcher\.([^']+)'", str(error))
    if unknown is not None:
        return _unknown_launcher_option(hydra, lines, mode, unknown[1])
    own = [line for line in lines if not line.lstrip("+~").startswith(("hydra.", "hydra/"))]
    further = [line for line in lines if line.startswith("hydra.searchpath")]
    launchers = [line for line in lines if line.startswith("hydra/")]
    try:
        composer = Composer(hydra.config_loader, further)
        composer.check_choices(launchers)
        expand(composer, own, sweep=mode == RunMode.MULTIRUN)
    except ConfigError as found:
        return found
    return from_exception(error)


def _unknown_launcher_option(hydra: Hydra, lines: Sequence[str], mode: RunMode, key: str) -> ConfigError:
    others = [line for line in lines if not line.lstrip("+~").startswith("hydra.launcher.")]
    cfg = hydra.compose_config(CONFIG_NAME, others, mode)
    known = [str(name) for name in cfg.hydra.launcher if name != "_target_"]
    option = cfg.hydra.runtime.choices["hydra/launcher"]
    return ConfigError(
        f"hydra.launcher.{key}: hydra/launcher={option} has no such option; "
        f"{choose_from(key, known, 'hydra.launcher.')}"
    )
