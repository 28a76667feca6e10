// Rounding a double into a narrow binary format, and the exactly rounded multiply-add both 16-bit types need.
#pragma once

#include "intrinsics.h"

namespace host {

enum class Rounding { nearest, zero, up, down };

// Sign and magnitude of a finite or infinite `v` in a format of kExponent and kMantissa bits, as if the format's
// exponent had no end: the magnitude is above the largest finite code when `v` does not fit.
template <int kExponent, int kMantissa>
inline uint32_t narrow_magnitude(double v, Rounding rounding = Rounding::nearest) {
    constexpr int kBias = (1 << (kExponent - 1)) - 1;
    const uint64_t bits = bit_cast<uint64_t>(v);
    const bool negative = bits >> 63;
    const int exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023 + kBias;
    if (exponent >= 1 << kExponent) return 1u << (kExponent + kMantissa);  // above every code
    uint64_t significand = bits & 0xFFFFFFFFFFFFFULL;
    int drop = 52 - kMantissa;
    uint64_t code = 0;
    if (exponent >= 1) {
        code = static_cast<uint64_t>(exponent) << kMantissa;
    } else {  // subnormal in the target: the hidden bit moves into the mantissa
        if (bits << 1 == 0) return 0;
        significand |= 1ULL << 52;
        drop += 1 - exponent;
        if (drop > 60) drop = 60;
    }
    const uint64_t rest = significand & ((1ULL << drop) - 1), half = 1ULL << (drop - 1);
    code += significand >> drop;
    bool away = false;
    switch (rounding) {
        case Rounding::nearest: away = rest > half || (rest == half && (code & 1)); break;
        case Rounding::zero: break;
        case Rounding::up: away = rest && !negative; break;
        case Rounding::down: away = rest && negative; break;
    }
    return static_cast<uint32_t>(code + away);
}

// A format with infinities. A value too large becomes infinite, or the largest finite one when rounding goes there.
template <int kExponent, int kMantissa>
inline uint32_t narrow_ieee(double v, Rounding rounding = Rounding::nearest) {
    constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;
    if (v != v) return (1u << (kExponent + kMantissa)) - 1;  // the canonical NaN: positive, all ones
    const bool negative = bit_cast<uint64_t>(v) >> 63;
    uint32_t code = narrow_magnitude<kExponent, kMantissa>(v, rounding);
    if (code >= kInfinity) {
        const bool inwards = rounding == Rounding::zero || (rounding == Rounding::up && negative) ||
                             (rounding == Rounding::down && !negative);
        code = inwards && !__builtin_isinf(v) ? kInfinity - 1 : kInfinity;
    }
    return code | (negative ? 1u << (kExponent + kMantissa) : 0u);
}

// The value of a code; every code with the largest exponent is an infinity or NaN when kIeee.
template <int kExponent, int kMantissa>
inline float widen_ieee(uint32_t code) {
    constexpr int kBias = (1 << (kExponent - 1)) - 1;
    const uint32_t sign = (code >> (kExponent + kMantissa) & 1u) << 31;
    const uint32_t magnitude = code & ((1u << (kExponent + kMantissa)) - 1);
    const uint32_t exponent = magnitude >> kMantissa, mantissa = magnitude & ((1u << kMantissa) - 1);
    if (exponent == (1u << kExponent) - 1) {
        return bit_cast<float>(mantissa ? 0x7FFFFFFFu : sign | 0x7F800000u);
    }
    if (exponent == 0) {  // a multiple of the smallest subnormal, which is a power of two
        const float tiny = bit_cast<float>(static_cast<uint32_t>(127 + 1 - kBias - kMantissa) << 23);
        return bit_cast<float>(bit_cast<uint32_t>(static_cast<float>(mantissa) * tiny) | sign);
    }
    return bit_cast<float>(sign | (exponent + 127 - kBias) << 23 | mantissa << (23 - kMantissa));
}

// a * b + c so that a later rounding to at most 24 bits is the only one: `a` and `b` have at most 24 bits, so the
// product is exact; the sum is rounded to odd.
inline double fma_to_odd(float a, float b, float c) {
    const double product = static_cast<double>(a) * b, addend = c;
    const double sum = opaque(product + addend);
    const double back = opaque(sum - product);
    const double error = opaque(opaque(product - opaque(sum - back)) + opaque(addend - back));
    uint64_t bits = bit_cast<uint64_t>(sum);
    if (error != 0.0 && error == error && !__builtin_isinf(sum) && !(bits & 1)) {
        bits += (error > 0.0) == (sum > 0.0) ? 1 : -1;
    }
    return bit_cast<double>(bits);
}

}  // namespace host
