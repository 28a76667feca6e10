"""Override lines as a user writes them: parsed with a clear message, and walked where they are a sweep."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from runner.config.errors import ConfigError
from runner.config.grammar import parse_line
from runner.config.secrets import redact_overrides


def parse(line: str, loader: ConfigLoader | None = None) -> Override:
    """One override. Raises ``ConfigError`` where the grammar refuses it."""
    try:
        parsed = parse_line(line)
    except HydraException as error:
        detail = str(error).splitlines()[0]
        shown = redact_overrides([line])[0]
        if shown != line:
            detail = "the value is not valid"
        raise ConfigError(
            f"{shown}: not a valid override ({detail}); write key=value, and quote a value that holds one of "
            "= ( ) [ ] { } , : or spaces twice, once for the shell: key='\"a=b\"'"
        ) from error
    if loader is not None:
        parsed.config_loader = loader  # glob() asks it for the group's options
    return parsed


def refuse_lists(lines: Sequence[str], groups: Collection[str]) -> None:
    """``profiler=[nsys,ncu]`` composes one option over the other, and the first is lost without a word.

    Raises ``ConfigError``.
    """
    for line in lines:
        key, _, value = line.partition("=")
        group = key.lstrip("+").partition("@")[0]
        if group in groups and value.strip().startswith("["):
            names = value.strip().strip("[]")
            hint = f"; for several tools: profiler.tools=[{names}]" if group == "profiler" else ""
            raise ConfigError(f"{line}: name one option, or sweep over several with {group}={names} -m{hint}")


def of_hydra(hydra: DictConfig) -> list[str]:
    """The user's ``hydra.…`` lines as they are written: ``${hydra.job.num}`` has no value before a job has."""
    lines = OmegaConf.to_container(hydra.overrides.hydra, resolve=False)
    assert isinstance(lines, list)
    return [str(line) for line in lines]


def alternatives(override: Override) -> list[str]:
    """The lines a sweep stands for; a plain override stands for itself."""
    if not override.is_sweep_override():
        return [str(override.input_line)]
    key = override.get_key_element()
    if not override.is_discrete_sweep():
        raise ConfigError(
            f"{override.input_line}: an interval has no values to walk; use range(start,stop,step) or a list"
        )
    lines = [f"{key}={value}" for value in override.sweep_string_iterator()]
    if not lines:
        raise ConfigError(f"{override.input_line}: matches nothing")
    return lines
