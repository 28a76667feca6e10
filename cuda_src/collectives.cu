// All-gather, reduce-scatter, the exchange of routed tokens and the migration of a cache, by kernels that read their
// peers' memory. A move is four numbers: the device it comes from, its first element there, its first element here, and
// how many; all but the device are multiples of 4.

#include "common/all_reduce.cuh"
#include "common/peer_copy.cuh"

namespace {
constexpr int kThreads = 256;
constexpr int kMove = 4;
// Flags and counts of the meeting before the reads and of the one after them.
constexpr int kBefore = 0;
constexpr int kAfter = 1;

// Moves [blockIdx.x, count) in steps of the grid, each by the whole block.
template <class From>
__device__ inline void follow(const long long* moves, long long count, float* to, From from) {
    for (long long m = blockIdx.x; m < count; m += gridDim.x) {
        const long long* move = moves + m * kMove;
        peers::copy(reinterpret_cast<const float4*>(from(static_cast<int>(move[0])) + move[1]), reinterpret_cast<float4*>(to + move[2]),
                    move[3] / 4, threadIdx.x, kThreads);
    }
}

// All devices are here with their inputs; returns the number of the call. `leave` is for when all have been read.
__device__ inline unsigned int enter(unsigned int* counts, const peers::Table<void>& mailboxes, long long own, long long devices,
                                     long long limit_ms) {
    unsigned int* counter = all_reduce::calls(counts, kBefore);
    const unsigned int call = *counter + 1;
    peers::meet(mailboxes, kBefore, static_cast<int>(own), static_cast<int>(devices), call, limit_ms);
    if (threadIdx.x == 0) *counter = call;
    return call;
}

__device__ inline void leave(const peers::Table<void>& mailboxes, long long own, long long devices, unsigned int call,
                             long long limit_ms) {
    peers::meet(mailboxes, kAfter, static_cast<int>(own), static_cast<int>(devices), call, limit_ms);
}
}  // namespace

// Elements [0, n) of `to` from those of `from`, of which one may be a peer's.
extern "C" __global__ void __launch_bounds__(512) peer_copy_kernel(const float* from, float* to, long long n) {
    peers::copy_floats(from, to, n);
}

// Moves within a device: its rows into the order in which they are sent, or what has arrived to where it belongs.
extern "C" __global__ void __launch_bounds__(kThreads) local_moves_kernel(
        const float* from, float* to, const long long* moves, long long count) {
    follow(moves, count, to, [&](int) { return from; });
}

// What this device gets of all of them, read where it lies.
extern "C" __global__ void __launch_bounds__(kThreads) moves_kernel(
        const float* i0, const float* i1, const float* i2, const float* i3, const float* i4, const float* i5, const
        float* i6, const float* i7, float* to, const long long* moves, unsigned int* counts, float* m0, float* m1,
        float* m2, float* m3, float* m4, float* m5, float* m6, float* m7, long long count, long long own, long long
        devices, long long limit_ms) {
    const auto inputs = peers::table<const float>(i0, i1, i2, i3, i4, i5, i6, i7);
    const auto mailboxes = peers::table<void>(m0, m1, m2, m3, m4, m5, m6, m7);
    const unsigned int call = enter(counts, mailboxes, own, devices, limit_ms);
    follow(moves, count, to, [&](int device) { return inputs.at(device); });
    leave(mailboxes, own, devices, call, limit_ms);
}

// Sum over the devices of their part `own`: inputs are [devices][n], out is [n].
extern "C" __global__ void __launch_bounds__(kThreads) reduce_scatter_kernel(
        const float* i0, const float* i1, const float* i2, const float* i3, const float* i4, const float* i5, const
        float* i6, const float* i7, float* out, unsigned int* counts, float* m0, float* m1, float* m2, float* m3, float*
        m4, float* m5, float* m6, float* m7, long long n, long long own, long long devices, long long limit_ms) {
    const auto inputs = peers::table<const float>(i0, i1, i2, i3, i4, i5, i6, i7);
    const auto mailboxes = peers::table<void>(m0, m1, m2, m3, m4, m5, m6, m7);
    const unsigned int call = enter(counts, mailboxes, own, devices, limit_ms);
    peers::counted(devices, [&](auto known) {
        all_reduce::each_quad(n / 4, [&](long long i) {
            reinterpret_cast<float4*>(out)[i] = all_reduce::sum_over<known.value>(
                [&](int p) { return peers::load_quad(reinterpret_cast<const float4*>(inputs.of[p] + own * n) + i); });
        });
    });
    leave(mailboxes, own, devices, call, limit_ms);
}

// Sum over the rows of [devices][n]: what was copied here, with this device's own part among it.
extern "C" __global__ void __launch_bounds__(kThreads) sum_rows_kernel(
        const float* rows, float* out, long long devices, long long n) {
    peers::counted(devices, [&](auto known) {
        all_reduce::each_quad(n / 4, [&](long long i) {
            reinterpret_cast<float4*>(out)[i] = all_reduce::sum_over<known.value>(
                [&](int p) { return reinterpret_cast<const float4*>(rows)[p * (n / 4) + i]; });
        });
    });
}
