// Arithmetic that stands for work in the families about copies and schedules: how long it takes is a parameter, its
// result is exact, and every element shows whether it was computed, from what, and how often.
#pragma once

namespace work {

// What one thread handles.
constexpr int kQuad = 4;

// `iterations` dependent multiply-adds an element. With scale -1 and offset 1/2 nothing is ever rounded for inputs that
// are multiples of 2^-23 in [-1, 1]: an even number gives the input back, an odd one its mirror image.
struct Chain {
    long long iterations;
    float scale;
    float offset;

    __device__ inline void operator()(float (&value)[kQuad], long long) const {
#pragma unroll 4
        for (long long i = 0; i < iterations; ++i) {
#pragma unroll
            for (int j = 0; j < kQuad; ++j) value[j] = fmaf(scale, value[j], offset);
        }
    }
};

// A decode step of `compute` updates. Update u of step s mixes a value into the state that depends on the element and on
// s * compute + u alone, so that a step left out, run twice or out of order shows. The state stays in [-1, 1].
struct DecodeStep {
    long long step;
    long long compute;

    // A multiple of 2^-23 in [-1, 1).
    static __device__ inline float injected(long long element, long long update) {
        unsigned int bits =
            static_cast<unsigned int>(element) * 0x9E3779B1u + static_cast<unsigned int>(update) * 0x85EBCA77u;
        bits = (bits ^ (bits >> 16)) * 0x7FEB352Du;
        bits = (bits ^ (bits >> 15)) * 0x846CA68Bu;
        bits ^= bits >> 16;
        return static_cast<float>(static_cast<int>(bits >> 8) - 8388608) * 1.1920928955078125e-7f;
    }

    __device__ inline void operator()(float (&value)[kQuad], long long element) const {
        constexpr float kKeep = 1.0f - 1.0f / 64.0f;
        constexpr float kInject = 1.0f / 64.0f;
#pragma unroll 1
        for (long long i = 0; i < compute; ++i) {
            // kInject * injected is exact: the multiply-add is the only rounding.
#pragma unroll
            for (int j = 0; j < kQuad; ++j) {
                value[j] = fmaf(kKeep, value[j], kInject * injected(element + j, step * compute + i));
            }
        }
    }
};

// Elements [first, first + count) of `to` from those of `from`, which may be the same array; a quad a thread, so the grid
// covers count / (4 * blockDim.x) rounded up. Quads move as 16 bytes where `first` is a multiple of 4.
template <typename Work>
__device__ inline void map_quads(const float* from, float* to, long long first, long long count, const Work& work) {
    const long long at = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * kQuad;
    if (at >= count) return;
    const long long element = first + at;
    float value[kQuad];
    if (first % kQuad == 0 && at + kQuad <= count) {
        const float4 loaded = *reinterpret_cast<const float4*>(from + element);
        value[0] = loaded.x;
        value[1] = loaded.y;
        value[2] = loaded.z;
        value[3] = loaded.w;
        work(value, element);
        *reinterpret_cast<float4*>(to + element) = make_float4(value[0], value[1], value[2], value[3]);
    } else {
#pragma unroll
        for (int j = 0; j < kQuad; ++j) value[j] = at + j < count ? from[element + j] : 0.0f;
        work(value, element);
#pragma unroll
        for (int j = 0; j < kQuad; ++j) {
            if (at + j < count) to[element + j] = value[j];
        }
    }
}

}  // namespace work
