// One decode step's scan of the KV cache when several query heads share a KV head: each K and V row is read once for
// all of them. MHA is a group of one query, GQA of QH / KVH, MQA of QH.
//
// Fixture: out[b, h] = 1 / sqrt(T * D) * sum over t of (q . k_t) v_t, with the factor that keeps it of order one at every
// length. Attention: softmax of q . k_t / sqrt(D).
#include "common/grouped_scan.cuh"

#ifndef HEAD_DIM
#define HEAD_DIM 128
#endif
#ifndef GQA_QUERIES  // query heads a warp holds
#define GQA_QUERIES (HEAD_DIM == 128 ? 4 : 2)
#endif
#ifndef GQA_SUBSETS  // warps side by side that hold different query heads
#define GQA_SUBSETS 1
#endif
#ifndef MQA_QUERIES
#define MQA_QUERIES (HEAD_DIM == 128 ? 4 : 2)
#endif
#ifndef MQA_SUBSETS
#define MQA_SUBSETS 8
#endif

namespace {

constexpr int kDim = HEAD_DIM;

// The KV heads of a batch with equal contexts. The queries of a head that one block does not hold go to `passes` blocks.
struct EvenLine {
    const float* q;
    const float* k;
    const float* v;
    float* out;
    long long heads;
    long long context;
    long long group;   // queries of a KV head
    long long stride;  // queries of a block
    long long pass;

    __device__ long long tokens() const { return heads * context; }
    __device__ long long unit_at(long long position) const { return position / context; }
    __device__ long long begin(long long unit) const { return unit * context; }
    __device__ long long end(long long unit) const { return (unit + 1) * context; }
    __device__ scan::Head head(long long unit) const {
        const long long skipped = pass * stride;
        const long long left = group - skipped;
        const long long first = (unit * group + skipped) * kDim;
        const long long row = unit * context * kDim;
        return {q + first, k + row, v + row, out + first, static_cast<int>(left < stride ? left : stride)};
    }
};

// grid: x cuts the line of tokens, y is the pass over the queries.
template <int kQueries, int kSubsets, bool kSoftmax>
__device__ inline void scan_group(const float* q, const float* k, const float* v, float* partial, float* stats,
        unsigned int* tickets, float* out, long long heads, long long context, long long group) {
    using F = scan::Form<kDim, kQueries, kSubsets, kSoftmax>;
    __shared__ scan::Exchange<F> exchange;
    const long long pass = blockIdx.y;
    const EvenLine line = {q, k, v, out, heads, context, group, F::kGroup, pass};
    const long long slots = gridDim.x + heads;
    const scan::Parts parts = {partial + pass * slots * F::kGroup * kDim,
            kSoftmax ? stats + pass * slots * F::kGroup * 2 : nullptr, tickets + pass * heads};
    const float factor = 1.0f / sqrtf(static_cast<float>(context) * static_cast<float>(kDim));
    scan::share<F>(line, parts, blockIdx.x, gridDim.x, factor, exchange);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(scan::kThreads, scan::kBlocksPerSm) grouped_kv_decode_scan_mha_kernel(
        const float* q, const float* k, const float* v, float* partial, unsigned int* tickets, float* out,
        long long heads, long long context, long long group) {
    scan_group<1, 1, false>(q, k, v, partial, nullptr, tickets, out, heads, context, group);
}

extern "C" __global__ void __launch_bounds__(scan::kThreads, scan::kBlocksPerSm) grouped_kv_decode_scan_gqa_kernel(
        const float* q, const float* k, const float* v, float* partial, unsigned int* tickets, float* out,
        long long heads, long long context, long long group) {
    scan_group<GQA_QUERIES, GQA_SUBSETS, false>(q, k, v, partial, nullptr, tickets, out, heads, context, group);
}

extern "C" __global__ void __launch_bounds__(scan::kThreads, scan::kBlocksPerSm) grouped_kv_decode_scan_mqa_kernel(
        const float* q, const float* k, const float* v, float* partial, unsigned int* tickets, float* out,
        long long heads, long long context, long long group) {
    scan_group<MQA_QUERIES, MQA_SUBSETS, false>(q, k, v, partial, nullptr, tickets, out, heads, context, group);
}

extern "C" __global__ void __launch_bounds__(scan::kThreads, scan::kBlocksPerSm)
        grouped_kv_decode_scan_softmax_mha_kernel(const float* q, const float* k, const float* v, float* partial,
        float* stats, unsigned int* tickets, float* out, long long heads, long long context, long long group) {
    scan_group<1, 1, true>(q, k, v, partial, stats, tickets, out, heads, context, group);
}

extern "C" __global__ void __launch_bounds__(scan::kThreads, scan::kBlocksPerSm)
        grouped_kv_decode_scan_softmax_gqa_kernel(const float* q, const float* k, const float* v, float* partial,
        float* stats, unsigned int* tickets, float* out, long long heads, long long context, long long group) {
    scan_group<GQA_QUERIES, GQA_SUBSETS, true>(q, k, v, partial, stats, tickets, out, heads, context, group);
}

extern "C" __global__ void __launch_bounds__(scan::kThreads, scan::kBlocksPerSm)
        grouped_kv_decode_scan_softmax_mqa_kernel(const float* q, const float* k, const float* v, float* partial,
        float* stats, unsigned int* tickets, float* out, long long heads, long long context, long long group) {
    scan_group<MQA_QUERIES, MQA_SUBSETS, true>(q, k, v, partial, stats, tickets, out, heads, context, group);
}
