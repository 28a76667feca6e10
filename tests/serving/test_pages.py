"""The page pool: no page in two hands unless it is shared, and every page free at the end."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runner.serving.pages import Ids, PagePool


def ids(*tokens: int) -> Ids:
    return np.array(tokens, np.int32)


def opened(pool: PagePool, tokens: Ids, spare: int = 0) -> tuple[int, int]:
    found = pool.open(tokens, spare)
    assert found is not None
    return found


def test_a_sequence_grows_page_by_page() -> None:
    pool = PagePool(4, 2, 2, 3)
    slot, shared = opened(pool, ids(1, 2, 3))
    assert (slot, shared, pool.held(slot), pool.free) == (0, 0, (0, 1), 2)
    assert pool.grow(slot, 4) and pool.held(slot) == (0, 1)
    assert pool.grow(slot, 5) and pool.held(slot) == (0, 1, 2)
    assert not pool.grow(slot, 7) and pool.free == 1
    pool.close(slot)
    assert pool.free == 4 and pool.held(slot) == ()


def test_nothing_is_taken_where_there_is_not_enough() -> None:
    pool = PagePool(4, 2, 2, 4)
    opened(pool, ids(1, 2, 3))
    assert pool.open(ids(*range(5, 10))) is None and pool.open(ids(5), spare=2) is None and pool.free == 2
    assert not pool.grow(0, 9) and pool.free == 2
    opened(pool, ids(5), spare=1)
    assert pool.open(ids(7)) is None, "no slot is left"


def test_full_computed_pages_are_shared_and_partial_ones_are_not() -> None:
    pool = PagePool(8, 2, 3, 4)
    tokens = ids(1, 2, 3, 4, 5)
    first, _ = opened(pool, tokens)
    second, shared = opened(pool, tokens)
    assert shared == 0, "nothing is computed yet"
    pool.computed(first, tokens, len(tokens))
    third, shared = opened(pool, tokens)
    assert shared == 4 and pool.held(third)[:2] == pool.held(first)[:2] and pool.held(third)[2] != pool.held(first)[2]
    assert [pool.owners(page) for page in pool.held(third)] == [2, 2, 1]
    pool.close(first)
    assert [pool.owners(page) for page in pool.held(third)] == [1, 1, 1]
    pool.close(second)
    pool.close(third)
    assert pool.free == 8


def test_the_last_token_is_always_computed() -> None:
    pool = PagePool(8, 2, 3, 4)
    slot, _ = opened(pool, ids(1, 2, 3, 4))
    pool.computed(slot, ids(1, 2, 3, 4), 4)
    assert opened(pool, ids(1, 2, 3, 4))[1] == 2


def test_a_page_is_known_by_all_tokens_before_it() -> None:
    pool = PagePool(8, 2, 3, 4)
    slot, _ = opened(pool, ids(1, 2, 3, 4, 5))
    pool.computed(slot, ids(1, 2, 3, 4, 5), 5)
    assert opened(pool, ids(9, 2, 3, 4, 5))[1] == 0


def test_what_was_given_back_is_found_until_it_is_taken() -> None:
    pool = PagePool(3, 2, 3, 3)
    tokens = ids(1, 2, 3, 4, 5)
    slot, _ = opened(pool, tokens)
    pool.computed(slot, tokens, len(tokens))
    pool.close(slot)
    other, _ = opened(pool, ids(7, 8))
    assert pool.held(other) == (2,), "the end of a prompt goes first"
    pool.close(other)
    slot, shared = opened(pool, tokens)
    assert shared == 4 and pool.held(slot) == (0, 1, 2)
    pool.close(slot)
    last, _ = opened(pool, ids(*range(20, 26)))
    pool.close(last)
    assert opened(pool, tokens)[1] == 0


def test_without_sharing_no_page_is_found() -> None:
    pool = PagePool(8, 2, 3, 4, share=False)
    slot, _ = opened(pool, ids(1, 2, 3))
    pool.computed(slot, ids(1, 2, 3), 3)
    assert opened(pool, ids(1, 2, 3))[1] == 0


def test_changes_are_told_once_and_of_open_slots() -> None:
    pool = PagePool(8, 2, 3, 4)
    opened(pool, ids(1, 2, 3))
    gone, _ = opened(pool, ids(4))
    pool.close(gone)
    assert pool.changes() == ((0, (0, 1)),) and pool.changes() == ()
    pool.grow(0, 4)
    assert pool.changes() == ()
    pool.grow(0, 5)
    assert pool.changes() == ((0, (0, 1, 3)),)


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="page=0: must be 1 or more"):
        PagePool(4, 0, 1, 1)


class Pool(RuleBasedStateMachine):
    """Sequences of few different tokens come, grow and go in any order."""

    @initialize(pages=st.integers(1, 12), page=st.integers(1, 3), slots=st.integers(1, 4), share=st.booleans())
    def make(self, pages: int, page: int, slots: int, share: bool) -> None:
        self.pool = PagePool(pages, page, slots, pages_per_slot=6, share=share)
        self.tokens: dict[int, list[int]] = {}
        self.computed: dict[int, int] = {}
        self.share = share
        self.contents: dict[int, tuple[int, ...]] = {}
        """Page → all tokens up to its end, as they were written last."""

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=9), spare=st.integers(0, 3))
    def open(self, tokens: list[int], spare: int) -> None:
        free = self.pool.free
        found = self.pool.open(ids(*tokens), spare)
        if found is None:
            assert self.pool.free == free
            return
        slot, shared = found
        assert slot not in self.tokens and shared < len(tokens) and shared % self.pool.page == 0
        assert self.pool.free >= spare and (self.share or shared == 0)
        self.tokens[slot], self.computed[slot] = tokens, shared
        for index, page in enumerate(self.pool.held(slot)[: shared // self.pool.page]):
            assert self.contents[page] == tuple(tokens[: (index + 1) * self.pool.page])

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), more=st.integers(1, 4))
    def compute(self, data: st.DataObject, more: int) -> None:
        slot = data.draw(st.sampled_from(sorted(self.tokens)))
        tokens = self.tokens[slot]
        held = self.pool.held(slot)
        end = min(len(tokens), self.computed[slot] + more)
        for position in range(self.computed[slot], end):
            page = held[position // self.pool.page]
            assert self.pool.owners(page) == 1, "a shared page is never written"
            self.contents[page] = tuple(tokens[: position + 1])
        self.computed[slot] = end
        self.pool.computed(slot, ids(*tokens), end)

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), token=st.integers(0, 1))
    def grow(self, data: st.DataObject, token: int) -> None:
        slot = data.draw(st.sampled_from(sorted(self.tokens)))
        before = self.pool.held(slot)
        if self.pool.grow(slot, len(self.tokens[slot]) + 1):
            self.tokens[slot] = [*self.tokens[slot], token]
        else:
            assert self.pool.held(slot) == before

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(sorted(self.tokens)))
        del self.tokens[slot], self.computed[slot]
        self.pool.close(slot)

    @invariant()
    def pages_add_up(self) -> None:
        if not hasattr(self, "pool"):
            return
        pool = self.pool
        owners: Counter[int] = Counter()
        for slot, tokens in self.tokens.items():
            held = pool.held(slot)
            assert len(set(held)) == len(held) == -(-len(tokens) // pool.page)
            owners.update(held)
        assert all(pool.owners(page) == owners[page] for page in range(pool.pages))
        assert pool.free == pool.pages - len(owners)
        assert self.share or all(count == 1 for count in owners.values())

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            for slot in list(self.tokens):
                self.pool.close(slot)
            assert self.pool.free == self.pool.pages


TestPool = Pool.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
