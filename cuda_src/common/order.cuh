// Floats as unsigned integers of the same order, and (value, index) pairs as 64-bit keys: the largest key is the largest
// value, of equal values the one with the lowest index. Keys are unique, so a maximum of them does not depend on the order
// in which it is taken.
#pragma once

#include "reduce.cuh"

namespace order {

// Order-preserving; -0 counts as 0. No number maps to 0, which so stands for none.
__device__ inline unsigned int rank_of(float value) {
    const unsigned int bits = __float_as_uint(value + 0.0f);
    return bits ^ ((bits & 0x80000000u) ? 0xFFFFFFFFu : 0x80000000u);
}

__device__ inline float value_of(unsigned int rank) {
    return __uint_as_float(rank ^ ((rank & 0x80000000u) ? 0x80000000u : 0xFFFFFFFFu));
}

__device__ inline unsigned long long key_of(unsigned int rank, int index) {
    return (static_cast<unsigned long long>(rank) << 32) | (0xFFFFFFFFu - static_cast<unsigned int>(index));
}

__device__ inline float key_value(unsigned long long key) { return value_of(static_cast<unsigned int>(key >> 32)); }

__device__ inline int key_index(unsigned long long key) {
    return static_cast<int>(0xFFFFFFFFu - static_cast<unsigned int>(key));
}

// The kCount (1, 2 or 4) largest keys seen, largest first.
template <int kCount>
struct Largest {
    unsigned long long key[kCount];

    __device__ inline void clear() {
#pragma unroll
        for (int i = 0; i < kCount; ++i) key[i] = 0ULL;
    }

    // What a rank must exceed to enter, when indices only grow from call to call.
    __device__ inline unsigned int bar() const { return static_cast<unsigned int>(key[kCount - 1] >> 32); }

    __device__ inline void insert(unsigned long long candidate) {
        if (candidate <= key[kCount - 1]) return;
        key[kCount - 1] = candidate;
#pragma unroll
        for (int i = kCount - 1; i > 0; --i) exchange(i - 1, i);
    }

    // The largest of two lists: pairing one with the other reversed leaves them in a bitonic sequence.
    __device__ inline void merge(const Largest& other) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const unsigned long long theirs = other.key[kCount - 1 - i];
            key[i] = theirs > key[i] ? theirs : key[i];
        }
#pragma unroll
        for (int stride = kCount / 2; stride > 0; stride /= 2) {
#pragma unroll
            for (int i = 0; i < kCount; ++i) {
                if ((i & stride) == 0) exchange(i, i + stride);
            }
        }
    }

    // Over aligned groups of kLanes lanes, each of which gets the result.
    template <int kLanes>
    __device__ inline void merge_lanes() {
#pragma unroll
        for (int offset = kLanes / 2; offset > 0; offset /= 2) {
            Largest other;
#pragma unroll
            for (int i = 0; i < kCount; ++i) other.key[i] = __shfl_xor_sync(reduce::kAllLanes, key[i], offset);
            merge(other);
        }
    }

    // Over a block of kWarps (a power of two) full warps; warp 0 gets the result.
    template <int kWarps>
    __device__ inline void merge_block(Largest (&scratch)[kWarps]) {
        const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
        const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
        merge_lanes<reduce::kWarp>();
        if (lane == 0) scratch[warp] = *this;
        __syncthreads();
        if (warp != 0) return;
        *this = scratch[lane % kWarps];
        merge_lanes<kWarps>();
    }

private:
    __device__ inline void exchange(int upper, int lower) {
        const unsigned long long a = key[upper], b = key[lower];
        key[upper] = a > b ? a : b;
        key[lower] = a > b ? b : a;
    }
};

}  // namespace order
