// Attention over the cache: of single tokens, whose keys are shared over warps and blocks, and of runs of a prompt's tokens.
// Everything is computed in float32. HEAD_DIM and GROUP_HEADS (query heads that read the same keys together) are compiled in.
#pragma once

#include "../common/overlap.cuh"
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
static_assert(4 * GROUP_HEADS * (8 * HEAD_DIM + 16 + MOST_SPLITS) + 16 <= 48 * 1024,
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
            low[i] = cache::widen(cache::load(from + pair(i)), scale);
            high[i] = cache::widen(cache::load(from + pair(i) + kPairs), scale);
        }
    }
    // By a position's cosines, which `by` has as its low half, and sines.
    __device__ inline void turn(const Head& by) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const float x = low[i], y = high[i];
            low[i] = x * by.low[i] - y * by.high[i];
            high[i] = y * by.low[i] + x * by.high[i];
        }
    }
    __device__ inline void read(const float2* rotation) {
        clear();
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            if (!has(i)) continue;
            const float2 by = rotation[pair(i)];
            low[i] = by.x;
            high[i] = by.y;
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
        const float keep = __expf(best - larger);
        total *= keep;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            sum.low[i] *= keep;
            sum.high[i] *= keep;
        }
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
            const float weight = __expf(score[j] - larger);
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

constexpr int kResult = kDim + 2;  // of a share and a head: the weighted sum, then the largest score and the sum of weights

// What each warp of a block found among its tokens.
struct Found {
    float largest[kWarps][kHeads], totals[kWarps][kHeads], sums[kWarps][kHeads][kDim];
};

// A share of a token's keys: of the heads that read them together those of one tile. The last share has the token itself, too.
struct Share {
    long long heads, kv_heads, kv_head, tile, slot, at, begin, end, first_head;
    int count;  // heads of the tile
    bool own;

    // `of`: KV head and tile, `at`: the token's position.
    __device__ inline Share(long long heads, long long kv_heads, long long of, long long slot, long long at, long long split, long long splits)
        : heads(heads), kv_heads(kv_heads), slot(slot), at(at), begin(at * split / splits), end(at * (split + 1) / splits),
          own(split == splits - 1) {
        const long long group = heads / kv_heads, tiles = (group + kHeads - 1) / kHeads;
        kv_head = of / tiles;
        tile = of % tiles;
        first_head = kv_head * group + tile * kHeads;
        count = static_cast<int>(group - tile * kHeads < kHeads ? group - tile * kHeads : kHeads);
    }

    // Asks for keys and values of the first tokens, a sector at a time, behind those that every warp reads at once.
    __device__ inline void ask(const cache::Cache& all) const {
        constexpr int kSector = 32 / static_cast<int>(sizeof(cache::Word)), kSectors = (kDim + kSector - 1) / kSector;
        const int first = kWarps * kTogether, last = static_cast<int>(end - begin < kAhead ? end - begin : kAhead);
#pragma unroll 1
        for (int i = first * kSectors + static_cast<int>(threadIdx.x); i < last * kSectors; i += kThreads) {
            const long long from = all.shape.row(slot, kv_head, begin + i / kSectors) * kDim + i % kSectors * kSector;
            overlap::ahead(all.keys + from);
            overlap::ahead(all.values + from);
        }
    }

    // `row`: Q, K and V of the token, which the kernel ahead writes; the first keys and values are read before it has ended. The token's
    // key is turned and stored, and its value, by the tile that is the first of its KV head.
    __device__ inline void attend(Found& found, const cache::Cache& all, const float* row, const float2* rotation) const {
        const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp, lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
        const float scale = 1.0f / sqrtf(static_cast<float>(kDim));
        Head query[kHeads], key[kTogether], value[kTogether], turn;
        Online online[kHeads];
        turn.read(rotation + at * kPairs);
        bool waits = true;
#pragma unroll 1
        for (long long j = begin + warp * kTogether;; j += kWarps * kTogether) {
            if (j < end) {
#pragma unroll
                for (int i = 0; i < kTogether; ++i) {
                    const long long place = all.shape.row(slot, kv_head, j + i < end ? j + i : end - 1);
                    key[i].read(all.keys + place * kDim, cache::load_scale(all.key_scales, place));
                    value[i].read(all.values + place * kDim, cache::load_scale(all.value_scales, place));
                }
            }
            if (waits) {
                waits = false;
                overlap::wait();
                overlap::release();
#pragma unroll
                for (int g = 0; g < kHeads; ++g) {
                    query[g].read(row + (first_head + (g < count ? g : count - 1)) * kDim);
                    query[g].turn(turn);
#pragma unroll
                    for (int i = 0; i < kEach; ++i) {
                        query[g].low[i] *= scale;
                        query[g].high[i] *= scale;
                    }
                    online[g].clear();
                }
            }
            if (j >= end) break;
#pragma unroll
            for (int g = 0; g < kHeads; ++g) {
                float score[kTogether];
#pragma unroll
                for (int i = 0; i < kTogether; ++i) score[i] = query[g].dot(key[i]);
                reduce::lanes_sum_each<reduce::kWarp>(score);
#pragma unroll
                for (int i = 0; i < kTogether; ++i) {
                    if (j + i >= end) score[i] = kNone;
                }
                online[g].add(score, value);
            }
        }
        if (own && warp == kWarps - 1) {
            const long long place = all.shape.row(slot, kv_head, at);
            Head own_key, own_value;
            own_key.read(row + (heads + kv_head) * kDim);
            own_key.turn(turn);
            own_value.read(row + (heads + kv_heads + kv_head) * kDim);
            own_key.round(all.keys, all.key_scales, place, tile == 0);
            own_value.round(all.values, all.value_scales, place, tile == 0);
#pragma unroll
            for (int g = 0; g < kHeads; ++g) {
                const float score[1] = {reduce::lanes_sum(query[g].dot(own_key))};
                const Head one[1] = {own_value};
                online[g].add(score, one);
            }
        }
#pragma unroll
        for (int g = 0; g < kHeads; ++g) {
            if (lane == 0) {
                found.largest[warp][g] = online[g].best;
                found.totals[warp][g] = online[g].total;
            }
#pragma unroll
            for (int i = 0; i < kEach; ++i) {
                if (!Head::has(i)) continue;
                found.sums[warp][g][Head::pair(i)] = online[g].sum.low[i];
                found.sums[warp][g][Head::pair(i) + kPairs] = online[g].sum.high[i];
            }
        }
    }

    // What all warps found: `store(g, d, sum, best, total)` takes element d of the tile's head g.
    template <class Store>
    __device__ inline void together(const Found& found, Store store) const {
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x); i < count * kDim; i += kThreads) {
            const int g = i / kDim, d = i % kDim;
            float best = kNone, total = 0.0f, sum = 0.0f;
#pragma unroll 8
            for (int w = 0; w < kWarps; ++w) best = fmaxf(best, found.largest[w][g]);
#pragma unroll 4
            for (int w = 0; w < kWarps; ++w) {
                const float by = __expf(found.largest[w][g] - best);
                total = fmaf(found.totals[w][g], by, total);
                sum = fmaf(found.sums[w][g][d], by, sum);
            }
            store(g, d, sum, best, total);
        }
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
