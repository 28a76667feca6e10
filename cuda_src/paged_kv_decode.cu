// One decode step's scan over a KV cache in pages, and over caches without pages in both token orders.
//
// Where the row of D floats of token t of head h of sequence b lies:
//   head-major   (b * H + h) * T + t
//   token-major  (b * T + t) * H + h
//   paged        (table[b, t / page] * page + t % page) * H + h
// The pool of pages is token-major: paging itself costs what it takes longer than token-major, the rest is the stride.
//
// Fixture: out[b, h] = 1 / sqrt(T) * sum over t of k_t * v_t, element by element: the payload, the table, little else.
// Softmax: real attention with scores q . k_t / sqrt(D), a running maximum and sum.
//
// The B * H heads of T tokens form one line of tokens, which the grid cuts into equal contiguous ranges. Blocks that
// share a head leave partial results, and the last of them to finish adds them up, in order, in the same launch.
#include "common/convert.cuh"
#include "common/reduce.cuh"

#ifndef HEAD_DIM
#define HEAD_DIM 128
#endif
#ifndef PAGE
#define PAGE 16
#endif
static_assert(HEAD_DIM >= 16 && HEAD_DIM <= 256 && HEAD_DIM % 16 == 0, "HEAD_DIM is a multiple of 16 up to 256");
static_assert(PAGE >= 1, "PAGE is at least 1");

namespace {

constexpr int kDim = HEAD_DIM;
constexpr unsigned int kPage = PAGE;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * reduce::kWarp;
constexpr int kBlocksPerSm = 2;  // what the grid counts on; bounds the registers
constexpr float kLowest = -1e30f;  // below any score, and finite: the difference of two is 0, not NaN
constexpr float kLog2E = 1.44269504f;

__host__ __device__ constexpr int power_of_two_from(int value) {
    int power = 1;
    while (power < value) power *= 2;
    return power;
}

// kLanes lanes hold a row, 16 bytes each; a warp holds 32 / kLanes rows at a time and kUnroll times that in flight.
constexpr int kChunks = kDim / 4;  // 16-byte pieces of a row
constexpr int kLanes = kChunks < 32 ? power_of_two_from(kChunks) : 32;
constexpr int kPieces = (kChunks + kLanes - 1) / kLanes;  // per lane
constexpr int kRows = 32 / kLanes;
constexpr int kUnroll = 4 / kPieces;
constexpr int kStep = kRows * kUnroll;  // tokens a warp has in flight
constexpr int kValues = 4 * kPieces;    // elements of a row in one lane

struct Arguments {
    const float* q;          // [B, H, kDim], softmax only
    const float* k;
    const float* v;
    const int* table;        // [B, ceil(T / kPage)], paged only
    float* partial;          // [slots, kDim]
    float* stats;            // [slots, 2]: maximum and sum, softmax only
    unsigned int* tickets;   // [B * H], zero between launches
    float* out;              // [B, H, kDim]
    long long batch;
    long long heads;         // of one sequence
    long long context;
};

// Row of token t of a head, by layout.

struct HeadMajor {
    long long first;
    __device__ HeadMajor(const Arguments& at, long long head) : first(head * at.context) {}
    __device__ long long operator()(unsigned int t) const { return first + t; }
};

struct TokenMajor {
    long long first, stride;
    __device__ TokenMajor(const Arguments& at, long long head)
        : first(head / at.heads * at.context * at.heads + head % at.heads), stride(at.heads) {}
    __device__ long long operator()(unsigned int t) const { return first + t * stride; }
};

struct Paged {
    const int* table;
    long long first, stride;
    __device__ Paged(const Arguments& at, long long head)
        : table(at.table + head / at.heads * ((at.context + kPage - 1) / kPage)),
          first(head % at.heads),
          stride(at.heads) {}
    __device__ long long operator()(unsigned int t) const {
        return first + (static_cast<long long>(table[t / kPage]) * kPage + t % kPage) * stride;
    }
};

// What the warps of a block hand to each other.
struct Exchange {
    float vector[kWarps][kDim];
    float maximum[kWarps];
    float sum[kWarps];
};

// A weighted sum of rows with the softmax maximum and sum it refers to (0 and 1 where there is no softmax).
struct Merged {
    float value;
    float maximum;
    float sum;
};

// Adds up what the warps left in `exchange`; thread d < kDim gets element d. Begins with a barrier.
template <bool kSoftmax>
__device__ inline Merged merge_warps(const Exchange& exchange) {
    __syncthreads();
    Merged merged = {0.0f, 0.0f, 1.0f};
    if (threadIdx.x >= kDim) return merged;
    if constexpr (kSoftmax) {
        merged.maximum = exchange.maximum[0];
        for (int w = 1; w < kWarps; ++w) merged.maximum = fmaxf(merged.maximum, exchange.maximum[w]);
        merged.sum = 0.0f;
    }
    for (int w = 0; w < kWarps; ++w) {
        float weight = 1.0f;
        if constexpr (kSoftmax) {
            weight = exp2f(exchange.maximum[w] - merged.maximum);
            merged.sum = fmaf(weight, exchange.sum[w], merged.sum);
        }
        merged.value = fmaf(weight, exchange.vector[w][threadIdx.x], merged.value);
    }
    return merged;
}

// Element `i` of what a lane holds, as an index into the row.
__device__ inline int element(int i, int column) { return (i / 4 * kLanes + column) * 4 + i % 4; }

// Scans tokens [begin, end) of a head with the whole block and leaves each warp's result in `exchange`.
template <class Layout, bool kSoftmax>
__device__ inline void scan_tokens(const Arguments& at, long long head, long long begin, long long end,
        Exchange& exchange) {
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    const int row = lane / kLanes;
    const int column = lane % kLanes;
    const Layout place(at, head);
    const uint4* keys = reinterpret_cast<const uint4*>(at.k);
    const uint4* values = reinterpret_cast<const uint4*>(at.v);

    float query[kValues], sum[kValues];
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
        sum[i] = 0.0f;
        if constexpr (kSoftmax) {
            const int d = element(i, column);
            query[i] = d < kDim ? at.q[head * kDim + d] * (kLog2E / sqrtf(static_cast<float>(kDim))) : 0.0f;
        }
    }
    float maximum = kSoftmax ? kLowest : 0.0f;
    float total = 0.0f;

