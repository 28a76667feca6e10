// One token through a projection with int8 weights that are streamed (streamed.cuh): what it multiplies, and where its sums go.
#pragma once

#include "../common/overlap.cuh"
#include "../common/shared.cuh"
#include "activation.cuh"
#include "streamed.cuh"

namespace single {

// Weights of all layers: in each `times` times `rows` rows.
struct Matrix {
    const void* weight;
    const float* scale;
    const float* bias;
    int rows, depth;
    int team;  // as in streamed::Projection
    int times = 1;

    __device__ inline streamed::Projection of(long long layer) const {
        const weights::Layer here = weights::of_layer(weight, scale, layer, static_cast<long long>(times) * rows, depth);
        const int each = streamed::kRows / times, pieces = static_cast<int>(weights::Tiled::tiles(depth));
        return {here.weight, here.scale, (rows + each - 1) / each, each, times == 1 ? 8 : rows, pieces, team};
    }
    __device__ inline float bias_of(long long layer, int row) const { return activation::bias_of(bias, layer, rows, row); }
};

// Four elements from k on of a row of `depth`, or zeros behind it.
__device__ inline float4 four_of(const float* row, int k, int depth) {
    return k < depth ? *reinterpret_cast<const float4*>(row + k) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// ---- what is multiplied -------------------------------------------------------------------------------------------------------

// A row as it is.
struct Row {
    using Read = float4;
    static constexpr int kRead = 4;
    const float* x;
    int depth;

    __device__ inline void ask() const {}
    __device__ inline void begin() const {}
    __device__ inline float4 read(int k) const { return four_of(x, k, depth); }
    __device__ inline float4 make(const float4& read) const { return read; }
    __device__ inline void end() const {}
};

// The token. With RMSNorm that is gamma * state, and sums are divided by the root of the mean square at the end, once the block has
// come together; with LayerNorm it is normalised before.
class Normalised {
public:
    struct Read {
        float4 state, gain, shift;
    };
    static constexpr int kRead = 2;

    // `scratch` is shared by the block, a number for each warp.
    __device__ inline Normalised(const float* state, const float* gamma, int depth, float epsilon, float (&scratch)[streamed::kWarps])
        : state_(state), gamma_(gamma), depth_(depth), epsilon_(epsilon), scratch_(scratch) {}

    __device__ inline void ask() const {
        for (int k = static_cast<int>(threadIdx.x) * 8; k < normalise::kRows * depth_; k += streamed::kThreads * 8) overlap::ahead(gamma_ + k);
    }
    __device__ inline void begin() {
        if constexpr (normalise::kLayer) moments_ = normalise::of_row<streamed::kThreads>(state_, depth_, epsilon_, scratch_);
    }
    __device__ inline Read read(int k) const {
        Read found = {four_of(state_, k, depth_), four_of(gamma_, k, depth_)};
        if constexpr (normalise::kLayer) found.shift = four_of(gamma_ + depth_, k, depth_);
        return found;
    }
    __device__ inline float4 make(const Read& read) {
        const float4 x = read.state, gain = read.gain, shift = read.shift;
        if constexpr (normalise::kLayer) {
            return make_float4(moments_.apply(x.x, gain.x, shift.x), moments_.apply(x.y, gain.y, shift.y),
                    moments_.apply(x.z, gain.z, shift.z), moments_.apply(x.w, gain.w, shift.w));
        }
        squares_ = fmaf(x.x, x.x, fmaf(x.y, x.y, fmaf(x.z, x.z, fmaf(x.w, x.w, squares_))));
        return make_float4(x.x * gain.x, x.y * gain.y, x.z * gain.z, x.w * gain.w);
    }
    __device__ inline void end() {
        if constexpr (normalise::kLayer) return;
        squares_ = reduce::lanes_sum(squares_);
        if (threadIdx.x % reduce::kWarp == 0) scratch_[threadIdx.x / reduce::kWarp] = squares_;
    }

    // What sums are multiplied by, when the block's first team of warps has made all elements; it has a tile wherever another has.
    __device__ inline float factor(int team) {
        if constexpr (normalise::kLayer) return 1.0f;
        if (factor_ == 0.0f) {
            float squares = 0.0f;
#pragma unroll 4
            for (int w = 0; w < team; ++w) squares += scratch_[w];
            factor_ = rsqrtf(__fdividef(squares, static_cast<float>(depth_)) + epsilon_);
        }
        return factor_;
    }

private:
    const float *state_, *gamma_;
    int depth_;
    float epsilon_, squares_ = 0.0f, factor_ = 0.0f;
    float (&scratch_)[streamed::kWarps];
    normalise::Moments moments_ = {};
};

// ---- projections --------------------------------------------------------------------------------------------------------------

template <class X, class Store>
__device__ inline void project(const streamed::Projection& of, X& x, Store store) {
#if WEIGHTS == WEIGHTS_W8
    DYNAMIC_SHARED(streamed::Shared, shared);
    streamed::project(*shared, of, x, store);
#endif
}

// out = W norm(state) + bias.
__device__ inline void qkv(const Matrix& matrix, long long layer, const float* gamma, const float* state, float* out, float epsilon) {
    __shared__ float scratch[streamed::kWarps];
    Normalised token(state, gamma + layer * normalise::kRows * matrix.depth, matrix.depth, epsilon, scratch);
    project(matrix.of(layer), token, [&](int tile, int r, float sum, float) {
        const int row = tile * streamed::kRows + r;
        if (row < matrix.rows) out[row] = sum * token.factor(matrix.team) + matrix.bias_of(layer, row);
    });
}

// state += W x + bias.
__device__ inline void residual(const Matrix& matrix, long long layer, const float* x, float* state) {
    Row row_of = {x, matrix.depth};
    project(matrix.of(layer), row_of, [&](int tile, int r, float sum, float) {
        const int row = tile * streamed::kRows + r;
        if (row < matrix.rows) state[row] += sum + matrix.bias_of(layer, row);
    });
}

// out = silu(gate norm(state)) * (up norm(state)): a tile is eight rows of gate and the same of up; or gelu(up norm(state) + bias).
__device__ inline void gate_up(const Matrix& matrix, long long layer, const float* gamma, const float* state, float* out, float epsilon) {
    constexpr int kEach = streamed::kRows / activation::kUp;
    __shared__ float scratch[streamed::kWarps];
    Normalised token(state, gamma + layer * normalise::kRows * matrix.depth, matrix.depth, epsilon, scratch);
    project(matrix.of(layer), token, [&](int tile, int r, float sum, float below) {
        const int row = tile * kEach + r;
        if (r >= kEach || row >= matrix.rows) return;
        if constexpr (activation::kGated) {
            const float factor = token.factor(matrix.team);
            out[row] = activation::silu(sum * factor) * (below * factor);
        } else {
            out[row] = activation::gelu(sum + matrix.bias_of(layer, row));
        }
    });
}

}  // namespace single
