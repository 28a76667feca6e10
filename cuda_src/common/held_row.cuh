// A row of floats held in the registers of the block that works on it, and what the block's threads find out together.
#pragma once

#include "common/reduce.cuh"

namespace held {

// kHidden floats over kThreads threads: kPieces pieces each, of 16 bytes where every row begins on 16 bytes and of one
// float otherwise. Neighbouring threads hold neighbouring pieces.
template <int kHidden, int kThreads>
struct Row {
    static_assert(kHidden >= 1, "a row has at least one element");
    static_assert(kThreads >= 32 && kThreads <= 1024 && (kThreads & (kThreads - 1)) == 0, "a power of two, 32 to 1024");
    static constexpr int kWidth = kHidden % 4 == 0 ? 4 : 1;
    static constexpr int kCount = kHidden / kWidth;
    static constexpr int kPieces = (kCount + kThreads - 1) / kThreads;

    float value[kPieces][kWidth];

    // Number of piece p of this thread within the row, and whether the row has it.
    static __device__ inline int number(int p) { return p * kThreads + static_cast<int>(threadIdx.x); }
    static __device__ inline bool has(int p) { return kCount % kThreads == 0 || number(p) < kCount; }

    // Reads the row; what lies beyond it is zero.
    __device__ inline void load(const float* from) {
#pragma unroll
        for (int p = 0; p < kPieces; ++p) {
            if constexpr (kWidth == 4) {
                const float4 four =
                        has(p) ? reinterpret_cast<const float4*>(from)[number(p)] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                value[p][0] = four.x;
                value[p][1] = four.y;
                value[p][2] = four.z;
                value[p][3] = four.w;
            } else {
                value[p][0] = has(p) ? from[number(p)] : 0.0f;
            }
        }
    }

    __device__ inline void store(float* to) const {
#pragma unroll
        for (int p = 0; p < kPieces; ++p) {
            if (!has(p)) continue;
            if constexpr (kWidth == 4) {
                reinterpret_cast<float4*>(to)[number(p)] =
                        make_float4(value[p][0], value[p][1], value[p][2], value[p][3]);
            } else {
                to[number(p)] = value[p][0];
            }
        }
    }
};

// Combines one value of every thread of a block of kThreads; all threads get the same result. `scratch` holds
// kThreads / 32 values and may be used again only after a barrier.
template <int kThreads, class Value, class Combine>
__device__ inline Value block_all(Value value, Value* scratch, Combine combine) {
    constexpr int kWarps = kThreads / reduce::kWarp;
#pragma unroll
    for (int offset = reduce::kWarp / 2; offset > 0; offset /= 2) {
        value = combine(value, __shfl_xor_sync(reduce::kAllLanes, value, offset));
    }
    if constexpr (kWarps > 1) {
        const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
        const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
        if (lane == 0) scratch[warp] = value;
        __syncthreads();
        value = scratch[lane % kWarps];
#pragma unroll
        for (int offset = kWarps / 2; offset > 0; offset /= 2) {
            value = combine(value, __shfl_xor_sync(reduce::kAllLanes, value, offset));
        }
    }
    return value;
}

template <int kThreads>
__device__ inline float block_sum_all(float value, float* scratch) {
    return block_all<kThreads>(value, scratch, [](float a, float b) { return a + b; });
}

template <int kThreads>
__device__ inline float block_max_all(float value, float* scratch) {
    return block_all<kThreads>(value, scratch, [](float a, float b) { return fmaxf(a, b); });
}

}  // namespace held
