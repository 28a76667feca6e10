// What a device does with data between its way in and its way out.

#include "common/work.cuh"

namespace {
constexpr int kThreads = 256;
}

// Elements [first, first + count) of out from those of in: `iterations` dependent multiply-adds each; none copies.
extern "C" __global__ void __launch_bounds__(kThreads) transfer_compute_kernel(
        const float* in, float* out, long long first, long long count, long long iterations, float scale, float offset) {
    work::map_quads(in, out, first, count, work::Chain{iterations, scale, offset});
}
