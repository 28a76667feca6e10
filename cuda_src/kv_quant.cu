// One decode step's scan over the KV cache, K and V in one pass, for several storage types.
//
// Fixture (no softmax): out[b, h] = 1 / sqrt(T * D) * sum over t of (q . k_t) v_t. The factor keeps the result of order
// one at every length, so that one tolerance serves all of them. Softmax variants: real attention with scores
// q . k_t / sqrt(D), a running maximum and sum.
//
// The B * H heads of T tokens form one line of tokens, which the grid cuts into equal contiguous ranges, whatever B, H
// and T are: a single wave of blocks with equal work. A range may begin or end within a head; the blocks that share a
// head leave partial results, and the last of them to finish adds them up, in order, in the same launch.
//
// kLanes lanes hold a row (16 bytes each), a warp holds 32 / kLanes rows at a time and kUnroll times that in flight.
#include "common/convert.cuh"
#include "common/reduce.cuh"

#ifndef HEAD_DIM
#define HEAD_DIM 128
#endif
static_assert(HEAD_DIM >= 16 && HEAD_DIM <= 256 && HEAD_DIM % 16 == 0, "HEAD_DIM is a multiple of 16 up to 256");

namespace {

constexpr int kDim = HEAD_DIM;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * reduce::kWarp;
constexpr int kBlocksPerSm = 2;  // what the grid counts on; bounds the registers
constexpr float kLowest = -1e30f;  // below any score, and finite: the difference of two is 0, not NaN
constexpr float kLog2E = 1.44269504f;

enum class Scale { kNone, kPerToken, kPerHead };

__host__ __device__ constexpr int power_of_two_from(int value) {
    int power = 1;
    while (power < value) power *= 2;
    return power;
}

// How rows of kDim elements of one storage type lie over a warp.
template <class Storage>
struct Layout {
    static constexpr int kChunks = kDim / Storage::kCount;  // 16-byte pieces of a row
    static constexpr int kLanes = kChunks < 32 ? power_of_two_from(kChunks) : 32;
    static constexpr int kPieces = (kChunks + kLanes - 1) / kLanes;  // per lane
    static constexpr int kRows = 32 / kLanes;
    static constexpr int kUnroll = 4 / kPieces;
    static constexpr int kStep = kRows * kUnroll;  // tokens a warp has in flight
    static constexpr int kValues = kPieces * Storage::kCount;  // elements of a row in one lane
};

struct Arguments {
    const float* q;
    const void* k;
    const void* v;
    const float* k_scale;
    const float* v_scale;
    float* partial;        // [slots, kDim]
    float* stats;          // [slots, 2]: maximum and sum, softmax only
    unsigned int* tickets; // [heads], zero between launches
    float* out;            // [heads, kDim]
    long long heads;
    long long context;
};

// What the warps of a block hand to each other.
struct Exchange {
    float vector[kWarps][kDim];
    float maximum[kWarps];
    float sum[kWarps];
};

// A weighted sum of V rows with the softmax maximum and sum it refers to (0 and 1 where there is no softmax).
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

// Scans tokens [begin, end) of a head with the whole block and leaves each warp's result in `exchange`.
template <class Storage, Scale kScale, bool kSoftmax>
__device__ inline void scan_tokens(const Arguments& at, long long head, long long begin, long long end,
        Exchange& exchange) {
    using L = Layout<Storage>;
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    const int row = lane / L::kLanes;
    const int column = lane % L::kLanes;

    // The score's constant factors go into q.
    float factor = kSoftmax ? kLog2E / sqrtf(static_cast<float>(kDim))
                            : 1.0f / sqrtf(static_cast<float>(at.context) * static_cast<float>(kDim));
    if constexpr (kScale == Scale::kPerHead) factor *= at.k_scale[head];
    float query[L::kValues], sum[L::kValues];
#pragma unroll
    for (int i = 0; i < L::kValues; ++i) {
        const int d = (i / Storage::kCount * L::kLanes + column) * Storage::kCount + i % Storage::kCount;
        query[i] = d < kDim ? at.q[head * kDim + d] * factor : 0.0f;
        sum[i] = 0.0f;
    }
    const uint4* keys = static_cast<const uint4*>(at.k) + head * at.context * L::kChunks;
    const uint4* values = static_cast<const uint4*>(at.v) + head * at.context * L::kChunks;
    float maximum = kSoftmax ? kLowest : 0.0f;
    float total = 0.0f;

    for (long long base = begin + warp * L::kStep; base < end; base += kWarps * L::kStep) {
        uint4 key[L::kUnroll][L::kPieces], value[L::kUnroll][L::kPieces];
        float key_scale[L::kUnroll], value_scale[L::kUnroll];
#pragma unroll
        for (int u = 0; u < L::kUnroll; ++u) {
            const long long token = base + u * L::kRows + row;
            const long long t = token < end ? token : end - 1;  // a repeat, weighted zero below
#pragma unroll
            for (int p = 0; p < L::kPieces; ++p) {
                const int chunk = p * L::kLanes + column;
                const bool inside = L::kLanes * L::kPieces == L::kChunks || chunk < L::kChunks;
                key[u][p] = inside ? keys[t * L::kChunks + chunk] : make_uint4(0u, 0u, 0u, 0u);
                value[u][p] = inside ? values[t * L::kChunks + chunk] : make_uint4(0u, 0u, 0u, 0u);
            }
            if constexpr (kScale == Scale::kPerToken) {
                key_scale[u] = at.k_scale[head * at.context + t];
                value_scale[u] = at.v_scale[head * at.context + t];
            }
        }

        float score[L::kUnroll];
#pragma unroll
        for (int u = 0; u < L::kUnroll; ++u) {
            score[u] = 0.0f;
#pragma unroll
            for (int p = 0; p < L::kPieces; ++p) {
                float wide[Storage::kCount];
                Storage::unpack(key[u][p], wide);
#pragma unroll
                for (int e = 0; e < Storage::kCount; ++e) {
                    score[u] = fmaf(query[p * Storage::kCount + e], wide[e], score[u]);
                }
            }
        }
        reduce::lanes_sum_each<L::kLanes, L::kUnroll>(score);

        float weight[L::kUnroll];
#pragma unroll
        for (int u = 0; u < L::kUnroll; ++u) {
            if constexpr (kScale == Scale::kPerToken) score[u] *= key_scale[u];
            weight[u] = base + u * L::kRows + row < end ? score[u] : (kSoftmax ? kLowest : 0.0f);
        }
        if constexpr (kSoftmax) {
            float highest = maximum;
#pragma unroll
            for (int u = 0; u < L::kUnroll; ++u) highest = fmaxf(highest, weight[u]);
            const float rescale = exp2f(maximum - highest);
            maximum = highest;
            total *= rescale;
#pragma unroll
            for (int i = 0; i < L::kValues; ++i) sum[i] *= rescale;
#pragma unroll
            for (int u = 0; u < L::kUnroll; ++u) {
                weight[u] = base + u * L::kRows + row < end ? exp2f(weight[u] - highest) : 0.0f;
                total += weight[u];
            }
        }
#pragma unroll
        for (int u = 0; u < L::kUnroll; ++u) {
            if constexpr (kScale == Scale::kPerToken) weight[u] *= value_scale[u];
#pragma unroll
            for (int p = 0; p < L::kPieces; ++p) {
                float wide[Storage::kCount];
                Storage::unpack(value[u][p], wide);
#pragma unroll
                for (int e = 0; e < Storage::kCount; ++e) {
                    sum[p * Storage::kCount + e] = fmaf(weight[u], wide[e], sum[p * Storage::kCount + e]);
                }
            }
        }
    }

    // Rows of the warp that were held by other lanes.
#pragma unroll
    for (int offset = L::kLanes; offset < reduce::kWarp; offset *= 2) {
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
        for (int i = 0; i < L::kValues; ++i) {
            sum[i] = mine * sum[i] + theirs * __shfl_xor_sync(reduce::kAllLanes, sum[i], offset);
        }
    }
    if (row == 0) {
#pragma unroll
        for (int i = 0; i < L::kValues; ++i) {
            const int d = (i / Storage::kCount * L::kLanes + column) * Storage::kCount + i % Storage::kCount;
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

// out[head, d], d = threadIdx.x: a complete result, divided by the softmax sum and scaled as V was.
template <Scale kScale, bool kSoftmax>
__device__ inline void store(const Arguments& at, long long head, const Merged& merged) {
    if (threadIdx.x >= kDim) return;
    float value = merged.value;
    if constexpr (kSoftmax) value /= merged.sum;
    if constexpr (kScale == Scale::kPerHead) value *= at.v_scale[head];
    at.out[head * kDim + threadIdx.x] = value;
}

// The block's equal share of all heads' tokens, head by head.
template <class Storage, Scale kScale, bool kSoftmax = false>
__device__ inline void scan_share(const Arguments& at) {
    __shared__ Exchange exchange;
    const long long work = at.heads * at.context;
    const long long blocks = gridDim.x;
    const long long stop = (blockIdx.x + 1) * work / blocks;
    long long position = blockIdx.x * work / blocks;
    while (position < stop) {
        const long long head = position / at.context;
        const long long begin = position - head * at.context;
        const long long end = begin + (stop - position) < at.context ? begin + (stop - position) : at.context;
        scan_tokens<Storage, kScale, kSoftmax>(at, head, begin, end, exchange);
        const Merged merged = merge_warps<kSoftmax>(exchange);
        // The blocks whose ranges touch this head: the one that holds token p is ((p + 1) * blocks - 1) / work.
        const long long first = ((head * at.context + 1) * blocks - 1) / work;
        const long long last = ((head + 1) * at.context * blocks - 1) / work;
        if (first == last) {
            store<kScale, kSoftmax>(at, head, merged);
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
                store<kScale, kSoftmax>(at, head, merge_warps<kSoftmax>(exchange));
            }
        }
        position += end - begin;
        __syncthreads();  // `exchange` is free again
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) kv_scan_fp32_kernel(const float* q, const float* k,
        const float* v, float* partial, unsigned int* tickets, float* out, long long heads, long long context) {
    scan_share<convert::Float32, Scale::kNone>(
            {q, k, v, nullptr, nullptr, partial, nullptr, tickets, out, heads, context});
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) kv_scan_fp16_kernel(const float* q, const __half* k,
        const __half* v, float* partial, unsigned int* tickets, float* out, long long heads, long long context) {
    scan_share<convert::Float16, Scale::kNone>(
            {q, k, v, nullptr, nullptr, partial, nullptr, tickets, out, heads, context});
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) kv_scan_q8_kernel(const float* q,
        const signed char* k, const signed char* v, const float* k_scale, const float* v_scale, float* partial,
        unsigned int* tickets, float* out, long long heads, long long context) {
    scan_share<convert::Int8, Scale::kPerToken>(
            {q, k, v, k_scale, v_scale, partial, nullptr, tickets, out, heads, context});
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) kv_scan_q8_head_kernel(const float* q,
        const signed char* k, const signed char* v, const float* k_scale, const float* v_scale, float* partial,
        unsigned int* tickets, float* out, long long heads, long long context) {
    scan_share<convert::Int8, Scale::kPerHead>(
            {q, k, v, k_scale, v_scale, partial, nullptr, tickets, out, heads, context});
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) kv_scan_fp8_kernel(const float* q,
        const __nv_fp8_e4m3* k, const __nv_fp8_e4m3* v, const float* k_scale, const float* v_scale, float* partial,
        unsigned int* tickets, float* out, long long heads, long long context) {
    scan_share<convert::Float8E4M3, Scale::kPerHead>(
            {q, k, v, k_scale, v_scale, partial, nullptr, tickets, out, heads, context});
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) kv_attention_fp32_kernel(const float* q,
        const float* k, const float* v, float* partial, float* stats, unsigned int* tickets, float* out,
        long long heads, long long context) {
    scan_share<convert::Float32, Scale::kNone, true>(
            {q, k, v, nullptr, nullptr, partial, stats, tickets, out, heads, context});
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) kv_attention_fp16_kernel(const float* q,
        const __half* k, const __half* v, float* partial, float* stats, unsigned int* tickets, float* out,
        long long heads, long long context) {
    scan_share<convert::Float16, Scale::kNone, true>(
            {q, k, v, nullptr, nullptr, partial, stats, tickets, out, heads, context});
}

// One block a head and nothing split: what B * H blocks leave idle on a GPU with more SMs than that.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) kv_scan_fp32_block_kernel(const float* q,
        const float* k, const float* v, float* out, long long context) {
    __shared__ Exchange exchange;
    const Arguments at = {q, k, v, nullptr, nullptr, nullptr, nullptr, nullptr, out, gridDim.x, context};
    scan_tokens<convert::Float32, Scale::kNone, false>(at, blockIdx.x, 0, context, exchange);
    store<Scale::kNone, false>(at, blockIdx.x, merge_warps<false>(exchange));
}

// Preparation: n floats rounded to nearest even.
extern "C" __global__ void to_half_kernel(const float* __restrict__ in, __half* __restrict__ out, long long n) {
    convert::to_half(in, out, n);
}

// Preparation: int8 with one scale a token, a token a thread.
extern "C" __global__ void quantize_tokens_kernel(const float* __restrict__ in, signed char* __restrict__ payload,
        float* __restrict__ scale, long long tokens) {
    const long long token = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (token >= tokens) return;
    const float* row = in + token * kDim;
    const float unit = convert::scale_of(convert::absmax_bits(row, kDim), 127.0f);
    convert::to_int8(row, payload + token * kDim, kDim, unit);
    scale[token] = unit;
}

// Preparation: largest magnitude of each head, as the bits of a float, into zeros. A token a thread.
extern "C" __global__ void head_absmax_kernel(const float* __restrict__ in, int* absmax, long long heads,
        long long context) {
    const long long token = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (token < heads * context) atomicMax(absmax + token / context, convert::absmax_bits(in + token * kDim, kDim));
}

// Preparation: scale[head] = absmax of the head / levels.
extern "C" __global__ void head_scale_kernel(const int* __restrict__ absmax, float* __restrict__ scale,
        long long heads, float levels) {
    const long long head = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (head < heads) scale[head] = convert::scale_of(absmax[head], levels);
}

// Preparation: int8 with one scale a head, a token a thread.
extern "C" __global__ void quantize_heads_int8_kernel(const float* __restrict__ in, const float* __restrict__ scale,
        signed char* __restrict__ payload, long long heads, long long context) {
    const long long token = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (token >= heads * context) return;
    convert::to_int8(in + token * kDim, payload + token * kDim, kDim, scale[token / context]);
}

// Preparation: e4m3 with one scale a head, a token a thread; to nearest even, saturating.
extern "C" __global__ void quantize_heads_fp8_kernel(const float* __restrict__ in, const float* __restrict__ scale,
        __nv_fp8_e4m3* __restrict__ payload, long long heads, long long context) {
    const long long token = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (token >= heads * context) return;
    const float unit = scale[token / context];
    for (int d = 0; d < kDim; ++d) {
        const float value = in[token * kDim + d];
        payload[token * kDim + d] = __nv_fp8_e4m3(unit == 0.0f ? 0.0f : value / unit);
    }
}
