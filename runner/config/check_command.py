"""Rules on the section ``command``, the program of ``kernel=command``: what its keys may hold and go together with."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from runner.config import metric_source
from runner.config.errors import ConfigError
from runner.config.schema import Command, Config, Ready
from runner.config.secrets import redact_uri

OWN_METRICS = (
    *("time_us", "time_us_low", "time_us_high", "time_us_q1", "time_us_q3", "time_us_rsd", "time_us_p95"),
    *("time_us_p99", "samples", "peak_memory_mb", "cpu_time_s"),
)
"""Taken of every program; its own figures need other names."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXAMPLE = "e.g. 'command.argv=[python,-c,\"print(1)\"]'"


def check_command(config: Config, longest_s: float) -> None:
    """``longest_s``: largest time limit. Raises ``ConfigError`` naming the key, the value and what is allowed."""
    if config.variants is not None:
        raise ConfigError(f"variants={config.variants}: kernel=command has no variants; sweep a key of command instead")
    if config.sanitize:
        raise ConfigError("sanitize=true: kernel=command compiles nothing; on a GPU use profiler=memcheck")
    if config.measure.trials > 1:
        raise ConfigError(
            f"measure.trials={config.measure.trials}: each run of a program is a process of its own already; say how "
            "many with command.repeat"
        )
    if config.measure.crosscheck:
        raise ConfigError("measure.crosscheck=true: records the runner's own worker; for a program use profiler=nsys")
    _check_what(config.command)
    _check_numbers(config.command, longest_s)
    for name, source in config.command.metrics.items():
        _check_metric(name, source)
    _check_server(config.command)


def _check_what(command: Command) -> None:
    if command.argv and command.shell:
        raise ConfigError("command.argv and command.shell are both given; use one of them")
    if not command.argv and not command.shell.strip():
        raise ConfigError(f"command.argv=[]: name the program and its arguments, {_EXAMPLE}")
    for key, words in (("argv", command.argv), ("load", command.load)):
        if words and not words[0]:
            raise ConfigError(f"command.{key}={words}: the first entry is the program and cannot be empty")
        if any("\0" in word for word in words):
            raise ConfigError(f"command.{key}: an argument cannot hold a NUL character")
    for name, value in command.environment.items():
        if not name or "=" in name or "\0" in name:
            raise ConfigError(f"command.environment: {name!r} is no name of a variable")
        if "\0" in value:
            raise ConfigError(f"command.environment.{name}: a variable cannot hold a NUL character")
    if "\0" in command.shell + command.folder:
        raise ConfigError("command.shell and command.folder cannot hold a NUL character")
    if command.name and not _NAME.fullmatch(command.name):
        raise ConfigError(
            f"command.name={command.name}: it names a folder; letters, digits, '.', '_' and '-' are allowed, 80 at most"
        )


def _check_numbers(command: Command, longest_s: float) -> None:
    if command.repeat < 1:
        raise ConfigError(f"command.repeat={command.repeat}: must be at least 1")
    if command.warmup < 0:
        raise ConfigError(f"command.warmup={command.warmup}: must be at least 0")
    for key, seconds in (("stop_s", command.stop_s), ("ready.timeout_s", command.ready.timeout_s)):
        if not seconds > 0:
            raise ConfigError(f"command.{key}={seconds}: must be above 0")
        if seconds > longest_s:
            raise ConfigError(f"command.{key}={seconds}: must be at most {longest_s:g}")


def _check_metric(name: str, source: str) -> None:
    key = f"command.metrics.{name}"
    if not _METRIC.fullmatch(name):
        raise ConfigError(f"{key}: a metric's name is made of letters, digits and '_', e.g. tokens_per_s")
    if name in OWN_METRICS:
        raise ConfigError(f"{key}: {name} is taken of every program; choose another name")
    try:
        if metric_source.is_path(source):
            metric_source.json_path(source)
        else:
            metric_source.expression(source)
    except ValueError as error:
        raise ConfigError(f"{key}={source}: {error}") from error


def _check_server(command: Command) -> None:
    given = _signs(command.ready)
    if len(given) > 1:
        raise ConfigError(f"command.ready: {' and '.join(given)} are both given; one sign is enough")
    if given and not command.load:
        raise ConfigError(
            f"command.ready.{given[0]}: makes argv a server, which needs a client: command.load=[program,argument,…]"
        )
    if command.load and not given:
        raise ConfigError(
            "command.load: argv is then a server; say when it can take load: command.ready.port=, command.ready.url= "
            "or command.ready.output="
        )
    ready = command.ready
    if not 0 <= ready.port <= 65535:
        raise ConfigError(f"command.ready.port={ready.port}: a TCP port is a number from 1 to 65535")
    if ready.url and not re.match(r"https?://[^/\s]", ready.url):
        raise ConfigError(
            f"command.ready.url={redact_uri(ready.url)}: must begin with http:// or https:// and name a host"
        )
    if ready.url:
        _check_url(ready.url)
    try:
        re.compile(ready.output)
    except re.error as error:
        raise ConfigError(f"command.ready.output={ready.output}: not a regular expression: {error}") from error


def _check_url(url: str) -> None:
    """Refuses what no HTTP client can send, which otherwise would be asked for in vain until the time is up."""
    problem = "" if re.fullmatch(r"[!-~]+", url) else "spaces and characters outside ASCII must be percent-encoded"
    try:
        if urlsplit(url).port == 0:
            raise ValueError("port 0 is none")
    except ValueError as error:
        problem = str(error)
    if problem:
        raise ConfigError(f"command.ready.url={redact_uri(url)}: not a URL: {problem}")


def _signs(ready: Ready) -> list[str]:
    return [name for name in ("port", "url", "output") if getattr(ready, name)]
