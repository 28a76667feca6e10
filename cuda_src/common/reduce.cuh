// Sums and maxima over groups of lanes, warps and blocks. Every lane of a warp must call them together.
#pragma once

namespace reduce {

constexpr int kWarp = 32;
constexpr unsigned int kAllLanes = 0xFFFFFFFFu;

// Sum over aligned groups of kLanes (a power of two) lanes; every lane of a group gets it.
template <int kLanes = kWarp>
__device__ inline float lanes_sum(float value) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
    return value;
}

// The largest over aligned groups of kLanes (a power of two) lanes; every lane of a group gets it.
template <int kLanes = kWarp>
__device__ inline float lanes_max(float value) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
    }
    return value;
}

// kCount sums at once over aligned groups of kLanes lanes (both powers of two); every lane of a group gets all of them.
// Lanes first share the sums out, each round handing half of what they hold to the other half of the lanes: 10 shuffles
// instead of 20 for four sums over a warp.
template <int kLanes, int kCount>
__device__ inline void lanes_sum_each(float (&value)[kCount]) {
    if constexpr (kLanes < kCount) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) value[i] = lanes_sum<kLanes>(value[i]);
    } else {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        int offset = kLanes / 2;
#pragma unroll
        for (int half = kCount / 2; half > 0; half /= 2) {
            const bool upper = (lane & offset) != 0;
#pragma unroll
            for (int i = 0; i < half; ++i) {
                const float give = upper ? value[i] : value[i + half];
                const float keep = upper ? value[i + half] : value[i];
                value[i] = keep + __shfl_xor_sync(kAllLanes, give, offset);
            }
            offset /= 2;
        }
        const float mine = lanes_sum<kLanes / kCount>(value[0]);
        const int first = lane / kLanes * kLanes;
#pragma unroll
        for (int i = 0; i < kCount; ++i) value[i] = __shfl_sync(kAllLanes, mine, first + i * (kLanes / kCount));
    }
}

// Sum over a block of kWarps full warps; thread 0 gets it. `scratch` holds kWarps floats.
template <int kWarps>
__device__ inline float block_sum(float value, float* scratch) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    value = lanes_sum(value);
    if (lane == 0) scratch[warp] = value;
    __syncthreads();
    if (warp == 0) value = lanes_sum(lane < kWarps ? scratch[lane] : 0.0f);
    return value;
}

// True in every thread of the last of `expected` blocks that arrive at `ticket`, once all their global writes
// made before the call are visible; the ticket is zero again then, ready for the next launch.
__device__ inline bool last_to_arrive(unsigned int* ticket, unsigned int expected) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(ticket, 1u) == expected - 1u;
        if (last) *ticket = 0u;
    }
    __syncthreads();
    const bool mine = last;
    if (mine) __threadfence();
    return mine;
}

}  // namespace reduce
