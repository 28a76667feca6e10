// Warp shuffles, votes and reductions.
#pragma once

#include "thread.h"

namespace host {

// The group for a mask other than all lanes.
__attribute__((noinline)) inline Group& find_group(Warp& warp, unsigned mask, unsigned lane) {
    if (!(mask >> lane & 1u)) {
        fault(", warp %u: lane %u calls a warp function with mask 0x%08x, which leaves it out", warp.index, lane, mask);
    }
    Group* unused = nullptr;
    for (unsigned g = 0; g < warp.groups_used; ++g) {
        Group& group = warp.groups[g];
        if (group.mask == mask) return group;
        if (!group.arrived && !group.unread) unused = &group;
    }
    // Each group in use holds a lane of its own, so kLanes of them are enough.
    if (!unused) unused = &warp.groups[warp.groups_used++];
    unused->mask = mask;
    unused->arrived = unused->unread = 0;
    return *unused;
}

struct Meeting {
    Group& group;
    unsigned phase;
    unsigned lane;
    uint64_t operator[](unsigned source) const { return group.slot[phase][source]; }
    unsigned members() const { return group.members[phase]; }
    unsigned votes() const { return group.bits[phase]; }
};

// Puts down a value and a vote, and waits until every lane of `mask` that has not returned has done the same.
inline Meeting meet(unsigned mask, uint64_t value, bool vote = false) {
    Lane& me = *self().current;
    Warp& warp = *me.warp;
    Group& group = __builtin_expect(mask == kAllLanes, 1) ? warp.full : find_group(warp, mask, me.index);
    const unsigned phase = group.phase;
    const unsigned bit = 1u << me.index;
    if (!group.arrived) {
        group.bits[phase] = 0;
        ++warp.waiting;
    }
    group.arrived |= bit;
    group.slot[phase][me.index] = value;
    group.bits[phase] |= vote ? bit : 0u;
    if (group.arrived == (mask & warp.alive)) {
        complete(warp, group, bit);
    } else {
        suspend(me);
        if (mask != kAllLanes) group.unread &= ~bit;
    }
    return {group, phase, me.index};
}

template <class T>
inline uint64_t to_bits(T value) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T>
inline T from_bits(uint64_t bits) {
    T value;
    __builtin_memcpy(static_cast<void*>(&value), &bits, sizeof value);
    return value;
}

// Not inlined: kernels unroll their shuffles, and a copy of this for each makes them slow to compile, no faster to run.
__attribute__((noinline)) inline uint64_t exchange(unsigned mask, uint64_t value, unsigned source) {
    const Meeting meeting = meet(mask, value);
    return meeting.members() >> source & 1u ? meeting[source] : value;
}

// `source` must be in the caller's segment; a lane that takes no part gives the caller's own value.
template <class T>
inline T shuffle(unsigned mask, T value, unsigned source) {
    return from_bits<T>(exchange(mask, to_bits(value), source));
}

inline unsigned lane_id() { return self().current->index; }

template <class T, class Operation>
inline T reduce(unsigned mask, T value, Operation operation) {
    const Meeting meeting = meet(mask, to_bits(value));
    unsigned rest = meeting.members();
    T result = from_bits<T>(meeting[lowest(rest)]);
    for (rest &= rest - 1; rest; rest &= rest - 1) result = operation(result, from_bits<T>(meeting[lowest(rest)]));
    return result;
}

}  // namespace host

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    const unsigned lane = ::host::lane_id(), segment = lane & ~static_cast<unsigned>(width - 1);
    return ::host::shuffle(mask, value, segment | (static_cast<unsigned>(source) & static_cast<unsigned>(width - 1)));
}

template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const unsigned lane = ::host::lane_id(), within = lane & static_cast<unsigned>(width - 1);
    return ::host::shuffle(mask, value, delta > within ? lane : lane - delta);
}

template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const unsigned lane = ::host::lane_id(), within = lane & static_cast<unsigned>(width - 1);
    return ::host::shuffle(mask, value, delta >= static_cast<unsigned>(width) - within ? lane : lane + delta);
}

template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
    const unsigned lane = ::host::lane_id(), source = lane ^ static_cast<unsigned>(lane_mask);
    // A lane of a later segment may not be read; one of an earlier segment may.
    const unsigned last = lane | static_cast<unsigned>(width - 1);
    return ::host::shuffle(mask, value, source > last ? lane : source);
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) { ::host::meet(mask, 0); }

inline unsigned __ballot_sync(unsigned mask, int predicate) { return ::host::meet(mask, 0, predicate != 0).votes(); }
inline int __any_sync(unsigned mask, int predicate) { return ::host::meet(mask, 0, predicate != 0).votes() != 0; }
inline int __all_sync(unsigned mask, int predicate) {
    const ::host::Meeting meeting = ::host::meet(mask, 0, predicate != 0);
    return meeting.votes() == meeting.members();
}
inline int __uni_sync(unsigned mask, int predicate) {
    const ::host::Meeting meeting = ::host::meet(mask, 0, predicate != 0);
    return meeting.votes() == 0 || meeting.votes() == meeting.members();
}

// Lanes run one at a time here, so which of them share an instruction has no answer of its own: every lane that has
// not returned must come. Right where the code has not diverged; in a branch that some lanes skip, it is a hang.
inline unsigned __activemask() { return ::host::meet(0xFFFFFFFFu, 0).members(); }

template <class T>
inline unsigned __match_any_sync(unsigned mask, T value) {
    const uint64_t mine = ::host::to_bits(value);
    const ::host::Meeting meeting = ::host::meet(mask, mine);
    unsigned same = 0;
    for (unsigned rest = meeting.members(); rest; rest &= rest - 1) {
        const unsigned lane = ::host::lowest(rest);
        if (meeting[lane] == mine) same |= 1u << lane;
    }
    return same;
}

template <class T>
inline unsigned __match_all_sync(unsigned mask, T value, int* all) {
    const uint64_t mine = ::host::to_bits(value);
    const ::host::Meeting meeting = ::host::meet(mask, mine);
    *all = 1;
    for (unsigned rest = meeting.members(); rest; rest &= rest - 1) {
        if (meeting[::host::lowest(rest)] != mine) *all = 0;
    }
    return *all ? meeting.members() : 0u;
}

#define HOST_REDUCE(name, type, expression)                                                          \
    inline type name(unsigned mask, type value) {                                                    \
        return ::host::reduce(mask, value, [](type a, type b) -> type { return expression; });      \
    }
HOST_REDUCE(__reduce_add_sync, unsigned, a + b)
HOST_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
HOST_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
HOST_REDUCE(__reduce_and_sync, unsigned, a& b)
HOST_REDUCE(__reduce_or_sync, unsigned, a | b)
HOST_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
HOST_REDUCE(__reduce_min_sync, int, a < b ? a : b)
HOST_REDUCE(__reduce_max_sync, int, a > b ? a : b)
#undef HOST_REDUCE
inline int __reduce_add_sync(unsigned mask, int value) {
    return static_cast<int>(__reduce_add_sync(mask, static_cast<unsigned>(value)));
}
