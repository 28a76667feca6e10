// The state of one OS thread that runs blocks: its stacks, its shared memory, and the threads of the current block.
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "switch.h"

namespace host {

constexpr unsigned kLanes = 32;
constexpr unsigned kWarps = 32;
constexpr unsigned kThreads = kLanes * kWarps;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;
constexpr size_t kSharedLimit = 227 * 1024;

struct Warp;
struct State;

// One CUDA thread.
struct alignas(64) Lane {
    Context context;
    uint3 thread;
    unsigned index;  // within the warp
    Warp* warp;
    int stack;
#if HOST_SANITIZE
    void* fake;
    unsigned barriers;  // passed so far
#endif
};

// Lanes that meet in a warp function, by mask. Values are double-buffered: a lane may enter the next meeting
// while others have still to read this one, but not the one after, so one switch per lane and meeting is enough.
struct Group {
    unsigned mask;
    unsigned arrived;
    unsigned unread;  // released, values not yet read
    unsigned phase;
    unsigned members[2];
    unsigned bits[2];  // votes
    uint64_t slot[2][kLanes];
};

struct Warp {
    unsigned lanes;       // lanes that exist
    unsigned alive;       // have not returned
    unsigned fresh;       // not started
    unsigned ready;       // may go on
    unsigned at_barrier;  // wait in __syncthreads
    unsigned waiting;     // number of groups in which someone waits
    unsigned groups_used;
    unsigned index;
    Group* groups;  // for masks other than all lanes; kLanes of them
    State* state;   // of the OS thread: reached from here without a look-up of thread-local storage
    Group full;
    Lane lane[kLanes];
};

struct Barrier {
    unsigned arrived;
    unsigned phase;
    unsigned nonzero[2];  // arrivals with a true predicate
    unsigned total[2];
};

struct Launch {
    void (*run)(struct Worker&, Launch&);
    void (*invoke)(const char* arguments);
    const char* arguments;  // eight bytes each
    uint3 grid, block;
    uint64_t blocks;
    uint64_t next;  // next block, taken atomically
    size_t shared_bytes;
    uint64_t seed;
    bool shuffled;  // under the sanitizer: threads and blocks in an order that follows the seed
    bool counted;   // under the sanitizer: all threads of a block must pass the same number of barriers
    int failed;
    char error[256];
};

struct Worker {
    static constexpr size_t kStackBytes = 256 * 1024;
    static constexpr unsigned kChunk = 32;

    Stack stack[kThreads];
    unsigned stacks;  // mapped so far
    int free_stack[kThreads];
    unsigned free_stacks;
    unsigned warps, threads, alive;
    uint3 shape;  // block for which the lanes are laid out
    Barrier barrier;
    Context main;
    Stack main_stack;
    char* shared;
    uint64_t random;
    Worker* next;
    Group* groups;
    Warp warp[kWarps];

    static Worker* create() {
        Worker* worker = static_cast<Worker*>(zeroed(sizeof(Worker)));
        Group* groups = static_cast<Group*>(zeroed(kWarps * kLanes * sizeof(Group)));
        worker->groups = groups;
        return worker;
    }

    void destroy() {
        for (unsigned i = 0; i < stacks; i += kChunk) munmap(stack[i].base - page(), kChunk * stride());
        free(shared);
        munmap(groups, kWarps * kLanes * sizeof(Group));
        munmap(this, sizeof(Worker));
    }

    int take_stack() {
        if (!free_stacks) map_chunk();
        return free_stack[--free_stacks];
    }

    void give_stack(int index) { free_stack[free_stacks++] = index; }

    // All stacks are free again, the first ones on top.
    void reset_stacks() {
        free_stacks = 0;
        for (unsigned i = stacks; i-- > 0;) free_stack[free_stacks++] = static_cast<int>(i);
    }

    // Stacks that begin at the same address modulo a page compete for the same few cache sets: 2-3x slower.
    static size_t stagger(int index) { return (static_cast<size_t>(index) * 5 % 64) * 64; }

private:
    static size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
    // One guard page each; the odd number of pages spreads the stacks over the L2 as well.
    static size_t stride() { return kStackBytes + page(); }

    // Pages that nothing touches take no memory.
    static void* zeroed(size_t bytes) {
        void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            fprintf(stderr, "host backend: no address space for %zu bytes: %s\n", bytes, strerror(errno));
            abort();
        }
        return memory;
    }

    void map_chunk() {
        const size_t bytes = kChunk * stride();
        void* memory = zeroed(bytes);
#ifdef MADV_NOHUGEPAGE
        madvise(memory, bytes, MADV_NOHUGEPAGE);
#endif
        for (unsigned i = 0; i < kChunk; ++i) {
            char* guard = static_cast<char*>(memory) + i * stride();
            // Fails only where the kernel allows no more mappings; then this stack has no guard.
            (void)mprotect(guard, page(), PROT_NONE);
            stack[stacks + i] = {guard + page(), kStackBytes};
        }
        for (unsigned i = kChunk; i-- > 0;) give_stack(static_cast<int>(stacks + i));
        stacks += kChunk;
    }
};

}  // namespace host
