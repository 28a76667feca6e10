// What this device really gives: its memory (a copy, a read alone, a write alone) and its arithmetic (multiply-adds of float32, and
// products of matrices on tensor cores), each by a kernel that does nothing else.
//
// Memory: in the read a block owns one contiguous segment of `segment` floats, a multiple of 4 * kReaders * kUnroll, so that there
// is neither a tail nor an index calculation in the loop; many more blocks than fit at once keep the load even. On a CPU threads
// run one after another: each takes pieces that lie side by side, and enough of them that starting it costs nothing.
//
// Arithmetic: as many blocks as stay on the SMs at once, operands in registers or shared memory, independent sums enough to hide an
// instruction's latency, and results that are exact in float32, so that a check sees every single step.
#include "common/reduce.cuh"
#include "common/tensor.cuh"
#include "common/warpgroup.cuh"

#ifndef CHAINS
#define CHAINS 8
#endif

namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 4;
#ifdef HOST_BACKEND
constexpr int kPieces = 256;  // of 16 bytes, that a thread copies or writes
constexpr int kReaders = 32;  // threads of a block that reads
constexpr bool kSideBySide = true;
#else
constexpr int kPieces = 1;
constexpr int kReaders = kThreads;
constexpr bool kSideBySide = false;
#endif

// --- multiply-adds. A thread holds kHeld chains of kLanes floats at once. On a CPU a "thread" is what one core does at a time, so
// that its chains are the registers of the vector unit: 8 of them, for two units with a latency of four cycles.
constexpr int kHeld = 8;
constexpr int kSteps = 64;
#if defined(HOST_BACKEND) && defined(__AVX512F__)
typedef float Lanes __attribute__((vector_size(64)));
#elif defined(HOST_BACKEND)
typedef float Lanes __attribute__((vector_size(32)));
#else
typedef float Lanes;
#endif
constexpr int kLanes = sizeof(Lanes) / sizeof(float);
static_assert(CHAINS % (kHeld * kLanes) == 0, "CHAINS must be a multiple of the chains that a thread holds at once");

}  // namespace

// On a GPU one 16-byte piece a thread and the whole array in one grid: 4.30 TB/s on an H200, against 4.0 to 4.2 for loops.
extern "C" __global__ void __launch_bounds__(kThreads) copy_kernel(const float4* __restrict__ source,
        float4* __restrict__ target, long long count) {
    const long long first = (static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x) * kPieces;
#pragma unroll
    for (long long i = first; i < first + kPieces; ++i) {
        if (i < count) target[i] = source[i];
    }
}

// sums[block] = sum of the block's segment: one float written for a whole segment read.
extern "C" __global__ void __launch_bounds__(kReaders) read_kernel(const float4* __restrict__ source,
        float* __restrict__ sums, long long segment) {
    __shared__ float scratch[kReaders / reduce::kWarp];
    constexpr int kStride = kSideBySide ? 1 : kReaders;
    const long long quads = segment / 4;
    const long long first = kSideBySide ? threadIdx.x * (quads / kReaders) : threadIdx.x;
    const long long begin = static_cast<long long>(blockIdx.x) * quads + first;
    const long long end = begin + quads / kReaders * kStride;
    float total[kUnroll] = {};
    for (long long i = begin; i < end; i += kStride * kUnroll) {
        float4 quad[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) quad[u] = source[i + u * kStride];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) total[u] += (quad[u].x + quad[u].y) + (quad[u].z + quad[u].w);
    }
    const float sum = reduce::block_sum<kReaders / reduce::kWarp>(
            (total[0] + total[1]) + (total[2] + total[3]), scratch);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// target[i] = i modulo 2^24, which float32 holds exactly; otherwise like the copy.
extern "C" __global__ void __launch_bounds__(kThreads) write_kernel(float4* __restrict__ target, long long count) {
    const long long first = (static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x) * kPieces;
#pragma unroll
    for (long long i = first; i < first + kPieces; ++i) {
        const float value = static_cast<float>(static_cast<int>(4 * i & 0xFFFFFF));
        if (i < count) target[i] = make_float4(value, value + 1.0f, value + 2.0f, value + 3.0f);
    }
}

// sums[thread] = sum of CHAINS chains x -> a x + b, each of `iters` steps, a multiple of kSteps. Chain c begins at starts[thread] + c.
// The factors are arguments: with constants the compiler would leave the multiplication by 1 out.
extern "C" __global__ void __launch_bounds__(kThreads) fma_fp32_kernel(const float* __restrict__ starts,
        float* __restrict__ sums, float a, float b, long long iters) {
    const long long thread = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    const int rounds = static_cast<int>(iters / kSteps);
    float total = 0.0f;
    for (int first = 0; first < CHAINS; first += kHeld * kLanes) {
        Lanes x[kHeld];
        float* chain = reinterpret_cast<float*>(x);
#pragma unroll
        for (int c = 0; c < kHeld * kLanes; ++c) chain[c] = starts[thread] + static_cast<float>(first + c);
#pragma unroll 1
        for (int round = 0; round < rounds; ++round) {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
#pragma unroll
                for (int c = 0; c < kHeld; ++c) x[c] = x[c] * a + b;
            }
        }
#pragma unroll
        for (int c = 0; c < kHeld * kLanes; ++c) total += chain[c];
    }
    sums[thread] = total;
}

