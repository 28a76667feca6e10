// Choosing a token from logits: the largest, or one drawn from the `top_k` largest whose probabilities reach `top_p`.
#pragma once

#include "../common/held_row.cuh"
#include "../common/order.cuh"

namespace sample {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / reduce::kWarp;
constexpr int kMost = 1024;  // candidates that a draw is made among
constexpr int kBins = 256;

// The rank below which all but `count` of a row's logits lie: digit by digit, 8 bits at a time, from the highest. Logits of
// exactly that rank are taken while there is room, lowest index first.
struct Bar {
    unsigned int rank;
    int at_bar;  // of those with this very rank, how many are taken
};

__device__ inline Bar bar_of(const float* logits, int vocab, int count, int* bins, int* chosen) {
    unsigned int prefix = 0;
    int left = count;
#pragma unroll 1
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) bins[i] = 0;
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < vocab; i += kThreads) {
            const unsigned int rank = order::rank_of(logits[i]);
            if (shift == 24 || rank >> (shift + 8) == prefix >> (shift + 8)) atomicAdd(&bins[rank >> shift & 255u], 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int digit = kBins - 1;
            while (digit > 0 && bins[digit] < left) left -= bins[digit--];
            chosen[0] = digit;
            chosen[1] = left;
        }
        __syncthreads();
        prefix |= static_cast<unsigned int>(chosen[0]) << shift;
        left = chosen[1];
        __syncthreads();
    }
    return {prefix, left};
}

// Sorts kMost keys in shared memory, largest first.
__device__ inline void sort(unsigned long long* keys) {
#pragma unroll 1
    for (int size = 2; size <= kMost; size *= 2) {
#pragma unroll 1
        for (int stride = size / 2; stride > 0; stride /= 2) {
            const int i = static_cast<int>(threadIdx.x), other = i ^ stride;
            if (other > i) {
                const unsigned long long a = keys[i], b = keys[other];
                if ((a < b) == ((i & size) == 0)) {
                    keys[i] = b;
                    keys[other] = a;
                }
            }
            __syncthreads();
        }
    }
}

}  // namespace sample