    // Rows are looked up one step ahead, so that their loads need not wait for the table.
    long long next[kUnroll];
    const auto look_up = [&](long long base) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const long long token = base + u * kRows + row;
            next[u] = place(static_cast<unsigned int>(token < end ? token : end - 1));  // a repeat counts for nothing
        }
    };
    look_up(begin + warp * kStep);

    for (long long base = begin + warp * kStep; base < end; base += kWarps * kStep) {
        uint4 key[kUnroll][kPieces], value[kUnroll][kPieces];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
            for (int p = 0; p < kPieces; ++p) {
                const int chunk = p * kLanes + column;
                const bool inside = kLanes * kPieces == kChunks || chunk < kChunks;
                key[u][p] = inside ? keys[next[u] * kChunks + chunk] : make_uint4(0u, 0u, 0u, 0u);
                value[u][p] = inside ? values[next[u] * kChunks + chunk] : make_uint4(0u, 0u, 0u, 0u);
            }
        }
        look_up(base + kWarps * kStep);

        float weight[kUnroll];
        if constexpr (kSoftmax) {
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                weight[u] = 0.0f;
#pragma unroll
                for (int p = 0; p < kPieces; ++p) {
                    float wide[4];
                    convert::Float32::unpack(key[u][p], wide);
#pragma unroll
                    for (int e = 0; e < 4; ++e) weight[u] = fmaf(query[p * 4 + e], wide[e], weight[u]);
                }
            }
            reduce::lanes_sum_each<kLanes, kUnroll>(weight);
            float highest = maximum;
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                if (base + u * kRows + row >= end) weight[u] = kLowest;
                highest = fmaxf(highest, weight[u]);
            }
            const float rescale = exp2f(maximum - highest);
            maximum = highest;
            total *= rescale;
