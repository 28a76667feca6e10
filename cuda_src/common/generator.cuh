// Buffer contents from a counter: element i depends on (key, i) alone. The NumPy half is runner/check/generator.py;
// both agree to the last bit, so everything here is integer arithmetic or a float operation that rounds once.
//
// Compile without contraction (-fmad=false, -ffp-contract=off): a fused low + width * u rounds differently.
#pragma once

namespace generator {

// splitmix64: a Weyl sequence through a finaliser in which every output bit depends on every input bit.
__device__ inline unsigned long long mix(unsigned long long key, long long index) {
    unsigned long long bits = key + (static_cast<unsigned long long>(index) + 1ULL) * 0x9E3779B97F4A7C15ULL;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBULL;
    return bits ^ (bits >> 31);
}

// low + width * u with u = top 24 bits / 2^24: u is exact, the product and the sum round once each.
__device__ inline float uniform(unsigned long long key, long long index, float low, float width) {
    const float u = static_cast<float>(static_cast<int>(mix(key, index) >> 40)) * 5.9604644775390625e-8f;
    const float scaled = width * u;
    return low + scaled;
}

// An integer in [low, low + span), 1 <= span <= 2^32.
__device__ inline long long integer(unsigned long long key, long long index, long long low, long long span) {
    return low + static_cast<long long>(((mix(key, index) >> 32) * static_cast<unsigned long long>(span)) >> 32);
}

__device__ inline unsigned int float_bits(float value) {
    union {
        float value;
        unsigned int bits;
    } view;
    view.value = value;
    return view.bits;
}

// A finite float rounded to nearest even into a narrower format of 1 sign, kExponent and kMantissa bits. kLargest is
// the bit pattern of the largest finite value; a larger magnitude becomes kLargest (saturating) or kLargest + 1,
// which is infinity in the formats that have one. Done on the bits, so that no architecture's conversion matters.
template <int kExponent, int kMantissa, unsigned int kLargest, bool kSaturate>
__device__ inline unsigned int narrow(float value) {
    const unsigned int bits = float_bits(value);
    const unsigned int sign = (bits >> 31) << (kExponent + kMantissa);
    const unsigned int magnitude = bits & 0x7FFFFFFFu;
    const int bias = (1 << (kExponent - 1)) - 1;
    const int exponent = static_cast<int>(magnitude >> 23) - 127 + bias;  // of the target, before rounding
    unsigned int significand = magnitude & 0x7FFFFFu;
    int drop = 23 - kMantissa;
    unsigned int base = 0;
    if (exponent >= 1) {
        base = static_cast<unsigned int>(exponent) << kMantissa;
    } else if (kExponent < 8) {  // subnormal in the target: the hidden bit shifts into the mantissa
        significand |= 0x800000u;
        drop += 1 - exponent;
        if (drop > 25) return sign;  // below half of the smallest subnormal
    }  // bfloat16 has the range of float32: its subnormals shift like any other value
    const unsigned int half = 1u << (drop - 1);
    const unsigned int kept = significand >> drop;
    const unsigned int rest = significand & ((half << 1) - 1u);
    const unsigned int up = (rest > half || (rest == half && (kept & 1u))) ? 1u : 0u;
    unsigned int result = base + kept + up;  // a carry moves into the exponent, as it should
    if (result > kLargest) result = kSaturate ? kLargest : kLargest + 1u;
    return sign | result;
}

// One storage type per dtype: what an element is in memory, and how a generated number becomes one.
struct Float32 {
    using Word = float;
    static __device__ inline Word from(float value) { return value; }
    static __device__ inline Word from(long long value) { return static_cast<float>(value); }
};

struct Float64 {
    using Word = double;
    static __device__ inline Word from(float value) { return static_cast<double>(value); }
    static __device__ inline Word from(long long value) { return static_cast<double>(value); }
};

template <typename Bits, int kExponent, int kMantissa, unsigned int kLargest, bool kSaturate>
struct Narrow {
    using Word = Bits;
    static __device__ inline Word from(float value) {
        return static_cast<Word>(narrow<kExponent, kMantissa, kLargest, kSaturate>(value));
    }
    static __device__ inline Word from(long long value) { return from(static_cast<float>(value)); }
};

using Float16 = Narrow<unsigned short, 5, 10, 0x7BFFu, false>;
using Bfloat16 = Narrow<unsigned short, 8, 7, 0x7F7Fu, false>;
using Float8E4M3 = Narrow<unsigned char, 4, 3, 0x7Eu, true>;
using Float8E5M2 = Narrow<unsigned char, 5, 2, 0x7Bu, true>;

// Integers wrap to their width, so that signed and unsigned types of one size share the bits.
template <typename Integer>
struct Whole {
    using Word = Integer;
    static __device__ inline Word from(long long value) { return static_cast<Word>(value); }
};

}  // namespace generator
