// Projections of many tokens on the tensor cores: y[t] = W x[t] for every token.
//
// Activations come as two bfloat16 numbers, x = high + low, so that products keep some 16 bits of them: twice the
// multiplications of one, and results that agree with float32 activations to 1e-5. Quantised weights are multiplied as whole
// numbers, exactly, and a group's sums by its scale. A block computes kTokens x kRows sums from tiles in shared memory; while
// it multiplies one tile, the next is on its way into registers. GPUs before sm_80, and CPUs, multiply without tensor cores.
#pragma once

#include "../common/tensor.cuh"
#include "weights.cuh"

namespace many {

constexpr int kTokens = 128;
constexpr int kRows = 64;
constexpr int kDepth = 32;  // elements of a row in a tile
constexpr int kThreads = 256;
constexpr int kBlocks = weights::Stored::kScaled ? 1 : 2;  // a group's own sums need registers
constexpr int kStride = kDepth + 8;  // of a row in shared memory: eight rows then begin in eight different banks' quarters
constexpr int kPieces = kDepth / 8;  // of 16 bytes in a row of a tile

// A warp computes 32 tokens x 32 rows: 2 x 4 fragments of 16 x 8. Element i of a fragment is at token lane / 4 + i / 2 * 8 and
// row lane % 4 * 2 + i % 2.
constexpr int kAcross = 2;
constexpr int kDown = 4;

using Sums = float[kAcross][kDown][4];

struct alignas(16) Tile {
    unsigned short high[kTokens][kStride];
    unsigned short low[kTokens][kStride];
    unsigned short weight[kRows][kStride];
};

// Adds the products of a tile to the sums of the warp whose first token and row these are.
__device__ inline void multiply(const Tile& tile, int token, int row, Sums& sum) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#if TENSOR_CORES
    const int of = lane % 16, half = lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
        unsigned int b[2][4];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            tensor::load_matrices(b[j], &tile.weight[row + j * 16 + lane / 16 * 8 + lane % 8][k + lane / 8 % 2 * 8]);
        }
#pragma unroll
        for (int i = 0; i < kAcross; ++i) {
            unsigned int high[4], low[4];
            tensor::load_matrices(high, &tile.high[token + i * 16 + of][k + half]);
            tensor::load_matrices(low, &tile.low[token + i * 16 + of][k + half]);
#pragma unroll
            for (int j = 0; j < kDown; ++j) {
                tensor::multiply(sum[i][j], high, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
                tensor::multiply(sum[i][j], low, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
        }
    }
#else
#pragma unroll
    for (int i = 0; i < kAcross; ++i) {
#pragma unroll
        for (int j = 0; j < kDown; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int t = token + i * 16 + lane / 4 + e / 2 * 8, r = row + j * 8 + lane % 4 * 2 + e % 2;
                float all = sum[i][j][e];
#pragma unroll 1
                for (int k = 0; k < kDepth; ++k) {
                    const float x = convert::Bfloat16::widen(tile.high[t][k]) + convert::Bfloat16::widen(tile.low[t][k]);
                    all = fmaf(x, convert::Bfloat16::widen(tile.weight[r][k]), all);
                }
                sum[i][j][e] = all;
            }
        }
    }
#endif
}

// Tiles of the weights on their way from memory: bf16 as they are, whole numbers once they are stored.
template <class Type>
struct Load;

template <>
struct Load<weights::Plain<convert::Bfloat16>> {
    uint4 piece;
    __device__ inline void read(const unsigned char* weight, long long row, long long rows, long long from,
            long long depth) {
        const long long r = row + threadIdx.x / kPieces, k = from + threadIdx.x % kPieces * 8;
        piece = make_uint4(0u, 0u, 0u, 0u);
        if (r < rows && k < depth) piece = *reinterpret_cast<const uint4*>(weight + weights::Plain<convert::Bfloat16>::row_at(r, depth) + 2 * k);
    }
    __device__ inline void write(Tile& tile) const {
        *reinterpret_cast<uint4*>(&tile.weight[threadIdx.x / kPieces][threadIdx.x % kPieces * 8]) = piece;
    }
};

__device__ inline void write_whole(unsigned short* to, const float* values) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = static_cast<unsigned short>(__float_as_uint(values[i]) >> 16);  // exact
}

template <>
struct Load<weights::Int8> {
    unsigned int word[2];
    __device__ inline void read(const unsigned char* weight, long long row, long long rows, long long from,
            long long depth) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kThreads;
            const long long r = row + at / 8;
            const long long offset = weights::Int8::piece_at(static_cast<int>(from / weights::kTile) * 8 + at % 8) + from % weights::kTile / 8;
            word[i] = r < rows ? *reinterpret_cast<const unsigned int*>(weight + weights::Int8::row_at(r, depth) + offset) : 0x80808080u;
        }
    }
    __device__ inline void write(Tile& tile) const {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kThreads;
            float values[4];
            convert::unpack_biased(word[i], values);
            write_whole(&tile.weight[at / 8][at % 8 * 4], values);
        }
    }
};

