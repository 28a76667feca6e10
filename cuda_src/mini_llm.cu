// One token of a decoder in the style of Llama and Qwen2, for every sequence of the batch: embedding; per layer RMSNorm,
// QKV, RoPE, attention over the KV cache, output projection, RMSNorm and a gated SwiGLU feed-forward part; last norm, logits,
// and the greedy choice, which the next token starts from.
//
// Nothing that changes from token to token is an argument: position[0] is in device memory, where the last kernel moves it on,
// so that a captured graph replays the loop as it is. Weights are stacked over layers, rows of a projection contiguous.
// HEAD_DIM, BATCH_TILE (sequences that share one reading of a weight), BIAS and TIED are compiled in.
#include "common/convert.cuh"
#include "common/held_row.cuh"
#include "common/order.cuh"

#ifndef HEAD_DIM
#define HEAD_DIM 128
#endif
#ifndef BATCH_TILE
#define BATCH_TILE 1
#endif
#ifndef BIAS
#define BIAS 0
#endif
#ifndef TIED
#define TIED 0
#endif
static_assert(HEAD_DIM >= 2 && HEAD_DIM <= 256 && HEAD_DIM % 2 == 0, "HEAD_DIM is even, 2 to 256: RoPE turns pairs");
static_assert(BATCH_TILE >= 1 && BATCH_TILE <= 8, "BATCH_TILE is 1 to 8");

namespace {

constexpr int kDim = HEAD_DIM;
constexpr int kTile = BATCH_TILE;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / reduce::kWarp;
constexpr int kArgmaxThreads = 1024;
constexpr float kEpsilon = 1e-5f;
constexpr float kNone = -3.402823466e38f;  // below every score

// What a warp works on: one row of the output, for up to kTile sequences from `first` on. blockIdx.y is the tile.
struct Place {
    long long row;
    long long first;
    int count;
    int lane;
};

__device__ inline Place place(long long batch) {
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
    const long long first = static_cast<long long>(blockIdx.y) * kTile;
    const long long left = batch - first;
    return {static_cast<long long>(blockIdx.x) * kWarps + warp, first, static_cast<int>(left < kTile ? left : kTile),
            static_cast<int>(threadIdx.x) % reduce::kWarp};
}

// Products of kRows weight rows, `stride` elements apart, with the activations of a place's sequences, summed over the warp.
// `depth` is a multiple of 8, so that every row begins on 16 bytes.
template <class Type, int kRows>
__device__ inline void products(const typename Type::Word* weight, long long stride, const float* x, long long depth,
        const Place& at, float (&sum)[kRows][kTile]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int b = 0; b < kTile; ++b) sum[r][b] = 0.0f;
    }
    for (long long i = at.lane * Type::kCount; i < depth; i += reduce::kWarp * Type::kCount) {
        float w[kRows][Type::kCount];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            Type::unpack(*reinterpret_cast<const uint4*>(weight + r * stride + i), w[r]);
        }
#pragma unroll
        for (int b = 0; b < kTile; ++b) {
            // Of a tile that is not full the last sequence is read again, so that nothing branches here.
            const int of = b < at.count ? b : at.count - 1;
            const float4* from = reinterpret_cast<const float4*>(x + (at.first + of) * depth + i);
#pragma unroll
            for (int j = 0; j < Type::kCount / 4; ++j) {
                const float4 four = from[j];
#pragma unroll
                for (int r = 0; r < kRows; ++r) {
                    sum[r][b] = fmaf(w[r][4 * j], four.x, sum[r][b]);
                    sum[r][b] = fmaf(w[r][4 * j + 1], four.y, sum[r][b]);
                    sum[r][b] = fmaf(w[r][4 * j + 2], four.z, sum[r][b]);
                    sum[r][b] = fmaf(w[r][4 * j + 3], four.w, sum[r][b]);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int b = 0; b < kTile; ++b) sum[r][b] = reduce::lanes_sum(sum[r][b]);
    }
}

