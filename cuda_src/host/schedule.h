// Which CUDA thread of a block runs next, and what happens when none can. Waiting threads switch straight to the next
// that can go on, first within their warp; there is no scheduler in between.
#pragma once

#include "worker.h"

namespace host {

struct State {
    Lane* current;
    uint3 block_index;
    dim3 block, grid;
    Worker* worker;
    Launch* launch;
};

static thread_local State thread_state = {};

// The state of this OS thread. A CUDA thread never changes its OS thread, so the compiler may ask once per kernel:
// a look-up of thread-local storage in a shared library is a call.
__attribute__((const, noinline)) inline State& self() { return thread_state; }


inline char* dynamic_shared() { return self().worker->shared; }

inline unsigned lowest(unsigned bits) { return static_cast<unsigned>(__builtin_ctz(bits)); }
inline unsigned count(unsigned bits) { return static_cast<unsigned>(__builtin_popcount(bits)); }

// The next set bit after `lane`, round the warp.
inline unsigned after(unsigned bits, unsigned lane) {
    const unsigned above = bits & (~1u << lane);
    return lowest(above ? above : bits);
}

inline uint64_t next_random(Worker& worker) {
    uint64_t x = worker.random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return worker.random = x;
}

inline unsigned random_bit(Worker& worker, unsigned bits) {
    for (unsigned skip = static_cast<unsigned>(next_random(worker) % count(bits)); skip; --skip) bits &= bits - 1;
    return lowest(bits);
}

// Ends the launch with a message; the block's threads are abandoned where they stand.
[[noreturn]] __attribute__((noinline, format(printf, 1, 2))) inline void fault(const char* format, ...) {
    State& s = self();
    int expected = 0;
    if (__atomic_compare_exchange_n(&s.launch->failed, &expected, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        const int used = snprintf(s.launch->error, sizeof s.launch->error, "block (%u,%u,%u)", s.block_index.x,
                                  s.block_index.y, s.block_index.z);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(s.launch->error + used, sizeof s.launch->error - static_cast<size_t>(used), format, arguments);
        va_end(arguments);
    }
    Context dropped;
    leave_for(s.worker->main_stack, nullptr);
    switch_context(dropped, s.worker->main);
    abort();  // not reached: the main context does not come back
}

[[noreturn]] __attribute__((noinline)) inline void deadlock() {
    Worker& worker = *self().worker;
    if (worker.barrier.arrived) {
        fault(": %u threads wait at __syncthreads that %u others never reach (they wait for lanes of their warp)",
              worker.barrier.arrived, worker.alive - worker.barrier.arrived);
    }
    for (unsigned w = 0; w < worker.warps; ++w) {
        Warp& warp = worker.warp[w];
        for (int g = -1; g < static_cast<int>(warp.groups_used); ++g) {
            const Group& group = g < 0 ? warp.full : warp.groups[g];
            if (group.arrived) {
                fault(", warp %u: lanes 0x%08x wait in a warp function with mask 0x%08x that lanes 0x%08x never reach",
                      w, group.arrived, group.mask, group.mask & warp.alive & ~group.arrived);
            }
        }
    }
    fault(": no thread can go on");
}

// Any thread that can go on, taken off its list; null when none can.
inline Lane* choose_any(Worker& worker) {
    unsigned able = 0;
    for (unsigned w = 0; w < worker.warps; ++w) able |= (worker.warp[w].ready | worker.warp[w].fresh ? 1u : 0u) << w;
    if (!able) return nullptr;
    Warp& warp = worker.warp[random_bit(worker, able)];
    const unsigned lane = random_bit(worker, warp.ready | warp.fresh);
    warp.ready &= ~(1u << lane);
    return &warp.lane[lane];
}

// The thread that runs next: one of the same warp if possible. Any at all in a shuffled launch under the sanitizer, so
// that code which relies on an order nobody promised gives a wrong result.
inline Lane* choose(Worker& worker, unsigned warp_index) {
#if HOST_SANITIZE
    if (self().launch->shuffled) return choose_any(worker);
#endif
    for (unsigned step = 0, w = warp_index; step < worker.warps; ++step) {
        Warp& warp = worker.warp[w];
        if (warp.ready) {
            const unsigned lane = lowest(warp.ready);
            warp.ready &= ~(1u << lane);
            return &warp.lane[lane];
        }
        if (warp.fresh) return &warp.lane[lowest(warp.fresh)];
        if (++w == worker.warps) w = 0;
    }
    return nullptr;
}

inline bool is_fresh(const Lane& lane) { return lane.warp->fresh >> lane.index & 1u; }

inline void fiber();

inline void switch_lane(Lane& from, Lane& to) {
    from.warp->state->current = &to;
#if HOST_SANITIZE
    leave_for(from.warp->state->worker->stack[to.stack], &from.fake);
    switch_context(from.context, to.context);
    arrived(from.fake, nullptr);
#else
    switch_context(from.context, to.context);
#endif
}

// Goes on with `next`, on a stack of its own if it has not started.
inline void hand_over(Lane& me, Lane& next) {
    Worker& worker = *self().worker;
    if (&next == &me) return;
    if (is_fresh(next)) {
        next.stack = worker.take_stack();
        prepare(next.context, worker.stack[next.stack], Worker::stagger(next.stack), fiber);
    }
    switch_lane(me, next);
}

__attribute__((noinline)) inline void suspend_slowly(Lane& me) {
    Lane* next = choose(*self().worker, me.warp->index);
    if (!next) deadlock();
    hand_over(me, *next);
}

// Lets others run until someone has put `me` on its warp's ready list.
__attribute__((noinline)) inline void suspend(Lane& me) {
#if !HOST_SANITIZE
    Warp& warp = *me.warp;
    if (__builtin_expect(warp.ready != 0, 1)) {
        const unsigned lane = after(warp.ready, me.index);
        warp.ready &= ~(1u << lane);
        if (lane != me.index) switch_lane(me, warp.lane[lane]);
        return;
    }
#endif
    suspend_slowly(me);
}

}  // namespace host
