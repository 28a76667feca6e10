"""Values that the types allow and the rules do not."""

from __future__ import annotations

from typing import Any

import pytest

from runner.config.check import check, check_param
from runner.config.compose import Composer
from runner.config.errors import ConfigError
from runner.config.schema import Param
from runner.config.study import expand

REFUSED = [
    ("shape.batch=0", "shape.batch=0: must be at least 1"),
    ("shape.context=-5", "shape.context=-5: must be at least 1"),
    ("model.heads=0", "model.heads=0: must be at least 1"),
    ("measure.max_rsd=0", "measure.max_rsd=0.0: must be above 0"),
    ("measure.host.min_samples=0", "measure.host.min_samples=0: must be at least 1"),
    ("measure.max_rsd=nan", "measure.max_rsd=nan: must be above 0"),
    ("measure.warmup=-1", "measure.warmup=-1: must be at least 0"),
    ("measure.min_samples=0", "measure.min_samples=0: must be at least 1"),
    ("measure.min_time_s=-0.1", "measure.min_time_s=-0.1: must be at least 0"),
    ("measure.min_time_s=nan", "measure.min_time_s=nan: must be at least 0"),
    ("measure.host.min_time_s=nan", "measure.host.min_time_s=nan: must be at least 0"),
    ("tracking.every_s=nan", "tracking.every_s=nan: must be at least 0"),
    ("measure.settled=-1", "measure.settled=-1.0: must be at least 0"),
    ("measure.min_time_s=nan", "measure.min_time_s=nan: must be at least 0"),
    ("measure.settled=nan", "measure.settled=nan: must be at least 0"),
    ("measure.host.min_time_s=nan", "measure.host.min_time_s=nan: must be at least 0"),
    ("measure.throttle_pause_s=nan", "measure.throttle_pause_s=nan: must be at least 0"),
    ("tracking.every_s=nan", "tracking.every_s=nan: must be at least 0"),
    ("measure.hot_batch_time_s=inf", "measure.hot_batch_time_s=inf: must be at most 1e+09"),
    ("measure.graph_batch_time_s=inf", "measure.graph_batch_time_s=inf: must be at most 1e+09"),
    ("measure.throttle_share=1", "measure.throttle_share=1.0: must be below 1"),
    ("measure.throttle_share=-0.1", "measure.throttle_share=-0.1: must be at least 0"),
    ("measure.throttle_pause_s=1e10", "measure.throttle_pause_s=10000000000.0: must be at most 1e+09"),
    ("measure.lock_clocks=-1", "measure.lock_clocks=-1: must be at least 0"),
    ("measure.fixed=-2", "measure.fixed=-2: must be at least 0"),
    ("measure.trials=0", "measure.trials=0: must be at least 1"),
    ("measure.max_time_s=0", "measure.max_time_s=0.0: must be above 0"),
    ("measure.graph_batch_time_s=0", "measure.graph_batch_time_s=0.0: must be above 0"),
    ("measure.hot_batch_time_s=0", "measure.hot_batch_time_s=0.0: must be above 0"),
    ("measure.max_samples=2", "must be at least measure.min_samples=10"),
    ("measure.host.min_samples=200000", "measure.max_samples=100000: must be at least measure.host.min_samples=200000"),
    ("measure.modes=[]", "measure.modes=[]: name at least one; known: cold, hot, graph, host"),
    ("measure.modes=[cool]", "'cool' does not exist; did you mean 'cold'?"),
    ("measure.host.modes=[]", "measure.host.modes=[]: name at least one"),
    ("measure.modes=[hot,hot]", "'hot' is named twice"),
    ("profiler.tools=[nsis]", "profiler.tools: 'nsis' does not exist; did you mean 'nsys'?"),
    (
        "profiler.sections=fulll",
        "did you mean 'full'? known: speed_of_light, memory, occupancy, source, full, traffic",
    ),
    ("profiler.trace=[cuda,nvtxx]", "profiler.trace: 'nvtxx' does not exist; did you mean 'nvtx'?"),
    ("profiler.trace=[]", "profiler.trace=[]: name at least one; known: cuda, cuda-hw, nvtx, osrt, cublas,"),
    ("profiler.capture=apis", "did you mean 'api'?"),
    ("profiler.replay=graph", "profiler.replay=graph: known: kernel, range, application"),
    ("gpu.backend=cud", "did you mean 'cuda'?"),
    ("timeout_s=0", "timeout_s=0.0: must be above 0"),
    ("timeout_s=nan", "timeout_s=nan: must be above 0"),
    ("timeout_s=inf", "timeout_s=inf: must be at most 1e+09"),
    ("profiler.timeout_s=inf", "profiler.timeout_s=inf: must be at most 1e+09"),
    ("profiler.interval_s=1e300", "profiler.interval_s=1e+300: must be at most 1e+09"),
    ("profiler.duration_s=inf", "profiler.duration_s=inf: must be at most 1e+09"),
    ("profiler.kernels='('", "profiler.kernels=(: not a regular expression: missing )"),
    ("devices=[[1]]", "[1] stands where an integer is expected"),
    ("variants=[[q8]]", "['q8'] stands where text is expected"),
    ("profiler.tools=[{a:1}]", "stands where text is expected"),
    ("environment={A:[1]}", "[1] stands where text is expected"),
    ("command.argv=[x,[1]]", "[1] stands where text is expected"),
    ("seed=-1", "seed=-1: must be at least 0"),
    ("devices=[]", "devices=[]: name at least one"),
    ("devices=[0,0]", "devices: 0 is named twice"),
    ("devices=[-1]", "devices: -1 is not a device"),
    ("variants=[fp3]", "variants: 'fp3' does not exist; did you mean 'fp32'? known: fp32, q8"),
    ("variants=[]", "variants=[]: name at least one; known: fp32, q8"),
    ("kernel.params.B=0", "kernel.params.B=0: must be at least 1 (sequences)"),
    ("kernel.params.B=5000", "kernel.params.B=5000: must be at most 4096 (sequences)"),
    ("kernel.params.B=abc", "kernel.params.B=abc: must be an integer (sequences)"),
    ("kernel.params.B=1.5", "kernel.params.B=1.5: must be an integer (sequences)"),
    ("kernel.params.B=true", "kernel.params.B=True: must be an integer (sequences)"),
    ("kernel.params.B=null", "kernel.params.B=None: must be an integer (sequences)"),
    ("kernel.params.D=65", "kernel.params.D=65: must be one of 64, 128, 192"),
    ("kernel.params.rate=fast", "kernel.params.rate=fast: must be a number"),
    ("kernel.params.mode=slow", "kernel.params.mode=slow: must be one of fast, exact"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_refused(composer: Composer, line: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        expand(composer, ["kernel=toy", "seed=0,1" if line[:4] != "seed" else "timeout_s=1", line], sweep=True)
    assert message in str(error.value)


@pytest.mark.parametrize("line", ["kernel.params.B='8'", "kernel.params.rate=1", "variants=[q8]", "devices=[1,0]"])
def test_allowed(composer: Composer, line: str) -> None:
    assert len(expand(composer, ["kernel=toy", line], sweep=False).points) == 1


@pytest.mark.parametrize(("value", "step", "fits"), [(32, 16, True), (33, 16, False), (7, "D", True)])
def test_multiples(value: Any, step: Any, fits: bool) -> None:
    declared = Param(type="int", multiple_of=step)
    if fits:
        check_param("kernel.params.K", value, declared)
        return
    with pytest.raises(ConfigError, match=r"kernel.params.K=33: must be a multiple of 16"):
        check_param("kernel.params.K", value, declared)


def test_limits_that_are_expressions_are_left_to_the_planner() -> None:
    check_param("kernel.params.K", 10**9, Param(type="int", min="2*D", max="H*D"))


def test_kernel_times_say_nothing_of_launch_latency(composer: Composer) -> None:
    lines = ["kernel=toy", "measure.crosscheck=true", "measure.hide_latency=false"]
    with pytest.raises(ConfigError, match=r"^measure\.crosscheck=true: .*measure\.hide_latency at true"):
        expand(composer, lines, sweep=False)


def test_a_letter_without_a_declaration_is_left_to_the_planner(composer: Composer) -> None:
    config = expand(composer, ["kernel=toy"], sweep=False).points[0].config
    config.kernel.params["free"] = "anything"
    try:
        check(config)
    finally:
        del config.kernel.params["free"]
