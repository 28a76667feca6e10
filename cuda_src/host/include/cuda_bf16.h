// __nv_bfloat16 and __nv_bfloat162 on a CPU: storage of 16 bits, arithmetic in float32 rounded once.
#pragma once

#include "../float_formats.h"
#include "../atomics.h"

struct __nv_bfloat16_raw {
    unsigned short x;
};
struct alignas(4) __nv_bfloat162_raw {
    unsigned short x, y;
};

namespace host {

inline unsigned short to_bfloat16(float v) {
    if (v != v) return 0x7FFF;
    const uint32_t bits = bit_cast<uint32_t>(v);
    return static_cast<unsigned short>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
inline float from_bfloat16(unsigned short code) { return bit_cast<float>(static_cast<uint32_t>(code) << 16); }

}  // namespace host

struct alignas(2) __nv_bfloat16 {
    unsigned short __x;

    __nv_bfloat16() = default;
    __nv_bfloat16(__nv_bfloat16_raw raw) : __x(raw.x) {}
    __nv_bfloat16(float v) : __x(::host::to_bfloat16(v)) {}
    __nv_bfloat16(double v) : __x(static_cast<unsigned short>(::host::narrow_ieee<8, 7>(v))) {}
    __nv_bfloat16(int v) : __nv_bfloat16(static_cast<double>(v)) {}
    __nv_bfloat16(unsigned v) : __nv_bfloat16(static_cast<double>(v)) {}
    __nv_bfloat16(short v) : __nv_bfloat16(static_cast<double>(v)) {}
    __nv_bfloat16(unsigned short v) : __nv_bfloat16(static_cast<double>(v)) {}
    __nv_bfloat16(long v) : __nv_bfloat16(static_cast<double>(v)) {}
    __nv_bfloat16(unsigned long v) : __nv_bfloat16(static_cast<double>(v)) {}
    __nv_bfloat16(long long v) : __nv_bfloat16(static_cast<double>(v)) {}
    __nv_bfloat16(unsigned long long v) : __nv_bfloat16(static_cast<double>(v)) {}
    operator float() const { return ::host::from_bfloat16(__x); }
    operator __nv_bfloat16_raw() const { return {__x}; }
    __nv_bfloat16& operator=(float v) { return *this = __nv_bfloat16(v); }
    __nv_bfloat16& operator=(double v) { return *this = __nv_bfloat16(v); }
};

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;

    __nv_bfloat162() = default;
    __nv_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) : x(a), y(b) {}
    __nv_bfloat162(__nv_bfloat162_raw raw) : x(__nv_bfloat16_raw{raw.x}), y(__nv_bfloat16_raw{raw.y}) {}
    operator __nv_bfloat162_raw() const { return {x.__x, y.__x}; }
};

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

// --- conversions
inline __nv_bfloat16 __float2bfloat16(float v) { return v; }
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return v; }
inline __nv_bfloat16 __float2bfloat16_rz(float v) {
    return __nv_bfloat16_raw{static_cast<unsigned short>(::host::narrow_ieee<8, 7>(v, ::host::Rounding::zero))};
}
inline __nv_bfloat16 __float2bfloat16_ru(float v) {
    return __nv_bfloat16_raw{static_cast<unsigned short>(::host::narrow_ieee<8, 7>(v, ::host::Rounding::up))};
}
inline __nv_bfloat16 __float2bfloat16_rd(float v) {
    return __nv_bfloat16_raw{static_cast<unsigned short>(::host::narrow_ieee<8, 7>(v, ::host::Rounding::down))};
}
inline __nv_bfloat16 __double2bfloat16(double v) { return v; }
inline float __bfloat162float(__nv_bfloat16 v) { return v; }
inline __nv_bfloat162 __float2bfloat162_rn(float v) { return {v, v}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {a, b}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline float __low2float(__nv_bfloat162 v) { return v.x; }
inline float __high2float(__nv_bfloat162 v) { return v.y; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
inline __nv_bfloat162 __low2bfloat162(__nv_bfloat162 v) { return {v.x, v.x}; }
inline __nv_bfloat162 __high2bfloat162(__nv_bfloat162 v) { return {v.y, v.y}; }
inline __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x, b.x}; }
inline __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.y, b.y}; }
inline __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 v) { return {v.y, v.x}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 v) { return {v, v}; }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline __nv_bfloat16 __int2bfloat16_rn(int v) { return v; }
inline __nv_bfloat16 __uint2bfloat16_rn(unsigned v) { return v; }
inline __nv_bfloat16 __short2bfloat16_rn(short v) { return v; }
inline __nv_bfloat16 __ushort2bfloat16_rn(unsigned short v) { return v; }
inline __nv_bfloat16 __ll2bfloat16_rn(long long v) { return v; }
inline int __bfloat162int_rn(__nv_bfloat16 v) { return __float2int_rn(v); }
inline int __bfloat162int_rz(__nv_bfloat16 v) { return __float2int_rz(v); }
inline int __bfloat162int_rd(__nv_bfloat16 v) { return __float2int_rd(v); }
inline int __bfloat162int_ru(__nv_bfloat16 v) { return __float2int_ru(v); }
inline unsigned __bfloat162uint_rn(__nv_bfloat16 v) { return __float2uint_rn(v); }
inline unsigned __bfloat162uint_rz(__nv_bfloat16 v) { return __float2uint_rz(v); }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short v) { return __nv_bfloat16_raw{v}; }
inline __nv_bfloat16 __short_as_bfloat16(short v) { return __nv_bfloat16_raw{static_cast<unsigned short>(v)}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.__x; }
inline short __bfloat16_as_short(__nv_bfloat16 v) { return static_cast<short>(v.__x); }

