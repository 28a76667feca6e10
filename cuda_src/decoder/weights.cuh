// Weights of a projection as they are stored: rows of `depth` elements, one row after another. WEIGHTS, compiled in, says how.
//
// Plain types (WEIGHTS_FP32, WEIGHTS_BF16) lie in order. The quantised ones (WEIGHTS_W8, WEIGHTS_W4) share a scale over each
// GROUP elements of a row and lie in tiles of 128: the 16-byte piece p of a tile holds elements p * 4 … p * 4 + 3 of each
// stretch of 32 (int8) or 16 (int4), so that the lanes that read neighbouring pieces read neighbouring activations.
// The same tile of 8 rows lies together, and so do the scales of a group of 8 rows. A layer's rows are filled up to a multiple of 16,
// and a row that ends within a tile up to its end, with zeros; WHOLE_TILES promises that no row does. int8 is held as value + 128, int4
// as value + 8, which are what a GPU unpacks in the fewest steps.
#pragma once

#include "../common/convert.cuh"

#define WEIGHTS_FP32 0
#define WEIGHTS_BF16 1
#define WEIGHTS_W8 2
#define WEIGHTS_W4 3

#ifndef WEIGHTS
#define WEIGHTS WEIGHTS_BF16
#endif
#ifndef GROUP
#define GROUP 128
#endif
static_assert(WEIGHTS >= WEIGHTS_FP32 && WEIGHTS <= WEIGHTS_W4, "WEIGHTS is 0 (fp32), 1 (bf16), 2 (w8a16) or 3 (w4a16)");
static_assert(GROUP >= 128 && GROUP % 128 == 0, "GROUP, the weights that share a scale, is a multiple of 128");

#ifndef WHOLE_TILES
#define WHOLE_TILES 0
#endif

namespace weights {

constexpr int kTile = 128;

template <class Type>
struct Plain {
    static constexpr bool kScaled = false;
    static constexpr int kCount = Type::kCount;  // elements in 16 bytes
    static constexpr int kStep = kCount;      // elements that are unpacked together
    using Word = typename Type::Word;
    static __device__ inline long long bytes(long long rows, long long depth) { return rows * depth * static_cast<long long>(sizeof(Word)); }
    // Where a row begins, in bytes, and its piece of 16 bytes from there on.
    static __device__ inline long long row_at(long long row, long long depth) { return bytes(row, depth); }
    static __device__ constexpr long long piece_at(int p) { return p * 16LL; }
    static __device__ inline int pieces(long long depth) { return static_cast<int>(depth / kCount); }
    static __device__ inline void unpack(const uint4& raw, int step, float* out) { Type::unpack(raw, out); }
    // Element that quad `q` of piece `p` begins with.
    static __device__ inline int element(int p, int q) { return p * kCount + 4 * q; }
};

struct Tiled {
    static constexpr bool kScaled = true;
    static constexpr int kTogether = 8;  // rows that are neighbours in a tile
    static __device__ inline long long filled(long long rows) { return (rows + 15) / 16 * 16; }
    static __device__ inline long long tiles(long long depth) { return (depth + kTile - 1) / kTile; }
    static __device__ inline long long groups(long long depth) { return (depth + GROUP - 1) / GROUP; }
    static __device__ inline long long scales(long long rows, long long depth) { return filled(rows) * groups(depth); }
    static __device__ inline long long scale_at(long long row, long long group, long long depth) {
        return (row / kTogether * groups(depth) + group) * kTogether + row % kTogether;
    }
};

// With `kEach` elements in 16 bytes.
template <int kEach>
struct Packed : Tiled {
    static constexpr int kCount = kEach;
    static constexpr int kPieces = kTile / kCount;  // of a row in a tile
    static __device__ inline long long bytes(long long rows, long long depth) { return filled(rows) * tiles(depth) * kPieces * 16; }
    static __device__ inline long long row_at(long long row, long long depth) {
        return (row / kTogether * tiles(depth) * kTogether + row % kTogether) * kPieces * 16;
    }
    static __device__ constexpr long long piece_at(int p) { return (p / kPieces * kTogether * kPieces + p % kPieces) * 16LL; }
};

struct Int8 : Packed<16> {
    static constexpr int kStep = 8;
    static __device__ inline int pieces(long long depth) { return static_cast<int>(tiles(depth)) * kPieces; }
    static __device__ inline void unpack(const uint4& raw, int step, float* out) {
        convert::unpack_biased(step == 0 ? raw.x : raw.z, out);
        convert::unpack_biased(step == 0 ? raw.y : raw.w, out + 4);
    }
    static __device__ inline int element(int p, int q) { return p / kPieces * kTile + q * 32 + p % kPieces * 4; }
};

struct Int4 : Packed<32> {
    static constexpr int kStep = 8;
    static __device__ inline int pieces(long long depth) { return static_cast<int>(tiles(depth)) * kPieces; }
    static __device__ inline void unpack(const uint4& raw, int step, float* out) {
        convert::unpack_int4(step == 0 ? raw.x : step == 1 ? raw.y : step == 2 ? raw.z : raw.w, out);
    }
    static __device__ inline int element(int p, int q) { return p / kPieces * kTile + q * 16 + p % kPieces * 4; }
};

// `Table` is how the embedding and the output projection are stored, `Stored` how everything else is.
#if WEIGHTS == WEIGHTS_FP32
using Table = Plain<convert::Float32>;
using Stored = Table;
#else
using Table = Plain<convert::Bfloat16>;
#if WEIGHTS == WEIGHTS_BF16
using Stored = Table;
#elif WEIGHTS == WEIGHTS_W8
using Stored = Int8;
#else
using Stored = Int4;
#endif
#endif

// The weights of one layer, and their scales, of [layers, rows, depth].
struct Layer {
    const unsigned char* weight;
    const float* scale;
};

__device__ inline Layer of_layer(const void* weight, const float* scale, long long layer, long long rows, long long depth) {
    return {static_cast<const unsigned char*>(weight) + layer * Stored::bytes(rows, depth),
            Stored::kScaled ? scale + layer * Tiled::scales(rows, depth) : nullptr};
}

__device__ inline float widen(float value) { return value; }
__device__ inline float widen(unsigned short bits) { return convert::Bfloat16::widen(bits); }

}  // namespace weights
