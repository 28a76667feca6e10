// E4M3 and E5M2 on a CPU. Conversions round to nearest even; SATFINITE clamps what does not fit (infinities too) to
// the largest finite value, NOSAT gives NaN (E4M3, which has no infinity) or infinity (E5M2).
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace host {

inline unsigned char to_fp8(double v, bool saturate, bool e4m3) {
    const uint64_t bits = bit_cast<uint64_t>(v);
    const unsigned sign = static_cast<unsigned>(bits >> 63) << 7;
    if (v != v) {
        const unsigned kept = static_cast<unsigned>(bits >> 50) & 3u;
        return static_cast<unsigned char>(sign | (e4m3 ? 0x7Fu : 0x7Eu | kept));
    }
    const unsigned largest = e4m3 ? 0x7E : 0x7B;
    unsigned code = e4m3 ? narrow_magnitude<4, 3>(v) : narrow_magnitude<5, 2>(v);
    if (code > largest) code = saturate ? largest : e4m3 ? 0x7F : 0x7C;
    return static_cast<unsigned char>(sign | code);
}

// The half with the same value: both formats fit into it exactly.
inline unsigned short fp8_to_half(unsigned char code, bool e4m3) {
    if (!e4m3) return (code & 0x7F) > 0x7C ? 0x7FFF : static_cast<unsigned short>(code << 8);
    if ((code & 0x7F) == 0x7F) return 0x7FFF;
    const unsigned sign = (code & 0x80u) << 8, exponent = code >> 3 & 0xFu, mantissa = code & 7u;
    if (exponent) return static_cast<unsigned short>(sign | (exponent + 8) << 10 | mantissa << 7);
    if (!mantissa) return static_cast<unsigned short>(sign);
    const unsigned shift = 3 - (31 - static_cast<unsigned>(__builtin_clz(mantissa)));  // to reach the hidden bit
    return static_cast<unsigned short>(sign | (9 - shift) << 10 | (mantissa << shift & 7u) << 7);
}

}  // namespace host

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double v, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return ::host::to_fp8(v, saturate == __NV_SATFINITE, kind == __NV_E4M3);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float v, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    if (v != v) return 0x7F;  // canonical: positive, all ones
    return __nv_cvt_double_to_fp8(static_cast<double>(v), saturate, kind);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t saturate,
                                                     __nv_fp8_interpretation_t kind) {
    return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_float_to_fp8(v.y, saturate, kind) << 8 |
                                             __nv_cvt_float_to_fp8(v.x, saturate, kind));
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw v, __nv_saturation_t saturate,
                                                  __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8(__half(v), saturate, kind);
}
inline __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw v, __nv_saturation_t saturate,
                                                       __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float2_to_fp8x2(__half22float2(v), saturate, kind);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw v, __nv_saturation_t saturate,
                                                      __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8(__nv_bfloat16(v), saturate, kind);
}
inline __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw v, __nv_saturation_t saturate,
                                                           __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float2_to_fp8x2(__bfloat1622float2(v), saturate, kind);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t code, __nv_fp8_interpretation_t kind) {
    return {::host::fp8_to_half(code, kind == __NV_E4M3)};
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t codes, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(codes), kind).x,
            __nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(codes >> 8), kind).x};
}

#define HOST_FP8(name, kind)                                                                                           \
    struct __nv_fp8_##name {                                                                                           \
        __nv_fp8_storage_t __x;                                                                                        \
        __nv_fp8_##name() = default;                                                                                   \
        explicit __nv_fp8_##name(float v) : __x(__nv_cvt_float_to_fp8(v, __NV_SATFINITE, kind)) {}                     \
        explicit __nv_fp8_##name(double v) : __x(__nv_cvt_double_to_fp8(v, __NV_SATFINITE, kind)) {}                   \
        explicit __nv_fp8_##name(int v) : __nv_fp8_##name(static_cast<float>(v)) {}                                    \
        explicit __nv_fp8_##name(unsigned v) : __nv_fp8_##name(static_cast<float>(v)) {}                               \
        explicit __nv_fp8_##name(long long v) : __nv_fp8_##name(static_cast<float>(v)) {}                              \
        explicit __nv_fp8_##name(__half v) : __nv_fp8_##name(__half2float(v)) {}                                       \
        explicit __nv_fp8_##name(__nv_bfloat16 v) : __nv_fp8_##name(__bfloat162float(v)) {}                            \
        explicit operator __half() const { return __nv_cvt_fp8_to_halfraw(__x, kind); }                                \
        explicit operator float() const { return __half2float(__half(*this)); }                                        \
        explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }                    \
        explicit operator __nv_bfloat16() const { return __float2bfloat16(static_cast<float>(*this)); }                \
    };                                                                                                                 \
    struct alignas(2) __nv_fp8x2_##name {                                                                              \
        __nv_fp8x2_storage_t __x;                                                                                      \
        __nv_fp8x2_##name() = default;                                                                                 \
        explicit __nv_fp8x2_##name(float2 v) : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, kind)) {}               \
        explicit __nv_fp8x2_##name(__half2 v) : __nv_fp8x2_##name(__half22float2(v)) {}                                \
        explicit __nv_fp8x2_##name(__nv_bfloat162 v) : __nv_fp8x2_##name(__bfloat1622float2(v)) {}                     \
        explicit operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, kind); }                            \
        explicit operator float2() const { return __half22float2(__half2(*this)); }                                    \
    };                                                                                                                 \
    struct alignas(4) __nv_fp8x4_##name {                                                                              \
        __nv_fp8x4_storage_t __x;                                                                                      \
        __nv_fp8x4_##name() = default;                                                                                 \
        explicit __nv_fp8x4_##name(float4 v)                                                                           \
            : __x(static_cast<unsigned>(__nv_cvt_float2_to_fp8x2({v.z, v.w}, __NV_SATFINITE, kind)) << 16 |            \
                  __nv_cvt_float2_to_fp8x2({v.x, v.y}, __NV_SATFINITE, kind)) {}                                       \
        explicit operator float4() const {                                                                             \
            const float2 low = __half22float2(__nv_cvt_fp8x2_to_halfraw2(static_cast<unsigned short>(__x), kind));     \
            const unsigned short upper = static_cast<unsigned short>(__x >> 16);                                       \
            const float2 high = __half22float2(__nv_cvt_fp8x2_to_halfraw2(upper, kind));                               \
            return {low.x, low.y, high.x, high.y};                                                                     \
        }                                                                                                              \
    };
HOST_FP8(e4m3, __NV_E4M3)
HOST_FP8(e5m2, __NV_E5M2)
#undef HOST_FP8
