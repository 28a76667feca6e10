#include "common/shared.cuh"

// Where every thread of a 3-D launch is, one row of six a thread.
extern "C" __global__ void places(int* out) {
    const long long block = (static_cast<long long>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int* row = out + (block * (blockDim.x * blockDim.y * blockDim.z) + thread) * 6;
    row[0] = blockIdx.x, row[1] = blockIdx.y, row[2] = blockIdx.z;
    row[3] = threadIdx.x, row[4] = threadIdx.y, row[5] = threadIdx.z;
}

// Reverses each block's part through static and dynamic shared memory, the latter used as two types.
extern "C" __global__ void reverse(const float* in, float* out, double* doubled) {
    __shared__ alignas(16) float fixed[256];
    DYNAMIC_SHARED(float, floats);
    DYNAMIC_SHARED(double, doubles);
    const int i = threadIdx.x, n = blockDim.x;
    const long long base = static_cast<long long>(blockIdx.x) * n;
    fixed[i] = in[base + i];
    __syncthreads();
    floats[i] = fixed[n - 1 - i];
    __syncthreads();
    out[base + i] = floats[i];
    const float kept = floats[n - 1 - i];
    __syncthreads();
    doubles[i] = 2.0 * kept;
    __syncthreads();
    doubled[base + i] = doubles[i];
}

// A tree reduction whose threads return once they have nothing left to do.
extern "C" __global__ void early_exit(const int* in, int* out) {
    __shared__ int part[1024];
    const int i = threadIdx.x;
    part[i] = in[i];
    for (int half = blockDim.x / 2; half; half >>= 1) {
        __syncthreads();
        if (i >= half) return;
        part[i] += part[i + half];
    }
    out[0] = part[0];
}

extern "C" __global__ void counting(const int* in, int* out) {
    if (threadIdx.x >= 70) return;
    const int v = in[threadIdx.x];
    int* row = out + threadIdx.x * 4;
    row[0] = __syncthreads_count(v & 1);
    row[1] = __syncthreads_and(v >= 0);
    row[2] = __syncthreads_or(v == in[69]);
    row[3] = __syncthreads_and(v & 1);
}

template <typename T>
__device__ T twice(T v) { return v + v; }
__constant__ int kTable[4] = {3, 5, 7, 11};

extern "C" __global__ void __launch_bounds__(128) language(int* out) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = twice(kTable[i]);
    const float4 v = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
    out[4] = static_cast<int>(v.x + v.w) + max(2, 3) + static_cast<int>(fminf(9.0f, 1.0f));
    out[5] = warpSize;
}

// Half of the threads wait for a barrier, the others for their warp.
extern "C" __global__ void hang(int* out) {
    if (threadIdx.x < 8) {
        __syncthreads();
    } else {
        __syncwarp();
    }
    out[threadIdx.x] = 1;
}

// Even and odd lanes disagree about who meets.
extern "C" __global__ void split_warp(int* out) {
    const unsigned mask = threadIdx.x & 1 ? 0x0000000Fu : 0x00000007u;
    out[threadIdx.x] = __shfl_sync(mask, 1, 2);
}

extern "C" __global__ void trap(int* out, int block) {
    if (blockIdx.x == block && threadIdx.x == 3) __trap();
    out[blockIdx.x] = 1;
}

#include <assert.h>
extern "C" __global__ void checked(int* out) {
    assert(blockIdx.x < 2);
    out[blockIdx.x] = 1;
}

extern "C" __global__ void recurse(int* out, int depth) {
    struct Deep {
        static __device__ int go(int* out, int depth) {
            volatile int here[1024];
            here[depth & 1023] = depth;
            return depth ? go(out, depth - 1) + here[depth & 1023] : here[0];
        }
    };
    out[0] = Deep::go(out, depth);
}
