// y[N] = W[N, K] x[K] with W in fp32, group-wise int8 or packed int4, x in fp32: the decode linear layer whose weights
// are read once a token. GROUP (compiled in) consecutive weights of a row share one scale; the last group of a row may
// be short. A block computes kRows rows and splits K over its warps; every x it loads serves all its rows.
//
// Where K is a multiple of kSpan and GROUP of kLine, payloads are stored interleaved: the eight 16-byte pieces of
// 128 bytes hold the row's elements such that loading x for them, four at a time, reads one 128-byte line per eight
// lanes. In the plain order a piece's elements are consecutive and the same loads would touch up to 32 lines.
// Otherwise payloads are in plain order and read element by element.
#include "common/convert.cuh"
#include "common/reduce.cuh"

#ifndef GROUP
#define GROUP 128
#endif
static_assert(GROUP >= 1, "GROUP is the number of weights that share a scale");

namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * reduce::kWarp;
constexpr int kRows = 4;
// Bounds the registers, and lets the compiler use that many: left alone it trades loads in flight for occupancy.
constexpr int kBlocksPerSm = 8;
constexpr int kUnroll = 2;  // quads of a row in flight, fp32
constexpr int kPieces = 8;   // lanes that share a 128-byte line
constexpr int kLine = kPieces * 4;  // floats of x in such a line
constexpr int kSpan = 256;   // elements in 128 bytes of int4, the most of any payload
// Quads in a row of one piece that are sure to share a scale.
constexpr int kShared = GROUP % 256 == 0 ? 8 : GROUP % 128 == 0 ? 4 : GROUP % 64 == 0 ? 2 : 1;

__host__ __device__ constexpr bool interleaved(int columns) { return columns % kSpan == 0 && GROUP % kLine == 0; }

__device__ inline int groups_of(int columns) { return (columns + GROUP - 1) / GROUP; }

// A payload: kPerWord elements in 32 bits, unpacked to whole numbers.
struct Int8 {
    static constexpr int kPerWord = 4;
    static __device__ inline void unpack(unsigned int word, float* out) { convert::unpack_int8(word, out); }
    static __device__ inline long long row_bytes(int columns) { return columns; }
    static __device__ inline float plain(const unsigned char* row, int k) {
        return static_cast<float>(static_cast<signed char>(row[k]));
    }
};

struct Int4 {
    static constexpr int kPerWord = 8;
    static __device__ inline void unpack(unsigned int word, float* out) { convert::unpack_int4(word, out); }
    static __device__ inline long long row_bytes(int columns) { return (columns + 1) / 2; }
    static __device__ inline float plain(const unsigned char* row, int k) {
        return static_cast<float>(((row[k / 2] >> (4 * (k % 2))) & 15) - 8);
    }
};

// Element of a row at the head of 32-bit word `word` of an interleaved payload; elements 4 to 7 of an int4 word
// follow kLine further on.
template <class Payload>
__device__ inline int element_of_word(int word) {
    constexpr int kWordsOfLine = kPieces * 4;
    constexpr int kTile = kWordsOfLine * Payload::kPerWord;
    const int within = word % kWordsOfLine;
    return word / kWordsOfLine * kTile + within % 4 * (Payload::kPerWord / 4) * kLine + within / 4 * 4;
}

// Adds up kRows sums over the block's warps and stores those that are rows.
__device__ inline void store_rows(const float* sum, float* __restrict__ y, long long first, long long rows) {
    __shared__ float scratch[kWarps][kRows];
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const float total = reduce::lanes_sum(sum[r]);
        if (lane == 0) scratch[warp][r] = total;
    }
    __syncthreads();
    if (threadIdx.x < kRows && first + threadIdx.x < rows) {
        float total = 0.0f;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) total += scratch[w][threadIdx.x];
        y[first + threadIdx.x] = total;
    }
}

// Row r of the block's rows; those past the end repeat the last one and are not stored.
__device__ inline long long row_of(long long first, int r, long long rows) {
    return first + r < rows ? first + r : rows - 1;
}

