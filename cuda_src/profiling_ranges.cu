// Two kernels on either side of the ridge: saxpy moves 12 bytes for 2 FLOP, fma_chain does 2 * iters FLOP for 8 bytes.
// 16-byte accesses; what is left after the last whole quad is done element by element.

namespace {

constexpr int kThreads = 256;
constexpr int kQuads = 4;

// Slope and offset of the chain v -> kSlope * v + kOffset. It contracts towards its fixed point 1, so nothing
// overflows or grows denormal, and slowly enough (kSlope^4096 = 1/e) that the count of steps shows in the result.
constexpr float kSlope = 1.0f - 1.0f / 4096.0f;
constexpr float kOffset = 1.0f / 4096.0f;

// Four independent chains in one loop, so that a thread issues without waiting for itself.
__device__ inline float4 chain(float4 value, long long iters) {
#pragma unroll 16
    for (long long i = 0; i < iters; ++i) {
        value.x = fmaf(value.x, kSlope, kOffset);
        value.y = fmaf(value.y, kSlope, kOffset);
        value.z = fmaf(value.z, kSlope, kOffset);
        value.w = fmaf(value.w, kSlope, kOffset);
    }
    return value;
}

__device__ inline float4 scaled_sum(float a, float4 x, float4 y) {
    return make_float4(fmaf(a, x.x, y.x), fmaf(a, x.y, y.y), fmaf(a, x.z, y.z), fmaf(a, x.w, y.w));
}

}  // namespace

// out = a * x + y. kQuads quads a thread, all loaded before the first is stored; the last block may be short.
extern "C" __global__ void __launch_bounds__(kThreads) saxpy_kernel(const float* __restrict__ x,
        const float* __restrict__ y, float* __restrict__ out, float a, long long n) {
    const long long quads = n / 4;
    const long long begin = static_cast<long long>(blockIdx.x) * kThreads * kQuads + threadIdx.x;
    const float4* left = reinterpret_cast<const float4*>(x);
    const float4* right = reinterpret_cast<const float4*>(y);
    float4* result = reinterpret_cast<float4*>(out);
    if ((static_cast<long long>(blockIdx.x) + 1) * kThreads * kQuads <= quads) {
        float4 first[kQuads], second[kQuads];
#pragma unroll
        for (int u = 0; u < kQuads; ++u) {
            first[u] = left[begin + u * kThreads];
            second[u] = right[begin + u * kThreads];
        }
#pragma unroll
        for (int u = 0; u < kQuads; ++u) result[begin + u * kThreads] = scaled_sum(a, first[u], second[u]);
    } else {
#pragma unroll 1
        for (long long quad = begin; quad < quads; quad += kThreads) {
            result[quad] = scaled_sum(a, left[quad], right[quad]);
        }
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        const long long i = quads * 4 + threadIdx.x;
        out[i] = fmaf(a, x[i], y[i]);
    }
}

// out = the chain applied `iters` times to x. One quad a thread.
extern "C" __global__ void __launch_bounds__(kThreads) fma_chain_kernel(const float* __restrict__ x,
        float* __restrict__ out, long long n, long long iters) {
    const long long quad = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (quad < n / 4) {
        reinterpret_cast<float4*>(out)[quad] = chain(reinterpret_cast<const float4*>(x)[quad], iters);
    } else if (quad * 4 < n) {
        const long long rest = n % 4;
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        value.x = x[quad * 4];
        if (rest > 1) value.y = x[quad * 4 + 1];
        if (rest > 2) value.z = x[quad * 4 + 2];
        value = chain(value, iters);
        out[quad * 4] = value.x;
        if (rest > 1) out[quad * 4 + 1] = value.y;
        if (rest > 2) out[quad * 4 + 2] = value.z;
    }
}
