// What normalises a token before a projection, by LAYOUT: RMSNorm with a factor for each element, or LayerNorm with a shift besides,
// which follows the factors in memory.
#pragma once

#include "../common/held_row.cuh"
#include "../common/quads.cuh"

#define LAYOUT_LLAMA 0
#define LAYOUT_GPT2 1

#ifndef LAYOUT
#define LAYOUT LAYOUT_LLAMA
#endif
static_assert(LAYOUT == LAYOUT_LLAMA || LAYOUT == LAYOUT_GPT2, "LAYOUT is 0 (Llama's) or 1 (GPT-2's)");

namespace normalise {

constexpr bool kLayer = LAYOUT == LAYOUT_GPT2;
constexpr int kRows = kLayer ? 2 : 1;  // of `depth` floats: factors, and shifts

struct Moments {
    float mean, inverse;  // inverse: 1 / standard deviation, or / root of the mean square about 0
    __device__ inline float apply(float value, float gain, float shift) const {
        return fmaf((value - mean) * inverse, gain, shift);
    }
};

// Those of `row`, which begins on 16 bytes, by a block of kThreads, for all of them; `scratch` holds kThreads / 32 values.
template <int kThreads>
__device__ inline Moments of_row(const float* row, long long depth, float epsilon, float* scratch) {
    const float* const rows[1] = {row};
    const int end = static_cast<int>(depth);
    float mean = 0.0f;
    if constexpr (kLayer) {
        float sum = 0.0f;
        quads::each<kThreads>(rows, end, end, [&](int, const float4(&x)[1]) { sum += x[0].x + x[0].y + x[0].z + x[0].w; });
        mean = held::block_sum_all<kThreads>(sum, scratch) / static_cast<float>(depth);
        __syncthreads();
    }
    float squares = 0.0f;
    quads::each<kThreads>(rows, end, end, [&](int, const float4(&x)[1]) {
        const float a = x[0].x - mean, b = x[0].y - mean, c = x[0].z - mean, d = x[0].w - mean;
        squares = fmaf(a, a, fmaf(b, b, fmaf(c, c, fmaf(d, d, squares))));
    });
    const float variance = held::block_sum_all<kThreads>(squares, scratch) / static_cast<float>(depth);
    __syncthreads();
    return {mean, 1.0f / sqrtf(variance + epsilon)};
}

}  // namespace normalise