template <class Payload>
__device__ inline void quantized_rows(const unsigned char* __restrict__ payload, const float* __restrict__ scale,
        const float* __restrict__ x, float* sum, long long first, long long rows, int columns) {
    const long long bytes = Payload::row_bytes(columns);
    const int groups = groups_of(columns);
    if (!interleaved(columns)) {
#pragma unroll 1
        for (int k = static_cast<int>(threadIdx.x); k < columns; k += kThreads) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const long long row = row_of(first, r, rows);
                const float weight = Payload::plain(payload + row * bytes, k) * scale[row * groups + k / GROUP];
                sum[r] = fmaf(weight, x[k], sum[r]);
            }
        }
        return;
    }
    constexpr int kTile = kPieces * 4 * Payload::kPerWord;
    constexpr int kRun = kShared < Payload::kPerWord ? kShared : Payload::kPerWord;  // quads of a piece per scale
    const int count = static_cast<int>(bytes / 16);
    const int valid = rows - first < kRows ? static_cast<int>(rows - first) : kRows;
    const uint4* vectors = reinterpret_cast<const uint4*>(payload + first * bytes);
    const float* scales = scale + first * groups;
#pragma unroll 1
    for (int piece = static_cast<int>(threadIdx.x); piece < count; piece += kThreads) {
        unsigned int words[kRows][4];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const uint4 raw = vectors[(r < valid ? r : valid - 1) * count + piece];
            words[r][0] = raw.x;
            words[r][1] = raw.y;
            words[r][2] = raw.z;
            words[r][3] = raw.w;
        }
        const int tile = piece / kPieces * kTile;
        const float4* inputs = reinterpret_cast<const float4*>(x + tile) + piece % kPieces;
        float part[kRows] = {};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            constexpr int kQuads = Payload::kPerWord / 4;  // of a word
            float4 input[kQuads];
#pragma unroll
            for (int q = 0; q < kQuads; ++q) input[q] = inputs[(w * kQuads + q) * kPieces];
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                float level[Payload::kPerWord];
                Payload::unpack(words[r][w], level);
#pragma unroll
                for (int q = 0; q < kQuads; ++q) {
                    const int quad = w * kQuads + q;
                    part[r] = fmaf(level[4 * q], input[q].x, part[r]);
                    part[r] = fmaf(level[4 * q + 1], input[q].y, part[r]);
                    part[r] = fmaf(level[4 * q + 2], input[q].z, part[r]);
                    part[r] = fmaf(level[4 * q + 3], input[q].w, part[r]);
                    if ((quad + 1) % kRun == 0) {
                        const int row = r < valid ? r : valid - 1;
                        sum[r] = fmaf(part[r], scales[row * groups + (tile + quad * kLine) / GROUP], sum[r]);
                        part[r] = 0.0f;
                    }
                }
            }
        }
    }
}

template <class Payload>
__device__ inline void gemv_quantized(const unsigned char* __restrict__ payload, const float* __restrict__ scale,
        const float* __restrict__ x, float* __restrict__ y, long long rows, int columns) {
    const long long first = static_cast<long long>(blockIdx.x) * kRows;
    float sum[kRows] = {};
    quantized_rows<Payload>(payload, scale, x, sum, first, rows, columns);
    store_rows(sum, y, first, rows);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) gemv_fp32_kernel(const float* __restrict__ w,
        const float* __restrict__ x, float* __restrict__ y, long long rows, long long columns) {
    const long long first = static_cast<long long>(blockIdx.x) * kRows;
    float sum[kRows] = {};
    if (columns % 4 == 0) {
        const int quads = static_cast<int>(columns / 4);
        const float4* inputs = reinterpret_cast<const float4*>(x);
        const float4* weights[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            weights[r] = reinterpret_cast<const float4*>(w + row_of(first, r, rows) * columns);
        }
        const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x); i < quads; i += kThreads * kUnroll) {
            float4 weight[kUnroll][kRows], input[kUnroll];
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                const bool inside = i + u * kThreads < quads;
#pragma unroll
                for (int r = 0; r < kRows; ++r) weight[u][r] = inside ? weights[r][i + u * kThreads] : zero;
                input[u] = inside ? inputs[i + u * kThreads] : zero;
            }
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
                for (int r = 0; r < kRows; ++r) {
                    sum[r] = fmaf(weight[u][r].x, input[u].x, sum[r]);
                    sum[r] = fmaf(weight[u][r].y, input[u].y, sum[r]);
                    sum[r] = fmaf(weight[u][r].z, input[u].z, sum[r]);
                    sum[r] = fmaf(weight[u][r].w, input[u].w, sum[r]);
                }
            }
        }
    } else {
#pragma unroll 1
        for (int k = static_cast<int>(threadIdx.x); k < columns; k += kThreads) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) sum[r] = fmaf(w[row_of(first, r, rows) * columns + k], x[k], sum[r]);
        }
    }
    store_rows(sum, y, first, rows);
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) gemv_q8_kernel(const unsigned char* __restrict__ payload,
        const float* __restrict__ scale, const float* __restrict__ x, float* __restrict__ y, long long rows,
        long long columns) {
    gemv_quantized<Int8>(payload, scale, x, y, rows, static_cast<int>(columns));
}

