// Storage types as the kernels load them: 16 bytes at a time, unpacked to float32.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace convert {

// Four bytes holding value + 128, lowest first. On a GPU each byte lands in the mantissa of 2^23, where one subtraction leaves
// the integer: two instructions an element, and none of them on the slow conversion unit.
__device__ inline void unpack_biased(unsigned int word, float* out) {
#if defined(__CUDA_ARCH__)
    out[0] = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7440)) - 8388736.0f;
    out[1] = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7441)) - 8388736.0f;
    out[2] = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7442)) - 8388736.0f;
    out[3] = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7443)) - 8388736.0f;
#else
    for (int i = 0; i < 4; ++i) out[i] = static_cast<float>(static_cast<int>(word >> (8 * i) & 255u) - 128);
#endif
}

// Four signed bytes, lowest first: turning the sign bit adds 128.
__device__ inline void unpack_int8(unsigned int word, float* out) { unpack_biased(word ^ 0x80808080u, out); }

// Eight nibbles holding value + 8, lowest first. On a GPU two nibbles at a time land in the mantissas of a half2
// (1024 + n, or 1024 + 16 n for the upper ones), where half arithmetic is exact.
__device__ inline void unpack_int4(unsigned int word, float* out) {
#if defined(__CUDA_ARCH__)
    const __half2 low_bias = __float2half2_rn(-1032.0f);
    const __half2 high_bias = __float2half2_rn(-72.0f);
    const __half2 sixteenth = __float2half2_rn(0.0625f);
#pragma unroll
    for (int byte = 0; byte < 2; ++byte) {
        const unsigned int shifted = word >> (8 * byte);
        const unsigned int low = (shifted & 0x000F000Fu) | 0x64006400u;
        const unsigned int high = (shifted & 0x00F000F0u) | 0x64006400u;
        const float2 even = __half22float2(__hadd2(*reinterpret_cast<const __half2*>(&low), low_bias));
        const float2 odd = __half22float2(__hfma2(*reinterpret_cast<const __half2*>(&high), sixteenth, high_bias));
        out[2 * byte] = even.x;
        out[2 * byte + 4] = even.y;
        out[2 * byte + 1] = odd.x;
        out[2 * byte + 5] = odd.y;
    }
#else
    for (int i = 0; i < 8; ++i) out[i] = static_cast<float>(static_cast<int>((word >> (4 * i)) & 15u) - 8);
#endif
}

// Each type: Word, one element in memory; kCount, elements in 16 bytes; unpack, 16 bytes to kCount floats.
struct Float32 {
    using Word = float;
    static constexpr int kCount = 4;
    static __device__ inline void unpack(const uint4& raw, float* out) {
        out[0] = __uint_as_float(raw.x);
        out[1] = __uint_as_float(raw.y);
        out[2] = __uint_as_float(raw.z);
        out[3] = __uint_as_float(raw.w);
    }
    static __device__ inline float widen(float value) { return value; }
};

struct Float16 {
    using Word = __half;
    static constexpr int kCount = 8;
    static __device__ inline void unpack(const uint4& raw, float* out) {
        const unsigned int words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
            out[2 * i] = pair.x;
            out[2 * i + 1] = pair.y;
        }
    }
    static __device__ inline float widen(__half value) { return __half2float(value); }
};

// The upper half of a float32; held as bits.
struct Bfloat16 {
    using Word = unsigned short;
    static constexpr int kCount = 8;
    static __device__ inline void unpack(const uint4& raw, float* out) {
        const unsigned int words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            out[2 * i] = __uint_as_float(words[i] << 16);
            out[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
        }
    }
    static __device__ inline float widen(unsigned short bits) {
        return __uint_as_float(static_cast<unsigned int>(bits) << 16);
    }
    // Of a number, to nearest even.
    static __device__ inline unsigned short narrow(float value) {
        const unsigned int bits = __float_as_uint(value);
        return static_cast<unsigned short>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
    }
    // Both halves of a number: the nearest bfloat16, and the nearest to what is left.
    static __device__ inline void split(float value, unsigned short& high, unsigned short& low) {
        high = narrow(value);
        low = narrow(value - widen(high));
    }
};

struct Int8 {
    using Word = signed char;
    static constexpr int kCount = 16;
    static __device__ inline void unpack(const uint4& raw, float* out) {
        unpack_int8(raw.x, out);
        unpack_int8(raw.y, out + 4);
        unpack_int8(raw.z, out + 8);
        unpack_int8(raw.w, out + 12);
    }
    static __device__ inline float widen(signed char value) { return static_cast<float>(value); }
};

struct Float8E4M3 {
    using Word = __nv_fp8_e4m3;
    static constexpr int kCount = 16;
    static __device__ inline void unpack(const uint4& raw, float* out) {
        const unsigned int words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float4 four = static_cast<float4>(*reinterpret_cast<const __nv_fp8x4_e4m3*>(&words[i]));
            out[4 * i] = four.x;
            out[4 * i + 1] = four.y;
            out[4 * i + 2] = four.z;
            out[4 * i + 3] = four.w;
        }
    }
    static __device__ inline float widen(__nv_fp8_e4m3 value) { return static_cast<float>(value); }
};

// Preparation, not timed: a thread takes a run of neighbouring elements, which costs a GPU some coalescing and lets a
// CPU work on vectors. Compiled without contraction, all of it gives the same bits as NumPy in float32.

constexpr int kRun = 16;

// Largest magnitude, as the bits of a float: they order like the numbers do, and integers have an atomic maximum.
__device__ inline int absmax_bits(const float* values, int count) {
    int largest = 0;
    for (int i = 0; i < count; ++i) {
        const int bits = __float_as_int(values[i]) & 0x7FFFFFFF;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

// The unit of a symmetric quantisation to [-levels, levels]; 0 stands for all zeros.
__device__ inline float scale_of(int absmax, float levels) { return __int_as_float(absmax) / levels; }

// value / scale, rounded to even and clipped to [-levels, levels].
__device__ inline int to_level(float value, float scale, int levels) {
    const int level = scale == 0.0f ? 0 : static_cast<int>(rintf(value / scale));
    return level > levels ? levels : level < -levels ? -levels : level;
}

__device__ inline void to_int8(const float* in, signed char* out, int count, float scale) {
    for (int i = 0; i < count; ++i) out[i] = static_cast<signed char>(to_level(in[i], scale, 127));
}

// n floats rounded to nearest even, kRun a thread.
__device__ inline void to_half(const float* in, __half* out, long long n) {
    const long long begin = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * kRun;
    const long long end = begin + kRun < n ? begin + kRun : n;
    for (long long i = begin; i < end; ++i) out[i] = __float2half_rn(in[i]);
}

}  // namespace convert
