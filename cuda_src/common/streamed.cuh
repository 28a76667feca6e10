// y = W x for one x, W in int8 with a scale for each group of a row, bound by the reading of W.
//
// Each warp keeps kStages pieces of 16 rows x 128 elements on their way into shared memory, in places that each lane writes and
// reads alone, so that no warp waits for another before a tile of 16 rows is done. Products are the tensor cores': weights as
// bfloat16, exactly, x as two bfloat16 numbers, which are two of the eight columns of `b`. The order of the elements within a
// product is free, so that a lane multiplies the 16 bytes it read as they lie.
//
// A row's int8 lie in tiles of 128: the 16-byte piece p of a tile holds elements 4 p … 4 p + 3 of each stretch of 32.
// A block is one to an SM; `team` of its warps share a tile, each taking groups of 128 elements in turn.
#pragma once

#include "async_copy.cuh"
#include "convert.cuh"
#include "reduce.cuh"
#include "tensor.cuh"

namespace streamed {

constexpr int kWarps = 16;
constexpr int kThreads = kWarps * reduce::kWarp;
constexpr int kRows = 16;
constexpr int kDepth = 128;
constexpr int kStages = 4;

struct Stage {
    uint4 low[2][reduce::kWarp];   // pieces t and t + 4 of row g, of each lane its own
    uint4 high[2][reduce::kWarp];  // of row g + 8
    float scale[kRows];
};

struct Shared {
    Stage stage[kWarps][kStages];
    float sums[2][kWarps][kRows];
    // and behind it the high halves of x, then the low ones
};

static_assert(sizeof(Shared) == 137216, "conf/kernel/quant_decode.yaml and parts/decoder.yaml count with this size");

// The weight row of a tile's r-th sum, where tiles take the rows in turn: behind the end the last one again.
__device__ inline long long row_of(long long tile, int r, long long rows) {
    return tile * kRows + r < rows ? tile * kRows + r : rows - 1;
}

// Where a warp is: its `group` of 128 elements of a tile of rows.
struct Place {
    long long tile;
    int group;
};

// Four int8 (as they are, or with 128 added) as two pairs of bfloat16: 128 + the lower seven bits, less 128 or 256.
template <bool kBiased>
__device__ inline void widen(unsigned int word, unsigned int& first, unsigned int& second) {
#if TENSOR_CORES
    const unsigned int bits = word & 0x7F7F7F7Fu, sign = (kBiased ? ~word : word) & 0x80808080u;
    constexpr unsigned int kOnes = 0x3F803F80u;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(first)
        : "r"(__byte_perm(bits, 0x43u, 0x4140)), "r"(kOnes), "r"(__byte_perm(sign, 0xC3u, 0x4140)));
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(second)
        : "r"(__byte_perm(bits, 0x43u, 0x4342)), "r"(kOnes), "r"(__byte_perm(sign, 0xC3u, 0x4342)));
#endif
}

// Adds a piece of rows g and g + 8 times x to `sum`: with tensor cores those of all lanes together, else each lane its own.
template <bool kBiased>
__device__ inline void multiply(float (&sum)[4], const uint4& low, const uint4& high, const unsigned short* x, int half, int element) {
    const unsigned int words[2][4] = {{low.x, low.y, low.z, low.w}, {high.x, high.y, high.z, high.w}};
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        const unsigned short* at = x + element + q * 32;
#if TENSOR_CORES
        const int column = static_cast<int>(threadIdx.x) % reduce::kWarp / 4;
        uint2 b = make_uint2(0u, 0u);
        if (column < 2) b = *reinterpret_cast<const uint2*>(at + column * half);
        unsigned int a[4];
        widen<kBiased>(words[0][q], a[0], a[2]);
        widen<kBiased>(words[1][q], a[1], a[3]);
        tensor::multiply(sum, a, b.x, b.y);
#else
        float weight[2][4];
        for (int r = 0; r < 2; ++r) kBiased ? convert::unpack_biased(words[r][q], weight[r]) : convert::unpack_int8(words[r][q], weight[r]);
        for (int i = 0; i < 4; ++i) {
            const float value = convert::Bfloat16::widen(at[i]) + convert::Bfloat16::widen(at[half + i]);
            sum[0] = fmaf(weight[0][i], value, sum[0]);
            sum[2] = fmaf(weight[1][i], value, sum[2]);
        }
#endif
    }
}

