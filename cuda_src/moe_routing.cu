// Routing in a mixture-of-experts layer: rows go to their experts, each expert works on its rows (one multiply and one
// add an element stand for its MLP), and the results come back weighted to the order of the tokens.
//
// Padded: every expert has `capacity` rows, used or not; what does not fit is dropped. Compact: expert after expert,
// without gaps. The tables (who sits where) come with the routing and are not timed.
//
// A thread moves kPerThread pieces of kVector floats, loaded together before any is stored.
#ifndef HIDDEN
#define HIDDEN 1024
#endif

namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;
constexpr int kVector = HIDDEN % 4 == 0 ? 4 : HIDDEN % 2 == 0 ? 2 : 1;
constexpr int kPieces = HIDDEN / kVector;  // of a row
static_assert(HIDDEN >= 1, "a row has elements");

struct alignas(4 * kVector) Piece {
    float value[kVector];
};

__device__ inline const Piece* pieces(const float* rows) { return reinterpret_cast<const Piece*>(rows); }
__device__ inline Piece* pieces(float* rows) { return reinterpret_cast<Piece*>(rows); }

// The thread's u-th piece; a block covers a contiguous run of kThreads * kPerThread.
__device__ inline long long position(int u) {
    return (static_cast<long long>(blockIdx.x) * kPerThread + u) * kThreads + threadIdx.x;
}

// out[row] = x[source[row]], zeros where source is negative.
__device__ inline void dispatch(const float* x, const int* source, float* out, long long rows) {
    Piece held[kPerThread];
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
        held[u] = Piece{};
        const long long i = position(u);
        if (i >= rows * kPieces) continue;
        const int from = source[i / kPieces];
        if (from >= 0) held[u] = pieces(x)[static_cast<long long>(from) * kPieces + i % kPieces];
    }
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
        const long long i = position(u);
        if (i < rows * kPieces) pieces(out)[i] = held[u];
    }
}

// out[row] = in[row] * scale[e] + bias[e], element by element, with e = expert[row].
template <class Expert>
__device__ inline void affine(const float* in, const float* scale, const float* bias, float* out, long long rows,
        const Expert& expert) {
    Piece held[kPerThread];
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
        const long long i = position(u);
        if (i < rows * kPieces) held[u] = pieces(in)[i];
    }
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
        const long long i = position(u);
        if (i >= rows * kPieces) continue;
        const long long column = expert(i / kPieces) * kPieces + i % kPieces;
        const Piece factor = pieces(scale)[column], offset = pieces(bias)[column];
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
            held[u].value[e] = fmaf(held[u].value[e], factor.value[e], offset.value[e]);
        }
        pieces(out)[i] = held[u];
    }
}

// y[t] = sum over k of gate[t, k] * rows[where[t, k]], in the order of k; a negative `where` was dropped and adds nothing.
__device__ inline void gather(const float* in, const int* where, const float* gate, float* y, long long tokens,
        long long top_k) {
    Piece sum[kPerThread];
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) sum[u] = Piece{};
    for (long long k = 0; k < top_k; ++k) {
        Piece held[kPerThread];
        float weight[kPerThread];
#pragma unroll
        for (int u = 0; u < kPerThread; ++u) {
            held[u] = Piece{};
            weight[u] = 0.0f;
            const long long i = position(u);
            if (i >= tokens * kPieces) continue;
            const long long choice = i / kPieces * top_k + k;
            const int row = where[choice];
            if (row < 0) continue;
            weight[u] = gate[choice];
            held[u] = pieces(in)[static_cast<long long>(row) * kPieces + i % kPieces];
        }
#pragma unroll
        for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
            for (int e = 0; e < kVector; ++e) sum[u].value[e] = fmaf(weight[u], held[u].value[e], sum[u].value[e]);
        }
    }
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
        const long long i = position(u);
        if (i < tokens * kPieces) pieces(y)[i] = sum[u];
    }
}

}  // namespace

// Rows are the slots of all experts, experts * capacity; an empty slot gets zeros.
extern "C" __global__ void __launch_bounds__(kThreads) padded_dispatch_kernel(const float* x, const int* slot_token,
        float* routed, long long slots) {
    dispatch(x, slot_token, routed, slots);
}

extern "C" __global__ void __launch_bounds__(kThreads) padded_expert_affine_kernel(const float* routed,
        const float* scale, const float* bias, float* expert_out, long long slots, long long capacity) {
    affine(routed, scale, bias, expert_out, slots, [=](long long row) { return row / capacity; });
}

extern "C" __global__ void __launch_bounds__(kThreads) padded_gather_kernel(const float* expert_out,
        const int* token_slot, const float* gate, float* y, long long tokens, long long top_k) {
    gather(expert_out, token_slot, gate, y, tokens, top_k);
}

// Rows are the routed choices, tokens * top_k, sorted by expert.
extern "C" __global__ void __launch_bounds__(kThreads) compact_dispatch_kernel(const float* x, const int* row_token,
        float* routed, long long rows) {
    dispatch(x, row_token, routed, rows);
}

extern "C" __global__ void __launch_bounds__(kThreads) compact_expert_affine_kernel(const float* routed,
        const int* row_expert, const float* scale, const float* bias, float* expert_out, long long rows) {
    affine(routed, scale, bias, expert_out, rows, [=](long long row) -> long long { return row_expert[row]; });
}

extern "C" __global__ void __launch_bounds__(kThreads) compact_gather_kernel(const float* expert_out,
        const int* compact_pos, const float* gate, float* y, long long tokens, long long top_k) {
    gather(expert_out, compact_pos, gate, y, tokens, top_k);
}
