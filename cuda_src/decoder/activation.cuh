// What stands between the two projections of the feed-forward part, by LAYOUT, and the biases of all of them.
#pragma once

#include "normalise.cuh"

namespace activation {

constexpr bool kGated = LAYOUT == LAYOUT_LLAMA;
constexpr int kUp = kGated ? 2 : 1;  // rows of the projection into the feed-forward part for each of its elements

__device__ inline float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

// GELU as GPT-2 has it, by the hyperbolic tangent.
__device__ inline float gelu(float x) { return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x))); }

// Element `row` of the layer's bias.
__device__ inline float bias_of(const float* bias, long long layer, long long rows, long long row) {
    return bias == nullptr ? 0.0f : bias[layer * rows + row];
}

}  // namespace activation
