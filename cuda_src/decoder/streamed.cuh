// Projections of one token, with int8 weights, bound by the reading of them: y = W x.
//
// Each warp keeps kStages pieces of 16 rows x 128 elements on their way into shared memory, in places that each lane writes and
// reads alone but for the scales, so that no warp waits for another before a tile of 16 rows is done. Products are the tensor
// cores', of integers: weights as they are, x as three digits to the base 256 below a scale for each 128 elements (22 bits and a
// sign, next to what a float32 holds), which are three of the eight columns of `b`.
//
// A block is one to an SM; `team` of its warps share a tile, each taking groups of 128 elements in turn.
#pragma once

#include "../common/async_copy.cuh"
#include "../common/overlap.cuh"
#include "../common/quads.cuh"
#include "../common/reduce.cuh"
#include "../common/tensor.cuh"
#include "weights.cuh"

namespace streamed {

constexpr int kWarps = 16;
constexpr int kThreads = kWarps * reduce::kWarp;
constexpr int kStages = 3;
constexpr int kBefore = 2;  // stages asked for before x, which must not wait behind all of them
constexpr int kRows = 16;
constexpr int kDepth = weights::kTile;
constexpr int kTogether = weights::Tiled::kTogether;  // rows whose scales a warp reads at once, of the two such that it has
constexpr int kDigits = 3;
constexpr float kLargest = 127.0f * 65536.0f;  // of an element in steps: no digit is above 127

// With g = lane / 4 and t = lane % 4:
struct Stage {
    uint4 low[2][reduce::kWarp];   // words t and t + 4 of row g, of each lane its own
    uint4 high[2][reduce::kWarp];  // of row g + 8
    float scale[kRows];
};

struct Shared {
    Stage stage[kWarps][kStages];
    float sums[2][kWarps][kRows];
    // and behind it x: the digits of its groups, then what a step of each is worth
};

#ifdef STREAM_RING
static_assert(sizeof(Shared) == STREAM_RING, "STREAM_RING, bytes that a launch asks for besides x, is the size of Shared");
static_assert(kDigits * kDepth + sizeof(float) == STREAM_GROUP, "STREAM_GROUP, bytes of 128 activations, is their digits and a step");
static_assert(sizeof(float[kWarps]) <= STREAM_STATIC, "STREAM_STATIC, a block's static shared memory, holds a sum of each warp");
#endif

// 128 elements of x: of digit d, lane t multiplies the words (2 q + half) of four bytes at 32 q + 16 half + 4 t.
struct Group {
    uint4 words[kDigits][2][4];  // [digit][q / 2][t]: q even and half 0, half 1, then q odd
};

static_assert(sizeof(Group) == kDigits * kDepth, "a byte for each digit");

struct Input {
    Group* groups;
    float* steps;

    __device__ inline Input(void* memory, int pieces) : groups(static_cast<Group*>(memory)), steps(reinterpret_cast<float*>(groups + pieces)) {}
};

// Digits of four elements, and of the group that the warp holds together, which is 128.
__device__ inline void put(const Input& to, int k, const float4& value) {
    const float sum = value.x + value.y + value.z + value.w;
    const float of_four = fmaxf(fmaxf(fabsf(value.x), fabsf(value.y)), fmaxf(fabsf(value.z), fabsf(value.w)));
    // What is no number has no digits either: an infinite step makes the sums none.
    const float largest = reduce::lanes_max(sum == sum ? of_four : __int_as_float(0x7F800000));
    const float by = largest > 1.0e-30f ? kLargest / largest : 0.0f;  // below that it would be infinite
    const float each[4] = {value.x, value.y, value.z, value.w};
    unsigned int digits[kDigits] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int left = __float2int_rn(each[i] * by);
#pragma unroll
        for (int d = kDigits - 1; d >= 0; --d) {
            const int digit = static_cast<signed char>(left);
            digits[d] |= static_cast<unsigned int>(digit & 255) << (8 * i);
            left = (left - digit) >> 8;
        }
    }
    const int at = k % kDepth, q = at / 32, half = at / 16 % 2, t = at / 4 % 4;
#pragma unroll
    for (int d = 0; d < kDigits; ++d) {
        reinterpret_cast<unsigned int*>(&to.groups[k / kDepth].words[d][q / 2][t])[q % 2 * 2 + half] = digits[d];
    }
    if (at == 0) to.steps[k / kDepth] = largest / kLargest;
}

