// Small kernels for tests/gpu/test_backend.py.
#include "common/overlap.cuh"
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

// x = 2 x + 1 once the kernel ahead has ended, which it may overlap. It keeps it waiting, and says when it began and went on.
extern "C" __global__ void step(double* x, long long cycles, unsigned long long* times) {
    unsigned long long began, went_on;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
    overlap::wait();
    overlap::release();
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(went_on));
    const long long start = clock64();
    while (clock64() - start < cycles) {
    }
    if (threadIdx.x != 0) return;
    x[0] = 2.0 * x[0] + 1.0;
    times[0] = began;
    times[1] = went_on;
}

// x[0] = value long after the kernel behind may start.
extern "C" __global__ void late(int* x, int value, long long cycles) {
    overlap::wait();
    overlap::release();
    const long long start = clock64();
    while (clock64() - start < cycles) {
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) x[0] = value;
}

extern "C" __global__ void between() {
    overlap::wait();
    overlap::release();
}

// What every block sees of x before it waits for the kernel ahead: that of all kernels before that one.
extern "C" __global__ void early(const int* x, int* seen) {
    const int value = __ldcg(x);
    overlap::wait();
    overlap::release();
    if (threadIdx.x == 0) seen[blockIdx.x] = value;
}

extern "C" __global__ void reverse(float* out, const float* in, long long n) {
    DYNAMIC_SHARED(float, values);
    for (long long i = threadIdx.x; i < n; i += blockDim.x) values[i] = in[i];
    __syncthreads();
    for (long long i = threadIdx.x; i < n; i += blockDim.x) out[i] = values[n - 1 - i];
}

extern "C" __global__ void wild(float* x) { x[1LL << 40] = 1.0f; }

extern "C" __global__ void trap() { asm volatile("trap;"); }
