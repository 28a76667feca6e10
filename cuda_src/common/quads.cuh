// Rows of float32 that a block reads once, 16 bytes at a time, with several reads of a thread on their way together.
#pragma once

namespace quads {

// Calls use(k, four) for this thread's share of the elements k … k + 3 below `end`: four[r] are those of row r, zeros from `depth`
// on. Both are multiples of 4, and all rows begin on 16 bytes.
template <int kThreads, int kRows, class Use>
__device__ inline void each(const float* const (&rows)[kRows], int depth, int end, Use use) {
    constexpr int kTogether = kRows == 1 ? 8 : 4;
    for (int first = static_cast<int>(threadIdx.x) * 4; first < end; first += kTogether * kThreads * 4) {
        float4 four[kTogether][kRows];
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            const int k = first + i * kThreads * 4;
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                four[i][r] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (k < depth) four[i][r] = *reinterpret_cast<const float4*>(rows[r] + k);
            }
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            const int k = first + i * kThreads * 4;
            if (k < end) use(k, four[i]);
        }
    }
}

}  // namespace quads
