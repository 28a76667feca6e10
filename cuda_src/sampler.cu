// The tail of a decode step over logits [batch, vocabulary]: the largest logit, the softmax sum, the four largest.
//
// gridDim.x blocks share a row, each with an equal part of it, and leave a partial result; the last of them to finish
// merges these in the same launch. So a batch of one fills a GPU, and the result does not depend on who finishes last.
#include "common/order.cuh"
#include "common/reduce.cuh"
#include "common/row_scan.cuh"

namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * reduce::kWarp;
constexpr int kTop = 4;
constexpr float kLog2E = 1.44269504f;
constexpr float kLowest = -3.0e38f;  // finite: the difference of two is 0, not NaN

// Keeps the largest logits a thread sees.
template <int kCount>
struct LargestVisitor {
    order::Largest<kCount> largest;

    __device__ inline void take_one(float value, int column) {
        const unsigned int rank = order::rank_of(value);
        if (rank > largest.bar()) largest.insert(order::key_of(rank, column));
    }
    __device__ inline void take(const float (&value)[4], int column) {
#pragma unroll
        for (int i = 0; i < 4; ++i) take_one(value[i], column + i);
    }
};

// largest[row, 0 … kCount): values and indices of one row's largest logits.
template <int kCount>
__device__ inline void find_largest(const float* logits, unsigned long long* partial, unsigned int* tickets,
        float* values, int* indices, long long width) {
    __shared__ order::Largest<kCount> scratch[kWarps];
    const long long row = blockIdx.y;
    const long long parts = gridDim.x;
    LargestVisitor<kCount> visitor;
    visitor.largest.clear();
    row_scan::scan<kThreads>(logits, row, width, blockIdx.x, gridDim.x, visitor);
    visitor.largest.merge_block(scratch);
    if (parts > 1) {
        unsigned long long* mine = partial + row * parts * kCount;
        if (threadIdx.x == 0) {
#pragma unroll
            for (int i = 0; i < kCount; ++i) mine[blockIdx.x * kCount + i] = visitor.largest.key[i];
        }
        if (!reduce::last_to_arrive(tickets + row, static_cast<unsigned int>(parts))) return;
        visitor.largest.clear();
        for (long long i = threadIdx.x; i < parts * kCount; i += kThreads) visitor.largest.insert(__ldcg(mine + i));
        visitor.largest.merge_block(scratch);
    }
    if (threadIdx.x != 0) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        values[row * kCount + i] = order::key_value(visitor.largest.key[i]);
        indices[row * kCount + i] = order::key_index(visitor.largest.key[i]);
    }
}

// A sum of 2^(factor * (x - maximum)) with the maximum it refers to.
struct SoftmaxSum {
    float factor;
    float maximum;
    float sum;

    __device__ inline void raise(float highest) {
        if (highest <= maximum) return;
        sum *= exp2f(factor * (maximum - highest));
        maximum = highest;
    }
    __device__ inline void take_one(float value, int) {
        raise(value);
        sum += exp2f(factor * (value - maximum));
    }
    __device__ inline void take(const float (&value)[4], int) {
        raise(fmaxf(fmaxf(value[0], value[1]), fmaxf(value[2], value[3])));
        float terms[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) terms[i] = exp2f(factor * (value[i] - maximum));
        sum += (terms[0] + terms[1]) + (terms[2] + terms[3]);
    }
    __device__ inline void add(float other_maximum, float other_sum) {
        raise(other_maximum);
        sum = fmaf(exp2f(factor * (other_maximum - maximum)), other_sum, sum);
    }
    // Over the block, in a fixed order; warp 0 gets the result.
    __device__ inline void merge_block(float (&maxima)[kWarps], float (&sums)[kWarps]) {
        const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
        const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
        merge_lanes(reduce::kWarp);
        if (lane == 0) {
            maxima[warp] = maximum;
            sums[warp] = sum;
        }
        __syncthreads();
        if (warp != 0) return;
        maximum = maxima[lane % kWarps];
        sum = sums[lane % kWarps];
        merge_lanes(kWarps);
    }

private:
    __device__ inline void merge_lanes(int lanes) {
        for (int offset = lanes / 2; offset > 0; offset /= 2) {
            const float other_maximum = __shfl_xor_sync(reduce::kAllLanes, maximum, offset);
            const float other_sum = __shfl_xor_sync(reduce::kAllLanes, sum, offset);
            const float highest = fmaxf(maximum, other_maximum);
            sum = exp2f(factor * (maximum - highest)) * sum + exp2f(factor * (other_maximum - highest)) * other_sum;
            maximum = highest;
        }
    }
};

}  // namespace

// Largest logit of each row and its index; of equal ones the lowest. Grid (parts, rows).
extern "C" __global__ void __launch_bounds__(kThreads) sampler_argmax_kernel(const float* logits,
        unsigned long long* partial, unsigned int* tickets, float* max_values, int* max_indices, long long width) {
    find_largest<1>(logits, partial, tickets, max_values, max_indices, width);
}

// Sum of exp((x - largest x) / temperature) over each row, in one pass. Grid (parts, rows).
extern "C" __global__ void __launch_bounds__(kThreads) sampler_softmax_sum_kernel(const float* logits, float* partial,
        unsigned int* tickets, float* sum_exp, long long width, float inv_temperature) {
    __shared__ float maxima[kWarps];
    __shared__ float sums[kWarps];
    const long long row = blockIdx.y;
    const long long parts = gridDim.x;
    SoftmaxSum total = {kLog2E * inv_temperature, kLowest, 0.0f};
    row_scan::scan<kThreads>(logits, row, width, blockIdx.x, gridDim.x, total);
    total.merge_block(maxima, sums);
    if (parts > 1) {
        float* mine = partial + row * parts * 2;
        if (threadIdx.x == 0) {
            mine[2 * blockIdx.x] = total.maximum;
            mine[2 * blockIdx.x + 1] = total.sum;
        }
        if (!reduce::last_to_arrive(tickets + row, static_cast<unsigned int>(parts))) return;
        total.maximum = kLowest;
        total.sum = 0.0f;
        for (long long i = threadIdx.x; i < parts; i += kThreads) total.add(__ldcg(mine + 2 * i), __ldcg(mine + 2 * i + 1));
        total.merge_block(maxima, sums);
    }
    if (threadIdx.x == 0) sum_exp[row] = total.sum;
}

// The four largest logits of each row, largest first, and their indices; of equal ones the lowest first. Grid (parts, rows).
extern "C" __global__ void __launch_bounds__(kThreads) sampler_top4_kernel(const float* logits,
        unsigned long long* partial, unsigned int* tickets, float* top_values, int* top_indices, long long width) {
    find_largest<kTop>(logits, partial, tickets, top_values, top_indices, width);
}
