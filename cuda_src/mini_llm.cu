// A decoder in the style of Llama and Qwen2, as passes over tokens of any sequences: embedding; per layer RMSNorm, QKV, RoPE,
// attention over the KV cache, output projection, RMSNorm and a gated SwiGLU feed-forward part; last norm, logits and the
// choice of the next token. Or in GPT-2's (LAYOUT): learned positions, whose rotations turn nothing, LayerNorm, a feed-forward
// part of GELU without a gate, and biases everywhere.
//
// A pass works on tokens that say for themselves which sequence they belong to (slot) and where in it they stand (position),
// both in device memory, so that a captured graph replays a decode as it is. Two sets of kernels do the same work: of few
// tokens (decode), bound by the weights, with norms, RoPE and the storing of keys in the kernels beside them; and of many
// (prefill), on the tensor cores. Float32 weights are exact rather than fast: their projections take the first set for any
// number of tokens, and so does the output projection always.
// HEAD_DIM, GROUP_HEADS, BATCH_TILE, WEIGHTS, GROUP, WHOLE_TILES, KV, LAYOUT, TIED, MOST_SPLITS, RUN_TOKENS, RUN_SHARED,
// STREAM_RING, STREAM_GROUP and STREAM_STATIC are compiled in. A bias that a model has not is a null pointer.
#include "common/generator.cuh"
#include "decoder/attend.cuh"
#include "decoder/few.cuh"
#include "decoder/many.cuh"
#include "decoder/sample.cuh"
#include "decoder/single.cuh"

#ifndef TIED
#define TIED 0
#endif

namespace {

using namespace activation;

constexpr int kThreads = 256;
// Activations for the projection that follows: both halves where that is one of many tokens, else (`split` is null) as they are.
__device__ inline void keep_activation(float* plain, unsigned short* split, long long at, long long all, float value) {
    if (split == nullptr) {
        plain[at] = value;
    } else {
        convert::Bfloat16::split(value, split[at], split[all + at]);
    }
}

__device__ inline cache::Cache cache_of(cache::Word* keys, cache::Word* values, float* key_scales, float* value_scales,
        const int* table, long long pages_of_slot, long long pages, long long page, long long kv_heads, long long layer) {
    return {keys, values, key_scales, value_scales, {table, pages_of_slot, pages, page, kv_heads, layer}};
}

}  // namespace

// ---- before the first layer, and what prepares weights ----------------------------------------------------------------------

// state[t] = embedding of ids[t], and of its position where those are learned (else `positions` is null); a block a token.
extern "C" __global__ void __launch_bounds__(kThreads) embed_kernel(const weights::Table::Word* embedding,
        const weights::Table::Word* positions, const int* ids, const int* position, float* state, long long hidden) {
    overlap::wait();
    const long long t = blockIdx.x, id = ids[t], at = position[t];
    for (long long i = threadIdx.x; i < hidden; i += kThreads) {
        const float value = weights::widen(embedding[id * hidden + i]);
        state[t * hidden + i] = positions == nullptr ? value : value + weights::widen(positions[at * hidden + i]);
    }
}

// Every sequence back behind its prompt: the next token to be processed is the first one chosen (or, before a prefill, none).
extern "C" __global__ void rewind_kernel(
        const int* tokens, int* ids, int* position, long long batch, long long steps, long long start) {
    const long long b = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    position[b] = static_cast<int>(start);
    ids[b] = tokens[b * (steps + 1)];
}

// What a launch costs by itself.
extern "C" __global__ void empty_kernel() {}

// Scales of largest magnitude / levels, of layers of `each` rows. A thread a group; `weight` as the original is held.
extern "C" __global__ void __launch_bounds__(kThreads) weight_scale_kernel(
        const weights::Table::Word* weight, float* scale, long long rows, long long each, long long depth, float levels) {
    const long long groups = weights::Tiled::groups(depth);
    const long long at = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (at >= rows * groups) return;
    const long long row = at / groups, first = at % groups * GROUP;
    const long long end = first + GROUP < depth ? first + GROUP : depth;
    float largest = 0.0f;
    for (long long i = first; i < end; ++i) largest = fmaxf(largest, fabsf(weights::widen(weight[row * depth + i])));
    float* const of_layer = scale + row / each * weights::Tiled::scales(each, depth);
    of_layer[weights::Tiled::scale_at(row % each, at % groups, depth)] = largest / levels;
}