// state = the embedding of the token at position[0]: of the prompt, or the one chosen before. A block a sequence.
template <class Type>
__device__ inline void embed(const typename Type::Word* embedding, const int* prompt_ids, const int* tokens, int* position,
        float* state, long long hidden, long long prompt, long long steps) {
    const long long b = blockIdx.x;
    const long long at = position[0];
    const long long id = at < prompt ? prompt_ids[b * prompt + at] : tokens[b * (steps + 1) + at - prompt];
    for (long long i = threadIdx.x; i < hidden; i += kThreads) {
        state[b * hidden + i] = Type::widen(embedding[id * hidden + i]);
    }
    // Stands still for argmax_kernel, whose first block moves position[0] on.
    if (b == 0 && threadIdx.x == 0) position[1] = static_cast<int>(at);
}

// qkv[b] = weight of the layer . x[b], and its bias.
template <class Type>
__device__ inline void qkv_project(const typename Type::Word* weight, const float* bias, const float* x, float* qkv,
        long long layer, long long rows, long long depth, long long batch) {
    const Place at = place(batch);
    if (at.row >= rows) return;
    float sum[1][kTile];
    products<Type, 1>(weight + (layer * rows + at.row) * depth, 0, x, depth, at, sum);
    const float added = BIAS ? bias[layer * rows + at.row] : 0.0f;
#pragma unroll
    for (int b = 0; b < kTile; ++b) {
        if (at.lane == 0 && b < at.count) qkv[(at.first + b) * rows + at.row] = sum[0][b] + added;
    }
}

// state[b] += weight of the layer . x[b].
template <class Type>
__device__ inline void residual_project(const typename Type::Word* weight, const float* x, float* state, long long layer,
        long long rows, long long depth, long long batch) {
    const Place at = place(batch);
    if (at.row >= rows) return;
    float sum[1][kTile];
    products<Type, 1>(weight + (layer * rows + at.row) * depth, 0, x, depth, at, sum);
#pragma unroll
    for (int b = 0; b < kTile; ++b) {
        if (at.lane == 0 && b < at.count) state[(at.first + b) * rows + at.row] += sum[0][b];
    }
}

// out[b] = silu(gate . x[b]) * (up . x[b]); the rows of up follow those of gate.
template <class Type>
__device__ inline void gate_up_project(const typename Type::Word* weight, const float* x, float* out, long long layer,
        long long rows, long long depth, long long batch) {
    const Place at = place(batch);
    if (at.row >= rows) return;
    float sum[2][kTile];
    products<Type, 2>(weight + (layer * 2 * rows + at.row) * depth, rows * depth, x, depth, at, sum);
#pragma unroll
    for (int b = 0; b < kTile; ++b) {
        if (at.lane == 0 && b < at.count) {
            out[(at.first + b) * rows + at.row] = sum[0][b] / (1.0f + expf(-sum[0][b])) * sum[1][b];
        }
    }
}

// logits[b] = head . x[b]; with TIED the head is the embedding.
template <class Type>
__device__ inline void logits_project(const typename Type::Word* embedding, const typename Type::Word* head,
        const float* x, float* logits, long long rows, long long depth, long long batch) {
    const Place at = place(batch);
    if (at.row >= rows) return;
    float sum[1][kTile];
    products<Type, 1>((TIED ? embedding : head) + at.row * depth, 0, x, depth, at, sum);
#pragma unroll
    for (int b = 0; b < kTile; ++b) {
        if (at.lane == 0 && b < at.count) logits[(at.first + b) * rows + at.row] = sum[0][b];
    }
}

}  // namespace

// out = state / sqrt(mean(state^2) + epsilon) * gamma of the layer, a block a sequence.
extern "C" __global__ void __launch_bounds__(kThreads) norm_kernel(
        const float* state, const float* gamma, float* out, long long layer, long long hidden) {
    __shared__ float scratch[kWarps];
    const float* row = state + blockIdx.x * hidden;
    float sum = 0.0f;
    for (long long i = threadIdx.x; i < hidden; i += kThreads) sum = fmaf(row[i], row[i], sum);
    sum = held::block_sum_all<kThreads>(sum, scratch);
    const float inverse = 1.0f / sqrtf(sum / static_cast<float>(hidden) + kEpsilon);
    for (long long i = threadIdx.x; i < hidden; i += kThreads) {
        out[blockIdx.x * hidden + i] = row[i] * inverse * gamma[layer * hidden + i];
    }
}

