// Running one block on one OS thread. CUDA threads run one after another on one stack, in a plain loop; only when
// one has to wait does the next start on a stack of its own.
#pragma once

#include "schedule.h"

namespace host {

inline void open_barrier(Worker& worker) {
    worker.barrier.total[worker.barrier.phase] = worker.barrier.arrived;
    worker.barrier.arrived = 0;
    worker.barrier.phase ^= 1;
    for (unsigned w = 0; w < worker.warps; ++w) {
        worker.warp[w].ready |= worker.warp[w].at_barrier;
        worker.warp[w].at_barrier = 0;
    }
}

struct BarrierResult {
    unsigned nonzero, total;
};

// Waits until every thread of the block that has not returned is here.
inline BarrierResult barrier(bool predicate) {
    Worker& worker = *self().worker;
    Barrier& bar = worker.barrier;
    Lane& me = *self().current;
    const unsigned phase = bar.phase;
    if (!bar.arrived) bar.nonzero[phase] = 0;
    bar.nonzero[phase] += predicate;
    ++bar.arrived;
#if HOST_SANITIZE
    ++me.barriers;
#endif
    if (bar.arrived == worker.alive) {
        open_barrier(worker);
    } else {
        me.warp->at_barrier |= 1u << me.index;
        suspend(me);
    }
    return {bar.nonzero[phase], bar.total[phase]};
}

// Everyone in the group has come: all but `me` become ready.
inline void complete(Warp& warp, Group& group, unsigned me) {
    const unsigned others = group.arrived & ~me;
    group.members[group.phase] = group.arrived;
    group.unread = others;
    group.arrived = 0;
    group.phase ^= 1;
    warp.ready |= others;
    --warp.waiting;
}

// A thread has returned: those who wait for it need not any more.
__attribute__((noinline)) inline void release_waiting(Worker& worker, Warp& warp) {
    if (warp.full.arrived && warp.full.arrived == warp.alive) complete(warp, warp.full, 0);
    for (unsigned g = 0; g < warp.groups_used; ++g) {
        Group& group = warp.groups[g];
        if (group.arrived && group.arrived == (group.mask & warp.alive)) complete(warp, group, 0);
    }
    if (worker.barrier.arrived && worker.barrier.arrived == worker.alive) open_barrier(worker);
}

// The current thread has returned. True when the next one of its warp may start at once, on the same stack: the
// plain loop that a kernel without barriers is.
inline bool next_thread() {
    State& s = self();
    Lane& me = *s.current;
    Warp& warp = *me.warp;
    warp.alive &= ~(1u << me.index);
    --s.worker->alive;
    if (HOST_SANITIZE || (warp.waiting | warp.ready | s.worker->barrier.arrived) || !warp.fresh) return false;
    Lane& next = warp.lane[lowest(warp.fresh)];
    warp.fresh &= warp.fresh - 1;
    next.stack = me.stack;
    s.current = &next;
    return true;
}

#if HOST_SANITIZE
// The block's last thread has returned. A barrier that some threads left out opened without them.
inline void compare_barriers(Worker& worker) {
    unsigned most = 0;
    for (unsigned t = 0; t < worker.threads; ++t) {
        const unsigned passed = worker.warp[t / kLanes].lane[t % kLanes].barriers;
        most = passed > most ? passed : most;
    }
    unsigned fewer = 0;
    const Lane* first = nullptr;
    for (unsigned t = 0; t < worker.threads; ++t) {
        const Lane& lane = worker.warp[t / kLanes].lane[t % kLanes];
        if (lane.barriers == most) continue;
        ++fewer;
        if (!first) first = &lane;
    }
    if (!first) return;
    fault(": %u of %u threads left out a __syncthreads: thread (%u,%u,%u) passed %u, others %u", fewer, worker.threads,
          first->thread.x, first->thread.y, first->thread.z, first->barriers, most);
}
#endif

// next_thread() was false. Comes back when another thread starts on this stack.
__attribute__((noinline)) inline void retire() {
    State& s = self();
    Worker& worker = *s.worker;
    Lane& me = *s.current;
    if (me.warp->waiting | worker.barrier.arrived) release_waiting(worker, *me.warp);
    Lane* next = choose(worker, me.warp->index);
    if (next && is_fresh(*next)) {
        next->stack = me.stack;
        s.current = next;
        return;
    }
    if (!next && worker.alive) deadlock();
#if HOST_SANITIZE
    if (!next && s.launch->counted) compare_barriers(worker);
#endif
    worker.give_stack(me.stack);
    Context dropped;
    if (next) {
        s.current = next;
        leave_for(worker.stack[next->stack], nullptr);
        switch_context(dropped, next->context);
    } else {
        leave_for(worker.main_stack, nullptr);
        switch_context(dropped, worker.main);
    }
    abort();  // not reached: nothing comes back to a stack that was given away
}

// What a stack runs: threads, one after another.
inline void fiber() {
    State& s = self();
    arrived(nullptr, s.worker->main_stack.base ? nullptr : &s.worker->main_stack);
    for (;;) {
        Lane& me = *s.current;
        me.warp->fresh &= ~(1u << me.index);
        s.launch->invoke(s.launch->arguments);
        retire();
    }
}

inline void lay_out(Worker& worker, uint3 block) {
    worker.threads = block.x * block.y * block.z;
    worker.warps = (worker.threads + kLanes - 1) / kLanes;
    if (worker.shape.x == block.x && worker.shape.y == block.y && worker.shape.z == block.z) return;
    worker.shape = block;
    for (unsigned t = 0; t < worker.threads; ++t) {
        Warp& warp = worker.warp[t / kLanes];
        Lane& lane = warp.lane[t % kLanes];
        lane.thread = {t % block.x, t / block.x % block.y, t / block.x / block.y};
        lane.index = t % kLanes;
        lane.warp = &warp;
        warp.index = t / kLanes;
        warp.full.mask = kAllLanes;
        warp.groups = worker.groups + static_cast<size_t>(warp.index) * kLanes;
        warp.lanes = t % kLanes == 31 ? kAllLanes : (2u << t % kLanes) - 1;
    }
}

inline void run_block(Worker& worker) {
    State& s = self();
    worker.alive = worker.threads;
    worker.barrier = {};
    for (unsigned w = 0; w < worker.warps; ++w) {
        Warp& warp = worker.warp[w];
        warp.state = &s;
        warp.alive = warp.fresh = warp.lanes;
        warp.ready = warp.at_barrier = warp.waiting = warp.groups_used = 0;
        warp.full.arrived = 0;
    }
#if HOST_SANITIZE
    for (unsigned t = 0; t < worker.threads; ++t) worker.warp[t / kLanes].lane[t % kLanes].barriers = 0;
#endif
    Lane& first = *choose(worker, 0);
    first.stack = worker.take_stack();
    prepare(first.context, worker.stack[first.stack], Worker::stagger(first.stack), fiber);
    s.current = &first;
    worker.main_stack = {};
    void* fake = nullptr;
    leave_for(worker.stack[first.stack], &fake);
    switch_context(worker.main, first.context);
    arrived(fake, nullptr);
}

inline void provide_shared(Worker& worker, size_t bytes) {
#if HOST_SANITIZE
    void* memory = nullptr;  // exactly as long as asked for, so that going past the end is found
    if (posix_memalign(&memory, 128, bytes)) abort();
    worker.shared = static_cast<char*>(memory);
#else
    if (worker.shared || !bytes) return;
    void* memory = nullptr;
    if (posix_memalign(&memory, 4096, kSharedLimit)) abort();
    worker.shared = static_cast<char*>(memory);
#endif
}

#if HOST_SANITIZE
struct StaticShared {
    const uint64_t* spans;
    unsigned count;
};
static StaticShared static_shared = {};

// Nothing that a block left in shared memory reaches the next one: every byte becomes 0xFF (NaN, or -1). Not checked,
// since clang counts a variable's red zone as part of it.
__attribute__((no_sanitize_address)) inline void spoil_shared(Worker& worker, size_t bytes) {
    memset(worker.shared, 0xFF, bytes);
    for (unsigned i = 0; i < static_shared.count; ++i) {
        volatile char* variable = reinterpret_cast<volatile char*>(static_shared.spans[2 * i]);
        for (uint64_t byte = 0; byte < static_shared.spans[2 * i + 1]; ++byte) variable[byte] = static_cast<char>(0xFF);
    }
}
#endif

#if HOST_SANITIZE
// The order of a shuffled launch's blocks: a walk round them in steps that have no factor in common with their number.
struct BlockOrder {
    uint64_t blocks, step, start;

