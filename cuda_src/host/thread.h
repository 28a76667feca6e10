// What a CUDA thread sees of its block: its place, barriers, traps and assertions.
#pragma once

#include <sched.h>

#include "block.h"

namespace host {

[[noreturn]] inline void thread_fault(const char* what) {
    const uint3 t = self().current->thread;
    fault(" thread (%u,%u,%u): %s", t.x, t.y, t.z, what);
}

[[noreturn]] __attribute__((noinline)) inline void assertion_failed(const char* text, const char* file, int line) {
    const uint3 t = self().current->thread;
    fault(" thread (%u,%u,%u): %s:%d: assertion failed: %s", t.x, t.y, t.z, file, line, text);
}

// Lets others go on, of this block or of the machine: the way out of a loop that waits for a flag.
inline void yield() {
    Lane& me = *self().current;
    me.warp->ready |= 1u << me.index;
    Lane* next = choose_any(*self().worker);
    if (next == &me) sched_yield();
    hand_over(me, *next);
}

}  // namespace host

#define threadIdx (::host::self().current->thread)
#define blockIdx (::host::self().block_index)
#define blockDim (::host::self().block)
#define gridDim (::host::self().grid)
constexpr int warpSize = 32;

inline void __syncthreads() { ::host::barrier(false); }
inline int __syncthreads_count(int predicate) { return static_cast<int>(::host::barrier(predicate != 0).nonzero); }
inline int __syncthreads_or(int predicate) { return ::host::barrier(predicate != 0).nonzero != 0; }
inline int __syncthreads_and(int predicate) {
    const ::host::BarrierResult result = ::host::barrier(predicate != 0);
    return result.nonzero == result.total;
}
inline void __nanosleep(unsigned int) { ::host::yield(); }
[[noreturn]] inline void __trap() { ::host::thread_fault("trap"); }
inline void __brkpt() {}

#undef assert
#define assert(condition) \
    ((condition) ? static_cast<void>(0) : ::host::assertion_failed(#condition, __FILE__, __LINE__))