// `row(tile, r)` is the weight row of a tile's r-th sum, any that exists where there is none; `fill(high, low)` puts x into shared
// memory, all threads together; `store(tile, r, sum, below)` takes each sum once, and with it, for r < 8, that of r + 8. `depth` is a
// multiple of 128, `group` what shares a scale, a multiple of 128, `team` a power of two up to kWarps.
template <bool kBiased, class Row, class Fill, class Store>
__device__ inline void project(Shared& shared, const unsigned char* weight, const float* scale, long long tiles, int depth,
        int group, int team, Row row, Fill fill, Store store) {
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp, lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    const int g = lane / 4, t = lane % 4;
    const int teams = kWarps / team, member = warp % team, pieces = depth / kDepth;
    const int scales = (depth + group - 1) / group;
    const long long first = static_cast<long long>(blockIdx.x) * teams, stride = static_cast<long long>(gridDim.x) * teams;
    unsigned short* const x = reinterpret_cast<unsigned short*>(&shared + 1);

    Place ahead = {first + warp / team, member};
    const auto fetch = [&](Stage& stage) {
        if (ahead.tile < tiles && ahead.group < pieces) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const long long of = row(ahead.tile, g + 8 * r);
                const unsigned char* from = weight + of * depth + ahead.group * kDepth + t * 16;
                uint4(&to)[2][reduce::kWarp] = r == 0 ? stage.low : stage.high;
                async_copy::vector(&to[0][lane], from);
                async_copy::vector(&to[1][lane], from + 64);
                if (t == 0) async_copy::word(&stage.scale[g + 8 * r], scale + of * scales + ahead.group * kDepth / group);
            }
            ahead.group += team;
            if (ahead.group >= pieces) ahead = {ahead.tile + stride, member};
        }
        async_copy::end_group();
    };
#pragma unroll
    for (int s = 0; s < kStages; ++s) fetch(shared.stage[warp][s]);
    fill(x, x + depth);
    __syncthreads();

    int slot = 0, side = 0;
#pragma unroll 1
    for (long long of = first; of < tiles; of += stride) {
        float low = 0.0f, high = 0.0f;  // with tensor cores of the lanes with t = 0 alone
        if (of + warp / team < tiles) {
#pragma unroll 1
            for (int at = member; at < pieces; at += team) {
                async_copy::wait<kStages - 1>();
                Stage& stage = shared.stage[warp][slot];
                float sum[4] = {};
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    multiply<kBiased>(sum, stage.low[h][lane], stage.high[h][lane], x, depth, at * kDepth + (t + 4 * h) * 4);
                }
#if TENSOR_CORES
                sum[0] += sum[1];
                sum[2] += sum[3];
#else
                sum[0] = reduce::lanes_sum<4>(sum[0]);
                sum[2] = reduce::lanes_sum<4>(sum[2]);
#endif
                if (t == 0) {
                    low = fmaf(sum[0], stage.scale[g], low);
                    high = fmaf(sum[2], stage.scale[g + 8], high);
                }
                fetch(stage);
                slot = (slot + 1) % kStages;
            }
        }
        if (t == 0) {
            shared.sums[side][warp][g] = low;
            shared.sums[side][warp][g + 8] = high;
        }
        __syncthreads();
        const int of_team = static_cast<int>(threadIdx.x) / kRows, r = static_cast<int>(threadIdx.x) % kRows;
        const bool mine = of_team < teams && of + of_team < tiles;
        float sum = 0.0f;
        for (int w = 0; mine && w < team; ++w) sum += shared.sums[side][of_team * team + w][r];
        const float below = __shfl_down_sync(reduce::kAllLanes, sum, kRows / 2);
        if (mine) store(of + of_team, r, sum, below);
        side = 1 - side;
    }
}

}  // namespace streamed