// Payload of int8 (levels 127) or int4 (levels 7) of layers of `each_rows` rows, as decoder/weights.cuh says. A thread writes 16 bytes.
extern "C" __global__ void __launch_bounds__(kThreads) quantize_weight_kernel(const weights::Table::Word* weight,
        const float* scale, unsigned char* payload, long long layers, long long each_rows, long long depth, long long levels) {
    using namespace weights;
    const bool wide = levels > 7;
    const long long count = wide ? Int8::kCount : Int4::kCount, pieces = Tiled::tiles(depth) * kTile / count;
    const long long filled = Tiled::filled(each_rows), thread = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (thread >= layers * filled * pieces) return;
    const long long layer = thread / pieces / filled, row = thread / pieces % filled;
    const int piece = static_cast<int>(thread % pieces);
    const float* const scales = scale + layer * Tiled::scales(each_rows, depth);
    unsigned char* const to = payload + (wide ? layer * Int8::bytes(each_rows, depth) + Int8::row_at(row, depth) + Int8::piece_at(piece)
                                              : layer * Int4::bytes(each_rows, depth) + Int4::row_at(row, depth) + Int4::piece_at(piece));
    for (int i = 0; i < count; ++i) {
        const long long e = (wide ? Int8::element(piece, i / 4) : Int4::element(piece, i / 4)) + i % 4;
        int level = 0;
        if (e < depth && row < each_rows) {
            const float value = widen(weight[(layer * each_rows + row) * depth + e]);
            level = convert::to_level(value, scales[Tiled::scale_at(row, e / GROUP, depth)], static_cast<int>(levels));
        }
        if (wide) {
            to[i] = static_cast<unsigned char>(level + 128);
        } else {
            const int nibble = level + 8;
            to[i / 2] = static_cast<unsigned char>(i % 2 ? to[i / 2] | nibble << 4 : nibble);
        }
    }
}

// ---- few tokens ---------------------------------------------------------------------------------------------------------------
// blockIdx.x: the rows, blockIdx.y: the tokens that share one reading of them.

// qkv = W norm(state) + bias of the layer.
extern "C" __global__ void __launch_bounds__(few::kThreads, few::kBlocks) few_qkv_kernel(const void* weight, const float* scale,
        const float* bias, const float* gamma, const float* state, float* qkv, long long layer, long long rows, long long depth,
        long long tokens, float epsilon) {
    const long long first = few::first_row<weights::Stored>(few::kRows), token = blockIdx.y * few::kTokens;
    const weights::Layer of = weights::of_layer(weight, scale, layer, rows, depth);
    const int count = static_cast<int>(tokens - token < few::kTokens ? tokens - token : few::kTokens);
    few::project<weights::Stored, true>(
            of.weight, of.scale, gamma + layer * normalise::kRows * depth, depth, count, epsilon,
            [&](int r) { return first + r < rows ? first + r : rows - 1; },
            [&](int t) { return state + (token + t) * depth; },
            [&](int t, const float* sum) {
#pragma unroll
                for (int r = 0; r < few::kRows; ++r) {
                    if (first + r >= rows) break;
                    qkv[(token + t) * rows + first + r] = sum[r] + bias_of(bias, layer, rows, first + r);
                }
            });
}

