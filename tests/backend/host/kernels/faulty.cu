#include "common/shared.cuh"

extern "C" __global__ void global_overrun(float* data, long long n) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i <= n) data[i] = 1.0f;  // one too many
}

extern "C" __global__ void dynamic_overrun(float* out) {
    DYNAMIC_SHARED(float, cells);
    cells[threadIdx.x + 1] = 1.0f;  // one too many in the last thread
    __syncthreads();
    out[threadIdx.x] = cells[threadIdx.x];
}

extern "C" __global__ void static_overrun(float* out) {
    __shared__ float cells[32];
    cells[threadIdx.x + 1] = 1.0f;  // one too many in the last thread
    __syncthreads();
    out[threadIdx.x] = cells[threadIdx.x];
}

// Neighbours exchange through shared memory; without the barrier when `guarded` is 0.
extern "C" __global__ void exchange(int* out, int guarded) {
    __shared__ int cells[64];
    const int i = threadIdx.x;
    cells[i] = -1;
    __syncthreads();
    cells[i] = i;
    if (guarded) __syncthreads();
    out[i] = cells[(i + 1) & 63];
}

// In a fixed order of threads the missing barrier would go unseen: thread 0 writes first.
extern "C" __global__ void broadcast(int* out) {
    __shared__ int cell;
    if (threadIdx.x == 0) cell = 42;
    out[threadIdx.x] = cell;
}

template <int kSize>
__device__ int& cell(int i) {
    __shared__ int cells[kSize];
    return cells[i];
}

// Dynamic, static, and static in a template; the last block leaves something behind.
extern "C" __global__ void reads_unset(int* out) {
    DYNAMIC_SHARED(int, cells);
    __shared__ int fixed[64];
    const int i = threadIdx.x;
    out[i] = cells[i] == -1 && fixed[i] == -1 && cell<64>(i) == -1 ? -1 : 0;
    cells[i] = fixed[i] = cell<64>(i) = 5;
}

// The second half of the threads leaves the barrier out.
extern "C" __global__ void divergent(int* out) {
    const int i = threadIdx.x;
    if (i < 32) __syncthreads();
    out[i] = i;
}

// A block that reads what the one before it wrote.
extern "C" __global__ void chained(int* out) {
    if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x ? out[blockIdx.x - 1] + 1 : 0;
}

extern "C" __global__ void good(float* data, long long n) {
    DYNAMIC_SHARED(float, cells);
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    cells[threadIdx.x] = i < n ? data[i] : 0.0f;
    __syncthreads();
    const float neighbour = cells[blockDim.x - 1 - threadIdx.x];
    const float sum = neighbour + __shfl_xor_sync(0xFFFFFFFFu, neighbour, 1);
    if (i < n) data[i] = sum;
}
