// One decode step's scan over a float32 KV cache, K and V in one pass, for a group of queries that share them.
//
// Fixture (no softmax): out = factor * sum over t of (q . k_t) v_t. Softmax: real attention, a running maximum and sum.
//
// kLanes lanes hold a row of kDim floats (16 bytes each), a warp holds 32 / kLanes rows at a time and kUnroll times that
// in flight. Queries that do not fit one warp's registers (kQueries do) go to kSubsets warps side by side, which read
// the same rows at about the same time: the second one finds them in L1.
#pragma once

#include "common/convert.cuh"
#include "common/reduce.cuh"

namespace scan {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * reduce::kWarp;
constexpr int kBlocksPerSm = 2;  // what grids count on; bounds the registers
constexpr float kLowest = -1e30f;  // below any score, and finite: the difference of two is 0, not NaN
constexpr float kLog2E = 1.44269504f;

// Rows in flight of a softmax scan for more than two queries, where sm_120's code for four of them spills registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
constexpr int kTightUnroll = 2;
#else
constexpr int kTightUnroll = 4;
#endif

__host__ __device__ constexpr int power_of_two_from(int value) {
    int power = 1;
    while (power < value) power *= 2;
    return power;
}

template <int kDimension, int kQueriesOfWarp, int kSubsetsOfBlock, bool kIsSoftmax>
struct Form {
    static_assert(kDimension >= 16 && kDimension <= 256 && kDimension % 16 == 0, "a multiple of 16 up to 256");
    static_assert(kQueriesOfWarp >= 1 && kQueriesOfWarp <= (kDimension == 128 ? 4 : 2), "what the registers hold");
    static_assert(kSubsetsOfBlock >= 1 && kWarps % kSubsetsOfBlock == 0, "subsets share out the warps");
    static constexpr int kDim = kDimension;
    static constexpr int kQueries = kQueriesOfWarp;
    static constexpr int kSubsets = kSubsetsOfBlock;
    static constexpr bool kSoftmax = kIsSoftmax;
    static constexpr int kGroup = kQueries * kSubsets;  // queries of a block
    static constexpr int kRowWarps = kWarps / kSubsets;  // warps that share out the tokens
    static constexpr int kChunks = kDim / convert::Float32::kCount;  // 16-byte pieces of a row
    static constexpr int kLanes = kChunks < 32 ? power_of_two_from(kChunks) : 32;
    static constexpr int kPieces = (kChunks + kLanes - 1) / kLanes;  // per lane
    static constexpr int kRows = 32 / kLanes;
    static constexpr int kUnroll = (kSoftmax && kQueries > 2 ? kTightUnroll : 4) / kPieces;
    static constexpr int kStep = kRows * kUnroll;  // tokens a warp has in flight
    static constexpr int kValues = kPieces * convert::Float32::kCount;  // elements of a row in one lane
};

// What the warps of a block hand to each other.
template <class F>
struct Exchange {
    float vector[F::kRowWarps][F::kGroup][F::kDim];
    float maximum[F::kRowWarps][F::kGroup];
    float sum[F::kRowWarps][F::kGroup];
};

// One KV head and the queries that read it.
struct Head {
    const float* q;  // [queries, kDim]
    const float* k;  // [tokens, kDim]
    const float* v;
    float* out;      // [queries, kDim]
    int queries;
};

// A weighted sum of V rows with the softmax maximum and sum it refers to (0 and 1 where there is no softmax).
struct Merged {
    float value;
    float maximum;
    float sum;
};

// Reads tokens [begin, end) of a head with the whole block, counts those below `valid`, and leaves each warp's result in
// `exchange`. The fixture's scores are multiplied by `factor`; softmax has its own.
template <class F>
__device__ inline void tokens(const Head& head, long long begin, long long end, long long valid, float factor,
        Exchange<F>& exchange) {
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    const int subset = warp % F::kSubsets;
    const int share = warp / F::kSubsets;
    const int row = lane / F::kLanes;
    const int column = lane % F::kLanes;

    if (F::kSoftmax) factor = kLog2E / sqrtf(static_cast<float>(F::kDim));
    float query[F::kQueries][F::kValues], sum[F::kQueries][F::kValues];
    float maximum[F::kQueries], total[F::kQueries];
#pragma unroll
    for (int j = 0; j < F::kQueries; ++j) {
        const int wanted = subset * F::kQueries + j;
        const int index = wanted < head.queries ? wanted : head.queries - 1;  // a repeat, never stored
        const uint4* chunks = reinterpret_cast<const uint4*>(head.q + static_cast<long long>(index) * F::kDim);
#pragma unroll
        for (int p = 0; p < F::kPieces; ++p) {
            const int chunk = p * F::kLanes + column;
            convert::Float32::unpack(chunk < F::kChunks ? chunks[chunk] : make_uint4(0u, 0u, 0u, 0u), query[j] + p * 4);
        }
#pragma unroll
        for (int i = 0; i < F::kValues; ++i) {
            query[j][i] *= factor;
            sum[j][i] = 0.0f;
        }
        maximum[j] = F::kSoftmax ? kLowest : 0.0f;
        total[j] = 0.0f;
    }
    const uint4* keys = reinterpret_cast<const uint4*>(head.k);
    const uint4* values = reinterpret_cast<const uint4*>(head.v);

    for (long long base = begin + share * F::kStep; base < end; base += F::kRowWarps * F::kStep) {
        uint4 key[F::kUnroll][F::kPieces], value[F::kUnroll][F::kPieces];
#pragma unroll
        for (int u = 0; u < F::kUnroll; ++u) {
            const long long token = base + u * F::kRows + row;
            const long long t = token < end ? token : end - 1;  // a repeat, weighted zero below
#pragma unroll
            for (int p = 0; p < F::kPieces; ++p) {
                const int chunk = p * F::kLanes + column;
                const bool inside = F::kLanes * F::kPieces == F::kChunks || chunk < F::kChunks;
                key[u][p] = inside ? keys[t * F::kChunks + chunk] : make_uint4(0u, 0u, 0u, 0u);
                value[u][p] = inside ? values[t * F::kChunks + chunk] : make_uint4(0u, 0u, 0u, 0u);
            }
        }
        const long long limit = end < valid ? end : valid;
        float weight[F::kQueries][F::kUnroll];
#pragma unroll
        for (int j = 0; j < F::kQueries; ++j) {
#pragma unroll
            for (int u = 0; u < F::kUnroll; ++u) {
                weight[j][u] = 0.0f;
#pragma unroll
                for (int p = 0; p < F::kPieces; ++p) {
                    float wide[4];
                    convert::Float32::unpack(key[u][p], wide);
#pragma unroll
                    for (int e = 0; e < 4; ++e) weight[j][u] = fmaf(query[j][p * 4 + e], wide[e], weight[j][u]);
                }
            }
            reduce::lanes_sum_each<F::kLanes, F::kUnroll>(weight[j]);
            if constexpr (F::kSoftmax) {
                float highest = maximum[j];
#pragma unroll
                for (int u = 0; u < F::kUnroll; ++u) {
                    if (base + u * F::kRows + row < limit) highest = fmaxf(highest, weight[j][u]);
                }
                const float rescale = exp2f(maximum[j] - highest);
                maximum[j] = highest;
                total[j] *= rescale;
#pragma unroll
                for (int i = 0; i < F::kValues; ++i) sum[j][i] *= rescale;
#pragma unroll
                for (int u = 0; u < F::kUnroll; ++u) {
                    weight[j][u] = base + u * F::kRows + row < limit ? exp2f(weight[j][u] - highest) : 0.0f;
                    total[j] += weight[j][u];
                }
            } else {
#pragma unroll
                for (int u = 0; u < F::kUnroll; ++u) {
                    if (base + u * F::kRows + row >= limit) weight[j][u] = 0.0f;
                }
            }
        }
#pragma unroll
        for (int u = 0; u < F::kUnroll; ++u) {
#pragma unroll
            for (int p = 0; p < F::kPieces; ++p) {
                float wide[4];
                convert::Float32::unpack(value[u][p], wide);
#pragma unroll
                for (int j = 0; j < F::kQueries; ++j) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) sum[j][p * 4 + e] = fmaf(weight[j][u], wide[e], sum[j][p * 4 + e]);
                }
            }
        }
    }