    BlockOrder(Worker& worker, const Launch& launch) : blocks(launch.blocks), step(1), start(0) {
        if (!launch.shuffled || blocks >> 32) return;  // the product below must fit
        start = next_random(worker) % blocks;
        do step = 1 + next_random(worker) % blocks;
        while (common_factor(step, blocks) != 1);
    }

    uint64_t operator[](uint64_t index) const { return (index * step + start) % blocks; }

private:
    static uint64_t common_factor(uint64_t a, uint64_t b) { return b ? common_factor(b, a % b) : a; }
};
#endif

// Takes blocks of the launch until none is left or one has failed.
inline void run_blocks(Worker& worker, Launch& launch) {
    State& s = self();
    s = {nullptr, {}, launch.block, launch.grid, &worker, &launch};
    worker.random = launch.seed * 0x9E3779B97F4A7C15ULL | 1;
    lay_out(worker, launch.block);
    provide_shared(worker, launch.shared_bytes);
#if HOST_SANITIZE
    const BlockOrder order(worker, launch);
#endif
    while (!__atomic_load_n(&launch.failed, __ATOMIC_RELAXED)) {
        uint64_t b = __atomic_fetch_add(&launch.next, 1, __ATOMIC_RELAXED);
        if (b >= launch.blocks) break;
#if HOST_SANITIZE
        b = order[b];
#endif
        const uint64_t row = b / launch.grid.x;
        s.block_index = {static_cast<unsigned>(b % launch.grid.x), static_cast<unsigned>(row % launch.grid.y),
                         static_cast<unsigned>(row / launch.grid.y)};
#if HOST_SANITIZE
        spoil_shared(worker, launch.shared_bytes);
#endif
        run_block(worker);
    }
    if (__atomic_load_n(&launch.failed, __ATOMIC_RELAXED)) worker.reset_stacks();
#if HOST_SANITIZE
    free(worker.shared);
    worker.shared = nullptr;
#endif
}

}  // namespace host
