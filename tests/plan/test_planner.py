"""Config → Plan: the arithmetic, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.config.errors import ConfigError
from runner.config.schema import BufferSpec, CheckSpec, LaunchSpec, Param
from runner.plan import wire
from runner.plan.errors import FamilyError, PlanError, TooLarge
from runner.plan.memory import memory_bytes, nbytes
from runner.plan.model import Plan
from runner.plan.planner import make_plan
from tests.plan.families import TARGET, config, kernel, roots


def planned(folder: Path, family: Any = None, **changes: Any) -> Plan:
    return make_plan(config(family or kernel(), **changes), TARGET, roots(folder))[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(rows=st.integers(1, 10**6), half=st.integers(1, 4096))
def test_bytes_flops_and_memory_follow_the_dimensions(tmp_path: Path, rows: int, half: int) -> None:
    cols = 2 * half
    plan = planned(tmp_path, kernel(params={"R": rows, "C": cols}))
    plain, q8 = plan.variant("plain"), plan.variant("q8")
    assert plain.bytes_read == 4 * rows * cols
    assert plain.bytes_written == 4 * rows
    assert q8.bytes_read == rows * cols + 4 * rows
    assert q8.report["scale_bytes"] == 4 * rows
    assert plain.flops == rows * cols
    assert plain.intensity == pytest.approx(rows * cols / (4 * rows * cols + 4 * rows))
    assert memory_bytes(plan) == sum(map(nbytes, plan.buffers)) + 2 * TARGET.l2_bytes
    assert plain.launches[0].grid == (min(rows, 4 * 132), 1, 1)


def test_arguments_have_the_types_the_kernel_takes(tmp_path: Path) -> None:
    arguments = planned(tmp_path).variant("plain").launches[0].arguments
    assert [(a.kind, a.buffer or a.value) for a in arguments] == [
        ("buffer", "x"),
        ("buffer", "out"),
        ("int64", 6),
        ("int32", 100),
        ("float32", 0.5),
    ]


def test_params_are_filed_under_letters_and_long_names(tmp_path: Path) -> None:
    named = planned(tmp_path).params
    assert list(named.items()) == [("R", 6), ("rows", 6), ("C", 100), ("cols", 100)]


def test_a_subset_of_variants_drops_the_buffers_it_never_touches(tmp_path: Path) -> None:
    plan = planned(tmp_path, variants=["plain"])
    assert [b.name for b in plan.buffers] == ["x", "out"]
    assert plan.prepare == ()


def test_a_quantised_variant_keeps_the_source_of_its_preparation(tmp_path: Path) -> None:
    plan = planned(tmp_path, variants=["q8"])
    assert {b.name for b in plan.buffers} == {"x", "x8", "scale", "out"}
    assert [launch.function for launch in plan.prepare] == ["quantise"]
    assert plan.prepare[0].unit == "prepare"


def test_a_plan_survives_the_wire(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert wire.from_dict(json.loads(json.dumps(wire.to_dict(plan)))) == plan


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"R": 0, "C": 2}, r"kernel\.params\.R=0: must be at least 1"),
        ({"R": -3, "C": 2}, r"kernel\.params\.R=-3: must be at least 1"),
        ({"R": "abc", "C": 2}, r"kernel\.params\.R=abc: must be an integer"),
        ({"R": 1.5, "C": 2}, r"kernel\.params\.R=1\.5: must be an integer"),
        ({"R": True, "C": 2}, r"kernel\.params\.R=True: must be an integer"),
        ({"R": 1, "C": 3}, r"kernel\.params\.C=3: must be a multiple of 2"),
    ],
)
def test_a_bad_parameter_names_key_value_and_what_is_allowed(
    tmp_path: Path, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        planned(tmp_path, kernel(params=params))


def test_a_limit_may_be_arithmetic_over_other_parameters(tmp_path: Path) -> None:
    family = kernel()
    family.declare["R"].max = "2*C"
    with pytest.raises(PlanError, match=r"kernel\.params\.R=201: must be at most 200 \(2\*C\)"):
        planned(tmp_path, replace(family, params={"R": 201, "C": 100}))


def test_a_rule_of_the_family_says_which_values_broke_it(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"rows must cover the columns \(needs R >= C; R=6, C=100\)"):
        planned(tmp_path, kernel(require={"R >= C": "rows must cover the columns"}))


def test_a_variant_that_cannot_run_here_is_left_out_with_the_reason(tmp_path: Path) -> None:
    family = kernel()
    family.variants["q8"].require = {"C % 64 == 0": "q8 needs whole groups"}
    plan, left_out = make_plan(config(family), TARGET, roots(tmp_path))
    assert [v.name for v in plan.variants] == ["plain"]
    assert left_out == {"q8": "q8 needs whole groups (needs C % 64 == 0; C=100)"}


def test_more_memory_than_the_device_has_is_refused_with_both_sizes(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match=r"memory=193\.8 GiB: H200 has 124\.8 GiB usable; the largest buffer is x"):
        planned(tmp_path, kernel(params={"R": 10**9, "C": 40}))


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (LaunchSpec(function="sum", grid=["R"], block=[2048]), "2048 threads; a block has 1 to 1024"),
        (LaunchSpec(function="sum", grid=["R", 70000]), "a grid has 0 to 65535 blocks along y"),
        (LaunchSpec(function="sum", grid=["R"], block=[1, 1, 128]), "a block has 1 to 64 threads along z"),
        (LaunchSpec(function="sum", grid=["R"], shared="-1"), "must not be negative"),
    ],
)
def test_a_launch_no_device_takes_is_refused(tmp_path: Path, launch: LaunchSpec, message: str) -> None:
    family = kernel()
    family.variants["plain"].launches = [launch]
    with pytest.raises(PlanError, match=message):
        planned(tmp_path, family)


def test_too_large_for_memory_is_said_before_too_large_for_a_grid(tmp_path: Path) -> None:
    family = kernel(params={"R": 2**31, "C": 100})
    family.variants["plain"].launches[0].grid = ["R * C"]
    with pytest.raises(TooLarge, match="GiB usable"):
        planned(tmp_path, family)


def test_a_buffer_of_no_size_is_refused(tmp_path: Path) -> None:
    family = kernel()
    family.buffers["x"] = BufferSpec(dims=["R", "C - C"], fill="uniform")
    with pytest.raises(PlanError, match="every dimension"):
        planned(tmp_path, family)


@pytest.mark.parametrize(("file", "kind"), [("", "uniform"), ("/models/m o'd'el.gguf", "reference")])
def test_a_fill_may_depend_on_a_parameter_that_is_any_text(tmp_path: Path, file: str, kind: str) -> None:
    family = kernel()
    family.params["file"], family.declare["file"] = file, Param(type="str")
    family.buffers["x"] = BufferSpec(dims=["R", "C"], fill="'reference' if file else 'uniform'")
    made = planned(tmp_path, family)
    assert (made.buffer("x").fill.kind, made.symbols["file"], made.params["file"]) == (kind, file, file)


@pytest.mark.parametrize(
    ("fill", "said"),
    [
        (
            "unifrom",
            "fill=unifrom: must be one of none, zeros, constant, uniform, integers, reference, or an expression",
        ),
        ("'zeroes' if R else 'none'", "gives 'zeroes'; must be one of none, zeros, "),
        ("R", "fill=R: gives 6; must be one of none, zeros, "),
        ("'zeros' if Q else 'none'", "uses the unknown name 'Q'"),
    ],
)
def test_a_fill_that_is_none_is_named_with_its_buffer(tmp_path: Path, fill: str, said: str) -> None:
    family = kernel()
    family.buffers["x"] = BufferSpec(dims=["R", "C"], fill=fill)
    with pytest.raises(FamilyError) as refused:
        planned(tmp_path, family)
    assert str(refused.value).startswith(f"row_sum: buffers.x.fill={fill}: ") and said in str(refused.value)


def test_two_devices_are_asked_for_where_a_buffer_lies_on_the_second(tmp_path: Path) -> None:
    family = kernel()
    family.buffers["x"] = replace(family.buffers["x"], device=1)
    with pytest.raises(PlanError, match=r"devices=\[0\]: row_sum needs 2 devices: devices=\[0,1\]"):
        planned(tmp_path, family)


def test_only_registered_workloads_are_instantiated(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"kernel\.workload\._target_=os\.system: must start with runner\.workload"):
        planned(tmp_path, kernel(workload={"_target_": "os.system"}))


def test_a_missing_source_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"source=nowhere\.cu: no such file; looked in"):
        planned(tmp_path, kernel(source="nowhere.cu"))


def test_a_drift_names_an_existing_check_of_the_same_shape(tmp_path: Path) -> None:
    family = kernel()
    family.variants["q8"].drift = "row_sums"
    with pytest.raises(FamilyError, match="drift=row_sums: no such check; there are row_sum, q8_row_sum"):
        planned(tmp_path, family)
    family.variants["q8"].drift = "row_sum"
    family.variants["q8"].checks["q8_row_sum"].output = "x8"
    with pytest.raises(FamilyError, match="outputs differ in shape or row_dims"):
        planned(tmp_path, family)


def test_a_check_on_a_buffer_that_does_not_exist_is_the_familys_error(tmp_path: Path) -> None:
    family = kernel()
    family.variants["plain"].checks["row_sum"].output = "oot"
    with pytest.raises(FamilyError, match="no buffer 'oot'"):
        planned(tmp_path, family)


@pytest.mark.parametrize("name", ["rows", "R"])
def test_a_long_name_stands_for_one_parameter(tmp_path: Path, name: str) -> None:
    declare = {"R": Param(name="rows"), "C": Param(name=name)}
    with pytest.raises(FamilyError, match=f"declare.C.name={name} is the name of another parameter too"):
        planned(tmp_path, kernel(declare=declare))


def test_the_shape_line_names_the_sizes(tmp_path: Path) -> None:
    assert planned(tmp_path, kernel(shape_line="row sum shape R={R} C={C}")).shape_line == "row sum shape R=6 C=100"
    with pytest.raises(FamilyError, match="shape_line uses the unknown name 'K'"):
        planned(tmp_path, kernel(shape_line="K={K}"))


def test_figures_over_the_time_are_tried_while_planning(tmp_path: Path) -> None:
    family = kernel()
    family.variants["plain"].report = {"rows_done": "R"}
    family.variants["plain"].timed = {"rows_per_s": "rows_done / time_us * 1e6"}
    assert planned(tmp_path, family).variant("plain").timed == {"rows_per_s": "rows_done / time_us * 1e6"}
    family.variants["plain"].timed = {"rows_per_s": "R / time_ms"}
    with pytest.raises(FamilyError, match="unknown name 'time_ms'; did you mean time_us"):
        planned(tmp_path, family)


@pytest.mark.parametrize(("device", "told"), [(-1, "device=-1: devices count from 0"), (2, "needs 3 devices")])
def test_a_device_that_a_launch_names_must_be_there(tmp_path: Path, device: int, told: str) -> None:
    family = kernel()
    family.variants["plain"].launches[0].device = device
    with pytest.raises(ConfigError, match=told):
        planned(tmp_path, family)
    array = kernel()
    array.buffers["x"].device = device
    with pytest.raises(ConfigError, match=told):
        planned(tmp_path, array)


def test_launches_need_a_source(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"row_sum: source: name the \.cu file that holds quantise"):
        planned(tmp_path, kernel(source=""))


@pytest.mark.parametrize(("stored", "size"), [("'bfloat16' if R > 4 else 'float32'", 2), ("'float32'", 4)])
def test_an_element_type_may_be_a_symbols(tmp_path: Path, stored: str, size: int) -> None:
    family = kernel(derived={"blocks": "min(R, 4*sms)", "stored": stored})
    family.buffers["x"] = BufferSpec(dims=["R", "C"], dtype="stored", fill="uniform")
    made = planned(tmp_path, family)
    assert nbytes(made.buffer("x")) == size * 6 * 100
    assert made.variant("plain").bytes_read == size * 6 * 100


def test_a_symbol_that_is_no_element_type_is_the_familys_error(tmp_path: Path) -> None:
    for dtype in ("R", "float33"):
        family = kernel()
        family.buffers["x"] = BufferSpec(dims=["R", "C"], dtype=dtype, fill="uniform")
        with pytest.raises(FamilyError, match=r"row_sum: buffers\.x: .*(6|float33)"):
            planned(tmp_path, family)


def test_tolerances_are_arithmetic(tmp_path: Path) -> None:
    family = kernel(derived={"blocks": "min(R, 4*sms)", "tolerance": "1e-6 if R > 4 else 1e-2"})
    family.variants["plain"].checks["row_sum"] = CheckSpec(output="out", atol="C * 1e-7", rtol="tolerance")
    (check,) = planned(tmp_path, family).variant("plain").checks
    assert check.atol == pytest.approx(1e-5) and check.rtol == 1e-6
    family.variants["plain"].checks["row_sum"].atol = "toleranse"
    with pytest.raises(FamilyError, match=r"checks\.row_sum\.atol.*toleranse"):
        planned(tmp_path, family)


def test_a_preparation_of_no_blocks_is_not_launched(tmp_path: Path) -> None:
    launches = [LaunchSpec(function=name, grid=grid, args=["x", "x8", "scale", "C"])
                for name, grid in (("some", ["R"]), ("none", ["R * (C > 100)"]), ("flat", ["R", "0"]))]  # fmt: skip
    assert [launch.function for launch in planned(tmp_path, kernel(prepare=launches)).prepare] == ["some"]