// --- arithmetic
inline __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) + float(b); }
inline __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) - float(b); }
inline __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return ::host::opaque(float(a) * float(b)); }
inline __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) / float(b); }
inline __nv_bfloat16 __hadd_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hadd(a, b); }
inline __nv_bfloat16 __hsub_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hsub(a, b); }
inline __nv_bfloat16 __hmul_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmul(a, b); }
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) { return ::host::fma_to_odd(a, b, c); }
inline __nv_bfloat16 __hneg(__nv_bfloat16 v) { return __nv_bfloat16_raw{static_cast<unsigned short>(v.__x ^ 0x8000u)}; }
inline __nv_bfloat16 __habs(__nv_bfloat16 v) { return __nv_bfloat16_raw{static_cast<unsigned short>(v.__x & 0x7FFFu)}; }
inline __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) { return fmaxf(a, b); }
inline __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) { return fminf(a, b); }
inline bool __heq(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) == float(b); }
inline bool __hne(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) < float(b) || float(a) > float(b); }
inline bool __hlt(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) < float(b); }
inline bool __hle(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) <= float(b); }
inline bool __hgt(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) > float(b); }
inline bool __hge(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) >= float(b); }
inline bool __hisnan(__nv_bfloat16 v) { return (v.__x & 0x7FFFu) > 0x7F80u; }
inline int __hisinf(__nv_bfloat16 v) { return (v.__x & 0x7FFFu) == 0x7F80u ? (v.__x & 0x8000u ? -1 : 1) : 0; }
inline __nv_bfloat16 hsqrt(__nv_bfloat16 v) { return sqrtf(v); }
inline __nv_bfloat16 hrsqrt(__nv_bfloat16 v) { return rsqrtf(v); }
inline __nv_bfloat16 hrcp(__nv_bfloat16 v) { return 1.0f / float(v); }
inline __nv_bfloat16 hexp(__nv_bfloat16 v) { return expf(v); }
inline __nv_bfloat16 hexp2(__nv_bfloat16 v) { return exp2f(v); }
inline __nv_bfloat16 hlog(__nv_bfloat16 v) { return logf(v); }
inline __nv_bfloat16 hlog2(__nv_bfloat16 v) { return log2f(v); }
inline __nv_bfloat16 hfloor(__nv_bfloat16 v) { return floorf(v); }
inline __nv_bfloat16 hceil(__nv_bfloat16 v) { return ceilf(v); }
inline __nv_bfloat16 hrint(__nv_bfloat16 v) { return rintf(v); }
inline __nv_bfloat16 htrunc(__nv_bfloat16 v) { return truncf(v); }

inline __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
inline __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hsub(a.x, b.x), __hsub(a.y, b.y)}; }
inline __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
inline __nv_bfloat162 __h2div(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)}; }
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline __nv_bfloat162 __hneg2(__nv_bfloat162 v) { return {__hneg(v.x), __hneg(v.y)}; }
inline __nv_bfloat162 __habs2(__nv_bfloat162 v) { return {__habs(v.x), __habs(v.y)}; }
inline __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
inline __nv_bfloat162 __hmin2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
inline __nv_bfloat162 h2exp(__nv_bfloat162 v) { return {hexp(v.x), hexp(v.y)}; }
inline __nv_bfloat162 h2sqrt(__nv_bfloat162 v) { return {hsqrt(v.x), hsqrt(v.y)}; }

inline __nv_bfloat16 operator+(__nv_bfloat16 a, __nv_bfloat16 b) { return __hadd(a, b); }
inline __nv_bfloat16 operator-(__nv_bfloat16 a, __nv_bfloat16 b) { return __hsub(a, b); }
inline __nv_bfloat16 operator*(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmul(a, b); }
inline __nv_bfloat16 operator/(__nv_bfloat16 a, __nv_bfloat16 b) { return __hdiv(a, b); }
inline __nv_bfloat16 operator-(__nv_bfloat16 v) { return __hneg(v); }
inline __nv_bfloat16 operator+(__nv_bfloat16 v) { return v; }
inline __nv_bfloat16& operator+=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a + b; }
inline __nv_bfloat16& operator-=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a - b; }
inline __nv_bfloat16& operator*=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a * b; }
inline __nv_bfloat16& operator/=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a / b; }
inline bool operator==(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) == float(b); }
inline bool operator!=(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) != float(b); }
inline bool operator<(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) < float(b); }
inline bool operator>(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) > float(b); }
inline bool operator<=(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) <= float(b); }
inline bool operator>=(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) >= float(b); }
inline __nv_bfloat162 operator+(__nv_bfloat162 a, __nv_bfloat162 b) { return __hadd2(a, b); }
inline __nv_bfloat162 operator-(__nv_bfloat162 a, __nv_bfloat162 b) { return __hsub2(a, b); }
inline __nv_bfloat162 operator*(__nv_bfloat162 a, __nv_bfloat162 b) { return __hmul2(a, b); }
inline __nv_bfloat162 operator/(__nv_bfloat162 a, __nv_bfloat162 b) { return __h2div(a, b); }
inline __nv_bfloat162& operator+=(__nv_bfloat162& a, __nv_bfloat162 b) { return a = a + b; }
inline __nv_bfloat162& operator*=(__nv_bfloat162& a, __nv_bfloat162 b) { return a = a * b; }

inline __nv_bfloat16 atomicAdd(__nv_bfloat16* p, __nv_bfloat16 v) {
    return ::host::update<uint16_t>(p, [v](__nv_bfloat16 old) { return __hadd(old, v); });
}
inline __nv_bfloat162 atomicAdd(__nv_bfloat162* p, __nv_bfloat162 v) {
    return ::host::update<uint32_t>(p, [v](__nv_bfloat162 old) { return __hadd2(old, v); });
}
