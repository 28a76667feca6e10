from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from runner.backend.host import HostBackend
from runner.config.errors import ConfigError
from runner.workload.base import Context
from runner.workload.kv_cache import CacheWrites
from tests.kernels.hosted import hosted, messages, programs
from tests.kernels.plans import HOST, plan


@pytest.mark.parametrize(
    "params",
    [
        {"B": 3, "T": 37, "H": 5, "D": 20, "page": 16},
        {"B": 1, "T": 1, "H": 1, "D": 1, "page": 1},
        {"B": 2, "T": 130, "H": 3, "D": 7, "page": 8},
        {"B": 2, "T": 5, "H": 4, "D": 3, "page": 64},  # H * D is a multiple of 4 and D is not
        {"B": 1, "T": 3000, "H": 1, "D": 12, "page": 16},  # more tiles than pieces in a row
        {"B": 7, "T": 64, "H": 1, "D": 64, "page": 3},
    ],
    ids=lambda params: "-".join(str(value) for value in params.values()),
)
def test_every_variant_passes(params: dict[str, Any]) -> None:
    made, outcomes, left_out = hosted("kv_cache", params)
    assert messages(outcomes) == {} and left_out == {}
    assert list(outcomes) == ["BSHD", "BHSD", "Paged", "append_BSHD", "append_BHSD", "append_Paged"]
    assert made.shape_line == "kv cache shape B={B} T={T} H={H} D={D} page={page}".format(**params)


def test_an_append_is_seen_only_when_its_cache_holds_it() -> None:
    """A timed step copies nothing out, and a token from an earlier append is gone before the next check."""
    made = plan("kv_cache", {"B": 2, "T": 9, "H": 2, "D": 4, "page": 4}, HOST)
    backend = HostBackend()
    device = backend.open(0)
    buffers = {buffer.name: device.allocate(buffer.elements * 4) for buffer in made.buffers}
    stream = device.stream()
    stream.write(buffers["positions"], np.array([8, 3], np.int32))
    for name, value in (("k_token", 1.0), ("v_token", 2.0)):
        stream.write(buffers[name], np.full(16, value, np.float32))
    modules = [{unit: device.load(path) for unit, path in programs(made).items()}]
    workload = CacheWrites(Context(made, [device], [stream], buffers, modules))
    workload.prepare()
    seen = np.zeros(32, np.float32)

    workload.reset("append_BHSD")
    stream.fill(buffers["appended"], 0)
    workload.step("append_BHSD")
    stream.read(seen, buffers["appended"])
    stream.synchronize()
    assert not seen.any()

    workload.outputs("append_BHSD")
    cache = np.zeros(2 * 2 * 2 * 9 * 4, np.int32)
    stream.read(cache, buffers["cache_bhsd"])
    stream.synchronize()
    assert (cache == -1).all()
    workload.step("append_BHSD")
    stream.read(seen, buffers["appended"])
    stream.synchronize()
    assert seen.tolist() == [1.0] * 16 + [2.0] * 16
    workload.close()
    for buffer in buffers.values():
        buffer.free()


def test_fragmentation_and_bytes() -> None:
    made = plan("kv_cache", {"B": 8, "T": 520, "H": 32, "D": 128, "page": 16})
    plane = 8 * 520 * 32 * 128 * 4
    for name in ("BSHD", "BHSD"):
        variant = made.variant(name)
        assert (variant.bytes_read, variant.bytes_written) == (2 * plane, 2 * plane)
        assert variant.report == {"kv_bytes": 2 * plane, "internal_fragmentation": 0, "table_bytes": 0}
    paged = made.variant("Paged")
    assert paged.report["internal_fragmentation"] == pytest.approx(8 / 528)
    assert paged.report["table_bytes"] == 8 * 33 * 4
    assert (paged.bytes_read, paged.bytes_written) == (2 * plane + 8 * 33 * 4, 2 * plane)
    token = 8 * 32 * 128 * 4
    assert made.variant("append_BSHD").bytes_moved == 4 * token + 8 * 4
    assert made.variant("append_Paged").bytes_moved == 4 * token + 2 * 8 * 4


def test_sixteen_bytes_at_a_time_where_they_stay_together() -> None:
    made = plan("kv_cache", {"B": 1, "T": 1024, "H": 4, "D": 3})
    assert made.variant("BSHD").launches[0].grid == (3, 2, 1)
    assert made.variant("BHSD").launches[0].grid == (12, 2, 1)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"page": 0}, "page=0: must be at least 1"),
        ({"B": 0}, "B=0: must be at least 1"),
        ({"T": -5}, "T=-5: must be at least 1"),
        ({"D": "x"}, "D=x: must be an integer"),
        ({"H": 4096, "D": 4096}, "H * D is at most 4194303"),
        ({"B": 65536, "T": 65536}, "B * T is at most 2147483647 tokens"),
    ],
)
def test_bad_parameters_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan("kv_cache", params)