// Puts x into shared memory, `depth` elements and zeros up to `whole`, a multiple of 128: `four(value)` makes them of those of
// `kRows` rows of float32, and of zeros a zero.
template <int kRows, class Four>
__device__ inline void fill(const Input& to, const float* const (&rows)[kRows], int depth, int whole, Four four) {
    quads::each<kThreads>(rows, depth, whole, [&](int k, const float4(&value)[kRows]) { put(to, k, four(value)); });
}

// The weight row of a tile's r-th sum, where tiles take the rows in turn: behind the end the last one again.
__device__ inline int row_of(int tile, int r, int rows) {
    const int row = tile * kRows + r;
    return row < rows ? row : rows - 1;
}

// Adds a piece of rows g and g + 8 times x, to `low` and `high`: of a row all lanes with the same g together.
__device__ inline void multiply(float& low, float& high, const Stage& stage, const Group& x, float step) {
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp, g = lane / 4, t = lane % 4;
    constexpr unsigned int kSign = 0x80808080u;  // weights are held with 128 added
    unsigned int words[2][2][4];  // [row][half][q]
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint4 four = r == 0 ? stage.low[half][lane] : stage.high[half][lane];
            words[r][half][0] = four.x ^ kSign;
            words[r][half][1] = four.y ^ kSign;
            words[r][half][2] = four.z ^ kSign;
            words[r][half][3] = four.w ^ kSign;
        }
    }
    const float by_low = stage.scale[g] * step, by_high = stage.scale[g + 8] * step;
#if TENSOR_CORES
    uint4 even = make_uint4(0u, 0u, 0u, 0u), odd = even;
    if (g < kDigits) {
        even = x.words[g][0][t];
        odd = x.words[g][1][t];
    }
    const unsigned int b[4][2] = {{even.x, even.y}, {even.z, even.w}, {odd.x, odd.y}, {odd.z, odd.w}};
    int sum[4] = {};
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        const unsigned int a[4] = {words[0][0][q], words[1][0][q], words[0][1][q], words[1][1][q]};
        tensor::multiply_int8(sum, a, b[q][0], b[q][1]);
    }
    // Columns 2 t and 2 t + 1 are digits: of t = 0 the first two, of t = 1 the third and nothing, and so on.
    const float first = t == 0 ? 65536.0f : 1.0f;
    low = fmaf(fmaf(static_cast<float>(sum[0]), first, static_cast<float>(sum[1]) * 256.0f), by_low, low);
    high = fmaf(fmaf(static_cast<float>(sum[2]), first, static_cast<float>(sum[3]) * 256.0f), by_high, high);
#else
    float sums[2] = {};
    for (int q = 0; q < 4; ++q) {
        for (int half = 0; half < 2; ++half) {
            for (int i = 0; i < 4; ++i) {
                int element = 0;
                for (int d = 0; d < kDigits; ++d) {
                    const unsigned int word = reinterpret_cast<const unsigned int*>(&x.words[d][q / 2][t])[q % 2 * 2 + half];
                    element = element * 256 + static_cast<signed char>(word >> (8 * i) & 255u);
                }
                for (int r = 0; r < 2; ++r) {
                    const int weight = static_cast<signed char>(words[r][half][q] >> (8 * i) & 255u);
                    sums[r] = fmaf(static_cast<float>(weight), static_cast<float>(element), sums[r]);
                }
            }
        }
    }
    low = fmaf(sums[0], by_low, low);
    high = fmaf(sums[1], by_high, high);
#endif
}

// A warp's weights on their way: groups member, member + team, … of a tile, then of the next of its tiles.
template <class Row>
class Ahead {
public:
    __device__ inline Ahead(const unsigned char* weight, const float* scale, int first, int stride, int tiles, int depth, int team,
            int member, Row row)
        : weight_(weight), scale_(scale), tile_(first), stride_(stride), tiles_(tiles), depth_(depth), team_(team), member_(member),
          row_(row) {
        turn();
    }

