#include "common/shared.cuh"

// Decode attention over a KV cache of 128-wide heads: a warp per token, a block per head. Scores by shuffles,
// the block's warps put together through shared memory.
extern "C" __global__ void __launch_bounds__(256) kv_scan(const float* __restrict__ k, const float* __restrict__ v,
        const float* __restrict__ q, float* __restrict__ out, long long tokens, float scale) {
    constexpr int kDim = 128;
    DYNAMIC_SHARED(float, parts);
    __shared__ float weights[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    const long long head = blockIdx.x;
    const float4* keys = reinterpret_cast<const float4*>(k + head * tokens * kDim);
    const float4* values = reinterpret_cast<const float4*>(v + head * tokens * kDim);
    const float4 query = reinterpret_cast<const float4*>(q + head * kDim)[lane];
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float weight = 0.0f;
    for (long long token = warp; token < tokens; token += warps) {
        const float4 key = keys[token * (kDim / 4) + lane];
        float score = key.x * query.x + key.y * query.y + key.z * query.z + key.w * query.w;
        for (int offset = 16; offset; offset >>= 1) score += __shfl_xor_sync(0xFFFFFFFFu, score, offset);
        const float p = __expf(score * scale);
        const float4 value = values[token * (kDim / 4) + lane];
        weight += p;
        sum.x += p * value.x, sum.y += p * value.y, sum.z += p * value.z, sum.w += p * value.w;
    }
    reinterpret_cast<float4*>(parts)[warp * 32 + lane] = sum;
    if (lane == 0) weights[warp] = weight;
    __syncthreads();
    if (threadIdx.x >= kDim) return;
    float total = 0.0f, all = 0.0f;
    for (int w = 0; w < warps; ++w) total += parts[w * kDim + threadIdx.x], all += weights[w];
    out[head * kDim + threadIdx.x] = total / all;
}
