"""Pages of the KV cache: which sequence has which, and which of them hold the beginning of several.

A full page whose K and V have been computed may be shared with every sequence that begins with the same tokens. It is
known by a hash over its tokens and those of all pages before it. A page that is given back keeps its contents until
another sequence needs it, and can be taken up again until then.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
"""Token ids, shape (tokens,)."""
_ROOT = b""


@dataclass
class _Slot:
    """What a sequence holds."""

    pages: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    """Of the pages that are full and computed: the first ``len(hashes)`` of ``pages``."""


class PagePool:
    """``pages`` pages of ``page`` tokens for at most ``slots`` sequences of at most ``pages_per_slot`` pages each.

    With ``share`` false no page ever has two owners.
    """

    def __init__(self, pages: int, page: int, slots: int, pages_per_slot: int, share: bool = True) -> None:
        for name, value in (("pages", pages), ("page", page), ("slots", slots), ("pages_per_slot", pages_per_slot)):
            if value < 1:
                raise ValueError(f"{name}={value}: must be 1 or more")
        self.pages = pages
        self.page = page
        self.slots = slots
        self.pages_per_slot = pages_per_slot
        self._share = share
        self._owners = [0] * pages
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(pages))
        """The one that was given back first is taken first."""
        self._hash_of: dict[int, bytes] = {}
        self._page_of: dict[bytes, int] = {}
        self._idle = list(range(slots))
        self._open: dict[int, _Slot] = {}
        self._changed: set[int] = set()

    @property
    def free(self) -> int:
        """Pages that no sequence holds, those that keep their contents included."""
        return len(self._free)

    @property
    def most_tokens(self) -> int:
        """Of one sequence that has the pool to itself."""
        return self.page * min(self.pages, self.pages_per_slot)

    def held(self, slot: int) -> tuple[int, ...]:
        """Pages of a sequence, in the order of its tokens; none for a slot that is not open."""
        return tuple(self._open[slot].pages) if slot in self._open else ()

    def owners(self, page: int) -> int:
        """How many sequences hold it."""
        return self._owners[page]

    def open(self, ids: Ids, spare: int = 0) -> tuple[int, int] | None:
        """A slot with pages for ``ids``, and how many of its first tokens need not be computed: those in pages that
        others have computed, never all of them, since the last one's logits are wanted.

        None, and nothing is taken, where no slot is idle or fewer than ``spare`` pages would be left.
        """
        if not self._idle or self._needed(len(ids)) > self.pages_per_slot:
            return None
        shared, hashes = self._match(ids)
        fresh = self._needed(len(ids)) - len(shared)
        revived = sum(self._owners[page] == 0 for page in shared)
        if fresh + revived + spare > self.free:
            return None
        slot = heapq.heappop(self._idle)
        for page in shared:
            self._free.pop(page, None)
            self._owners[page] += 1
        self._open[slot] = _Slot(shared + [self._take() for _ in range(fresh)], hashes)
        self._changed.add(slot)
        return slot, len(shared) * self.page

    def grow(self, slot: int, tokens: int) -> bool:
        """Pages for ``tokens`` tokens in all. False, and nothing is taken, where there are not enough."""
        held = self._open[slot].pages
        if tokens <= len(held) * self.page:
            return True
        more = self._needed(tokens) - len(held)
        if more > self.free or len(held) + more > self.pages_per_slot:
            return False
        held.extend(self._take() for _ in range(more))
        self._changed.add(slot)
        return True

    def computed(self, slot: int, ids: Ids, count: int) -> None:
        """K and V of the first ``count`` of the sequence's ``ids`` are in its pages: full ones can be shared from now
        on."""
        if not self._share:
            return
        one = self._open[slot]
        for index in range(len(one.hashes), count // self.page):
            before = one.hashes[-1] if one.hashes else _ROOT
            one.hashes.append(self._hash(before, ids, index))
            page = one.pages[index]
            # Of two sequences that computed the same page at once, the first one's is the one that others find.
            if one.hashes[-1] not in self._page_of:
                self._page_of[one.hashes[-1]] = page
                self._hash_of[page] = one.hashes[-1]

    def close(self, slot: int) -> None:
        """The sequence's pages and its slot are free again. Raises ``KeyError`` for a slot that is not open."""
        # The last page first: where pages run short, the beginning of a prompt is worth more than its end.
        for page in reversed(self._open.pop(slot).pages):
            self._owners[page] -= 1
            if self._owners[page] == 0:
                self._free[page] = None
        heapq.heappush(self._idle, slot)
        self._changed.discard(slot)

    def changes(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """(slot, its pages) of every open slot whose pages are others than at the last call."""
        found = tuple((slot, self.held(slot)) for slot in sorted(self._changed))
        self._changed.clear()
        return found

    def _match(self, ids: Ids) -> tuple[list[int], list[bytes]]:
        """Pages with the beginning of ``ids`` and their hashes."""
        pages: list[int] = []
        hashes: list[bytes] = []
        for index in range((len(ids) - 1) // self.page if self._share else 0):
            key = self._hash(hashes[-1] if hashes else _ROOT, ids, index)
            if key not in self._page_of:
                break
            pages.append(self._page_of[key])
            hashes.append(key)
        return pages, hashes

    def _hash(self, before: bytes, ids: Ids, index: int) -> bytes:
        """Of page ``index`` of a sequence and, by the hash ``before`` it, of all tokens that come earlier."""
        tokens = ids[index * self.page : (index + 1) * self.page]
        return hashlib.blake2b(before + tokens.tobytes(), digest_size=16).digest()

    def _take(self) -> int:
        page, _ = self._free.popitem(last=False)
        lost = self._hash_of.pop(page, None)
        if lost is not None:
            del self._page_of[lost]
        self._owners[page] = 1
        return page

    def _needed(self, tokens: int) -> int:
        return -(-tokens // self.page)
