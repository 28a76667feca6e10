from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from runner.references.kv_cache import expected, inputs
from runner.references.pages import owners, shuffled
from tests.references.cases import case, check, rows, uniform

B, T, H, D, PAGE = 3, 11, 2, 5, 4
WIDTH = 3
PAGES = B * WIDTH
K, V = uniform(1, B, T, H, D), uniform(2, B, T, H, D)
K_TOKEN, V_TOKEN = uniform(3, B, H, D), uniform(4, B, H, D)
TABLE = np.random.default_rng(5).permutation(PAGES).reshape(B, WIDTH)
SYMBOLS = {"B": B, "T": T, "H": H, "D": D, "page": PAGE, "pages": PAGES, "table_width": WIDTH}
CASE = case(SYMBOLS, k=K, v=V, k_token=K_TOKEN, v_token=V_TOKEN, table=TABLE)


def bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    return np.array([int.from_bytes(x.tobytes(), "little", signed=True) for x in values.ravel()])


def test_bshd_is_k_then_v() -> None:
    got = expected(CASE, check("BSHD"), rows(*range(2 * B * T)))
    assert got.shape == (2 * B * T, H, D)
    assert np.array_equal(got.ravel(), bits(np.stack([K, V])))


def test_bhsd_is_the_transpose() -> None:
    got = expected(CASE, check("BHSD"), rows(*range(2 * B * H * T)))
    assert np.array_equal(got.ravel(), bits(np.stack([K, V]).transpose(0, 1, 3, 2, 4)))


def test_paged_from_the_writers_side() -> None:
    pool = np.full((2, PAGES, PAGE, H, D), -1, dtype=np.int64)
    for plane, source in enumerate((K, V)):
        for b in range(B):
            for t in range(T):
                pool[plane, TABLE[b, t // PAGE], t % PAGE] = bits(source[b, t]).reshape(H, D)
    got = expected(CASE, check("Paged"), rows(*range(2 * PAGES * PAGE)))
    assert np.array_equal(got, pool.reshape(-1, H, D))
    assert (got == -1).all(axis=(1, 2)).sum() == 2 * B * (WIDTH * PAGE - T)


@pytest.mark.parametrize("name", ["append_BSHD", "append_BHSD", "append_Paged"])
def test_append(name: str) -> None:
    got = expected(CASE, check(name), rows(*range(2 * B)))
    assert np.array_equal(got.ravel(), bits(np.stack([K_TOKEN, V_TOKEN])))


@pytest.mark.parametrize("name", ["BSHD", "BHSD", "Paged"])
def test_only_the_rows_asked_for_in_their_order(name: str) -> None:
    whole = expected(CASE, check(name), rows(*range(24)))
    assert np.array_equal(expected(CASE, check(name), rows(23, 4)), whole[[23, 4]])


def test_tables_name_every_page_once() -> None:
    table = inputs(CASE, "table")
    assert table.shape == (B, WIDTH)
    assert sorted(table.ravel()) == list(range(PAGES))
    assert not np.array_equal(table.ravel(), np.arange(PAGES))
    assert np.array_equal(owners(table, PAGES)[table.ravel()], np.arange(PAGES))


def test_positions_lie_within_the_context_and_reach_its_end() -> None:
    positions = inputs(CASE, "positions")
    assert positions.shape == (B,)
    assert positions[0] == T - 1 and (positions >= 0).all() and (positions < T).all()


def test_a_shuffle_follows_from_seed_and_name() -> None:
    assert np.array_equal(shuffled(CASE, "table", 100), shuffled(CASE, "table", 100))
    assert not np.array_equal(shuffled(CASE, "table", 100), shuffled(CASE, "other", 100))


def test_pages_without_an_owner() -> None:
    assert owners(np.array([[4, 0]]), 6).tolist() == [1, -1, -1, -1, 0, -1]
