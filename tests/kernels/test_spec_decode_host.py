"""``spec_decode`` on the host backend: odd sizes, none or all proposals accepted, launches and figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from runner.backend.host.stream import HostStream
from runner.config.errors import ConfigError
from runner.references import spec_decode as reference
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import plan

VARIANTS = ["target_only", "spec_verify"]


@pytest.mark.parametrize(
    "params",
    [
        {"N": 1, "windows": 1, "draft": 1, "accept": 1},
        {"N": 1027, "windows": 7, "draft": 3, "accept": 2},
        {"N": 4100, "windows": 3, "draft": 8, "accept": 8},
        {"N": 260, "windows": 21, "draft": 4, "accept": 1, "probability": 0.7},
        {"N": 33, "windows": 9, "draft": 8, "accept": 8, "probability": 0.05},
    ],
    ids=str,
)
def test_every_variant_passes(params: dict[str, Any]) -> None:
    made, outcomes, left_out = hosted("spec_decode", params)
    assert (list(outcomes), messages(outcomes), left_out) == (VARIANTS, {}, {})
    assert [check.name for outcome in outcomes.values() for check in outcome.checks] == VARIANTS
    for outcome in outcomes.values():
        assert outcome.units_per_step == made.symbols["tokens"]
        assert [series.mode for series in outcome.series] == ["host"]
    line = "spec decode shape N={N} windows={windows} draft={draft} accept={accept}"
    assert made.shape_line == line.format(**params)


def test_launches_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real: Callable[..., None] = HostStream.launch

    def launch(self: HostStream, function: Any, *rest: Any, **how: Any) -> None:
        seen.append(function.name)
        real(self, function, *rest, **how)

    monkeypatch.setattr(HostStream, "launch", launch)
    made, _, _ = hosted("spec_decode", {"N": 8, "windows": 5, "draft": 4, "accept": 3})
    counts = {name: seen.count(name) for name in set(seen)}
    steps = counts["target_only_token_kernel"] // 20
    assert counts["target_only_token_kernel"] == steps * made.variant("target_only").report["launches"]
    assert counts["spec_verify_window_kernel"] == counts["compact_accepted_window_kernel"] == steps * 5
    assert made.variant("spec_verify").report["launches"] == 10


def test_a_proposal_that_agrees_after_a_wrong_one_is_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    real = reference.inputs

    def agreeing(case: Any, name: str) -> Any:
        made = real(case, name)
        if name == "draft_ids":
            made[:, 2:] = real(case, "target_ids")[:, 2:-1]
        return made

    monkeypatch.setattr(reference, "inputs", agreeing)
    _, outcomes, _ = hosted("spec_decode", {"N": 12, "windows": 4, "draft": 6, "accept": 1})
    assert messages(outcomes) == {}


@pytest.mark.parametrize(
    ("draft", "accept", "rate", "waste"), [(4, 3, 0.75, 0.2), (8, 1, 0.125, 7 / 9), (2, 2, 1.0, 0.0)]
)
def test_figures(draft: int, accept: int, rate: float, waste: float) -> None:
    made = plan("spec_decode", {"draft": draft, "accept": accept})
    tokens = 256 * (accept + 1)  # with the target's own one
    spec, plain = made.variant("spec_verify"), made.variant("target_only")
    assert spec.report["accept_rate"] == pytest.approx(rate) and spec.report["verify_waste"] == pytest.approx(waste)
    assert spec.report["emitted_tokens"] == plain.report["emitted_tokens"] == plain.report["launches"] == tokens
    assert spec.report["launches"] == 512 and plain.report["verify_waste"] == 0
    assert plain.bytes_moved == tokens * (2 * 4 * 4096 + 4)
    assert spec.bytes_written == (256 * (draft + 1) + tokens) * 4 * 4096 + 8 * 256
    for variant in made.variants:
        assert variant.timed == {
            "us_per_accepted_token": "time_us / tokens",
            "accepted_tokens_per_s": "1e6 * tokens / time_us",
        }


@pytest.mark.parametrize(("probability", "drafts"), [(0.5, 240), (0.99, 999), (0.01, 3)])
def test_the_plan_counts_the_expected_tokens(probability: float, drafts: int) -> None:
    made = plan("spec_decode", {"draft": 4, "probability": probability})
    assert made.symbols["accepted_drafts"] == drafts
    assert made.buffer("accepted").dims == (drafts + 256, 4096)
    assert made.variant("spec_verify").report["accept_rate"] == pytest.approx(drafts / 1024)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"draft": 2, "accept": 3}, "accept=3: must be at most 2 (draft)"),
        ({"accept": 0}, "accept=0: must be at least 1"),
        ({"draft": 9}, "draft=9: must be at most 8"),
        ({"windows": 0}, "windows=0: must be at least 1"),
        ({"N": -5}, "N=-5: must be at least 1"),
        ({"probability": 1.0}, "probability=1.0: must be at most 0.99"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"kernel.params.{message}")):
        plan("spec_decode", params)