#pragma unroll
            for (int i = 0; i < kValues; ++i) sum[i] *= rescale;
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                weight[u] = base + u * kRows + row < end ? exp2f(weight[u] - highest) : 0.0f;
                total += weight[u];
            }
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const bool counts = base + u * kRows + row < end;
#pragma unroll
            for (int p = 0; p < kPieces; ++p) {
                float wide[4], factor[4];
                convert::Float32::unpack(value[u][p], wide);
                if constexpr (!kSoftmax) convert::Float32::unpack(key[u][p], factor);
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if constexpr (kSoftmax) factor[e] = weight[u];
                    else factor[e] = counts ? factor[e] : 0.0f;
                    sum[p * 4 + e] = fmaf(factor[e], wide[e], sum[p * 4 + e]);
                }
            }
        }
    }

    // Rows of the warp that were held by other lanes.
#pragma unroll
    for (int offset = kLanes; offset < reduce::kWarp; offset *= 2) {
        float mine = 1.0f, theirs = 1.0f;
        if constexpr (kSoftmax) {
            const float other = __shfl_xor_sync(reduce::kAllLanes, maximum, offset);
            const float highest = fmaxf(maximum, other);
            mine = exp2f(maximum - highest);
            theirs = exp2f(other - highest);
            maximum = highest;
            total = mine * total + theirs * __shfl_xor_sync(reduce::kAllLanes, total, offset);
        }
#pragma unroll
        for (int i = 0; i < kValues; ++i) {
            sum[i] = mine * sum[i] + theirs * __shfl_xor_sync(reduce::kAllLanes, sum[i], offset);
        }
    }
    if (row == 0) {
#pragma unroll
        for (int i = 0; i < kValues; ++i) {
            const int d = element(i, column);
            if (d < kDim) exchange.vector[warp][d] = sum[i];
        }
        if (kSoftmax && column == 0) {
            exchange.maximum[warp] = maximum;
            exchange.sum[warp] = total;
        }
    }
}