// state += W x + bias of the layer.
extern "C" __global__ void __launch_bounds__(few::kThreads, few::kBlocks) few_residual_kernel(const void* weight,
        const float* scale, const float* bias, const float* x, float* state, long long layer, long long rows, long long depth,
        long long tokens) {
    const long long first = few::first_row<weights::Stored>(few::kRows), token = blockIdx.y * few::kTokens;
    const weights::Layer of = weights::of_layer(weight, scale, layer, rows, depth);
    const int count = static_cast<int>(tokens - token < few::kTokens ? tokens - token : few::kTokens);
    few::project<weights::Stored, false>(
            of.weight, of.scale, nullptr, depth, count, 0.0f, [&](int r) { return first + r < rows ? first + r : rows - 1; },
            [&](int t) { return x + (token + t) * depth; },
            [&](int t, const float* sum) {
#pragma unroll
                for (int r = 0; r < few::kRows; ++r) {
                    if (first + r >= rows) break;
                    state[(token + t) * rows + first + r] += sum[r] + bias_of(bias, layer, rows, first + r);
                }
            });
}

// out = silu(gate norm(state)) * (up norm(state)); the rows of up follow those of gate, and a block takes pairs of them.
// Without a gate out = gelu(up norm(state) + bias).
extern "C" __global__ void __launch_bounds__(few::kThreads, few::kBlocks) few_gate_up_kernel(const void* weight,
        const float* scale, const float* bias, const float* gamma, const float* state, float* out, long long layer,
        long long rows, long long depth, long long tokens, float epsilon) {
    constexpr int kEach = few::kRows / kUp;
    const long long first = few::first_row<weights::Stored>(kEach), token = blockIdx.y * few::kTokens;
    const weights::Layer of = weights::of_layer(weight, scale, layer, kUp * rows, depth);
    const int count = static_cast<int>(tokens - token < few::kTokens ? tokens - token : few::kTokens);
    few::project<weights::Stored, true>(
            of.weight, of.scale, gamma + layer * normalise::kRows * depth, depth, count, epsilon,
            [&](int r) {
                const long long row = first + r % kEach < rows ? first + r % kEach : rows - 1;
                return r < kEach ? row : rows + row;
            },
            [&](int t) { return state + (token + t) * depth; },
            [&](int t, const float* sum) {
#pragma unroll
                for (int r = 0; r < kEach; ++r) {
                    if (first + r >= rows) break;
                    float& to = out[(token + t) * rows + first + r];
                    if constexpr (kGated) {
                        to = silu(sum[r]) * sum[kEach + r];
                    } else {
                        to = gelu(sum[r] + bias_of(bias, layer, rows, first + r));
                    }
                }
            });
}

// ---- one token, int8 weights --------------------------------------------------------------------------------------------------
// The same projections with weights streamed through shared memory (decoder/single.cuh). Never launched for weights stored otherwise.

// qkv = W norm(state) + bias of the layer.
extern "C" __global__ void __launch_bounds__(streamed::kThreads, 1) streamed_qkv_kernel(const void* weight, const float* scale,
        const float* bias, const float* gamma, const float* state, float* qkv, long long layer, long long rows, long long depth,
        long long team, float epsilon) {
    single::qkv({weight, scale, bias, static_cast<int>(rows), static_cast<int>(depth), static_cast<int>(team)}, layer, gamma, state, qkv, epsilon);
}

// state += W x + bias of the layer.
extern "C" __global__ void __launch_bounds__(streamed::kThreads, 1) streamed_residual_kernel(const void* weight, const float* scale,
        const float* bias, const float* x, float* state, long long layer, long long rows, long long depth,
        long long team) {
    single::residual({weight, scale, bias, static_cast<int>(rows), static_cast<int>(depth), static_cast<int>(team)}, layer, x, state);
}

// out = silu(gate norm(state)) * (up norm(state)), or gelu(up norm(state) + bias).
extern "C" __global__ void __launch_bounds__(streamed::kThreads, 1) streamed_gate_up_kernel(const void* weight, const float* scale,
        const float* bias, const float* gamma, const float* state, float* out, long long layer, long long rows, long long depth,
        long long team, float epsilon) {
    single::gate_up({weight, scale, bias, static_cast<int>(rows), static_cast<int>(depth), static_cast<int>(team), kUp}, layer, gamma, state, out, epsilon);
}

