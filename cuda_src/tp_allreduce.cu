// The sum over devices that ends a layer under tensor parallelism, by kernels that reach into their peers' memory, and
// what it is made of where copies do the exchange. `own` is the device's position among `devices`; payloads are
// multiples of 4 floats. The payload of a call begins at element `from` of a device's input.

#include "common/all_reduce.cuh"
#include "common/peer_copy.cuh"
#include "common/work.cuh"

namespace {
constexpr int kThreads = 256;
}  // namespace

// Elements [0, n) of `to` from those of `from`, of which one may be a peer's.
extern "C" __global__ void __launch_bounds__(512) peer_copy_kernel(const float* from, float* to, long long n) {
    peers::copy_floats(from, to, n);
}

// What a layer computes before its sum: elements [first, first + n) of out from those of the payload, `iterations`
// multiply-adds each.
extern "C" __global__ void __launch_bounds__(kThreads) layer_kernel(
        const float* in, float* out, long long from, long long first, long long n, long long iterations, float scale,
        float offset) {
    work::map_quads(in + from, out, first, n, work::Chain{iterations, scale, offset});
}

// Sum of this device's payload and of those that were copied here: landed is [devices][n], and its row `own` is not
// used.
extern "C" __global__ void __launch_bounds__(kThreads) sum_landed_kernel(
        const float* input, const float* landed, float* output, long long from, long long own, long long devices,
        long long n) {
    const long long quads = n / 4;
    peers::counted(devices, [&](auto count) {
        all_reduce::each_quad(quads, [&](long long i) {
            reinterpret_cast<float4*>(output)[i] = all_reduce::sum_over<count.value>([&](int p) {
                return p == own ? reinterpret_cast<const float4*>(input + from)[i]
                                : reinterpret_cast<const float4*>(landed)[p * quads + i];
            });
        });
    });
}

// Elements [first, first + n) of output.
extern "C" __global__ void __launch_bounds__(kThreads) one_shot_kernel(
        const float* input, float* output, unsigned int* counts, float* m0, float* m1, float* m2, float* m3, float* m4,
        float* m5, float* m6, float* m7, long long from, long long first, long long own, long long devices, long long n,
        long long most, long long limit_ms) {
    const auto mailboxes = peers::table<void>(m0, m1, m2, m3, m4, m5, m6, m7);
    peers::counted(devices, [&](auto count) {
        all_reduce::one_shot<count.value>(reinterpret_cast<const float4*>(input + from),
                                          reinterpret_cast<float4*>(output + first), counts, mailboxes,
                                          static_cast<int>(own), n / 4, most / 4, limit_ms);
    });
}

// One block on a multiprocessor is enough: what eight devices have sent is held in registers.
extern "C" __global__ void __launch_bounds__(kThreads, 1) one_shot_push_kernel(
        const float* input, float* output, unsigned int* counts, float* m0, float* m1, float* m2, float* m3, float* m4,
        float* m5, float* m6, float* m7, long long from, long long own, long long devices, long long n,
        long long limit_ms) {
    const auto mailboxes = peers::table<void>(m0, m1, m2, m3, m4, m5, m6, m7);
    peers::counted(devices, [&](auto count) {
        all_reduce::one_shot_push<count.value>(reinterpret_cast<const float4*>(input + from),
                                               reinterpret_cast<float4*>(output), counts, mailboxes,
                                               static_cast<int>(own), n / 4, limit_ms);
    });
}

extern "C" __global__ void __launch_bounds__(kThreads) two_shot_kernel(
        const float* i0, const float* i1, const float* i2, const float* i3, const float* i4, const float* i5,
        const float* i6, const float* i7, float* output, unsigned int* counts, float* m0, float* m1, float* m2,
        float* m3, float* m4, float* m5, float* m6, float* m7, long long from, long long own, long long devices,
        long long n, long long limit_ms) {
    const auto inputs = peers::table<const void>(i0 + from, i1 + from, i2 + from, i3 + from, i4 + from, i5 + from,
                                                 i6 + from, i7 + from);
    const auto mailboxes = peers::table<void>(m0, m1, m2, m3, m4, m5, m6, m7);
    peers::counted(devices, [&](auto count) {
        all_reduce::two_shot<count.value>(inputs, reinterpret_cast<float4*>(output), counts, mailboxes,
                                          static_cast<int>(own), n / 4, limit_ms);
    });
}