    // Asks for the next piece, if there is one, as a group of copies.
    __device__ inline void fetch(Stage& stage) {
        const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
        if (tile_ < tiles_ && at_ < depth_) {
            async_copy::vector(&stage.low[0][lane], low_ + at_);
            async_copy::vector(&stage.low[1][lane], low_ + at_ + 64);
            async_copy::vector(&stage.high[0][lane], high_ + at_);
            async_copy::vector(&stage.high[1][lane], high_ + at_ + 64);
            if (lane < kRows / 4) async_copy::vector(&stage.scale[lane * 4], of_lane_ + at_ / GROUP * kTogether);
            at_ += team_ * kDepth;
            if (at_ >= depth_) {
                tile_ += stride_;
                turn();
            }
        }
        async_copy::end_group();
    }

private:
    // To the first group of the tile.
    __device__ inline void turn() {
        at_ = member_ * kDepth;
        if (tile_ >= tiles_) return;
        const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp, g = lane / 4, t = lane % 4;
        low_ = weight_ + static_cast<long long>(row_(tile_, g)) * depth_ + t * 16;
        high_ = weight_ + static_cast<long long>(row_(tile_, g + 8)) * depth_ + t * 16;
        // Of lanes 0 to 3: four scales of the first eight rows, the next four, and those of the other eight.
        const int eight = row_(tile_, lane / 2 % 2 * kTogether) / kTogether * kTogether;
        of_lane_ = scale_ + weights::Tiled::scale_at(eight + lane % 2 * 4, 0, depth_);
    }

    const unsigned char *weight_, *low_ = nullptr, *high_ = nullptr;
    const float *scale_, *of_lane_ = nullptr;
    int tile_, stride_, tiles_, depth_, team_, member_, at_ = 0;
    Row row_;
};

// `row(tile, r)` is the weight row of a tile's r-th sum, any that exists where there is none; `make(input)` puts x into shared
// memory, all threads together; `store(tile, r, sum, below)` takes each sum once, and with it, for r < 8, that of r + 8. `depth` is a
// multiple of 128, `team` a power of two up to kWarps.
template <class Row, class Make, class Store>
__device__ inline void project(Shared& shared, const unsigned char* weight, const float* scale, int tiles, int depth, int team, Row row,
        Make make, Store store) {
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp, lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    const int g = lane / 4, t = lane % 4;
    const int teams = kWarps / team, member = warp % team, pieces = depth / kDepth;
    const int first = static_cast<int>(blockIdx.x) * teams, stride = static_cast<int>(gridDim.x) * teams;
    const Input x(&shared + 1, pieces);

    Ahead<Row> ahead(weight, scale, first + warp / team, stride, tiles, depth, team, member, row);
#pragma unroll
    for (int s = 0; s < kBefore; ++s) ahead.fetch(shared.stage[warp][s]);
    make(x);
#pragma unroll
    for (int s = kBefore; s < kStages; ++s) ahead.fetch(shared.stage[warp][s]);
    __syncthreads();
    overlap::release();

    int slot = 0, side = 0, turn = 0;
#pragma unroll 1
    for (int of = first; of < tiles; of += stride) {
        const int tile = of + warp / team;
        float low = 0.0f, high = 0.0f;
        if (tile < tiles) {
#pragma unroll 1
            for (int at = member; at < pieces; at += team) {
                async_copy::wait<kStages - 1>();
                __syncwarp();  // the scales are other lanes'
                Stage& stage = shared.stage[warp][slot];
                multiply(low, high, stage, x.groups[at], x.steps[at]);
                __syncwarp();
                ahead.fetch(stage);
                slot = slot + 1 == kStages ? 0 : slot + 1;
            }
        }
        low = reduce::lanes_sum<4>(low);
        high = reduce::lanes_sum<4>(high);
        if (t == 0) {
            shared.sums[side][warp][g] = low;
            shared.sums[side][warp][g + 8] = high;
        }
        __syncthreads();
        // The warps of a team put its tiles together in turn.
        if (tile < tiles && member == turn) {
            float sum = 0.0f;
            for (int w = lane / kRows; w < team; w += reduce::kWarp / kRows) sum += shared.sums[side][warp / team * team + w][lane % kRows];
            sum += __shfl_xor_sync(reduce::kAllLanes, sum, kRows);
            const float below = __shfl_down_sync(reduce::kAllLanes, sum, kRows / 2);
            if (lane < kRows) store(tile, lane, sum, below);
        }
        side = 1 - side;
        turn = turn + 1 == team ? 0 : turn + 1;
    }
}

}  // namespace streamed