// Turns Q in place and K on its way into the cache (element i with i + D / 2, by the cosine and sine of the position), and
// copies V there. The cache is [layers, batch, kv_heads, capacity, D]. x is the head of Q, K or V, y the sequence.
extern "C" __global__ void rope_store_kernel(float* qkv, const float2* rotation, const int* position, float* keys,
        float* values, long long layer, long long batch, long long heads, long long kv_heads, long long capacity) {
    constexpr int kPairs = kDim / 2;
    const long long head = blockIdx.x, b = blockIdx.y;
    const long long at = position[0];
    float* from = qkv + (b * (heads + 2 * kv_heads) + head) * kDim;
    const bool is_query = head < heads, is_value = head >= heads + kv_heads;
    const long long kv_head = is_value ? head - heads - kv_heads : head - heads;
    float* to = from;
    if (!is_query) {
        to = (is_value ? values : keys) + (((layer * batch + b) * kv_heads + kv_head) * capacity + at) * kDim;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kPairs; i += static_cast<int>(blockDim.x)) {
        const float low = from[i], high = from[i + kPairs];
        const float2 by = is_value ? make_float2(1.0f, 0.0f) : rotation[at * kPairs + i];
        to[i] = low * by.x - high * by.y;
        to[i + kPairs] = high * by.x + low * by.y;
    }
}

// Attention of one query head over all cached tokens, the softmax online. The warps of a block take tokens in turn and merge.
// x is the query head, y the sequence.
extern "C" __global__ void __launch_bounds__(kThreads) attention_kernel(const float* qkv, const float* keys,
        const float* values, const int* position, float* out, long long layer, long long batch, long long heads,
        long long kv_heads, long long capacity) {
    constexpr int kEach = (kDim + reduce::kWarp - 1) / reduce::kWarp;
    __shared__ float largest[kWarps], totals[kWarps], sums[kWarps][kDim];
    const long long head = blockIdx.x, b = blockIdx.y;
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    const long long length = static_cast<long long>(position[0]) + 1;
    const long long kv_head = head / (heads / kv_heads);
    const long long start = ((layer * batch + b) * kv_heads + kv_head) * capacity * kDim;
    const float scale = 1.0f / sqrtf(static_cast<float>(kDim));
    float query[kEach], sum[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const int d = lane + i * reduce::kWarp;
        query[i] = d < kDim ? qkv[(b * (heads + 2 * kv_heads) + head) * kDim + d] * scale : 0.0f;
        sum[i] = 0.0f;
    }
    float best = kNone, total = 0.0f;
    for (long long t = warp; t < length; t += kWarps) {
        const float* key = keys + start + t * kDim;
        const float* value = values + start + t * kDim;
        float score = 0.0f;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int d = lane + i * reduce::kWarp;
            if (d < kDim) score = fmaf(query[i], key[d], score);
        }
        score = reduce::lanes_sum(score);
        const float larger = fmaxf(best, score);
        const float keep = expf(best - larger), weight = expf(score - larger);
        total = fmaf(total, keep, weight);
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int d = lane + i * reduce::kWarp;
            if (d < kDim) sum[i] = fmaf(sum[i], keep, weight * value[d]);
        }
        best = larger;
    }
    if (lane == 0) {
        largest[warp] = best;
        totals[warp] = total;
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const int d = lane + i * reduce::kWarp;
        if (d < kDim) sums[warp][d] = sum[i];
    }
    __syncthreads();
    for (int d = static_cast<int>(threadIdx.x); d < kDim; d += kThreads) {
        float all = kNone, mass = 0.0f, merged = 0.0f;
        for (int w = 0; w < kWarps; ++w) all = fmaxf(all, largest[w]);
        for (int w = 0; w < kWarps; ++w) {
            const float share = expf(largest[w] - all);
            mass = fmaf(totals[w], share, mass);
            merged = fmaf(sums[w][d], share, merged);
        }
        out[(b * heads + head) * kDim + d] = merged / mass;
    }
}

