// A decode step that needs a temporary array: written, and read back by other threads than those that wrote it.

#include "common/reduce.cuh"

namespace {
constexpr int kThreads = 256;
constexpr int kElements = 4 * kThreads;
}

// out[step * blocks + block] = sum of the 1024 workspace elements of a block, blocks = gridDim.x. Element i of the
// workspace (from `offset` on) is floor(1024 * activation) + (i + 31 * step) mod 1024, and zero from n on: whole numbers
// whose sum stays below 2^21, so that no order of summation rounds. Activations and workspace hold whole blocks; `offset`
// is a multiple of 1024.
extern "C" __global__ void __launch_bounds__(kThreads) workspace_kernel(
        const float* activations, float* workspace, long long offset, float* out, long long n, long long step) {
    __shared__ float scratch[kThreads / reduce::kWarp];
    const long long base = static_cast<long long>(blockIdx.x) * kElements;
    const int mine = 4 * static_cast<int>(threadIdx.x);
    const float4 loaded = *reinterpret_cast<const float4*>(activations + base + mine);
    float value[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const long long i = base + mine + j;
        const float shift = static_cast<float>(static_cast<int>((i + 31 * step) & 1023));
        value[j] = i < n ? floorf(1024.0f * value[j]) + shift : 0.0f;
    }
    float4* own = reinterpret_cast<float4*>(workspace + offset + base);
    own[threadIdx.x] = make_float4(value[0], value[1], value[2], value[3]);
    __syncthreads();
    const float4 other = own[kThreads - 1 - threadIdx.x];
    const float sum = reduce::block_sum<kThreads / reduce::kWarp>(other.x + other.y + other.z + other.w, scratch);
    if (threadIdx.x == 0) out[step * gridDim.x + blockIdx.x] = sum;
}
