// y[N] = W[N, K] x[K]: the linear layer of a decode step at batch 1, W read once. A warp computes a row, or one slice
// of it (split-K). 16-byte loads where every row starts on such a boundary, element by element otherwise.
#include "common/convert.cuh"
#include "common/reduce.cuh"

namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * reduce::kWarp;
constexpr int kUnroll = 4;
// Bounds the registers, and lets the compiler use that many: left alone it trades loads in flight for occupancy.
constexpr int kBlocksPerSm = 4;

// Dot product of row and x over elements [begin, end), in every lane. `begin` is a multiple of Storage::kCount.
template <class Storage>
__device__ inline float dot(const typename Storage::Word* __restrict__ row, const typename Storage::Word* __restrict__ x,
        int begin, int end, bool aligned) {
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    float sum[kUnroll] = {};
    if (aligned) {
        const uint4* weights = reinterpret_cast<const uint4*>(row);
        const uint4* inputs = reinterpret_cast<const uint4*>(x);
        const int stop = end / Storage::kCount;
#pragma unroll 1
        for (int i = begin / Storage::kCount + lane; i < stop; i += kUnroll * reduce::kWarp) {
            uint4 raw[kUnroll], input[kUnroll];
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                const bool inside = i + u * reduce::kWarp < stop;
                raw[u] = inside ? weights[i + u * reduce::kWarp] : make_uint4(0u, 0u, 0u, 0u);
                input[u] = inside ? inputs[i + u * reduce::kWarp] : make_uint4(0u, 0u, 0u, 0u);
            }
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                float left[Storage::kCount], right[Storage::kCount];
                Storage::unpack(raw[u], left);
                Storage::unpack(input[u], right);
#pragma unroll
                for (int e = 0; e < Storage::kCount; ++e) sum[u] = fmaf(left[e], right[e], sum[u]);
            }
        }
    } else {
#pragma unroll 4
        for (int i = begin + lane; i < end; i += reduce::kWarp) {
            sum[0] = fmaf(Storage::widen(row[i]), Storage::widen(x[i]), sum[0]);
        }
    }
    return reduce::lanes_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// One row a warp.
template <class Storage>
__device__ inline void gemv_row(const typename Storage::Word* __restrict__ w, const typename Storage::Word* __restrict__ x,
        float* __restrict__ y, long long rows, int columns) {
    const long long row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / reduce::kWarp;
    if (row >= rows) return;
    const float sum = dot<Storage>(w + row * columns, x, 0, columns, columns % Storage::kCount == 0);
    if (threadIdx.x % reduce::kWarp == 0) y[row] = sum;
}

// One slice of a row a warp: blockIdx.y is the slice. The last block of a row group to finish adds the slices up in
// their order, so that the result does not depend on which one that was.
template <class Storage>
__device__ inline void gemv_splitk(const typename Storage::Word* __restrict__ w,
        const typename Storage::Word* __restrict__ x, float* partial, unsigned int* tickets, float* __restrict__ y,
        long long rows, int columns) {
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    const int slices = static_cast<int>(gridDim.y);
    const long long row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / reduce::kWarp;
    const int length = (columns + slices * Storage::kCount - 1) / (slices * Storage::kCount) * Storage::kCount;
    const long long start = static_cast<long long>(length) * blockIdx.y;
    const int begin = static_cast<int>(start < columns ? start : columns);
    const int end = columns - begin < length ? columns : begin + length;
    if (row < rows && begin < end) {
        const float sum = dot<Storage>(w + row * columns, x, begin, end, columns % Storage::kCount == 0);
        if (lane == 0) partial[blockIdx.y * rows + row] = sum;
    } else if (row < rows && lane == 0) {
        partial[blockIdx.y * rows + row] = 0.0f;  // more slices than there are vectors in a row
    }
    if (!reduce::last_to_arrive(tickets + blockIdx.x, gridDim.y)) return;
    float total = 0.0f;
    if (row < rows) {
        for (int slice = lane; slice < slices; slice += reduce::kWarp) {
            total += __ldcg(partial + slice * rows + row);
        }
    }
    total = reduce::lanes_sum(total);
    if (row < rows && lane == 0) y[row] = total;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) gemv_row_fp32_kernel(const float* __restrict__ w,
        const float* __restrict__ x, float* __restrict__ y, long long rows, long long columns) {
    gemv_row<convert::Float32>(w, x, y, rows, static_cast<int>(columns));
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) gemv_row_fp16_kernel(const __half* __restrict__ w,
        const __half* __restrict__ x, float* __restrict__ y, long long rows, long long columns) {
    gemv_row<convert::Float16>(w, x, y, rows, static_cast<int>(columns));
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) gemv_splitk_fp32_kernel(const float* __restrict__ w,
        const float* __restrict__ x, float* partial, unsigned int* tickets, float* __restrict__ y, long long rows,
        long long columns) {
    gemv_splitk<convert::Float32>(w, x, partial, tickets, y, rows, static_cast<int>(columns));
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) gemv_splitk_fp16_kernel(const __half* __restrict__ w,
        const __half* __restrict__ x, float* partial, unsigned int* tickets, float* __restrict__ y, long long rows,
        long long columns) {
    gemv_splitk<convert::Float16>(w, x, partial, tickets, y, rows, static_cast<int>(columns));
}

// Preparation: n floats rounded to nearest even.
extern "C" __global__ void to_half_kernel(const float* __restrict__ in, __half* __restrict__ out, long long n) {
    convert::to_half(in, out, n);
}
