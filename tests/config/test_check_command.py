"""What the section ``command`` may hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from runner.config.check_command import check_command
from runner.config.compose import Composer
from runner.config.errors import ConfigError
from runner.config.schema import Command, Config, Kernel, Measure, Ready
from runner.config.study import expand


def config(**fields: Any) -> Config:
    return Config(kernel=Kernel(name="command", kind="command"), command=Command(**{"argv": ["true"], **fields}))


SERVER: dict[str, Any] = {"ready": Ready(port=80), "load": ["true"]}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"argv": []}, "command.argv=[]: name the program"),
        ({"argv": [], "shell": "  "}, "command.argv=[]: name the program"),
        ({"shell": "ls"}, "both given"),
        ({"argv": ["", "x"]}, "the first entry is the program"),
        ({"argv": ["a\0b"]}, "NUL"),
        ({"environment": {"A=B": "1"}}, "'A=B' is no name of a variable"),
        ({"name": "a/b"}, "command.name=a/b"),
        ({"name": ".."}, "command.name=.."),
        ({"repeat": 0}, "command.repeat=0: must be at least 1"),
        ({"warmup": -1}, "command.warmup=-1: must be at least 0"),
        ({"stop_s": 0}, "command.stop_s=0: must be above 0"),
        ({"metrics": {"a b": "(x)"}}, "command.metrics.a b: a metric's name"),
        ({"metrics": {"time_us": "(x)"}}, "taken of every program"),
        ({"metrics": {"a": "(x"}}, "command.metrics.a=(x: not a regular expression"),
        ({"metrics": {"a": "x"}}, "has 0 groups; exactly one"),
        ({"metrics": {"a": "(x)(y)"}}, "has 2 groups; exactly one"),
        ({"metrics": {"a": "$.x..y"}}, "not a JSON path from '..y' on"),
        ({"metrics": {"a": "$.x[y]"}}, "not a JSON path from '[y]' on"),
        ({"ready": Ready(port=80)}, "command.ready.port: makes argv a server"),
        ({"load": ["true"]}, "say when it can take load"),
        ({**SERVER, "ready": Ready(port=80, url="http://localhost/")}, "port and url are both given"),
        ({**SERVER, "ready": Ready(port=70000)}, "command.ready.port=70000"),
        ({**SERVER, "ready": Ready(port=-1)}, "command.ready.port=-1"),
        ({**SERVER, "ready": Ready(url="localhost:80")}, "must begin with http"),
        ({**SERVER, "ready": Ready(url="http://[x")}, "command.ready.url=http://[x: not a URL: Invalid IPv6"),
        ({**SERVER, "ready": Ready(url="http://a b")}, "not a URL: spaces"),
        ({**SERVER, "ready": Ready(url="http://a/ü")}, "must be percent-encoded"),
        ({**SERVER, "ready": Ready(url="http://a:99999")}, "not a URL: Port out of range"),
        (
            {**SERVER, "ready": Ready(url="http://u:hunter2@a:x/")},
            "command.ready.url=http://u:***@a:x/: not a URL: Port",
        ),
        ({**SERVER, "ready": Ready(output="(")}, "command.ready.output=(: not a regular expression"),
        ({"environment": {"A": "x\0"}}, "command.environment.A: a variable cannot hold a NUL"),
        ({"argv": [], "shell": "ls \0"}, "cannot hold a NUL"),
        ({"stop_s": float("inf")}, "command.stop_s=inf: must be at most 1e+09"),
        ({**SERVER, "ready": Ready(port=80, timeout_s=float("inf"))}, "command.ready.timeout_s=inf: must be at most"),
        ({**SERVER, "ready": Ready(port=80, timeout_s=0)}, "command.ready.timeout_s=0"),
    ],
)
def test_a_slip_is_named(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_command(config(**fields), 1e9)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [lambda c: replace(c, variants=["fp32"]), lambda c: replace(c, sanitize=True)],
    ids=["variants", "sanitize"],
)
def test_options_of_kernels_are_refused(change: Callable[[Config], Config]) -> None:
    with pytest.raises(ConfigError, match="kernel=command"):
        check_command(change(config()), 1e9)


def test_trials_of_a_program_are_its_runs() -> None:
    with pytest.raises(ConfigError, match=r"measure\.trials=3: .*command\.repeat"):
        check_command(replace(config(), measure=Measure(trials=3)), 1e9)
    with pytest.raises(ConfigError, match=r"measure\.crosscheck=true: .*profiler=nsys"):
        check_command(replace(config(), measure=Measure(crosscheck=True)), 1e9)


def test_what_is_right_passes() -> None:
    metrics = {"a": "([0-9]+) x", "b": "$.x[0]['y z']", "c": "$"}
    check_command(config(**SERVER, metrics=metrics, repeat=3, name="my-server_1.0"), 1e9)


def test_the_rules_are_part_of_every_check(composer: Composer) -> None:
    with pytest.raises(ConfigError, match=r"command\.repeat=0"):
        expand(composer, ["kernel=toy", "kernel.kind=command", "command.argv=[true]", "command.repeat=0"], sweep=False)


def test_a_program_is_measured_without_locked_clocks(composer: Composer) -> None:
    lines = ["kernel=toy", "kernel.kind=command", "command.argv=[true]", "measure.lock_clocks=1500"]
    with pytest.raises(ConfigError, match=r"measure\.lock_clocks=1500: kernel=toy measures no kernels"):
        expand(composer, lines, sweep=False)


def test_mappings_take_new_names_without_a_plus_and_lists_interpolations(composer: Composer) -> None:
    lines = ["kernel=toy", "kernel.kind=command", "command.argv=[p,-n,${shape.batch},64]", "shape.batch=1,2"]
    lines += ["command.environment.A=1,8", "environment.B=x", "command.metrics={speed: '([0-9]+) tok/s'}"]
    points = expand(composer, lines, sweep=True).points
    assert [point.config.command.argv for point in points] == [["p", "-n", n, "64"] for n in "1122"]
    assert [point.config.command.environment for point in points] == [{"A": a} for a in "1818"]
    assert points[0].config.environment == {"B": "x"}
    assert points[0].config.command.metrics == {"speed": "([0-9]+) tok/s"}
