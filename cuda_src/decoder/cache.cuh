// The KV cache: keys and values [layers, pages, kv_heads, page, D] in the type that KV, compiled in, says. A table [slots, pages
// of a slot] gives the pages of each sequence; a cache without pages has one page of the whole capacity for each.
// Rounding to int8 takes the largest magnitude of the D elements as 127 and keeps that scale beside them.
#pragma once

#include "../common/convert.cuh"
#include "../common/reduce.cuh"

#define KV_FP32 0
#define KV_BF16 1
#define KV_INT8 2
#define KV_FP8 3

#ifndef KV
#define KV KV_BF16
#endif
static_assert(KV >= KV_FP32 && KV <= KV_FP8, "KV is 0 (fp32), 1 (bf16), 2 (int8) or 3 (fp8)");

namespace cache {

#if KV == KV_FP32
using Word = float;
#elif KV == KV_BF16
using Word = unsigned short;
#elif KV == KV_INT8
using Word = signed char;
#else
using Word = __nv_fp8_e4m3;
#endif

// Past the L1 cache, which may know what was there before another kernel.
__device__ inline Word load(const Word* from) {
#if KV == KV_FP8
    Word value;
    value.__x = __ldcg(reinterpret_cast<const unsigned char*>(from));
    return value;
#else
    return __ldcg(from);
#endif
}

__device__ inline float load_scale(const float* scales, long long row) { return KV == KV_INT8 ? __ldcg(scales + row) : 1.0f; }

__device__ inline float widen(Word value, float scale) {
#if KV == KV_BF16
    return convert::Bfloat16::widen(value);
#elif KV == KV_INT8
    return static_cast<float>(value) * scale;
#else
    return static_cast<float>(value);
#endif
}

__device__ inline Word narrow(float value, float scale) {
#if KV == KV_FP32
    return value;
#elif KV == KV_BF16
    return convert::Bfloat16::narrow(value);
#elif KV == KV_INT8
    return static_cast<signed char>(convert::to_level(value, scale, 127));
#else
    return __nv_fp8_e4m3(value);  // saturates
#endif
}

// Largest magnitude of a head as the scale that int8 takes, and 1 for the types that need none.
__device__ inline float scale_of(float largest) {
#if KV == KV_INT8
    return largest / 127.0f;
#else
    return 1.0f;
#endif
}

// Where a cache lies and how it is divided.
struct Shape {
    const int* table;
    long long pages_of_slot;
    long long pages;
    long long page;
    long long kv_heads;
    long long layer;

    // Number of the row of D elements that holds token `t` of a slot's KV head.
    __device__ inline long long row(long long slot, long long kv_head, long long t) const {
        const unsigned int each = static_cast<unsigned int>(page), of = static_cast<unsigned int>(t);  // cheaper to divide
        const long long at = table[slot * pages_of_slot + of / each];
        return ((layer * pages + at) * kv_heads + kv_head) * page + of % each;
    }
};

struct Cache {
    Word* keys;
    Word* values;
    float* key_scales;
    float* value_scales;
    Shape shape;

    __device__ inline float key_scale(long long row) const { return KV == KV_INT8 ? key_scales[row] : 1.0f; }
    __device__ inline float value_scale(long long row) const { return KV == KV_INT8 ? value_scales[row] : 1.0f; }
};

}  // namespace cache