// The token of the largest logit, ties to the lowest, into tokens[b] once the prompt has been read; then position[0] moves on,
// after the last of `steps` tokens back to the end of the prompt. A block a sequence.
extern "C" __global__ void __launch_bounds__(kArgmaxThreads) argmax_kernel(
        const float* logits, int* position, int* tokens, long long vocab, long long prompt, long long steps) {
    constexpr int kArgmaxWarps = kArgmaxThreads / reduce::kWarp;
    __shared__ order::Largest<1> scratch[kArgmaxWarps];
    const long long b = blockIdx.x;
    const long long next = static_cast<long long>(position[1]) + 1;
    order::Largest<1> largest;
    largest.clear();
    for (long long i = threadIdx.x; i < vocab; i += kArgmaxThreads) {
        const unsigned int rank = order::rank_of(logits[b * vocab + i]);
        if (rank > largest.bar()) largest.insert(order::key_of(rank, static_cast<int>(i)));
    }
    largest.merge_block(scratch);
    if (threadIdx.x != 0) return;
    if (next >= prompt) tokens[b * (steps + 1) + next - prompt] = order::key_index(largest.key[0]);
    if (b == 0) position[0] = static_cast<int>(next < prompt + steps ? next : prompt);
}

extern "C" __global__ void __launch_bounds__(kThreads) embed_fp32_kernel(const float* embedding, const int* prompt_ids,
        const int* tokens, int* position, float* state, long long hidden, long long prompt, long long steps) {
    embed<convert::Float32>(embedding, prompt_ids, tokens, position, state, hidden, prompt, steps);
}

extern "C" __global__ void __launch_bounds__(kThreads) qkv_fp32_kernel(const float* weight, const float* bias,
        const float* x, float* qkv, long long layer, long long rows, long long depth, long long batch) {
    qkv_project<convert::Float32>(weight, bias, x, qkv, layer, rows, depth, batch);
}

extern "C" __global__ void __launch_bounds__(kThreads) residual_fp32_kernel(const float* weight, const float* x,
        float* state, long long layer, long long rows, long long depth, long long batch) {
    residual_project<convert::Float32>(weight, x, state, layer, rows, depth, batch);
}

extern "C" __global__ void __launch_bounds__(kThreads) gate_up_fp32_kernel(const float* weight, const float* x, float* out,
        long long layer, long long rows, long long depth, long long batch) {
    gate_up_project<convert::Float32>(weight, x, out, layer, rows, depth, batch);
}

extern "C" __global__ void __launch_bounds__(kThreads) logits_fp32_kernel(const float* embedding, const float* head,
        const float* x, float* logits, long long rows, long long depth, long long batch) {
    logits_project<convert::Float32>(embedding, head, x, logits, rows, depth, batch);
}

extern "C" __global__ void __launch_bounds__(kThreads) embed_bf16_kernel(const unsigned short* embedding,
        const int* prompt_ids, const int* tokens, int* position, float* state, long long hidden, long long prompt,
        long long steps) {
    embed<convert::Bfloat16>(embedding, prompt_ids, tokens, position, state, hidden, prompt, steps);
}

extern "C" __global__ void __launch_bounds__(kThreads) qkv_bf16_kernel(const unsigned short* weight, const float* bias,
        const float* x, float* qkv, long long layer, long long rows, long long depth, long long batch) {
    qkv_project<convert::Bfloat16>(weight, bias, x, qkv, layer, rows, depth, batch);
}

extern "C" __global__ void __launch_bounds__(kThreads) residual_bf16_kernel(const unsigned short* weight, const float* x,
        float* state, long long layer, long long rows, long long depth, long long batch) {
    residual_project<convert::Bfloat16>(weight, x, state, layer, rows, depth, batch);
}

extern "C" __global__ void __launch_bounds__(kThreads) gate_up_bf16_kernel(const unsigned short* weight, const float* x,
        float* out, long long layer, long long rows, long long depth, long long batch) {
    gate_up_project<convert::Bfloat16>(weight, x, out, layer, rows, depth, batch);
}

extern "C" __global__ void __launch_bounds__(kThreads) logits_bf16_kernel(const unsigned short* embedding,
        const unsigned short* head, const float* x, float* logits, long long rows, long long depth, long long batch) {
    logits_project<convert::Bfloat16>(embedding, head, x, logits, rows, depth, batch);
}
