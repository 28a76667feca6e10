// Small kernels for tests/gpu/test_backend.py.
#include "common/shared.cuh"

extern "C" __global__ void empty() {}

extern "C" __global__ void scale(float* x, long long n, float by) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}

extern "C" __global__ void mixed(double* out, int a, float b, long long c, unsigned long long d, float e) {
    out[0] = a;
    out[1] = b;
    out[2] = static_cast<double>(c);
    out[3] = static_cast<double>(d);
    out[4] = e;
}

// Every block keeps its multiprocessor slot for so many cycles.
extern "C" __global__ void spin(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {
    }
}

extern "C" __global__ void reverse(float* out, const float* in, long long n) {
    DYNAMIC_SHARED(float, values);
    for (long long i = threadIdx.x; i < n; i += blockDim.x) values[i] = in[i];
    __syncthreads();
    for (long long i = threadIdx.x; i < n; i += blockDim.x) out[i] = values[n - 1 - i];
}

extern "C" __global__ void wild(float* x) { x[1LL << 40] = 1.0f; }

extern "C" __global__ void trap() { asm volatile("trap;"); }
