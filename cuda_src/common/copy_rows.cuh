// Copying rows of 32-bit words to where a layout wants them, bit for bit, whatever the words mean.
//
// A row is `width` words without a gap at the source. A block takes kThreads * kUnroll neighbouring units (16 bytes, or
// one word where rows are no multiple of 16 bytes) and has all its loads in flight before the first store.
#pragma once

namespace copy_rows {

constexpr int kThreads = 256;
constexpr int kUnroll = 4;

// Where a piece of a row is read and written, in words from the start of the two arrays.
struct Place {
    long long from;
    long long to;
};

// Copies rows 0 … count - 1, fewer than 2^31 of fewer than 2^22 words; place(row, word) tells where the piece that begins
// at `word` goes. Needs ceil(count * width / words of a unit / (kThreads * kUnroll)) blocks along x.
template <class Unit, class Placing>
__device__ inline void copy_units(const int* from, int* to, long long count, long long width, const Placing& place) {
    constexpr int kWords = sizeof(Unit) / sizeof(int);
    const unsigned int units = static_cast<unsigned int>(width / kWords);
    const long long total = count * units;
    // The tile's first unit over the units of a row, without a 64-bit division: every `units` tiles are kTile whole rows.
    constexpr unsigned int kTile = kThreads * kUnroll;
    const unsigned int cycle = blockIdx.x / units;
    const unsigned int within = (blockIdx.x - cycle * units) * kTile;
    const unsigned int first_row = cycle * kTile + within / units;
    const unsigned int first_unit = within % units;
    const long long begin = static_cast<long long>(blockIdx.x) * kTile;
    Unit held[kUnroll];
    long long target[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
        const unsigned int ahead = u * kThreads + threadIdx.x;
        if (begin + ahead >= total) continue;
        const unsigned int rows = (first_unit + ahead) / units;
        const unsigned int unit = first_unit + ahead - rows * units;
        const Place at = place(first_row + rows, unit * kWords);
        held[u] = *reinterpret_cast<const Unit*>(from + at.from);
        target[u] = at.to;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
        if (begin + u * kThreads + threadIdx.x < total) *reinterpret_cast<Unit*>(to + target[u]) = held[u];
    }
}

// `contiguous` words of a row stay together at the target: 16 bytes at a time when they are a multiple of that.
template <class Placing>
__device__ inline void copy(const void* from, void* to, long long count, long long width, long long contiguous,
        const Placing& place) {
    const int* source = static_cast<const int*>(from);
    int* target = static_cast<int*>(to);
    if (contiguous % 4 == 0) {
        copy_units<int4>(source, target, count, width, place);
    } else {
        copy_units<int>(source, target, count, width, place);
    }
}

}  // namespace copy_rows