// logits[i] = head . norm(state of token rows_of[i]); with TIED the head is the embedding.
extern "C" __global__ void __launch_bounds__(few::kThreads, few::kBlocks) logits_kernel(const weights::Table::Word* embedding,
        const weights::Table::Word* head, const float* gamma, const float* state, const int* rows_of, float* logits,
        long long rows, long long depth, long long tokens, float epsilon) {
    const long long first = few::first_row<weights::Table>(few::kRows), token = blockIdx.y * few::kTokens;
    const int count = static_cast<int>(tokens - token < few::kTokens ? tokens - token : few::kTokens);
    few::project<weights::Table, true>(
            TIED ? embedding : head, nullptr, gamma, depth, count, epsilon,
            [&](int r) { return first + r < rows ? first + r : rows - 1; },
            [&](int t) { return state + rows_of[token + t] * depth; },
            [&](int t, const float* sum) {
#pragma unroll
                for (int r = 0; r < few::kRows; ++r) {
                    if (first + r < rows) logits[(token + t) * rows + first + r] = sum[r];
                }
            });
}

// RoPE, the storing of the token's key and value, and its attention over all tokens before it and itself. blockIdx.x: a KV
// head's group of query heads, y: the token, z: the share of the keys. Shares are put together by the last block to end.
extern "C" __global__ void __launch_bounds__(attend::kThreads, attend::kBlocks) few_attention_kernel(const float* qkv, const float2* rotation,
        cache::Word* keys, cache::Word* values, float* key_scales, float* value_scales, const int* table, const int* slot,
        const int* position, float* partial, unsigned int* tickets, float* plain, unsigned short* halves, long long layer,
        long long heads, long long kv_heads, long long pages_of_slot, long long pages, long long page) {
    using namespace attend;
    __shared__ Found found;
    const cache::Cache all =
            cache_of(keys, values, key_scales, value_scales, table, pages_of_slot, pages, page, kv_heads, layer);
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp, lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    const long long t = blockIdx.y, splits = gridDim.z;
    const Share share(heads, kv_heads, blockIdx.x, __ldcg(slot + t), __ldcg(position + t), blockIdx.z, splits);
    const long long everything = gridDim.y * heads * kDim;
    if constexpr (overlap::kPossible) share.ask(all);
    share.attend(found, all, qkv + t * (heads + 2 * kv_heads) * kDim, rotation);
    __syncthreads();
    // A share's result: the weighted sum, then the largest score and the sum of weights. [token, head, split, D + 2]
    float* const results = partial + (t * heads + share.first_head) * splits * kResult;
    share.together(found, [&](int g, int d, float sum, float best, float total) {
        if (splits == 1) {
            keep_activation(plain, halves, (t * heads + share.first_head + g) * kDim + d, everything, sum / total);
            return;
        }
        float* const mine = results + (g * splits + blockIdx.z) * kResult;
        mine[d] = sum;
        if (d == 0) {
            mine[kDim] = best;
            mine[kDim + 1] = total;
        }
    });
    if (splits == 1) return;
    if (!reduce::last_to_arrive(tickets + t * gridDim.x + blockIdx.x, static_cast<unsigned int>(splits))) return;
    // Shares are weighed against each other by a warp for each head, then summed by all threads.
    __shared__ float weigh[kHeads][kShares];
#pragma unroll 1
    for (int g = warp; g < share.count; g += kWarps) {
        const float* of_head = results + g * splits * kResult;
        float best = kNone, total = 0.0f;
#pragma unroll 1
        for (long long s = lane; s < splits; s += reduce::kWarp) best = fmaxf(best, of_head[s * kResult + kDim]);
        best = reduce::lanes_max(best);
#pragma unroll 1
        for (long long s = lane; s < splits; s += reduce::kWarp) {
            const float by = __expf(of_head[s * kResult + kDim] - best);
            weigh[g][s] = by;
            total = fmaf(of_head[s * kResult + kDim + 1], by, total);
        }
        total = reduce::lanes_sum(total);
        __syncwarp();
#pragma unroll 1
        for (long long s = lane; s < splits; s += reduce::kWarp) weigh[g][s] = __fdividef(weigh[g][s], total);
    }
    __syncthreads();
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < share.count * kDim; i += attend::kThreads) {
        const int g = i / kDim, d = i % kDim;
        float sum = 0.0f;
#pragma unroll 4
        for (long long s = 0; s < splits; ++s) sum = fmaf(results[(g * splits + s) * kResult + d], weigh[g][s], sum);
        keep_activation(plain, halves, (t * heads + share.first_head + g) * kDim + d, everything, sum);
    }
}