// Adds up `count` partial results of a head, from slot `first` on, and leaves each warp's share in `exchange`.
template <bool kSoftmax>
__device__ inline void gather_partials(const Arguments& at, long long first, int count, Exchange& exchange) {
    constexpr int kPerLane = (kDim + reduce::kWarp - 1) / reduce::kWarp;
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    float sum[kPerLane] = {};
    float maximum = kSoftmax ? kLowest : 0.0f;
    float total = 0.0f;
    if constexpr (kSoftmax) {
        for (int i = warp; i < count; i += kWarps) maximum = fmaxf(maximum, __ldcg(at.stats + 2 * (first + i)));
    }
#pragma unroll 4
    for (int i = warp; i < count; i += kWarps) {
        const float* vector = at.partial + (first + i) * kDim;
        float weight = 1.0f;
        if constexpr (kSoftmax) {
            weight = exp2f(__ldcg(at.stats + 2 * (first + i)) - maximum);
            total = fmaf(weight, __ldcg(at.stats + 2 * (first + i) + 1), total);
        }
#pragma unroll
        for (int j = 0; j < kPerLane; ++j) {
            const int d = j * reduce::kWarp + lane;
            if (d < kDim) sum[j] = fmaf(weight, __ldcg(vector + d), sum[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
        const int d = j * reduce::kWarp + lane;
        if (d < kDim) exchange.vector[warp][d] = sum[j];
    }
    if (kSoftmax && lane == 0) {
        exchange.maximum[warp] = maximum;
        exchange.sum[warp] = total;
    }
}

// out[head, d], d = threadIdx.x, of a complete result.
template <bool kSoftmax>
__device__ inline void store(const Arguments& at, long long head, const Merged& merged) {
    if (threadIdx.x >= kDim) return;
    const float divisor = kSoftmax ? merged.sum : sqrtf(static_cast<float>(at.context));
    at.out[head * kDim + threadIdx.x] = merged.value / divisor;
}

// The block's equal share of all heads' tokens, head by head.
template <class Layout, bool kSoftmax = false>
__device__ inline void scan_share(const Arguments& at) {
    __shared__ Exchange exchange;
    const long long work = at.batch * at.heads * at.context;
    const long long blocks = gridDim.x;
    const long long stop = (blockIdx.x + 1) * work / blocks;
    long long position = blockIdx.x * work / blocks;
    while (position < stop) {
        const long long head = position / at.context;
        const long long begin = position - head * at.context;
        const long long end = begin + (stop - position) < at.context ? begin + (stop - position) : at.context;
        scan_tokens<Layout, kSoftmax>(at, head, begin, end, exchange);
        const Merged merged = merge_warps<kSoftmax>(exchange);
        // The blocks whose ranges touch this head: the one that holds token p is ((p + 1) * blocks - 1) / work.
        const long long first = ((head * at.context + 1) * blocks - 1) / work;
        const long long last = ((head + 1) * at.context * blocks - 1) / work;
        if (first == last) {
            store<kSoftmax>(at, head, merged);
        } else {
            // Along the line either the block or the head grows, so block + head names a slot of its own.
            const long long slot = blockIdx.x + head;
            if (threadIdx.x < kDim) at.partial[slot * kDim + threadIdx.x] = merged.value;
            if (kSoftmax && threadIdx.x == 0) {
                at.stats[2 * slot] = merged.maximum;
                at.stats[2 * slot + 1] = merged.sum;
            }
            const int count = static_cast<int>(last - first + 1);
            if (reduce::last_to_arrive(at.tickets + head, static_cast<unsigned int>(count))) {
                gather_partials<kSoftmax>(at, first + head, count, exchange);
                store<kSoftmax>(at, head, merge_warps<kSoftmax>(exchange));
            }
        }
        position += end - begin;
        __syncthreads();  // `exchange` is free again
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) contiguous_scan_kernel(const float* k,
        const float* v, float* partial, unsigned int* tickets, float* out, long long batch, long long heads,
        long long context) {
    scan_share<HeadMajor>({nullptr, k, v, nullptr, partial, nullptr, tickets, out, batch, heads, context});
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) contiguous_scan_token_major_kernel(const float* k,
        const float* v, float* partial, unsigned int* tickets, float* out, long long batch, long long heads,
        long long context) {
    scan_share<TokenMajor>({nullptr, k, v, nullptr, partial, nullptr, tickets, out, batch, heads, context});
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) paged_scan_kernel(const float* k, const float* v,
        const int* table, float* partial, unsigned int* tickets, float* out, long long batch, long long heads,
        long long context) {
    scan_share<Paged>({nullptr, k, v, table, partial, nullptr, tickets, out, batch, heads, context});
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) contiguous_scan_softmax_kernel(const float* q,
        const float* k, const float* v, float* partial, float* stats, unsigned int* tickets, float* out,
        long long batch, long long heads, long long context) {
    scan_share<TokenMajor, true>({q, k, v, nullptr, partial, stats, tickets, out, batch, heads, context});
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) paged_scan_softmax_kernel(const float* q,
        const float* k, const float* v, const int* table, float* partial, float* stats, unsigned int* tickets,
        float* out, long long batch, long long heads, long long context) {
    scan_share<Paged, true>({q, k, v, table, partial, stats, tickets, out, batch, heads, context});
}

// Preparation: token-major rows into head-major ones, an element a thread.
extern "C" __global__ void to_heads_kernel(const float* in, float* out, long long batch, long long heads,
        long long context) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= batch * context * heads * kDim) return;
    const long long row = i / kDim, token = row / heads, h = row % heads;
    const long long b = token / context, t = token % context;
    out[((b * heads + h) * context + t) * kDim + i % kDim] = in[i];
}

// Preparation: token-major rows into the pages that the table names, an element a thread. The unused end of a last page
// is left alone.
extern "C" __global__ void to_pages_kernel(const float* in, const int* table, float* out, long long batch,
        long long heads, long long context) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long width = heads * kDim;
    if (i >= batch * context * width) return;
    const long long token = i / width, b = token / context, t = token % context;
    const long long page = table[b * ((context + kPage - 1) / kPage) + t / kPage];
    out[(page * kPage + t % kPage) * width + i % width] = in[i];
}