template <>
struct Load<weights::Int4> {
    unsigned int word;
    __device__ inline void read(const unsigned char* weight, long long row, long long rows, long long from,
            long long depth) {
        const long long r = row + threadIdx.x / 4;
        const int piece = static_cast<int>(from / weights::kTile) * 4 + static_cast<int>(threadIdx.x) % 4;
        const long long offset = weights::Int4::piece_at(piece) + from % weights::kTile / 8;
        word = r < rows ? *reinterpret_cast<const unsigned int*>(weight + weights::Int4::row_at(r, depth) + offset) : 0x88888888u;
    }
    __device__ inline void write(Tile& tile) const {
        float values[8];
        convert::unpack_int4(word, values);
        const int r = static_cast<int>(threadIdx.x) / 4, k = static_cast<int>(threadIdx.x) % 4 * 4;
        write_whole(&tile.weight[r][k], values);
        write_whole(&tile.weight[r][k + 16], values + 4);
    }
};

struct Activations {
    static constexpr int kEach = kTokens * kPieces / kThreads;
    uint4 high[kEach], low[kEach];
    // `x` holds [2, tokens, depth]: the high halves, then the low ones.
    __device__ inline void read(const unsigned short* x, long long first, long long tokens, long long from, long long depth) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kThreads;
            const long long t = first + at / kPieces, k = from + at % kPieces * 8;
            high[i] = low[i] = make_uint4(0u, 0u, 0u, 0u);
            if (t < tokens && k < depth) {
                high[i] = *reinterpret_cast<const uint4*>(x + t * depth + k);
                low[i] = *reinterpret_cast<const uint4*>(x + (tokens + t) * depth + k);
            }
        }
    }
    __device__ inline void write(Tile& tile) const {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kThreads;
            *reinterpret_cast<uint4*>(&tile.high[at / kPieces][at % kPieces * 8]) = high[i];
            *reinterpret_cast<uint4*>(&tile.low[at / kPieces][at % kPieces * 8]) = low[i];
        }
    }
};

// blockIdx.x is the tile of tokens, blockIdx.y that of rows: blocks that run together share the weights they read.
// `store(token, row, value)` takes the sums, `scale` is read for quantised weights.
template <class Type, class Store>
__device__ inline void project(const void* weight, const float* scale, const unsigned short* x, long long rows,
        long long depth, long long tokens, Store store) {
    __shared__ Tile tile;
    const unsigned char* base = static_cast<const unsigned char*>(weight);
    const long long first = static_cast<long long>(blockIdx.x) * kTokens, row = static_cast<long long>(blockIdx.y) * kRows;
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int token_of_warp = warp % 4 * 32, row_of_warp = warp / 4 * 32;
    Sums sum = {};
    Sums part = {};
    Load<Type> weights_ahead;
    Activations x_ahead;
    weights_ahead.read(base, row, rows, 0, depth);
    x_ahead.read(x, first, tokens, 0, depth);
#pragma unroll 1
    for (long long from = 0; from < depth; from += kDepth) {
        weights_ahead.write(tile);
        x_ahead.write(tile);
        __syncthreads();
        if (from + kDepth < depth) {
            weights_ahead.read(base, row, rows, from + kDepth, depth);
            x_ahead.read(x, first, tokens, from + kDepth, depth);
        }
        if constexpr (Type::kScaled) {
            multiply(tile, token_of_warp, row_of_warp, part);
            const bool last = (from + kDepth) % GROUP == 0 || from + kDepth >= depth;
            if (last) {
                const long long group = from / GROUP;
#pragma unroll
                for (int j = 0; j < kDown; ++j) {
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        const long long r = row + row_of_warp + j * 8 + lane % 4 * 2 + e;
                        const float by = r < rows ? scale[Type::scale_at(r, group, depth)] : 0.0f;
#pragma unroll
                        for (int i = 0; i < kAcross; ++i) {
                            sum[i][j][e] = fmaf(part[i][j][e], by, sum[i][j][e]);
                            sum[i][j][e + 2] = fmaf(part[i][j][e + 2], by, sum[i][j][e + 2]);
                            part[i][j][e] = part[i][j][e + 2] = 0.0f;
                        }
                    }
                }
            }
        } else {
            multiply(tile, token_of_warp, row_of_warp, sum);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kAcross; ++i) {
#pragma unroll
        for (int j = 0; j < kDown; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const long long t = first + token_of_warp + i * 16 + lane / 4 + e / 2 * 8;
                const long long r = row + row_of_warp + j * 8 + lane % 4 * 2 + e % 2;
                if (t < tokens && r < rows) store(t, r, sum[i][j][e]);
            }
        }
    }
}

}  // namespace many