// ---- many tokens --------------------------------------------------------------------------------------------------------------

// norm(state) of the layer for the projection that follows; a block a token.
extern "C" __global__ void __launch_bounds__(kThreads) many_norm_kernel(const float* state, const float* gamma,
        unsigned short* out, long long layer, long long hidden, long long tokens, float epsilon) {
    __shared__ float scratch[kThreads / reduce::kWarp];
    const float* row = state + blockIdx.x * hidden;
    const float* factor = gamma + layer * normalise::kRows * hidden;
    const normalise::Moments of = normalise::of_row<kThreads>(row, hidden, epsilon, scratch);
    for (long long i = threadIdx.x; i < hidden; i += kThreads) {
        const long long at = blockIdx.x * hidden + i;
        convert::Bfloat16::split(of.apply(row[i], factor[i], normalise::kLayer ? factor[hidden + i] : 0.0f), out[at], out[tokens * hidden + at]);
    }
}

// out = W x of the layer, and its bias where there is one (else null). Never launched for float32 weights.
extern "C" __global__ void __launch_bounds__(many::kThreads, many::kBlocks) many_project_kernel(const void* weight, const float* scale,
        const float* bias, const unsigned short* x, float* out, long long layer, long long rows, long long depth,
        long long tokens) {
#if WEIGHTS != WEIGHTS_FP32
    const weights::Layer of = weights::of_layer(weight, scale, layer, rows, depth);
    many::project<weights::Stored>(of.weight, of.scale, x, rows, depth, tokens, [&](long long t, long long r, float value) {
        out[t * rows + r] = value + bias_of(bias, layer, rows, r);
    });
#endif
}

// state += W x + bias of the layer.
extern "C" __global__ void __launch_bounds__(many::kThreads, many::kBlocks) many_residual_kernel(const void* weight, const float* scale,
        const float* bias, const unsigned short* x, float* state, long long layer, long long rows, long long depth,
        long long tokens) {
#if WEIGHTS != WEIGHTS_FP32
    const weights::Layer of = weights::of_layer(weight, scale, layer, rows, depth);
    many::project<weights::Stored>(of.weight, of.scale, x, rows, depth, tokens, [&](long long t, long long r, float value) {
        state[t * rows + r] += value + bias_of(bias, layer, rows, r);
    });
#endif
}

// silu(gate) * up of each token, gate and up side by side, or gelu(up), for the projection that follows.
extern "C" __global__ void __launch_bounds__(kThreads) many_activation_kernel(
        const float* gate_up, unsigned short* out, long long rows, long long tokens) {
    const long long at = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (at >= rows * tokens) return;
    const float* of = gate_up + at / rows * kUp * rows + at % rows;
    float value;
    if constexpr (kGated) {
        value = silu(of[0]) * of[rows];
    } else {
        value = gelu(of[0]);
    }
    convert::Bfloat16::split(value, out[at], out[rows * tokens + at]);
}

// Turns Q in place, and stores K, turned, and V in the cache. x is the head of Q, K or V, y the token; a warp.
extern "C" __global__ void many_rope_kernel(float* qkv, const float2* rotation, cache::Word* keys, cache::Word* values,
        float* key_scales, float* value_scales, const int* table, const int* slot, const int* position, long long layer,
        long long heads, long long kv_heads, long long pages_of_slot, long long pages, long long page) {
    using namespace attend;
    const long long head = blockIdx.x, t = blockIdx.y, at = position[t];
    float* from = qkv + (t * (heads + 2 * kv_heads) + head) * kDim;
    Head held;
    held.read(from);
    if (head < heads + kv_heads) {
        Head turn;
        turn.read(rotation + at * kPairs);
        held.turn(turn);
    }
    if (head < heads) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            if (!Head::has(i)) continue;
            from[Head::pair(i)] = held.low[i];
            from[Head::pair(i) + kPairs] = held.high[i];
        }
        return;
    }
    const cache::Cache all =
            cache_of(keys, values, key_scales, value_scales, table, pages_of_slot, pages, page, kv_heads, layer);
    const bool is_value = head >= heads + kv_heads;
    const long long place = all.shape.row(slot[t], is_value ? head - heads - kv_heads : head - heads, at);
    held.round(is_value ? all.values : all.keys, is_value ? all.value_scales : all.key_scales, place, true);
}

