// NAME: out[b, n] = a * x[b, n], row by row. Replace the arithmetic with yours.
// Sizes arrive as long long, real scalars as float, arrays as pointers.

// One thread an element.
extern "C" __global__ void NAME_plain_kernel(const float* __restrict__ x, float* __restrict__ out, float a, long long count) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) out[i] = a * x[i];
}

// Four elements a thread, loaded and stored 16 bytes at a time; the launch covers whole quads, the tail goes one by one.
extern "C" __global__ void NAME_vector_kernel(const float* __restrict__ x, float* __restrict__ out, float a, long long count) {
    const long long quad = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long i = 4 * quad;
    if (i + 3 < count) {
        const float4 value = reinterpret_cast<const float4*>(x)[quad];
        reinterpret_cast<float4*>(out)[quad] = make_float4(a * value.x, a * value.y, a * value.z, a * value.w);
    } else {
        for (long long j = i; j < count; ++j) out[j] = a * x[j];
    }
}
