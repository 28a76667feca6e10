// The tail of a decode layer: residual add, RMSNorm, and int8 quantisation of each row for the next layer, as four
// kernels and as one. HIDDEN, the length of a row, and THREADS, the threads that work on one, are compiled in: a row
// stays in registers from the load to the last store.
#include "common/held_row.cuh"

#ifndef HIDDEN
#define HIDDEN 4096
#endif
#ifndef THREADS
#define THREADS 1024
#endif

namespace {

constexpr int kHidden = HIDDEN;
constexpr int kThreads = THREADS;
constexpr int kWarps = kThreads / reduce::kWarp;
constexpr float kEpsilon = 1e-5f;
constexpr float kLevels = 127.0f;
using Row = held::Row<kHidden, kThreads>;

__device__ inline long long row_start() { return static_cast<long long>(blockIdx.x) * kHidden; }

// x -> x / sqrt(mean(x^2) + epsilon) * gamma, in place.
__device__ inline void normalise(Row& at, const float* __restrict__ gamma, float* scratch) {
    Row weight;
    weight.load(gamma);
    float sum = 0.0f;
#pragma unroll
    for (int p = 0; p < Row::kPieces; ++p) {
#pragma unroll
        for (int i = 0; i < Row::kWidth; ++i) sum = fmaf(at.value[p][i], at.value[p][i], sum);
    }
    sum = held::block_sum_all<kThreads>(sum, scratch);
    const float inverse = rsqrtf(sum / static_cast<float>(kHidden) + kEpsilon);
#pragma unroll
    for (int p = 0; p < Row::kPieces; ++p) {
#pragma unroll
        for (int i = 0; i < Row::kWidth; ++i) at.value[p][i] = at.value[p][i] * inverse * weight.value[p][i];
    }
}

// The row's quantisation unit: its largest magnitude over 127.
__device__ inline float scale_of(const Row& at, float* scratch) {
    float largest = 0.0f;
#pragma unroll
    for (int p = 0; p < Row::kPieces; ++p) {
#pragma unroll
        for (int i = 0; i < Row::kWidth; ++i) largest = fmaxf(largest, fabsf(at.value[p][i]));
    }
    return held::block_max_all<kThreads>(largest, scratch) / kLevels;
}

// One over the unit; zero, and with it every level, where the unit is zero.
__device__ inline float inverse_of(float scale) { return scale == 0.0f ? 0.0f : 1.0f / scale; }

__device__ inline int level(float value, float inverse) {
    return static_cast<int>(fminf(fmaxf(rintf(value * inverse), -kLevels), kLevels));
}

__device__ inline unsigned int pack(const float* value, float inverse) {
    unsigned int word = 0u;
#pragma unroll
    for (int i = 0; i < 4; ++i) word |= (static_cast<unsigned int>(level(value[i], inverse)) & 0xFFu) << (8 * i);
    return word;
}

// Levels of a whole row, four to a store.
__device__ inline void store_levels(const Row& at, float inverse, signed char* __restrict__ to) {
#pragma unroll
    for (int p = 0; p < Row::kPieces; ++p) {
        if (!Row::has(p)) continue;
        if constexpr (Row::kWidth == 4) {
            reinterpret_cast<unsigned int*>(to)[Row::number(p)] = pack(at.value[p], inverse);
        } else {
            to[Row::number(p)] = static_cast<signed char>(level(at.value[p][0], inverse));
        }
    }
}

template <bool kWriteNorm>
__device__ inline void fused(const float* __restrict__ x, const float* __restrict__ residual,
        const float* __restrict__ gamma, float* __restrict__ norm, float* __restrict__ scale,
        signed char* __restrict__ quant) {
    __shared__ float sums[kWarps];
    __shared__ float maxima[kWarps];
    Row at, other;
    at.load(x + row_start());
    other.load(residual + row_start());
#pragma unroll
    for (int p = 0; p < Row::kPieces; ++p) {
#pragma unroll
        for (int i = 0; i < Row::kWidth; ++i) at.value[p][i] += other.value[p][i];
    }
    normalise(at, gamma, sums);
    if constexpr (kWriteNorm) at.store(norm + row_start());
    const float unit = scale_of(at, maxima);
    if (threadIdx.x == 0) scale[blockIdx.x] = unit;
    store_levels(at, inverse_of(unit), quant + row_start());
}

}  // namespace

// added = x + residual, n elements, a quad a thread; the thread after the last quad does what is left.
extern "C" __global__ void residual_add_kernel(const float* __restrict__ x, const float* __restrict__ residual,
        float* __restrict__ added, long long n) {
    const long long quad = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (quad < n / 4) {
        const float4 a = reinterpret_cast<const float4*>(x)[quad];
        const float4 b = reinterpret_cast<const float4*>(residual)[quad];
        reinterpret_cast<float4*>(added)[quad] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    } else if (quad == n / 4) {
#pragma unroll 1
        for (long long i = quad * 4; i < n; ++i) added[i] = x[i] + residual[i];
    }
}

// A block a row.
extern "C" __global__ void __launch_bounds__(kThreads) rmsnorm_kernel(const float* __restrict__ added,
        const float* __restrict__ gamma, float* __restrict__ norm) {
    __shared__ float scratch[kWarps];
    Row at;
    at.load(added + row_start());
    normalise(at, gamma, scratch);
    at.store(norm + row_start());
}

// A block a row.
extern "C" __global__ void __launch_bounds__(kThreads) row_absmax_scale_kernel(const float* __restrict__ norm,
        float* __restrict__ scale) {
    __shared__ float scratch[kWarps];
    Row at;
    at.load(norm + row_start());
    const float unit = scale_of(at, scratch);
    if (threadIdx.x == 0) scale[blockIdx.x] = unit;
}

// Row blockIdx.x, piece by piece along blockIdx.y.
extern "C" __global__ void quantize_kernel(const float* __restrict__ norm, const float* __restrict__ scale,
        signed char* __restrict__ quant) {
    const int piece = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
    if (piece >= Row::kCount) return;
    const float inverse = inverse_of(scale[blockIdx.x]);
    const float* from = norm + row_start();
    signed char* to = quant + row_start();
    if constexpr (Row::kWidth == 4) {
        const float4 four = reinterpret_cast<const float4*>(from)[piece];
        const float value[4] = {four.x, four.y, four.z, four.w};
        reinterpret_cast<unsigned int*>(to)[piece] = pack(value, inverse);
    } else {
        to[piece] = static_cast<signed char>(level(from[piece], inverse));
    }
}

// All of it, a block a row: neither the sum nor a second read of the norm goes through memory.
extern "C" __global__ void __launch_bounds__(kThreads) fused_residual_rmsnorm_quant_kernel(const float* __restrict__ x,
        const float* __restrict__ residual, const float* __restrict__ gamma, float* __restrict__ norm,
        float* __restrict__ scale, signed char* __restrict__ quant) {
    fused<true>(x, residual, gamma, norm, scale, quant);
}

// The same for a next layer that reads levels and units only.
extern "C" __global__ void __launch_bounds__(kThreads) fused_residual_rmsnorm_quant_only_kernel(
        const float* __restrict__ x, const float* __restrict__ residual, const float* __restrict__ gamma,
        float* __restrict__ scale, signed char* __restrict__ quant) {
    fused<false>(x, residual, gamma, nullptr, scale, quant);
}
