// Projections of one token, with int8 weights, bound by the reading of them: y = W x.
//
// Each warp keeps kStages pieces of 16 rows x 128 elements on their way into shared memory of its own, and makes itself the groups of
// x that it multiplies: no warp waits for another before kSlots tiles of 16 rows, or all that it has, are done (but for the moments of a
// LayerNorm), so that one whose weights are late holds up none. Products are the tensor cores', of integers: weights as they are, x as three digits to the base 256 below a scale for each 128
// elements (22 bits and a sign, next to what a float32 holds), which are three of the eight columns of `b`.
//
// A block is one to an SM; `team` of its warps share a tile, each taking groups of 128 elements in turn. The code is kept small: a
// kernel runs through most of it a few times only, and all of it has to be read from memory, since the weights of the kernels before have
// passed through the caches.
#pragma once

#include "../common/async_copy.cuh"
#include "../common/overlap.cuh"
#include "../common/reduce.cuh"
#include "../common/tensor.cuh"
#include "weights.cuh"

namespace streamed {

constexpr int kWarps = 16;
constexpr int kThreads = kWarps * reduce::kWarp;
constexpr int kStages = 3;
constexpr int kBefore = 2;  // stages asked for before x, which must not wait behind all of them
constexpr int kSlots = 8;  // turns whose sums are put together at once
constexpr int kRows = 16;
constexpr int kDepth = weights::kTile;
constexpr int kDigits = 3;
constexpr float kLargest = 127.0f * 65536.0f;  // of an element in steps: no digit is above 127

// Of 16 rows, a tile each. In an odd row the two halves of 64 bytes change places, so that eight lanes that read at once, of two rows
// 64 bytes each, read from all banks.
struct Stage {
    uint4 words[kRows][8];
    float scale[kRows];

