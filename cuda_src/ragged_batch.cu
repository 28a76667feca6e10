// A decode step of a continuous batch: Bmax slots with room for Tmax tokens each, some empty, the others of all lengths.
//
// Fixture: out[b, h] = 1 / sqrt(Tmax * D) * sum over t of (q . k_t) v_t; padding is zero, which changes no sum. Attention:
// softmax of q . k_t / sqrt(D) over the tokens that exist; a padded scan has to mask the others, for e^0 is not 0.
#include "common/grouped_scan.cuh"

#ifndef HEAD_DIM
#define HEAD_DIM 128
#endif

namespace {

constexpr int kDim = HEAD_DIM;
using Fixture = scan::Form<kDim, 1, 1, false>;
using Attention = scan::Form<kDim, 1, 1, true>;

// Head h of slot `slot`, of `heads`; its result goes to row `row` of the output.
__device__ inline scan::Head head_of(const float* q, const float* k, const float* v, float* out, long long slot,
        long long row, long long h, long long heads, long long context) {
    const long long unit = slot * heads + h;
    return {q + unit * kDim, k + unit * context * kDim, v + unit * context * kDim, out + (row * heads + h) * kDim, 1};
}

__device__ inline float fixture_factor(long long context) {
    return 1.0f / sqrtf(static_cast<float>(context) * static_cast<float>(kDim));
}

// The heads of the active slots, one behind the other: those of request r begin at offsets[r] * heads.
struct RaggedLine {
    const float* q;
    const float* k;
    const float* v;
    float* out;
    const int* lengths;
    const int* active_ids;
    const long long* offsets;  // [active + 1]: tokens of the requests before
    long long active;
    long long heads;
    long long context;

    __device__ long long tokens() const { return offsets[active] * heads; }
    __device__ long long length(long long r) const { return lengths[active_ids[r]]; }
    __device__ long long unit_at(long long position) const {
        long long low = 0, high = active;  // offsets[low] * heads <= position < offsets[high] * heads
        while (high - low > 1) {
            const long long middle = (low + high) / 2;
            if (offsets[middle] * heads <= position) low = middle;
            else high = middle;
        }
        return low * heads + (position - offsets[low] * heads) / length(low);
    }
    __device__ long long begin(long long unit) const {
        const long long r = unit / heads;
        return offsets[r] * heads + unit % heads * length(r);
    }
    __device__ long long end(long long unit) const { return begin(unit) + length(unit / heads); }
    __device__ scan::Head head(long long unit) const {
        const long long r = unit / heads;
        return head_of(q, k, v, out, active_ids[r], r, unit % heads, heads, context);
    }
};

}  // namespace

// grid: [slots * heads]. Every slot scans Tmax tokens, padding and all.
extern "C" __global__ void __launch_bounds__(scan::kThreads, scan::kBlocksPerSm) decode_kv_padded_full_kernel(
        const float* q, const float* k, const float* v, float* out, long long heads, long long context) {
    __shared__ scan::Exchange<Fixture> exchange;
    const long long slot = blockIdx.x / heads, h = blockIdx.x % heads;
    const scan::Head head = head_of(q, k, v, out, slot, slot, h, heads, context);
    scan::whole_head<Fixture>(head, context, context, fixture_factor(context), exchange);
}

// grid: [slots * heads]. Every slot scans its length; an empty one only writes zeros.
extern "C" __global__ void __launch_bounds__(scan::kThreads, scan::kBlocksPerSm) decode_kv_masked_ragged_kernel(
        const float* q, const float* k, const float* v, const int* lengths, float* out, long long heads,
        long long context) {
    __shared__ scan::Exchange<Fixture> exchange;
    const long long slot = blockIdx.x / heads, h = blockIdx.x % heads;
    const scan::Head head = head_of(q, k, v, out, slot, slot, h, heads, context);
    scan::whole_head<Fixture>(head, lengths[slot], lengths[slot], fixture_factor(context), exchange);
}

// grid: [active * heads]. Blocks for active slots only; results lie in the order of active_ids.
extern "C" __global__ void __launch_bounds__(scan::kThreads, scan::kBlocksPerSm) decode_kv_compact_active_kernel(
        const float* q, const float* k, const float* v, const int* lengths, const int* active_ids, float* out,
        long long heads, long long context) {
    __shared__ scan::Exchange<Fixture> exchange;
    const long long row = blockIdx.x / heads, h = blockIdx.x % heads;
    const long long slot = active_ids[row];
    const scan::Head head = head_of(q, k, v, out, slot, row, h, heads, context);
    scan::whole_head<Fixture>(head, lengths[slot], lengths[slot], fixture_factor(context), exchange);
}

// As decode_kv_padded_full_kernel, real attention: reads Tmax tokens, masks those that do not exist.
extern "C" __global__ void __launch_bounds__(scan::kThreads, scan::kBlocksPerSm) decode_kv_softmax_padded_kernel(
        const float* q, const float* k, const float* v, const int* lengths, float* out, long long heads,
        long long context) {
    __shared__ scan::Exchange<Attention> exchange;
    const long long slot = blockIdx.x / heads, h = blockIdx.x % heads;
    const scan::Head head = head_of(q, k, v, out, slot, slot, h, heads, context);
    scan::whole_head<Attention>(head, context, lengths[slot], 0.0f, exchange);
}

// As decode_kv_compact_active_kernel, real attention.
extern "C" __global__ void __launch_bounds__(scan::kThreads, scan::kBlocksPerSm) decode_kv_softmax_compact_kernel(
        const float* q, const float* k, const float* v, const int* lengths, const int* active_ids, float* out,
        long long heads, long long context) {
    __shared__ scan::Exchange<Attention> exchange;
    const long long row = blockIdx.x / heads, h = blockIdx.x % heads;
    const long long slot = active_ids[row];
    const scan::Head head = head_of(q, k, v, out, slot, row, h, heads, context);
    scan::whole_head<Attention>(head, lengths[slot], lengths[slot], 0.0f, exchange);
}

// Real attention over equal shares of all tokens: no block waits for the longest request.
extern "C" __global__ void __launch_bounds__(scan::kThreads, scan::kBlocksPerSm) decode_kv_softmax_split_kernel(
        const float* q, const float* k, const float* v, const int* lengths, const int* active_ids,
        const long long* offsets, float* partial, float* stats, unsigned int* tickets, float* out, long long active,
        long long heads, long long context) {
    __shared__ scan::Exchange<Attention> exchange;
    const RaggedLine line = {q, k, v, out, lengths, active_ids, offsets, active, heads, context};
    scan::share<Attention>(line, {partial, stats, tickets}, blockIdx.x, gridDim.x, 0.0f, exchange);
}

// Preparation: zeros behind the last token of every slot. grid: [slots * heads].
extern "C" __global__ void zero_padding_kernel(float* k, float* v, const int* lengths, long long heads,
        long long context) {
    const long long first = blockIdx.x * context * kDim;
    const long long begin = lengths[blockIdx.x / heads] * static_cast<long long>(kDim);
    for (long long i = begin + threadIdx.x; i < context * kDim; i += blockDim.x) {
        k[first + i] = 0.0f;
        v[first + i] = 0.0f;
    }
}