// Attention of runs of tokens of one sequence, each over the cache up to itself. runs[y] = (first token, tokens) of a run of
// attend::run::kQueries at most, their positions following each other; x is the query head.
extern "C" __global__ void __launch_bounds__(attend::run::kThreads) many_attention_kernel(const float* qkv, cache::Word* keys,
        cache::Word* values, float* key_scales, float* value_scales, const int* table, const int* slot, const int* position,
        const int2* runs, float* plain, unsigned short* split, long long layer, long long heads, long long kv_heads,
        long long pages_of_slot, long long pages, long long page, long long tokens) {
    using namespace attend;
    using namespace attend::run;
    DYNAMIC_SHARED(Shared, memory);
    Shared& shared = *memory;
    const cache::Cache all =
            cache_of(keys, values, key_scales, value_scales, table, pages_of_slot, pages, page, kv_heads, layer);
    const int thread = static_cast<int>(threadIdx.x), down = thread / kAcross, across = thread % kAcross;
    const long long head = blockIdx.x, kv_head = head / (heads / kv_heads);
    const long long first = runs[blockIdx.y].x, count = runs[blockIdx.y].y;
    const long long of = slot[first], start = position[first];
    const float scale = 1.0f / sqrtf(static_cast<float>(kDim));
    for (int i = thread; i < kQueries * kWide; i += run::kThreads) {
        const int q = i / kWide, d = i % kWide;
        const bool inside = q < count && d < kDim;
        shared.query[q][d] = inside ? qkv[((first + q) * (heads + 2 * kv_heads) + head) * kDim + d] * scale : 0.0f;
    }
    float sum[4][kColumns] = {};
    const int owner = thread / 4, part = thread % 4;  // of a query's softmax: four threads share it
    float best = kNone, total = 0.0f;
    const long long end = start + count;
#pragma unroll 1
    for (long long from = 0; from < end; from += kKeys) {
        __syncthreads();
        for (int k = thread; k < kKeys; k += run::kThreads) {
            if (from + k >= end) continue;
            const long long place = all.shape.row(of, kv_head, from + k);
            shared.place[k] = place;
            shared.key_scale[k] = all.key_scale(place);
            shared.value_scale[k] = all.value_scale(place);
        }
        __syncthreads();
        for (int i = thread; i < kKeys * kWide; i += run::kThreads) {
            const int k = i / kWide, d = i % kWide;
            float key = 0.0f, value = 0.0f;
            if (from + k < end && d < kDim) {
                const long long at = shared.place[k] * kDim + d;
                key = cache::widen(all.keys[at], shared.key_scale[k]);
                value = cache::widen(all.values[at], shared.value_scale[k]);
            }
            shared.key[k][d] = key;
            shared.value[k][d] = value;
        }
        __syncthreads();
        float score[4][2] = {};
#pragma unroll 2
        for (int d = 0; d < kWide; d += 4) {
            float4 k[2];
#pragma unroll
            for (int j = 0; j < 2; ++j) k[j] = *reinterpret_cast<const float4*>(&shared.key[across + j * kAcross][d]);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float4 q = *reinterpret_cast<const float4*>(&shared.query[down * 4 + i][d]);
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    score[i][j] = fmaf(q.x, k[j].x, fmaf(q.y, k[j].y, fmaf(q.z, k[j].z, fmaf(q.w, k[j].w, score[i][j]))));
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int k = across + j * kAcross;
                const bool seen = from + k <= start + down * 4 + i;
                shared.score[down * 4 + i][k] = seen ? score[i][j] : kNone;
            }
        }
        __syncthreads();
        float larger = best;
        for (int k = part; k < kKeys; k += 4) larger = fmaxf(larger, shared.score[owner][k]);
        larger = reduce::lanes_max<4>(larger);
        const float keep = expf(best - larger);
        float mass = 0.0f;
        for (int k = part; k < kKeys; k += 4) {
            const float score_of = shared.score[owner][k];
            const float weight = score_of == kNone ? 0.0f : expf(score_of - larger);
            shared.score[owner][k] = weight;
            mass += weight;
        }
        mass = reduce::lanes_sum<4>(mass);
        total = fmaf(total, keep, mass);
        best = larger;
        if (part == 0) shared.keep[owner] = keep;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float by = shared.keep[down * 4 + i];
#pragma unroll
            for (int c = 0; c < kColumns; ++c) sum[i][c] *= by;
        }
