// A decode step of four short kernels, so short that launching them is most of the work: RMSNorm, a rotation of pairs as
// RoPE does it, a residual mix and an argmax, on a state of one row per sequence.
//
// Nothing that changes from step to step is an argument: the position is in device memory, where the last kernel moves
// it on, so that a captured graph replays the loop as it is. At position 0 the step starts from the initial state, and after
// the last of `steps` positions comes 0 again.
//
// Tokens depend on every bit of the state. Therefore each operation is one that IEEE 754 rounds once, without contraction,
// and the sum of squares is one of integers: the same in any order, on any device and in NumPy. HIDDEN, the length of
// a row, and THREADS, the threads that work on one, are compiled in.
#include "common/held_row.cuh"

#ifndef HIDDEN
#define HIDDEN 4096
#endif
#ifndef THREADS
#define THREADS 1024
#endif
static_assert(HIDDEN % 2 == 0, "HIDDEN is even: elements are rotated in pairs");

namespace {

constexpr int kHidden = HIDDEN;
constexpr int kThreads = THREADS;
constexpr int kWarps = kThreads / reduce::kWarp;
constexpr float kUnits = 16384.0f;  // the sum of squares is taken over multiples of 2^-14
constexpr float kEpsilon = 1e-5f;
constexpr float kKeep = 0.75f;
constexpr float kInject = 0.25f;
using Row = held::Row<kHidden, kThreads>;

__device__ inline const float* source_of(const float* initial, const float* state, const int* position) {
    return *position == 0 ? initial : state;
}

// A value and where it stands in its row; the larger value wins, then the lower index.
struct Best {
    float value;
    int index;
};

__device__ inline Best better(Best a, Best b) {
    return a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b;
}

// Over aligned groups of kLanes lanes; every lane of a group gets the result.
template <int kLanes>
__device__ inline Best best_of_lanes(Best best) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        Best other;
        other.value = __shfl_xor_sync(reduce::kAllLanes, best.value, offset);
        other.index = __shfl_xor_sync(reduce::kAllLanes, best.index, offset);
        best = better(best, other);
    }
    return best;
}

__device__ inline float mixed(float state, float rotated) {
    return __fadd_rn(__fmul_rn(kKeep, state), __fmul_rn(kInject, rotated));
}

}  // namespace

// norm = state / sqrt(mean(state^2) + epsilon) * gamma, a block a row. The first block leaves the position in position[1]
// for the kernel that moves position[0] on.
extern "C" __global__ void __launch_bounds__(kThreads) rmsnorm_small_kernel(const float* initial, const float* state,
        int* position, const float* gamma, float* norm) {
    __shared__ long long scratch[kWarps];
    const long long start = static_cast<long long>(blockIdx.x) * kHidden;
    Row at, weight;
    at.load(source_of(initial, state, position) + start);
    weight.load(gamma);
    long long sum = 0;
#pragma unroll
    for (int p = 0; p < Row::kPieces; ++p) {
#pragma unroll
        for (int i = 0; i < Row::kWidth; ++i) {
            const long long units = __float2int_rn(at.value[p][i] * kUnits);
            sum += units * units;
        }
    }
    sum = held::block_all<kThreads>(sum, scratch, [](long long a, long long b) { return a + b; });
    const float mean = __fdiv_rn(__ll2float_rn(sum), static_cast<float>(kHidden) * kUnits * kUnits);
    const float inverse = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, kEpsilon)));
#pragma unroll
    for (int p = 0; p < Row::kPieces; ++p) {
#pragma unroll
        for (int i = 0; i < Row::kWidth; ++i) {
            at.value[p][i] = __fmul_rn(__fmul_rn(at.value[p][i], inverse), weight.value[p][i]);
        }
    }
    at.store(norm + start);
    if (blockIdx.x == 0 && threadIdx.x == 0) position[1] = position[0];
}

// Pair i of a row turns by the (cosine, sine) in entry i + position of the table, cyclically. Row blockIdx.x, pairs along
// blockIdx.y.
extern "C" __global__ void rope_pair_kernel(const float* norm, const float2* rotation, const int* position,
        float* rotated) {
    constexpr int kPairs = kHidden / 2;
    const int pair = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
    if (pair >= kPairs) return;
    const long long at = static_cast<long long>(blockIdx.x) * kPairs + pair;
    const float2 by = rotation[(pair + *position % kPairs) % kPairs];
    const float2 value = reinterpret_cast<const float2*>(norm)[at];
    reinterpret_cast<float2*>(rotated)[at] =
            make_float2(__fsub_rn(__fmul_rn(value.x, by.x), __fmul_rn(value.y, by.y)),
                    __fadd_rn(__fmul_rn(value.x, by.y), __fmul_rn(value.y, by.x)));
}

// state = 3/4 state + 1/4 rotated, n elements (an even number), a quad a thread.
extern "C" __global__ void residual_mix_kernel(const float* initial, const float* rotated, const int* position,
        float* state, long long n) {
    const float* from = source_of(initial, state, position);
    const long long quad = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (quad < n / 4) {
        const float4 a = reinterpret_cast<const float4*>(from)[quad];
        const float4 b = reinterpret_cast<const float4*>(rotated)[quad];
        reinterpret_cast<float4*>(state)[quad] =
                make_float4(mixed(a.x, b.x), mixed(a.y, b.y), mixed(a.z, b.z), mixed(a.w, b.w));
    } else if (quad * 4 < n) {
        state[quad * 4] = mixed(from[quad * 4], rotated[quad * 4]);
        state[quad * 4 + 1] = mixed(from[quad * 4 + 1], rotated[quad * 4 + 1]);
    }
}

// The largest element of each row and its index, into a column of maximum and token [rows, steps]; ties go to the lowest
// index. A block a row. The column is position[1], which stands still here while the first block moves position[0] on.
extern "C" __global__ void __launch_bounds__(kThreads) argmax_hidden_kernel(const float* state, int* position,
        float* maximum, int* token, long long steps) {
    __shared__ float values[kWarps];
    __shared__ int indices[kWarps];
    const int column = position[1];
    Row at;
    at.load(state + static_cast<long long>(blockIdx.x) * kHidden);
    Best best = {__int_as_float(0xFF800000), kHidden};  // below anything
#pragma unroll
    for (int p = 0; p < Row::kPieces; ++p) {
#pragma unroll
        for (int i = 0; i < Row::kWidth; ++i) {
            if (Row::has(p)) best = better(best, {at.value[p][i], Row::number(p) * Row::kWidth + i});
        }
    }
    best = best_of_lanes<reduce::kWarp>(best);
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    if (lane == 0) {
        values[warp] = best.value;
        indices[warp] = best.index;
    }
    __syncthreads();
    if (warp != 0) return;
    best = best_of_lanes<kWarps>({values[lane % kWarps], indices[lane % kWarps]});
    if (lane == 0) {
        maximum[blockIdx.x * steps + column] = best.value;
        token[blockIdx.x * steps + column] = best.index;
        if (blockIdx.x == 0) position[0] = column + 1 < steps ? column + 1 : 0;
    }
}
