// Memory of one device copied by another, and what computes meanwhile.

#include "common/peer_copy.cuh"
#include "common/work.cuh"

namespace {
constexpr int kThreads = 256;
}

// Elements [0, n) of `to` from those of `from`, of which one may be a peer's.
extern "C" __global__ void __launch_bounds__(512) peer_copy_kernel(const float* from, float* to, long long n) {
    peers::copy_floats(from, to, n);
}

// Elements [0, n) of out from those of in, `iterations` dependent multiply-adds each: what a device computes beside a
// copy.
extern "C" __global__ void __launch_bounds__(kThreads) beside_kernel(
        const float* in, float* out, long long n, long long iterations, float scale, float offset) {
    work::map_quads(in, out, 0, n, work::Chain{iterations, scale, offset});
}