#pragma unroll 2
        for (int k = 0; k < kKeys; ++k) {
            float weight[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) weight[i] = shared.score[down * 4 + i][k];
#pragma unroll
            for (int c = 0; c < kColumns; ++c) {
                const int d = across + c * kAcross;
                const float value = d < kWide ? shared.value[k][d] : 0.0f;
#pragma unroll
                for (int i = 0; i < 4; ++i) sum[i][c] = fmaf(weight[i], value, sum[i][c]);
            }
        }
    }
    if (part == 0) shared.total[owner] = total;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int q = down * 4 + i;
        if (q >= count) continue;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
            const int d = across + c * kAcross;
            if (d >= kDim) continue;
            const long long at = ((first + q) * heads + head) * kDim + d;
            keep_activation(plain, split, at, tokens * heads * kDim, sum[i][c] / shared.total[q]);
        }
    }
}

// ---- the choice -----------------------------------------------------------------------------------------------------------------

// The next token of each sequence, into tokens [sequences, steps + 1] at its place behind the prompt and into ids, from where
// the next pass takes it; the position moves on. top_k = 0: the largest logit, ties to the lowest index. Otherwise one of the
// top_k largest whose probabilities, at `temperature`, reach top_p: drawn with a number that follows from key, sequence and
// position alone. A block a sequence.
extern "C" __global__ void __launch_bounds__(sample::kThreads, 1) sample_kernel(const float* logits, int* ids, int* position,
        int* tokens, long long vocab, long long prompt, long long steps, long long top_k, float top_p, float temperature,
        unsigned long long key) {
    using namespace sample;
    __shared__ order::Largest<1> scratch[kWarps];
    __shared__ unsigned long long candidates[kMost];
    __shared__ int bins[kBins], chosen[2];
    __shared__ float weights_of[kMost];
    overlap::wait();
    const long long b = blockIdx.x;
    const float* row = logits + b * vocab;
    const long long at = static_cast<long long>(position[b]);
    int token = 0;
    if (top_k == 0) {
        order::Largest<1> largest;
        largest.clear();
        // 16 bytes at a time where every row begins on 16 bytes.
        const long long quads = vocab % 4 == 0 ? vocab / 4 : 0;
#pragma unroll 8
        for (long long i = threadIdx.x; i < quads; i += sample::kThreads) {
            const float4 four = reinterpret_cast<const float4*>(row)[i];
            const float each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const unsigned int rank = order::rank_of(each[j]);
                if (rank > largest.bar()) largest.insert(order::key_of(rank, static_cast<int>(4 * i + j)));
            }
        }
        for (long long i = 4 * quads + threadIdx.x; i < vocab; i += sample::kThreads) {
            const unsigned int rank = order::rank_of(row[i]);
            if (rank > largest.bar()) largest.insert(order::key_of(rank, static_cast<int>(i)));
        }
        largest.merge_block(scratch);
        token = order::key_index(largest.key[0]);
    } else {
        const int wanted = static_cast<int>(top_k < vocab ? top_k : vocab);
        const Bar bar = bar_of(row, static_cast<int>(vocab), wanted, bins, chosen);
        candidates[threadIdx.x] = 0ULL;
        if (threadIdx.x == 0) chosen[0] = 0;
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < vocab; i += sample::kThreads) {
            const unsigned int rank = order::rank_of(row[i]);
            if (rank > bar.rank) candidates[atomicAdd(&chosen[0], 1)] = order::key_of(rank, i);
        }
        __syncthreads();
        // Those at the bar in the order of their indices; as a rule it is one.
        if (threadIdx.x == 0) {
            int left = bar.at_bar, to = wanted - bar.at_bar;
            for (int i = 0; left > 0 && i < vocab; ++i) {
                if (order::rank_of(row[i]) != bar.rank) continue;
                candidates[to++] = order::key_of(bar.rank, i);
                --left;
            }
        }
        __syncthreads();
        sort(candidates);
        const float best = order::key_value(candidates[0]);
        const int i = static_cast<int>(threadIdx.x);
        weights_of[i] = i < wanted ? expf((order::key_value(candidates[i]) - best) / temperature) : 0.0f;
        __syncthreads();
        if (threadIdx.x == 0) {
            float mass = 0.0f, kept = 0.0f;
            int count = 0;
            for (int c = 0; c < wanted; ++c) mass += weights_of[c];
            while (count < wanted && (count == 0 || kept < top_p * mass)) kept += weights_of[count++];
            const float aim = generator::uniform(key + b, at, 0.0f, 1.0f) * kept;
            float reached = 0.0f;
            int taken = 0;
            while (taken < count - 1 && (reached += weights_of[taken]) <= aim) ++taken;
            token = order::key_index(candidates[taken]);
        }
    }
    if (threadIdx.x != 0) return;
    const long long place = at + 1 - prompt;
    if (place >= 0 && place <= steps) tokens[b * (steps + 1) + place] = token;
    ids[b] = token;
    position[b] = static_cast<int>(at + 1);
}