    __device__ static inline int at(int row, int piece) { return piece ^ row % 2 * 4; }
};

struct Shared {
    Stage stage[kWarps][kStages];
    float sums[2][kSlots][kWarps][kRows];
    // and behind it x, as often as there are teams: the digits of its groups, then what a step of each is worth
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
    // What is no number, or next to infinite, has no digits: an infinite step makes the sums none.
    const float largest = reduce::lanes_max(sum == sum && of_four < 1.0e37f ? of_four : __int_as_float(0x7F800000));
    const float by = largest > 1.0e-30f ? __fdividef(kLargest, largest) : 0.0f;  // below that it would be infinite
    // With half of every digit's range added, digits are bytes; without it again, they have signs.
    constexpr int kHalves = 0x808080;
    const unsigned int x = (__float2int_rn(value.x * by) + kHalves) ^ kHalves, y = (__float2int_rn(value.y * by) + kHalves) ^ kHalves;
    const unsigned int z = (__float2int_rn(value.z * by) + kHalves) ^ kHalves, w = (__float2int_rn(value.w * by) + kHalves) ^ kHalves;
    const int at = k % kDepth, q = at / 32, half = at / 16 % 2, t = at / 4 % 4;
    unsigned int* const words = reinterpret_cast<unsigned int*>(&to.groups[k / kDepth].words[0][q / 2][t]) + q % 2 * 2 + half;
    constexpr int kApart = sizeof(to.groups->words[0]) / sizeof(unsigned int);
#pragma unroll
    for (int d = 0; d < kDigits; ++d) {
        const int shift = 8 * (kDigits - 1 - d);
        words[d * kApart] = (x >> shift & 255u) | (y >> shift & 255u) << 8 | (z >> shift & 255u) << 16 | (w >> shift & 255u) << 24;
    }
    if (at == 0) to.steps[k / kDepth] = largest / kLargest;
}

// A projection in tiles of 16 sums, of eight rows of weights and `apart` bytes, or scales, further on of eight more.
struct Projection {
    const unsigned char* weight;
    const float* scale;
    int tiles;
    int step;   // from tile to tile, in rows
    int apart;  // from its first eight rows to the others, in rows
    int pieces;  // tiles of 128 in a row
    int team;  // warps that share a tile: a power of two up to kWarps, no more than pieces
};

// Adds a piece of rows g and g + 8 times x, to `low` and `high`: of a row all lanes with the same g together.
__device__ inline void multiply(float& low, float& high, const Stage& stage, const Group& x, float step) {
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp, g = lane / 4, t = lane % 4;
    constexpr unsigned int kSign = 0x80808080u;  // weights are held with 128 added
    unsigned int words[2][2][4];  // [row][half][q]
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint4 four = stage.words[g + 8 * r][Stage::at(g, t + 4 * half)];
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

// A warp's weights on their way: pieces member, member + team, … of a tile, then of the next of its tiles.
class Ahead {
public:
    __device__ inline Ahead(const Projection& of)
        : of_(of), tile_(static_cast<int>(blockIdx.x) * (kWarps / of.team) + static_cast<int>(threadIdx.x) / reduce::kWarp / of.team) {
        turn();
    }

    // Asks for the next piece, if there is one, as a group of copies.
    __device__ inline void fetch(Stage& stage) {
        const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
        if (tile_ < of_.tiles) {
            const unsigned char* const from = from_ + at_ * kEight;
            const long long apart = static_cast<long long>(of_.apart) * (of_.pieces * kDepth);
            uint4* const to = &stage.words[lane / 8][Stage::at(lane / 8, lane % 8)];
            async_copy::vector(to, from);
            async_copy::vector(to + 32, from + 512);
            async_copy::vector(to + 64, from + apart);
            async_copy::vector(to + 96, from + apart + 512);
            if (lane < kRows / 4) async_copy::vector(&stage.scale[lane * 4], scale_ + at_ * kDepth / GROUP * kTogether);
            at_ += of_.team;
            if (at_ >= of_.pieces) {
                tile_ += static_cast<int>(gridDim.x) * (kWarps / of_.team);
                turn();
            }
        }
        async_copy::end_group();
    }

private:
    static constexpr int kTogether = weights::Tiled::kTogether;
    static constexpr int kEight = kTogether * kDepth;  // bytes of a piece of eight rows

    // To the first piece of the tile.
    __device__ inline void turn() {
        const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
        const int row = tile_ * of_.step, groups = (of_.pieces * kDepth + GROUP - 1) / GROUP;
        at_ = static_cast<int>(threadIdx.x) / reduce::kWarp % of_.team;
        from_ = of_.weight + static_cast<long long>(row) * (of_.pieces * kDepth) + lane * 16;
        // Of lanes 0 and 1 those of the first eight rows, of 2 and 3 those of the others.
        scale_ = of_.scale + static_cast<long long>(row + lane / 2 % 2 * of_.apart) * groups + lane % 2 * 4;
    }

    const Projection& of_;
    int tile_, at_ = 0;
    const unsigned char* from_ = nullptr;
    const float* scale_ = nullptr;
};

// A projection by a block of each SM. `x` is what it multiplies:
//     x.ask()             before the kernel ahead has ended: asks for what was there before it
//     x.begin()           all threads together
//     x.read(k)           elements k … k + 3 of what it is made of, or zeros behind its end
//     x.make(read)        four elements of x from that; of zeros, zeros
//     x.end()             when this thread has made all of its elements
// `store(tile, r, sum, below)` takes each sum once, and with it, for r < 8, that of r + 8.
//
// Every warp makes the groups of x that it multiplies, each when it is needed for the first time, so that none waits for another
// before the first tiles are done.
template <class X, class Store>
__device__ inline void project(Shared& shared, const Projection& of, X& x, Store store) {
    constexpr int kTogether = X::kRead;  // reads of x on their way
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp, lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    const int g = lane / 4, t = lane % 4, team = of.team;
    const int teams = kWarps / team, member = warp % team;
    const int first = static_cast<int>(blockIdx.x) * teams, stride = static_cast<int>(gridDim.x) * teams;
    Input input(&shared + 1, of.pieces * teams);  // each team has an x of its own
    input.groups += warp / team * of.pieces;
    input.steps += warp / team * of.pieces;

    Ahead ahead(of);
    x.ask();
    typename X::Read read[kTogether];
#pragma unroll 1
    for (int s = 0; s < kStages; ++s) {
        if (s == kBefore) {
            overlap::wait();
            x.begin();
#pragma unroll
            for (int i = 0; i < kTogether; ++i) read[i] = x.read((member + i * team) * kDepth + lane * 4);
        }
        ahead.fetch(shared.stage[warp][s]);
    }
    overlap::release();

    int stage = 0, slot = 0, side = 0;
#pragma unroll 1
    for (int from = first; from < of.tiles; from += stride) {
        float low = 0.0f, high = 0.0f;
        if (from + warp / team < of.tiles) {
#pragma unroll 1
            for (int at = member; at < of.pieces; at += team) {
                if (from == first) {
                    put(input, at * kDepth + lane * 4, x.make(read[0]));
#pragma unroll
                    for (int i = 1; i < kTogether; ++i) read[i - 1] = read[i];
                    read[kTogether - 1] = x.read((at + kTogether * team) * kDepth + lane * 4);
                }
                async_copy::wait<kStages - 1>();
                __syncwarp();  // scales and digits are other lanes'
                multiply(low, high, shared.stage[warp][stage], input.groups[at], input.steps[at]);
                __syncwarp();
                ahead.fetch(shared.stage[warp][stage]);
                stage = stage + 1 == kStages ? 0 : stage + 1;
            }
            if (from == first) x.end();
        }
        low = reduce::lanes_sum<4>(low);
        high = reduce::lanes_sum<4>(high);
        if (t == 0) {
            shared.sums[side][slot][warp][g] = low;
            shared.sums[side][slot][warp][g + 8] = high;
        }
        ++slot;
        if (slot < kSlots && from + stride < of.tiles) continue;
        // Tiles of several turns are put together at once, each by a warp.
        __syncthreads();
#pragma unroll 1
        for (int i = warp; i < slot * teams; i += kWarps) {
            const int of_slot = i / teams, of_team = i % teams, tile = from - (slot - 1 - of_slot) * stride + of_team;
            if (tile >= of.tiles) continue;
            float sum = 0.0f;
#pragma unroll 4
            for (int w = lane / kRows; w < team; w += reduce::kWarp / kRows) sum += shared.sums[side][of_slot][of_team * team + w][lane % kRows];
            sum += __shfl_xor_sync(reduce::kAllLanes, sum, kRows);
            const float below = __shfl_down_sync(reduce::kAllLanes, sum, kRows / 2);
            if (lane < kRows) store(tile, lane, sum, below);
        }
        slot = 0;
        side = 1 - side;
    }
}

}  // namespace streamed
