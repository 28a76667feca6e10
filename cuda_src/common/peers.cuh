// What kernels on several devices need to work on each other's memory: loads that are never stale, stores that a peer
// sees in order, and waiting for each other with a limit.
//
// Devices meet block by block: block b of one waits for block b of the others and for nothing else, and tells them
// before it waits. So it needs only that each device gets to its block b some time, not that a whole grid runs at once:
// grids of a few blocks run together on a GPU, and on a CPU blocks run in order.
//
// A meeting is counted. The count is kept in device memory, so that a captured graph that is replayed goes on where it
// was, and it only grows: a flag that is ahead is as good as one that is equal.
#pragma once

#ifdef HOST_BACKEND
#include <sched.h>
#endif

namespace peers {

// Most devices that can meet.
constexpr int kMost = 8;
// Blocks that can meet at most, and how many kinds of meeting have flags of their own.
constexpr int kBlocks = 128;
constexpr int kKinds = 4;

// A number of devices that the compiler knows: loops over them unroll, and all loads of a loop are on their way at
// once.
template <int kCount>
struct Count {
    static constexpr int value = kCount;
};

// Calls use(Count<devices>) for 1 to kMost devices.
template <class Use>
__device__ inline void counted(long long devices, Use use) {
    switch (devices) {
        case 1: return use(Count<1>{});
        case 2: return use(Count<2>{});
        case 3: return use(Count<3>{});
        case 4: return use(Count<4>{});
        case 5: return use(Count<5>{});
        case 6: return use(Count<6>{});
        case 7: return use(Count<7>{});
        default: return use(Count<8>{});
    }
}

// A device's memory that its peers may write and read, one pointer for each; those beyond the last device are not used.
// Only ever indexed by constants, which keeps it in registers and constant memory.
template <class T>
struct Table {
    T* of[kMost];

    __device__ inline T* at(int device) const {
        T* found = of[0];
#pragma unroll
        for (int i = 1; i < kMost; ++i) found = device == i ? of[i] : found;
        return found;
    }
};

// Of a kernel's arguments.
template <class T, class P>
__device__ inline Table<T> table(P* p0, P* p1, P* p2, P* p3, P* p4, P* p5, P* p6, P* p7) {
    return {{p0, p1, p2, p3, p4, p5, p6, p7}};
}

// --- loads and stores of single values, at the scope of the whole system

__device__ inline float load(const float* from) {
#ifdef HOST_BACKEND
    return *from;
#else
    float value;
    asm volatile("ld.relaxed.sys.global.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
    return value;
#endif
}

__device__ inline float4 load_quad(const float4* from) {
#ifdef HOST_BACKEND
    return *from;
#else
    float4 value;
    asm volatile("ld.relaxed.sys.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(from)
                 : "memory");
    return value;
#endif
}

// A peer that sees the flag sees all that this block wrote before the last barrier.
__device__ inline void release(unsigned int* flag, unsigned int value) {
#ifdef HOST_BACKEND
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
#else
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#endif
}

__device__ inline unsigned int acquire(const unsigned int* flag) {
#ifdef HOST_BACKEND
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
#else
    unsigned int value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
#endif
}

// Two values, each with a flag beside it in the same 8 bytes, which are written and read as one: whoever sees the flag
// has the value, and no other order is needed.
__device__ inline void store_flagged(uint4* to, float first, float second, unsigned int flag) {
#ifdef HOST_BACKEND
    uint64_t* words = reinterpret_cast<uint64_t*>(to);
    const float values[2] = {first, second};
    for (int i = 0; i < 2; ++i) {
        unsigned int bits;
        memcpy(&bits, values + i, sizeof bits);
        __atomic_store_n(words + i, static_cast<uint64_t>(flag) << 32 | bits, __ATOMIC_RELEASE);
    }
#else
    const unsigned long long high = static_cast<unsigned long long>(flag) << 32;
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(high | __float_as_uint(first)),
                 "l"(high | __float_as_uint(second))
                 : "memory");
#endif
}

// True when both have arrived under `flag`.
__device__ inline bool load_flagged(const uint4* from, unsigned int flag, float& first, float& second) {
    unsigned long long one, two;
#ifdef HOST_BACKEND
    const uint64_t* words = reinterpret_cast<const uint64_t*>(from);
    one = __atomic_load_n(words, __ATOMIC_ACQUIRE);
    two = __atomic_load_n(words + 1, __ATOMIC_ACQUIRE);
#else
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];" : "=l"(one), "=l"(two) : "l"(from) : "memory");
#endif
    first = __uint_as_float(static_cast<unsigned int>(one));
    second = __uint_as_float(static_cast<unsigned int>(two));
    return one >> 32 == flag && two >> 32 == flag;
}

// --- waiting

// A wait that has a limit: a peer that never comes ends the kernel with an error instead of hanging the device.
class Patience {
public:
    __device__ inline explicit Patience(long long limit_ms) : limit_ns_(limit_ms * 1000000) {}

    // Between two looks for what `peer` does.
    __device__ inline void again(int peer) {
#ifdef HOST_BACKEND
        sched_yield();
        if (expired()) ::host::fault(": device %d did not come to the meeting", peer);
#else
        if (++looks_ % kLooks == 0 && expired()) __trap();
#endif
    }

private:
    static constexpr unsigned int kLooks = 4096;
    long long limit_ns_;
    long long began_ = 0;
    unsigned int looks_ = 0;

    __device__ inline bool expired() {
        const long long now = now_ns();
        if (began_ == 0) began_ = now;
        return now - began_ > limit_ns_;
    }

    static __device__ inline long long now_ns() {
#ifdef HOST_BACKEND
        return static_cast<long long>(__globaltimer());
#else
        long long now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        return now;
#endif
    }
};

// Flags of a device: [kind][block][peer], each written by that peer alone. They begin the memory that peers share.
__device__ inline unsigned int* flag(void* mailbox, int kind, int peer) {
    return static_cast<unsigned int*>(mailbox) + (kind * kBlocks + static_cast<int>(blockIdx.x)) * kMost + peer;
}
constexpr int kFlagBytes = kKinds * kBlocks * kMost * 4;

// All blocks of this number on `devices` devices meet: what each wrote before can be read by all after. Every thread
// calls it; a block has at least `devices` threads.
__device__ inline void meet(const Table<void>& mailboxes, int kind, int own, int devices, unsigned int count, long long limit_ms) {
    __syncthreads();
    const int peer = static_cast<int>(threadIdx.x);
    const bool meets = peer < devices && peer != own;
    if (meets) release(flag(mailboxes.at(peer), kind, own), count);
#ifdef HOST_BACKEND
    __syncthreads();  // threads run one after another: all are told before any waits
#endif
    if (meets) {
        const unsigned int* mine = flag(mailboxes.at(own), kind, peer);
        Patience patience(limit_ms);
        while (static_cast<int>(acquire(mine) - count) < 0) patience.again(peer);
    }
    __syncthreads();
}

}  // namespace peers