#pragma unroll
    for (int j = 0; j < F::kQueries; ++j) {
        // Rows of the warp that were held by other lanes.
#pragma unroll
        for (int offset = F::kLanes; offset < reduce::kWarp; offset *= 2) {
            float mine = 1.0f, theirs = 1.0f;
            if constexpr (F::kSoftmax) {
                const float other = __shfl_xor_sync(reduce::kAllLanes, maximum[j], offset);
                const float highest = fmaxf(maximum[j], other);
                mine = exp2f(maximum[j] - highest);
                theirs = exp2f(other - highest);
                maximum[j] = highest;
                total[j] = mine * total[j] + theirs * __shfl_xor_sync(reduce::kAllLanes, total[j], offset);
            }
#pragma unroll
            for (int i = 0; i < F::kValues; ++i) {
                sum[j][i] = mine * sum[j][i] + theirs * __shfl_xor_sync(reduce::kAllLanes, sum[j][i], offset);
            }
        }
        if (row == 0) {
            const int g = subset * F::kQueries + j;
#pragma unroll
            for (int i = 0; i < F::kValues; ++i) {
                const int d = (i / 4 * F::kLanes + column) * 4 + i % 4;
                if (d < F::kDim) exchange.vector[share][g][d] = sum[j][i];
            }
            if (column == 0) {
                exchange.maximum[share][g] = maximum[j];
                exchange.sum[share][g] = total[j];
            }
        }
    }
}

