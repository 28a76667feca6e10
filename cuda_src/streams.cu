// Decode steps of independent sequences, too small to fill a GPU alone.

#include "common/work.cuh"

namespace {
constexpr int kThreads = 256;
}

// One decode step of `compute` updates on elements [first, first + n) of all sequences' states, from `from` into `to`,
// which may be the same array.
extern "C" __global__ void __launch_bounds__(kThreads) decode_step_kernel(
        const float* from, float* to, long long first, long long n, long long step, long long compute) {
    work::map_quads(from, to, first, n, work::DecodeStep{step, compute});
}
