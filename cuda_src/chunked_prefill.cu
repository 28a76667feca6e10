// A long prompt and the decode steps of other requests beside it: two kernels whose length is a parameter.

#include "common/work.cuh"

namespace {
constexpr int kThreads = 256;
}

// Elements [first, first + count) of the prompt's output: `iterations` dependent multiply-adds each.
extern "C" __global__ void __launch_bounds__(kThreads) prefill_work_kernel(
        const float* in, float* out, long long first, long long count, long long iterations, float scale, float offset) {
    work::map_quads(in, out, first, count, work::Chain{iterations, scale, offset});
}

// One decode step of `compute` updates on n elements, from `from` into `to`, which may be the same array.
extern "C" __global__ void __launch_bounds__(kThreads) decode_step_kernel(
        const float* from, float* to, long long n, long long step, long long compute) {
    work::map_quads(from, to, 0, n, work::DecodeStep{step, compute});
}