// Adds up what the warps left for element d of query g. A barrier must lie between `tokens` and this.
template <class F>
__device__ inline Merged merge_warps(const Exchange<F>& exchange, int g, int d) {
    Merged merged = {0.0f, 0.0f, 1.0f};
    if constexpr (F::kSoftmax) {
        merged.maximum = kLowest;
#pragma unroll
        for (int w = 0; w < F::kRowWarps; ++w) merged.maximum = fmaxf(merged.maximum, exchange.maximum[w][g]);
        merged.sum = 0.0f;
    }
#pragma unroll
    for (int w = 0; w < F::kRowWarps; ++w) {
        float weight = 1.0f;
        if constexpr (F::kSoftmax) {
            weight = exp2f(exchange.maximum[w][g] - merged.maximum);
            merged.sum = fmaf(weight, exchange.sum[w][g], merged.sum);
        }
        merged.value = fmaf(weight, exchange.vector[w][g][d], merged.value);
    }
    return merged;
}

// A complete result; 0 where no token counted.
__device__ inline float complete(const Merged& merged) {
    return merged.sum > 0.0f ? merged.value / merged.sum : 0.0f;
}

// The whole of a head by one block.
template <class F>
__device__ inline void whole_head(const Head& head, long long end, long long valid, float factor,
        Exchange<F>& exchange) {
    tokens<F>(head, 0, end, valid, factor, exchange);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < head.queries * F::kDim; i += kThreads) {
        head.out[i] = complete(merge_warps<F>(exchange, i / F::kDim, i % F::kDim));
    }
}

// Where blocks that share a head leave their parts: a slot for each block and head that meet.
struct Parts {
    float* partial;         // [slots, kGroup, kDim]
    float* stats;           // [slots, kGroup, 2]: maximum and sum, softmax only
    unsigned int* tickets;  // [heads], zero between launches
};

// The parts of a head added up in the order of the slots, from `first` on: element d of query g.
template <class F>
__device__ inline Merged gather(const Parts& parts, long long first, int count, int g, int d) {
    Merged merged = {0.0f, 0.0f, 1.0f};
    if constexpr (F::kSoftmax) {
        merged.maximum = kLowest;
        merged.sum = 0.0f;
#pragma unroll 4
        for (int i = 0; i < count; ++i) {
            merged.maximum = fmaxf(merged.maximum, __ldcg(parts.stats + 2 * ((first + i) * F::kGroup + g)));
        }
    }
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
        const long long at = (first + i) * F::kGroup + g;
        float weight = 1.0f;
        if constexpr (F::kSoftmax) {
            weight = exp2f(__ldcg(parts.stats + 2 * at) - merged.maximum);
            merged.sum = fmaf(weight, __ldcg(parts.stats + 2 * at + 1), merged.sum);
        }
        merged.value = fmaf(weight, __ldcg(parts.partial + at * F::kDim + d), merged.value);
    }
    return merged;
}

// All heads' tokens form one line, which `blocks` blocks cut into equal contiguous ranges, whatever the lengths are: a
// single wave of equal work. This is the share of block `block`. A range may begin or end within a head; the last block to
// finish of those that share one adds up their parts, in order, in the same launch.
//
// Line: tokens(); unit_at(position); begin(unit), end(unit): positions; head(unit): where it lies.
template <class F, class Line>
__device__ inline void share(const Line& line, const Parts& parts, long long block, long long blocks, float factor,
        Exchange<F>& exchange) {
    const long long work = line.tokens();
    const long long stop = (block + 1) * work / blocks;
    long long position = block * work / blocks;
    while (position < stop) {
        const long long unit = line.unit_at(position);
        const long long start = line.begin(unit);
        const long long finish = line.end(unit);
        const long long until = finish < stop ? finish : stop;
        const Head head = line.head(unit);
        tokens<F>(head, position - start, until - start, until - start, factor, exchange);
        __syncthreads();
        // The blocks whose ranges touch this head: the one that holds position p is ((p + 1) * blocks - 1) / work.
        const long long first = ((start + 1) * blocks - 1) / work;
        const long long last = (finish * blocks - 1) / work;
        const int elements = head.queries * F::kDim;
        if (first == last) {
            for (int i = static_cast<int>(threadIdx.x); i < elements; i += kThreads) {
                head.out[i] = complete(merge_warps<F>(exchange, i / F::kDim, i % F::kDim));
            }
        } else {
            // Along the line either the block or the head grows, so block + unit names a slot of its own.
            const long long slot = block + unit;
            for (int i = static_cast<int>(threadIdx.x); i < elements; i += kThreads) {
                const int g = i / F::kDim, d = i % F::kDim;
                const Merged merged = merge_warps<F>(exchange, g, d);
                const long long at = slot * F::kGroup + g;
                parts.partial[at * F::kDim + d] = merged.value;
                if (F::kSoftmax && d == 0) {
                    parts.stats[2 * at] = merged.maximum;
                    parts.stats[2 * at + 1] = merged.sum;
                }
            }
            const int count = static_cast<int>(last - first + 1);
            if (reduce::last_to_arrive(parts.tickets + unit, static_cast<unsigned int>(count))) {
                for (int i = static_cast<int>(threadIdx.x); i < elements; i += kThreads) {
                    head.out[i] = complete(gather<F>(parts, first + unit, count, i / F::kDim, i % F::kDim));
                }
            }
        }
        position = until;
        __syncthreads();  // `exchange` is free again
    }
}

}  // namespace scan
