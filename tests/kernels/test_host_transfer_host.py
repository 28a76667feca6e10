"""``host_transfer`` on the host backend: odd sizes, wrong ways out, and what its figures mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from runner.backend.host.stream import HostStream
from runner.config.errors import ConfigError
from runner.workload.host_transfer import overlap
from runner.workload.pieces import grid, pieces
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import plan

VARIANTS = ["pageable_roundtrip", "pinned_async_roundtrip", "pinned_overlap_pipeline"]


@pytest.mark.parametrize(
    "params",
    [
        {"N": 1, "chunks": 8, "compute": 1},
        {"N": 5, "chunks": 2, "compute": 0},
        {"N": 4099, "chunks": 3, "compute": 7},
        {"N": 1024, "chunks": 1, "streams": 1, "compute": 2},
        {"MB": 1, "chunks": 5, "streams": 4, "compute": 3},
    ],
)
def test_every_variant_passes(params: dict[str, int]) -> None:
    made, outcomes, left_out = hosted("host_transfer", params)
    assert (list(outcomes), messages(outcomes), left_out) == (VARIANTS, {}, {})
    for name, outcome in outcomes.items():
        assert [series.mode for series in outcome.series] == ["host"]
        assert outcome.metrics["copy_engines"] == 1.0
        assert outcome.metrics["h2d_gbps"] > 0 and outcome.metrics["d2h_gbps"] > 0
        assert ("overlap" in outcome.metrics) == (name == "pinned_overlap_pipeline")
    assert 0.0 <= outcomes["pinned_overlap_pipeline"].metrics["overlap"] <= 1.0
    assert made.shape_line.startswith("host transfer shape MB=")


@pytest.mark.parametrize("method", ["write", "read"])
def test_a_chunk_that_is_not_copied_is_found(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., None] = getattr(HostStream, method)

    def lossy(self: HostStream, target: Any, source: Any, offset: int = 0) -> None:
        piece = source if method == "write" else target
        if not (piece.nbytes == 1024 and offset == 2048):  # the third of four chunks
            real(self, target, source, offset)

    monkeypatch.setattr(HostStream, method, lossy)
    _, outcomes, _ = hosted("host_transfer", {"N": 1024, "chunks": 4, "compute": 2})
    assert messages(outcomes).keys() == {"pinned_overlap_pipeline"}
    assert "256 of 1024" in outcomes["pinned_overlap_pipeline"].message


def test_overlap_is_the_hidden_part_of_what_can_be_hidden() -> None:
    alone = {"h2d": 10.0, "compute": 4.0, "d2h": 6.0}
    assert overlap(alone, 20.0, 2) == 0.0
    assert overlap(alone, 10.0, 2) == 1.0
    assert overlap(alone, 15.0, 2) == 0.5
    assert overlap(alone, 18.0, 1) == 0.5  # one copy engine: only the kernel hides
    assert overlap(alone, 25.0, 2) == 0.0 and overlap(alone, 9.0, 2) == 1.0
    assert overlap({"h2d": 0.0, "compute": 3.0, "d2h": 0.0}, 3.0, 2) is None


@pytest.mark.parametrize("elements", [1, 3, 4, 17, 4096, 4099])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_pieces_cover_everything_once_and_start_aligned(elements: int, count: int) -> None:
    made = pieces(elements, count)
    assert len(made) <= count and all(size >= 1 and first % 4 == 0 for first, size in made)
    assert [i for first, size in made for i in range(first, first + size)] == list(range(elements))
    assert grid(elements)[0] * 1024 >= elements > (grid(elements)[0] - 1) * 1024


def test_bytes_of_memory_and_of_the_link() -> None:
    made = plan("host_transfer")
    assert made.symbols["elements"] == 4194304 and made.symbols["chunks"] == 8
    for variant in made.variants:
        assert (variant.bytes_read, variant.bytes_written) == (32 << 20, 32 << 20)
        assert variant.report == {"h2d_bytes": 16 << 20, "d2h_bytes": 16 << 20}
        assert variant.flops == 2 * 4194304 * 64


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ({"MB": 0}, "MB=0: must be at least 1"),
        ({"N": -1}, "N=-1: must be at least 0"),
        ({"chunks": 0}, "chunks=0: must be at least 1"),
        ({"streams": 0}, "streams=0: must be at least 1"),
        ({"compute": -1}, "compute=-1: must be at least 0"),
    ],
)
def test_bad_parameters_are_refused(params: dict[str, int], key: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"kernel.params.{key}")):
        plan("host_transfer", params)
