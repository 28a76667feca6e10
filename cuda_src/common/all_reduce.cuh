// Sums over devices by one kernel on each of them: every device adds in the order of the devices, so all hold the same
// bits.
//
// Memory that peers share begins with the flags of meetings (peers.cuh). Behind them lie, each with room of its own:
//     staged [2][n]           one_shot: what a device contributes, for two calls in turn
//     sums   [n / devices]    two_shot: the part that a device has added up
//     pushed [2][devices][n]  one_shot_push: what peers have sent, each 4 bytes with a flag beside them, for two calls
// in turn
//
// Two calls in turn need one meeting a call: a device that writes for call k + 2 has met the others in call k + 1,
// which they began after they had read everything of call k.
#pragma once

#include "overlap.cuh"
#include "peers.cuh"

namespace all_reduce {

// A call in a graph may be started while the one ahead of it still runs: it waits until that one has ended everywhere
// on its device, which is all that the meetings rely on.
__device__ inline void begin() {
    overlap::wait();
    overlap::release();
}

// Whose flags and counts a kernel uses.
constexpr int kOneShot = 0;
constexpr int kTwoShotFirst = 1;
constexpr int kTwoShotSecond = 2;
constexpr int kPush = 3;

__device__ inline float4* staged(void* mailbox) {
    return reinterpret_cast<float4*>(static_cast<char*>(mailbox) + peers::kFlagBytes);
}
__device__ inline float4* sums(void* mailbox, long long quads) { return staged(mailbox) + 2 * quads; }
template <int kDevices>
__device__ inline uint4* pushed(void* mailbox, long long quads) {
    return reinterpret_cast<uint4*>(sums(mailbox, quads) + (quads + kDevices - 1) / kDevices);
}

// This block's calls so far, kept on its own device.
__device__ inline unsigned int* calls(unsigned int* counts, int kind) { return counts + kind * peers::kBlocks + blockIdx.x; }

__device__ inline float4 added(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Sum over the devices of what load(device) gives, in their order; all loads are on their way before the first is
// added.
template <int kDevices, class Load>
__device__ inline float4 sum_over(Load load) {
    float4 held[kDevices];
#pragma unroll
    for (int p = 0; p < kDevices; ++p) held[p] = load(p);
    float4 sum = held[0];
#pragma unroll
    for (int p = 1; p < kDevices; ++p) sum = added(sum, held[p]);
    return sum;
}

// The elements of one thread in turn, quads apart by the whole grid: the same ones on every device.
template <class Use>
__device__ inline void each_quad(long long quads, Use use) {
    const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < quads; i += threads) use(i);
}

// Everybody reads everything: one meeting, and `devices` times the payload over the links. `room`: quads that one call
// may have at most; calls with fewer may take turns with others, in grids of the same size, which give an element to
// the same block.
template <int kDevices>
__device__ inline void one_shot(const float4* input, float4* output, unsigned int* counts, const peers::Table<void>& mailboxes,
                                int own, long long quads, long long room, long long limit_ms) {
    begin();
    unsigned int* counter = calls(counts, kOneShot);
    const unsigned int call = *counter + 1;
    const long long half = (call & 1) * room;
    float4* mine = staged(mailboxes.at(own)) + half;
    each_quad(quads, [&](long long i) { mine[i] = input[i]; });
    peers::meet(mailboxes, kOneShot, own, kDevices, call, limit_ms);
    if (threadIdx.x == 0) *counter = call;
    each_quad(quads, [&](long long i) {
        output[i] = sum_over<kDevices>([&](int p) { return peers::load_quad(staged(mailboxes.of[p]) + half + i); });
    });
}

// Each device adds up one part of all inputs and then fetches the other parts: two meetings, and twice the payload over
// the links, however many devices there are. `inputs` may be written again once the kernel has ended, for all have then
// read them.
template <int kDevices>
__device__ inline void two_shot(const peers::Table<const void>& inputs, float4* output, unsigned int* counts,
                                const peers::Table<void>& mailboxes, int own, long long quads, long long limit_ms) {
    begin();
    unsigned int* counter = calls(counts, kTwoShotFirst);
    const unsigned int call = *counter + 1;
    const long long part = (quads + kDevices - 1) / kDevices;
    float4* mine = sums(mailboxes.at(own), quads);
    peers::meet(mailboxes, kTwoShotFirst, own, kDevices, call, limit_ms);
    if (threadIdx.x == 0) *counter = call;
    each_quad(part, [&](long long i) {
        const long long at = own * part + i;
        if (at >= quads) return;
        const float4 sum =
            sum_over<kDevices>([&](int p) { return peers::load_quad(static_cast<const float4*>(inputs.of[p]) + at); });
        mine[i] = sum;
        output[at] = sum;
    });
    peers::meet(mailboxes, kTwoShotSecond, own, kDevices, call, limit_ms);
    each_quad(part, [&](long long i) {
        float4 held[kDevices];
#pragma unroll
        for (int p = 0; p < kDevices; ++p) {
            const bool wanted = p != own && p * part + i < quads;
            if (wanted) held[p] = peers::load_quad(sums(mailboxes.of[p], quads) + i);
        }
#pragma unroll
        for (int p = 0; p < kDevices; ++p) {
            const bool wanted = p != own && p * part + i < quads;
            if (wanted) output[p * part + i] = held[p];
        }
    });
}

// Everybody writes to everybody and waits for what arrives in its own memory: no meeting, one way over a link, and
// twice the bytes, since each value brings a flag.
template <int kDevices>
__device__ inline void one_shot_push(const float4* input, float4* output, unsigned int* counts,
                                     const peers::Table<void>& mailboxes, int own, long long quads,
                                     long long limit_ms) {
    begin();
    unsigned int* counter = calls(counts, kPush);
    const unsigned int call = *counter + 1;
    const long long half = (call & 1) * kDevices;
    each_quad(quads, [&](long long i) {
        const float4 value = input[i];
#pragma unroll
        for (int p = 0; p < kDevices; ++p) {
            if (p != own) {
                uint4* to = pushed<kDevices>(mailboxes.of[p], quads) + 2 * ((half + own) * quads + i);
                peers::store_flagged(to, value.x, value.y, call);
                peers::store_flagged(to + 1, value.z, value.w, call);
            }
        }
    });
    __syncthreads();  // all have read the count; and on a CPU all have sent before any waits
    if (threadIdx.x == 0) *counter = call;
    const uint4* arrived = pushed<kDevices>(mailboxes.at(own), quads) + 2 * half * quads;
    each_quad(quads, [&](long long i) {
        float4 held[kDevices];
        peers::Patience patience(limit_ms);
        int missing;
        do {  // all of them are looked at again until the last is here
            missing = -1;
#pragma unroll
            for (int p = 0; p < kDevices; ++p) {
                const uint4* from = arrived + 2 * (p * quads + i);
                const bool first = peers::load_flagged(from, call, held[p].x, held[p].y);
                const bool second = peers::load_flagged(from + 1, call, held[p].z, held[p].w);
                if (p != own && !(first && second)) missing = p;
            }
            if (missing >= 0) patience.again(missing);
        } while (missing >= 0);
        const float4 value = input[i];
        output[i] = sum_over<kDevices>([&](int p) { return p == own ? value : held[p]; });
    });
}

}  // namespace all_reduce
