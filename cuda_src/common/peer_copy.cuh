// Copies that a kernel makes of memory it can address, its own device's or a peer's. A source of a family of several
// devices has an entry point `peer_copy_kernel` of `copy_floats`: by it peer access is tried before it is relied on.
#pragma once

#include "peers.cuh"

namespace peers {

// Quads a thread has on their way together: a read over a link takes a microsecond.
constexpr int kTogether = 8;

// `quads` times 16 bytes, by `threads` threads of which this is number `own`.
__device__ inline void copy(const float4* from, float4* to, long long quads, long long own, long long threads) {
    for (long long first = own; first < quads; first += kTogether * threads) {
        float4 held[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            if (first + i * threads < quads) held[i] = load_quad(from + first + i * threads);
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            if (first + i * threads < quads) to[first + i * threads] = held[i];
        }
    }
}

// Elements [0, n) of `to` from those of `from`; both begin on 16 bytes. On the device of either: it reads the peer's
// memory, or it writes it.
__device__ inline void copy_floats(const float* from, float* to, long long n) {
    const long long quads = n / 4;
    copy(reinterpret_cast<const float4*>(from), reinterpret_cast<float4*>(to), quads,
         static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x, static_cast<long long>(gridDim.x) * blockDim.x);
    if (blockIdx.x == 0 && threadIdx.x < n % 4) to[4 * quads + threadIdx.x] = load(from + 4 * quads + threadIdx.x);
}

}  // namespace peers
