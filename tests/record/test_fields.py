"""Results as parameters, metrics and tags that a tracker accepts."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.record import fields
from runner.result import clock
from runner.result.model import INTERRUPTED, Diagnosis, Profile, ProfileStatus, Status
from tests.synthetic import ENVIRONMENT, result


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(fields).failed == 0


@settings(deadline=None)
@given(st.text(max_size=300))
def test_every_name_becomes_one_that_mlflow_accepts(text: str) -> None:
    from mlflow.utils.validation import _validate_metric_name, _validate_param_name

    _validate_metric_name(fields.name(text))  # type: ignore[no-untyped-call]
    _validate_param_name(fields.name(text))  # type: ignore[no-untyped-call]


def test_names_that_become_one_are_kept_apart() -> None:
    found = fields.metrics(result(metrics={"a[0]": 1.0, "a(0)": 2.0, "bad": math.nan, "worse": math.inf}))
    assert found == {"a_0_": 1.0, "a_0__2": 2.0, "duration_s": 1.25}


def test_a_profilers_figures_stand_beside_those_of_the_timed_run() -> None:
    made = result(metrics={"time_us": 10.0, "gpu_idle_share": 0.5})
    made.profile.metrics = {"gpu_idle_share": 0.7, "launches_per_step": 3.0, "broken": math.nan}
    assert fields.metrics(made) == {
        "time_us": 10.0,
        "gpu_idle_share": 0.5,
        "profiled_gpu_idle_share": 0.7,
        "launches_per_step": 3.0,
        "duration_s": 1.25,
    }


def test_series_become_histories_at_their_own_times() -> None:
    made = result()
    made.profile.started = "2026-03-01T12:00:10+00:00"
    made.profile.series = {
        "system/gpu_0_power_usage_watts": [[0.0, 100.0], [0.1, math.nan], [0.25, 300.0]],
        "odd [%]": [[1.0, 1.0]],
    }
    begun = clock.millis(made.profile.started)
    assert fields.points(made) == [
        ("system/gpu_0_power_usage_watts", 100.0, begun, 0),
        ("system/gpu_0_power_usage_watts", 300.0, begun + 250, 2),
        ("odd _pct_", 1.0, begun + 1000, 0),
    ]


def test_a_long_series_is_thinned_evenly() -> None:
    made = result()
    made.profile.series = {"system/x": [[i / 10, float(i)] for i in range(2500)]}
    found = fields.points(made)
    assert len(found) == 834
    assert [point.value for point in found[:3]] == [0.0, 3.0, 6.0]


def test_profile_and_diagnosis_are_tags() -> None:
    profile = Profile(ProfileStatus.FAILED, "no report", "nsys 2023.4.4")
    tags = fields.tags(result(profile=profile, diagnosis=Diagnosis("memory", "likely")))
    expected = {
        "profile_status": "FAILED",
        "profile_reason": "no report",
        "profile_tool": "nsys 2023.4.4",
        "bound": "memory",
        "bound_confidence": "likely",
    }
    assert tags.items() >= expected.items()
    assert not {"bound", "profile_tool"} & set(fields.tags(result()))


def test_parameters_are_plain_and_the_groups_are_always_there() -> None:
    found = fields.params(result(params={"T": 4096, "context": 4096.0, "alpha": 0.5, "causal": True, "note": ""}))
    assert found == {
        "T": "4096",
        "context": "4096",
        "alpha": "0.5",
        "causal": "true",
        "kernel": "kv_quant",
        "variant": "q8",
        "model": "llama3_8b",
        "shape": "long_ctx",
        "gpu": "h200",
        "backend": "cuda",
    }


def test_long_values_are_cut_with_a_mark() -> None:
    made = result(params={"text": "x" * 7000}, message="y" * 9000)
    assert len(fields.params(made)["text"]) == fields.PARAM_LENGTH
    assert fields.params(made)["text"].endswith("(cut)")
    assert len(fields.tags(made)["message"]) == fields.TAG_LENGTH


def test_tags_hold_identity_state_and_provenance() -> None:
    tags = fields.tags(result())
    expected = {
        "kind": "result",
        "result_id": "00000000-0000-4000-8000-000000000000",
        "sweep_id": "2026-03-01_12-00-00_ab12",
        "experiment_id": "experiment-32768-1",
        "status": "PASSED",
        "quality": "OK",
        "profile_status": "OFF",
        "baseline": "false",
        "git_commit": "0123456789abcdef0123456789abcdef01234567",
        "git_dirty": "true",
        "driver": "580.65.06",
        "cuda": "13.0",
        "gpu_uuid": "GPU-5d0c2f6e-0000-1111-2222-333344445555",
        "host": "bench-01",
        "gpu_state_sm_clock_mhz": "1980",
        "gpu_state_power_limit_w": "700",
        "mlflow.user": "ada",
        "mlflow.source.name": "runner",
        "mlflow.source.git.commit": "0123456789abcdef0123456789abcdef01234567",
        "repeat": "python -m runner kernel=kv_quant shape=long_ctx shape.context=32768",
    }
    assert tags.items() >= expected.items()
    assert "message" not in tags  # nothing to say
    assert not {"kernel", "packages_numpy"} & set(tags)


@pytest.mark.parametrize(
    ("swept", "name"),
    [
        ((), "q8 B=1 T=32768 H=16 D=128"),
        (("shape.context",), "q8 T=32768 B=1 H=16 D=128"),
        (("kernel.params.D", "shape.context"), "q8 D=128 T=32768 B=1 H=16"),
        (("model",), "q8 model=llama3_8b B=1 T=32768 H=16 D=128"),
    ],
)
def test_a_run_is_named_by_what_differs_first(swept: tuple[str, ...], name: str) -> None:
    assert fields.run_name(result(), swept) == name


def test_only_declared_long_names_stand_for_a_letter() -> None:
    made = result(params={"H": 16, "steps": 16, "T": 16, "context": 16}, names={"T": "context"})
    assert fields.run_name(made) == "q8 H=16 steps=16 T=16"
    assert fields.run_name(made, ["shape.context"]) == "q8 T=16 H=16 steps=16"


def test_run_names_stay_short() -> None:
    made = result(params={f"P{i}": 10**9 + i for i in range(20)})
    assert len(fields.run_name(made)) <= fields.RUN_NAME_LENGTH
    assert len(fields.run_name(result(variant="v" * 300))) == fields.RUN_NAME_LENGTH


def test_run_status_follows_the_result() -> None:
    status = {s: fields.run_status(result(status=s)) for s in Status}
    assert status.pop(Status.PASSED) == "FINISHED"
    assert status.pop(Status.SKIPPED) == "FINISHED"
    assert set(status.values()) == {"FAILED"}
    assert fields.run_status(result(status=Status.SKIPPED, message=INTERRUPTED)) == "KILLED"


def test_times_come_from_the_result() -> None:
    assert fields.times(result()) == (1772366400000, 1772366401250)


def test_nested_environment_is_flattened_and_deep_lists_are_left_out() -> None:
    given = {"git": {"commit": "1a", "others": {"x": 1}}, "gpus": ["a", "b"], "deep": [{"x": 1}], "n": 1}
    assert fields.flatten(given, leave_out=("others",)) == {"git_commit": "1a", "gpus": "a, b", "n": 1}


def test_the_gpu_is_named_as_it_names_itself() -> None:
    made = result(gpu="auto", environment={**ENVIRONMENT, "device": {"name": "NVIDIA L4", "sms": 58}})
    assert fields.tags(made)["device_name"] == "NVIDIA L4"