#if TENSOR_CORES
namespace {

constexpr int kTiles = 8;       // independent sums of a warp
constexpr int kProducts = 256;  // added to a sum, from zero, before what is there is added to the total

using Multiply = void (*)(float (&)[4], const unsigned int (&)[4], unsigned int, unsigned int);

// sums[thread] = what the thread holds of kTiles sums of `rounds` * kProducts products of warps. All operands are equal numbers, so
// that it does not matter which a lane holds.
template <Multiply kMultiply>
__device__ inline void warp_products(const unsigned int* operands, float* sums, int rounds) {
    unsigned int a[4], b[2];
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = operands[4 * (threadIdx.x % reduce::kWarp) + i];
#pragma unroll
    for (int i = 0; i < 2; ++i) b[i] = operands[4 * reduce::kWarp + 2 * (threadIdx.x % reduce::kWarp) + i];
    float total = 0.0f;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        float sum[kTiles][4] = {};
#pragma unroll 16
        for (int product = 0; product < kProducts; ++product) {
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile) kMultiply(sum[tile], a, b[0], b[1]);
        }
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) total += (sum[tile][0] + sum[tile][1]) + (sum[tile][2] + sum[tile][3]);
    }
    sums[static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x] = total;
}

}  // namespace
#endif

// Products of 16 x 8 x 16 numbers, or 16 x 8 x 32 of one byte, out of registers. Empty where there are none: the family leaves the
// variant out there.
extern "C" __global__ void __launch_bounds__(kThreads) mma_fp16_kernel(const unsigned int* __restrict__ operands,
        float* __restrict__ sums, long long rounds) {
#if TENSOR_CORES
    warp_products<tensor::multiply_fp16>(operands, sums, static_cast<int>(rounds));
#endif
}

extern "C" __global__ void __launch_bounds__(kThreads) mma_bf16_kernel(const unsigned int* __restrict__ operands,
        float* __restrict__ sums, long long rounds) {
#if TENSOR_CORES
    warp_products<tensor::multiply>(operands, sums, static_cast<int>(rounds));
#endif
}

extern "C" __global__ void __launch_bounds__(kThreads) mma_fp8_kernel(const unsigned int* __restrict__ operands,
        float* __restrict__ sums, long long rounds) {
#if TENSOR_CORES_FP8
    warp_products<tensor::multiply_fp8>(operands, sums, static_cast<int>(rounds));
#endif
}

#if WARPGROUP_MULTIPLY
namespace {

using GroupMultiply = void (*)(float (&)[warpgroup::kSums], unsigned long long, unsigned long long);

// sums[thread] = what the thread holds of `rounds` * kProducts products of its warpgroup. The block's two warpgroups share the
// operands, and one multiplies while the other adds its sums up.
template <GroupMultiply kMultiply>
__device__ inline void group_products(const uint4* operands, float* sums, int rounds) {
    constexpr int kGroup = 8;
    constexpr int kBytes = warpgroup::kBytesA + warpgroup::kBytesB;
    __shared__ __align__(128) uint4 held[kBytes / sizeof(uint4)];
#pragma unroll 1
    for (int i = threadIdx.x; i < kBytes / static_cast<int>(sizeof(uint4)); i += kThreads) held[i] = operands[i];
    warpgroup::written();
    __syncthreads();
    const unsigned long long a = warpgroup::matrix(held);
    const unsigned long long b = warpgroup::matrix(held + warpgroup::kBytesA / sizeof(uint4));
    float total[kUnroll] = {};
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        float sum[warpgroup::kSums] = {};
#pragma unroll 1
        for (int product = 0; product < kProducts; product += kGroup) {
            warpgroup::begin();
#pragma unroll
            for (int i = 0; i < kGroup; ++i) kMultiply(sum, a, b);
            warpgroup::end_group();
        }
        warpgroup::wait(sum);
#pragma unroll
        for (int i = 0; i < warpgroup::kSums; ++i) total[i % kUnroll] += sum[i];
    }
    sums[static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x] = (total[0] + total[1]) + (total[2] + total[3]);
}

}  // namespace
#endif

// Products of 64 x 256 x 16 numbers, or 64 x 256 x 32 of one byte, out of shared memory.
extern "C" __global__ void __launch_bounds__(kThreads, 1) wgmma_fp16_kernel(const uint4* __restrict__ operands,
        float* __restrict__ sums, long long rounds) {
#if WARPGROUP_MULTIPLY
    group_products<warpgroup::multiply_fp16>(operands, sums, static_cast<int>(rounds));
#endif
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) wgmma_bf16_kernel(const uint4* __restrict__ operands,
        float* __restrict__ sums, long long rounds) {
#if WARPGROUP_MULTIPLY
    group_products<warpgroup::multiply_bf16>(operands, sums, static_cast<int>(rounds));
#endif
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) wgmma_fp8_kernel(const uint4* __restrict__ operands,
        float* __restrict__ sums, long long rounds) {
#if WARPGROUP_MULTIPLY
    group_products<warpgroup::multiply_fp8>(operands, sums, static_cast<int>(rounds));
#endif
}
