// Decoding token by token, against verifying a window of proposed tokens at once.
//
// A token's work is a row of n floats made of the state x and the token's id. Verification makes the rows of all draft + 1
// positions of a window from one read of x; the proposals that agree with the target's own tokens, and the target's token
// after them, are then copied behind what was accepted before. The device finds out by itself how many these are.

namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

// A token's row at an element that holds x: one rounding.
__device__ inline float token_value(float x, int id) {
    return fmaf(0.5f, x, static_cast<float>(id & 0xFFFF) * (1.0f / 65536.0f));
}

__device__ inline float4 token_values(const float4& x, int id) {
    return make_float4(token_value(x.x, id), token_value(x.y, id), token_value(x.z, id), token_value(x.w, id));
}

// Calls quad(i) for this thread's four neighbours 4 i … where every row of n floats begins on 16 bytes, and one(i) for
// each of its elements otherwise. A block covers kThreads * kPerThread elements.
template <class Quad, class One>
__device__ inline void each_element(long long n, Quad quad, One one) {
    if (n % 4 == 0) {
        const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
        if (4 * i < n) quad(i);
    } else {
        const long long first = static_cast<long long>(blockIdx.x) * kThreads * kPerThread + threadIdx.x;
        for (int j = 0; j < kPerThread; ++j) {
            if (first + j * kThreads < n) one(first + j * kThreads);
        }
    }
}

}  // namespace

// One decode step: accepted[token] from x and emitted_ids[token]. Grid (elements).
extern "C" __global__ void __launch_bounds__(kThreads) target_only_token_kernel(const float* x, const int* emitted_ids,
        float* accepted, long long n, long long token) {
    const int id = emitted_ids[token];
    float* row = accepted + token * n;
    each_element(n,
            [&](long long i) {
                reinterpret_cast<float4*>(row)[i] = token_values(reinterpret_cast<const float4*>(x)[i], id);
            },
            [&](long long i) { row[i] = token_value(x[i], id); });
}

// Verifies a window: verified[0 … draft] from x and target_ids[window]. Grid (elements).
extern "C" __global__ void __launch_bounds__(kThreads) spec_verify_window_kernel(const float* x, const int* target_ids,
        float* verified, long long n, long long window, long long draft) {
    const int* ids = target_ids + window * (draft + 1);
    each_element(n,
            [&](long long i) {
                const float4 value = reinterpret_cast<const float4*>(x)[i];
                for (long long j = 0; j <= draft; ++j) {
                    reinterpret_cast<float4*>(verified + j * n)[i] = token_values(value, ids[j]);
                }
            },
            [&](long long i) {
                const float value = x[i];
                for (long long j = 0; j <= draft; ++j) verified[j * n + i] = token_value(value, ids[j]);
            });
}

// Appends a window's accepted rows and the target's own one to `accepted`. positions[window] is where the window's tokens
// begin, positions[window + 1] becomes where the next one's do. Grid (elements, draft + 1).
extern "C" __global__ void __launch_bounds__(kThreads) compact_accepted_window_kernel(const float* verified,
        const int* draft_ids, const int* target_ids, float* accepted, long long* positions, long long n,
        long long window, long long draft) {
    const int* proposed = draft_ids + window * draft;
    const int* own = target_ids + window * (draft + 1);
    long long agreed = 0;
    while (agreed < draft && proposed[agreed] == own[agreed]) ++agreed;
    const long long position = positions[window];
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) positions[window + 1] = position + agreed + 1;
    const long long j = blockIdx.y;
    if (j > agreed) return;
    const float* from = verified + j * n;
    float* to = accepted + (position + j) * n;
    each_element(n,
            [&](long long i) { reinterpret_cast<float4*>(to)[i] = reinterpret_cast<const float4*>(from)[i]; },
            [&](long long i) { to[i] = from[i]; });
}