// ---- speculation ----------------------------------------------------------------------------------------------------------------

// The tokens of a verification, behind each other for each sequence: the next one, then `draft` proposals, which `drafted`
// [sequences, capacity + 1] holds at their positions. A thread a token.
extern "C" __global__ void __launch_bounds__(kThreads) window_kernel(const int* ids, const int* position, const int* drafted,
        int* window_ids, int* window_position, long long batch, long long draft, long long capacity) {
    const long long t = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x, b = t / (draft + 1), i = t % (draft + 1);
    if (b >= batch) return;
    const long long at = position[b] + i;
    window_ids[t] = i == 0 ? ids[b] : drafted[b * (capacity + 1) + at];
    window_position[t] = static_cast<int>(at);
}

// Takes of each window the proposals that agree with what was chosen before them, and the choice behind those. The sequence moves
// on by as many tokens, `steps` behind the first at most, and the draft to the same place. Proposals taken and windows are
// counted, for sequences that were not at their end. A thread a sequence.
extern "C" __global__ void __launch_bounds__(kThreads) accept_kernel(const int* window_ids, const int* chosen, int* ids,
        int* position, int* draft_ids, int* draft_position, int* tokens, int* accepted, int* windows, long long batch,
        long long draft, long long prompt, long long steps) {
    const long long b = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (b >= batch) return;
    const int* proposal = window_ids + b * (draft + 1) + 1;
    const int* choice = chosen + b * (draft + 1);
    const long long at = position[b], left = prompt + steps - at;
    if (left > 0) {
        long long agreed = 0;
        while (agreed < draft && proposal[agreed] == choice[agreed]) ++agreed;
        const long long taken = agreed + 1 < left ? agreed + 1 : left;
        for (long long i = 0; i < taken; ++i) tokens[b * (steps + 1) + at + 1 - prompt + i] = choice[i];
        ids[b] = choice[taken - 1];
        position[b] = static_cast<int>(at + taken);
        accepted[b] += static_cast<int>(agreed);
        windows[b] += 1;
    }
    draft_ids[b] = ids[b];
    draft_position[b] = position[b];
}
