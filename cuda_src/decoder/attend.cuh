// Attention over the cache: of single tokens, whose keys are shared over warps and blocks, and of runs of a prompt's tokens.
// Everything is computed in float32. HEAD_DIM and GROUP_HEADS (query heads that read the same keys together) are compiled in.
#pragma once

#include "../common/reduce.cuh"
#include "../common/shared.cuh"
#include "cache.cuh"

#ifndef HEAD_DIM
#define HEAD_DIM 128
#endif
#ifndef GROUP_HEADS
#define GROUP_HEADS 4
#endif
static_assert(HEAD_DIM >= 2 && HEAD_DIM <= 256 && HEAD_DIM % 2 == 0, "HEAD_DIM is even, 2 to 256: RoPE turns pairs");
static_assert(GROUP_HEADS >= 1 && GROUP_HEADS <= 8, "GROUP_HEADS is 1 to 8");
#ifndef MOST_SPLITS
#define MOST_SPLITS 256
#endif
static_assert(4 * GROUP_HEADS * (8 * HEAD_DIM + 16 + MOST_SPLITS) <= 48 * 1024,
              "what a block shares of GROUP_HEADS heads of HEAD_DIM, and MOST_SPLITS, must fit into 48 KiB");

namespace attend {

constexpr int kDim = HEAD_DIM;
constexpr int kPairs = kDim / 2;
constexpr int kHeads = GROUP_HEADS;
constexpr float kNone = -3.402823466e38f;  // below every score

// ---- one token -----------------------------------------------------------------------------------------------------------

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * reduce::kWarp;
constexpr int kTogether = kDim > 128 ? 2 : 4;  // tokens whose keys and values a warp reads at once
constexpr int kAhead = 256;  // tokens whose keys and values a block asks for before the kernel ahead has ended
constexpr int kShares = MOST_SPLITS;           // blocks that share a head's keys, at most
constexpr int kBlocks = 1;  // all the registers there are: what it waits for are keys
// A lane holds the pairs (i, i + D / 2) that RoPE turns together, for i = lane, lane + 32, …
constexpr int kEach = (kPairs + reduce::kWarp - 1) / reduce::kWarp;

struct Head {
    float low[kEach], high[kEach];

    __device__ static inline int pair(int i) { return static_cast<int>(threadIdx.x) % reduce::kWarp + i * reduce::kWarp; }
    __device__ static inline bool has(int i) { return kPairs % reduce::kWarp == 0 || pair(i) < kPairs; }

    __device__ inline void clear() {
#pragma unroll
        for (int i = 0; i < kEach; ++i) low[i] = high[i] = 0.0f;
    }
    __device__ inline void read(const float* from) {
        clear();
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            if (!has(i)) continue;
            low[i] = from[pair(i)];
            high[i] = from[pair(i) + kPairs];
        }
    }
    __device__ inline void read(const cache::Word* from, float scale) {
        clear();
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            if (!has(i)) continue;
            low[i] = cache::widen(from[pair(i)], scale);
            high[i] = cache::widen(from[pair(i) + kPairs], scale);
        }
    }
    // By the cosines and sines of a position.
    __device__ inline void turn(const float2* rotation) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            if (!has(i)) continue;
            const float2 by = rotation[pair(i)];
            const float x = low[i], y = high[i];
            low[i] = x * by.x - y * by.y;
            high[i] = y * by.x + x * by.y;
        }
    }
    __device__ inline float largest() const {
        float found = 0.0f;
#pragma unroll
        for (int i = 0; i < kEach; ++i) found = fmaxf(found, fmaxf(fabsf(low[i]), fabsf(high[i])));
        return reduce::lanes_max(found);
    }
    // Rounds to what the cache holds, and puts it there.
    __device__ inline void round(cache::Word* to, float* scales, long long row, bool keep) {
        const float scale = cache::scale_of(KV == KV_INT8 ? largest() : 0.0f);
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            if (!has(i)) continue;
            const cache::Word first = cache::narrow(low[i], scale), second = cache::narrow(high[i], scale);
            if (keep) {
                to[row * kDim + pair(i)] = first;
                to[row * kDim + pair(i) + kPairs] = second;
            }
            low[i] = cache::widen(first, scale);
            high[i] = cache::widen(second, scale);
        }
        if (KV == KV_INT8 && keep && threadIdx.x % reduce::kWarp == 0) scales[row] = scale;
    }
    __device__ inline float dot(const Head& other) const {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kEach; ++i) sum = fmaf(low[i], other.low[i], fmaf(high[i], other.high[i], sum));
        return sum;
    }
};

// The softmax so far of one query head: largest score, sum of weights, weighted sum of values.
struct Online {
    float best, total;
    Head sum;

    __device__ inline void clear() {
        best = kNone;
        total = 0.0f;
        sum.clear();
    }
    // Scores and values of kCount tokens; kNone among the scores stands for none, the first is never that.
    template <int kCount>
    __device__ inline void add(const float (&score)[kCount], const Head (&value)[kCount]) {
        float larger = best;
#pragma unroll
        for (int j = 0; j < kCount; ++j) larger = fmaxf(larger, score[j]);
        const float keep = expf(best - larger);
        total *= keep;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            sum.low[i] *= keep;
            sum.high[i] *= keep;
        }
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
            const float weight = expf(score[j] - larger);
            total += weight;
#pragma unroll
            for (int i = 0; i < kEach; ++i) {
                sum.low[i] = fmaf(weight, value[j].low[i], sum.low[i]);
                sum.high[i] = fmaf(weight, value[j].high[i], sum.high[i]);
            }
        }
        best = larger;
    }
};

// ---- runs of tokens ------------------------------------------------------------------------------------------------------

namespace run {

// kQueries tokens of a sequence against kKeys keys at a time; a thread computes 4 x 2 scores and 4 x kColumns sums.
constexpr int kQueries = kDim > 128 ? 16 : kDim > 64 ? 32 : 64;
constexpr int kKeys = 32;
constexpr int kThreads = kQueries * 4;
constexpr int kAcross = 16;  // threads that share a query
constexpr int kColumns = (kDim + kAcross - 1) / kAcross;
constexpr int kWide = (kDim + 3) / 4 * 4;
constexpr int kStride = kWide + 4;
constexpr int kScores = kKeys + 1;

struct Shared {
    long long place[kKeys];
    float key_scale[kKeys];
    float value_scale[kKeys];
    float query[kQueries][kStride];
    float key[kKeys][kStride];
    float value[kKeys][kStride];
    float score[kQueries][kScores];
    float keep[kQueries];
    float total[kQueries];
};

#ifdef RUN_SHARED
static_assert(sizeof(Shared) == RUN_SHARED, "RUN_SHARED, the bytes that a launch asks for, is the size of Shared");
static_assert(kQueries == RUN_TOKENS, "RUN_TOKENS is the longest run that attends together");
#endif

}  // namespace run

}  // namespace attend
