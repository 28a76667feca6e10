// Projections of a few tokens, bound by the reading of the weights: y[t] = W x[t], for up to kTokens tokens at once.
//
// A team of warps computes kRows rows, its threads taking the 16-byte pieces of each row in turn, so that many loads are in flight
// and whatever is read of x serves all rows. With kNorm x is first normalised. For RMSNorm the products are taken with gamma * x
// and divided by the root of the mean square at the end, which the same pass over x gives; LayerNorm reads x before, for its
// mean and variance.
#pragma once

#include "../common/overlap.cuh"
#include "normalise.cuh"
#include "weights.cuh"

#ifndef BATCH_TILE
#define BATCH_TILE 1
#endif
static_assert(BATCH_TILE >= 1 && BATCH_TILE <= 8, "BATCH_TILE, the tokens that share one reading of a weight, is 1 to 8");

namespace few {

constexpr int kTokens = BATCH_TILE;
constexpr int kRows = 4;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * reduce::kWarp;
// Bounds the registers: what is in flight is a matter of how many blocks fit.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
constexpr int kBlocksOfBytes = 5;  // its compiler would keep some in memory otherwise
#else
constexpr int kBlocksOfBytes = 6;
#endif
constexpr int kBlocks = !weights::Stored::kScaled ? (kTokens == 1 ? 8 : kTokens == 2 ? 6 : 3)
        : kTokens > 2                             ? 2
        : WEIGHTS == WEIGHTS_W8                   ? (kTokens > 1 ? 4 : normalise::kLayer ? 5 : kBlocksOfBytes)
                                                  : (kTokens == 1 ? 4 : 3);

// Warps that share kRows rows: rows of quantised weights are short.
template <class Type>
constexpr int kTeam = Type::kScaled ? 2 : 4;

// First row of the `each` that this thread's team computes.
template <class Type>
__device__ inline long long first_row(int each) {
    constexpr int kThreadsOfTeam = kTeam<Type> * reduce::kWarp;
    const int team = static_cast<int>(threadIdx.x) / kThreadsOfTeam;
    return (static_cast<long long>(blockIdx.x) * (kThreads / kThreadsOfTeam) + team) * each;
}

// A team's work: `row(r)` is the weight row of its r-th sum, `store(t, sums)` takes token t's sums of its kRows rows.
// x(t) gives the address of a token's activations, `depth` floats on 16 bytes.
template <class Type, bool kNorm, class Row, class Activation, class Store>
__device__ inline void project(const void* weight, const float* scale, const float* gamma, long long depth, int tokens,
        float epsilon, Row row, Activation x, Store store) {
    constexpr int kThreadsOfTeam = kTeam<Type> * reduce::kWarp;
    constexpr int kSums = kRows * kTokens + (kNorm ? kTokens : 0);
    __shared__ float scratch[kWarps][kSums];
    const unsigned char* base = static_cast<const unsigned char*>(weight);
    const int pieces = Type::pieces(depth);
    const uint4* from[kRows];
    const float* scales[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        from[r] = reinterpret_cast<const uint4*>(base + Type::row_at(row(r), depth));
        if constexpr (Type::kScaled) scales[r] = scale + Type::scale_at(row(r), 0, depth);
    }
    overlap::wait();
    overlap::release();
    const float* inputs[kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; ++t) inputs[t] = x(t < tokens ? t : tokens - 1);  // of a tile that is not full the last again
    float sum[kRows][kTokens] = {};
    float squares[kTokens] = {};
    normalise::Moments moments[kTokens];
    if constexpr (kNorm && normalise::kLayer) {
        __shared__ float moments_scratch[kWarps];
#pragma unroll
        for (int t = 0; t < kTokens; ++t) moments[t] = normalise::of_row<kThreads>(inputs[t], depth, epsilon, moments_scratch);
    }
    // A team takes whole tiles at a time, so that pieces of a thread are equally far apart.
    static_assert(!Type::kScaled || kThreadsOfTeam % (weights::kTile / Type::kCount) == 0, "a team's threads are whole tiles of a row");
    constexpr int kApart = static_cast<int>(Type::piece_at(kThreadsOfTeam) / 16);
#pragma unroll
    for (int r = 0; r < kRows; ++r) from[r] += Type::piece_at(static_cast<int>(threadIdx.x) % kThreadsOfTeam) / 16;
#pragma unroll 1
    for (int p = static_cast<int>(threadIdx.x) % kThreadsOfTeam; p < pieces; p += kThreadsOfTeam) {
        uint4 raw[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            raw[r] = __ldcs(from[r]);
            from[r] += kApart;
        }
        float by[kRows];
        if constexpr (Type::kScaled) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) by[r] = scales[r][Type::element(p, 0) / GROUP * Type::kTogether];
        }
        float part[kRows][kTokens] = {};
#pragma unroll
        for (int step = 0; step < Type::kCount / Type::kStep; ++step) {
            float w[kRows][Type::kStep];
#pragma unroll
            for (int r = 0; r < kRows; ++r) Type::unpack(raw[r], step, w[r]);
#pragma unroll
            for (int q = 0; q < Type::kStep / 4; ++q) {
                const int e = Type::element(p, step * (Type::kStep / 4) + q);
                const bool inside = !Type::kScaled || WHOLE_TILES || e < depth;
                float4 gain = make_float4(1.0f, 1.0f, 1.0f, 1.0f), shift = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if constexpr (kNorm) {
                    if (inside) gain = *reinterpret_cast<const float4*>(gamma + e);
                    if (normalise::kLayer && inside) shift = *reinterpret_cast<const float4*>(gamma + depth + e);
                }
#pragma unroll
                for (int t = 0; t < kTokens; ++t) {
                    float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (inside) four = *reinterpret_cast<const float4*>(inputs[t] + e);
                    if constexpr (kNorm && normalise::kLayer) {
                        const normalise::Moments of = moments[t];
                        four = make_float4(of.apply(four.x, gain.x, shift.x), of.apply(four.y, gain.y, shift.y),
                                of.apply(four.z, gain.z, shift.z), of.apply(four.w, gain.w, shift.w));
                    } else if constexpr (kNorm) {
                        squares[t] = fmaf(four.x, four.x, squares[t]);
                        squares[t] = fmaf(four.y, four.y, squares[t]);
                        squares[t] = fmaf(four.z, four.z, squares[t]);
                        squares[t] = fmaf(four.w, four.w, squares[t]);
                        four = make_float4(four.x * gain.x, four.y * gain.y, four.z * gain.z, four.w * gain.w);
                    }
#pragma unroll
                    for (int r = 0; r < kRows; ++r) {
                        float& to = Type::kScaled ? part[r][t] : sum[r][t];
                        to = fmaf(w[r][4 * q], four.x, to);
                        to = fmaf(w[r][4 * q + 1], four.y, to);
                        to = fmaf(w[r][4 * q + 2], four.z, to);
                        to = fmaf(w[r][4 * q + 3], four.w, to);
                    }
                }
            }
        }
        if constexpr (Type::kScaled) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
#pragma unroll
                for (int t = 0; t < kTokens; ++t) sum[r][t] = fmaf(part[r][t], by[r], sum[r][t]);
            }
        }
    }
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
            const float all = reduce::lanes_sum(sum[r][t]);
            if (lane == 0) scratch[warp][r * kTokens + t] = all;
        }
    }
    if constexpr (kNorm && !normalise::kLayer) {
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
            const float all = reduce::lanes_sum(squares[t]);
            if (lane == 0) scratch[warp][kRows * kTokens + t] = all;
        }
    }
    __syncthreads();
    const int t = static_cast<int>(threadIdx.x) % kThreadsOfTeam;
    if (t >= tokens || t >= kTokens) return;
    const int first_warp = warp / kTeam<Type> * kTeam<Type>;
    float inverse = 1.0f;
    if constexpr (kNorm && !normalise::kLayer) {
        float square = 0.0f;
#pragma unroll
        for (int w = 0; w < kTeam<Type>; ++w) square += scratch[first_warp + w][kRows * kTokens + t];
        inverse = 1.0f / sqrtf(square / static_cast<float>(depth) + epsilon);
    }
    float total[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        total[r] = 0.0f;
#pragma unroll
        for (int w = 0; w < kTeam<Type>; ++w) total[r] += scratch[first_warp + w][r * kTokens + t];
        total[r] *= inverse;
    }
    store(t, total);
}

}  // namespace few