// No minimum of blocks here: with one, the compiler unpacks further ahead than it has registers for.
extern "C" __global__ void __launch_bounds__(kThreads) gemv_q4_kernel(const unsigned char* __restrict__ payload,
        const float* __restrict__ scale, const float* __restrict__ x, float* __restrict__ y, long long rows,
        long long columns) {
    gemv_quantized<Int4>(payload, scale, x, y, rows, static_cast<int>(columns));
}

// Preparation: scale[row, group] = absmax of the group / levels. A group a thread, counted through all rows.
extern "C" __global__ void group_scale_kernel(const float* __restrict__ w, float* __restrict__ scale, long long rows,
        long long columns, float levels) {
    const int groups = groups_of(static_cast<int>(columns));
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= rows * groups) return;
    const long long begin = index % groups * GROUP;
    const int count = static_cast<int>(columns - begin < GROUP ? columns - begin : GROUP);
    scale[index] = convert::scale_of(convert::absmax_bits(w + index / groups * columns + begin, count), levels);
}

// Preparation: int8 payload, kRun bytes of a row a thread.
extern "C" __global__ void quantize_int8_kernel(const float* __restrict__ w, const float* __restrict__ scale,
        signed char* __restrict__ payload, long long rows, long long columns) {
    const long long runs = (columns + convert::kRun - 1) / convert::kRun;
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= rows * runs) return;
    const long long row = index / runs;
    const int begin = static_cast<int>(index % runs) * convert::kRun;
    const int end = begin + convert::kRun < columns ? begin + convert::kRun : static_cast<int>(columns);
    const float* weights = w + row * columns;
    const float* units = scale + row * groups_of(static_cast<int>(columns));
    const bool mixed = interleaved(static_cast<int>(columns));
    for (int position = begin; position < end; ++position) {
        const int k = mixed ? element_of_word<Int8>(position / 4) + position % 4 : position;
        payload[row * columns + position] = static_cast<signed char>(convert::to_level(weights[k], units[k / GROUP], 127));
    }
}

// Preparation: int4 payload, kRun bytes of a row a thread: level + 8, the lower element in the lower nibble. The last
// nibble of an odd row is zero.
extern "C" __global__ void pack_int4_kernel(const float* __restrict__ w, const float* __restrict__ scale,
        unsigned char* __restrict__ payload, long long rows, long long columns) {
    const long long bytes = Int4::row_bytes(static_cast<int>(columns));
    const long long runs = (bytes + convert::kRun - 1) / convert::kRun;
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= rows * runs) return;
    const long long row = index / runs;
    const int begin = static_cast<int>(index % runs) * convert::kRun;
    const int end = begin + convert::kRun < bytes ? begin + convert::kRun : static_cast<int>(bytes);
    const float* weights = w + row * columns;
    const float* units = scale + row * groups_of(static_cast<int>(columns));
    const bool mixed = interleaved(static_cast<int>(columns));
    for (int position = begin; position < end; ++position) {
        const int nibble = position % 4 * 2;
        const int k = mixed ? element_of_word<Int4>(position / 4) + nibble / 4 * kLine + nibble % 4 : 2 * position;
        const int low = convert::to_level(weights[k], units[k / GROUP], 7);
        const int high = k + 1 < columns ? convert::to_level(weights[k + 1], units[(k + 1) / GROUP], 7) : -8;
        payload[row * bytes + position] = static_cast<unsigned char>((low + 8) | (high + 8) << 4);
    }
}
