// __half and __half2 on a CPU: storage of 16 bits, arithmetic in float32 rounded once, as the hardware rounds.
#pragma once

#include "../float_formats.h"
#include "../atomics.h"

struct __half_raw {
    unsigned short x;
};
struct alignas(4) __half2_raw {
    unsigned short x, y;
};

namespace host {

#if defined(__F16C__) && !defined(HOST_SOFTWARE_HALF)
typedef float Float4 __attribute__((vector_size(16)));
typedef short Short8 __attribute__((vector_size(16)));
inline unsigned short to_half(float v) {
    if (v != v) return 0x7FFF;
    return static_cast<unsigned short>(__builtin_ia32_vcvtps2ph(Float4{v, 0, 0, 0}, 0)[0]);
}
inline float from_half(unsigned short code) {
    const float v = __builtin_ia32_vcvtph2ps(Short8{static_cast<short>(code), 0, 0, 0, 0, 0, 0, 0})[0];
    return v != v ? bit_cast<float>(0x7FFFFFFFu) : v;
}
#else
inline unsigned short to_half(float v) { return static_cast<unsigned short>(narrow_ieee<5, 10>(v)); }
inline float from_half(unsigned short code) { return widen_ieee<5, 10>(code); }
#endif

}  // namespace host

struct alignas(2) __half {
    unsigned short __x;

    __half() = default;
    __half(__half_raw raw) : __x(raw.x) {}
    __half(float v) : __x(::host::to_half(v)) {}
    __half(double v) : __x(static_cast<unsigned short>(::host::narrow_ieee<5, 10>(v))) {}
    __half(int v) : __half(static_cast<double>(v)) {}
    __half(unsigned v) : __half(static_cast<double>(v)) {}
    __half(short v) : __half(static_cast<double>(v)) {}
    __half(unsigned short v) : __half(static_cast<double>(v)) {}
    __half(long v) : __half(static_cast<double>(v)) {}
    __half(unsigned long v) : __half(static_cast<double>(v)) {}
    __half(long long v) : __half(static_cast<double>(v)) {}
    __half(unsigned long long v) : __half(static_cast<double>(v)) {}
    operator float() const { return ::host::from_half(__x); }
    operator __half_raw() const { return {__x}; }
    __half& operator=(float v) { return *this = __half(v); }
    __half& operator=(double v) { return *this = __half(v); }
};

struct alignas(4) __half2 {
    __half x, y;

    __half2() = default;
    __half2(__half a, __half b) : x(a), y(b) {}
    __half2(__half2_raw raw) : x(__half_raw{raw.x}), y(__half_raw{raw.y}) {}
    operator __half2_raw() const { return {x.__x, y.__x}; }
};

typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;

// --- conversions
inline __half __float2half(float v) { return v; }
inline __half __float2half_rn(float v) { return v; }
inline __half __float2half_rz(float v) {
    return __half_raw{static_cast<unsigned short>(::host::narrow_ieee<5, 10>(v, ::host::Rounding::zero))};
}
inline __half __float2half_ru(float v) {
    return __half_raw{static_cast<unsigned short>(::host::narrow_ieee<5, 10>(v, ::host::Rounding::up))};
}
inline __half __float2half_rd(float v) {
    return __half_raw{static_cast<unsigned short>(::host::narrow_ieee<5, 10>(v, ::host::Rounding::down))};
}
inline __half __double2half(double v) { return v; }
inline float __half2float(__half v) { return v; }
inline __half2 __float2half2_rn(float v) { return {v, v}; }
inline __half2 __floats2half2_rn(float a, float b) { return {a, b}; }
inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline float __low2float(__half2 v) { return v.x; }
inline float __high2float(__half2 v) { return v.y; }
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
inline __half2 __low2half2(__half2 v) { return {v.x, v.x}; }
inline __half2 __high2half2(__half2 v) { return {v.y, v.y}; }
inline __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
inline __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
inline __half2 __lowhigh2highlow(__half2 v) { return {v.y, v.x}; }
inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
inline __half2 __half2half2(__half v) { return {v, v}; }
inline __half2 make_half2(__half a, __half b) { return {a, b}; }
inline __half __int2half_rn(int v) { return v; }
inline __half __uint2half_rn(unsigned v) { return v; }
inline __half __short2half_rn(short v) { return v; }
inline __half __ushort2half_rn(unsigned short v) { return v; }
inline __half __ll2half_rn(long long v) { return v; }
inline int __half2int_rn(__half v) { return __float2int_rn(v); }
inline int __half2int_rz(__half v) { return __float2int_rz(v); }
inline int __half2int_rd(__half v) { return __float2int_rd(v); }
inline int __half2int_ru(__half v) { return __float2int_ru(v); }
inline unsigned __half2uint_rn(__half v) { return __float2uint_rn(v); }
inline unsigned __half2uint_rz(__half v) { return __float2uint_rz(v); }
inline __half __ushort_as_half(unsigned short v) { return __half_raw{v}; }
inline __half __short_as_half(short v) { return __half_raw{static_cast<unsigned short>(v)}; }
inline unsigned short __half_as_ushort(__half v) { return v.__x; }
inline short __half_as_short(__half v) { return static_cast<short>(v.__x); }

// --- arithmetic
inline __half __hadd(__half a, __half b) { return float(a) + float(b); }
inline __half __hsub(__half a, __half b) { return float(a) - float(b); }
inline __half __hmul(__half a, __half b) { return ::host::opaque(float(a) * float(b)); }
inline __half __hdiv(__half a, __half b) { return float(a) / float(b); }
inline __half __hadd_rn(__half a, __half b) { return __hadd(a, b); }
inline __half __hsub_rn(__half a, __half b) { return __hsub(a, b); }
inline __half __hmul_rn(__half a, __half b) { return __hmul(a, b); }
inline __half __hfma(__half a, __half b, __half c) { return ::host::fma_to_odd(a, b, c); }
inline __half __hneg(__half v) { return __half_raw{static_cast<unsigned short>(v.__x ^ 0x8000u)}; }
inline __half __habs(__half v) { return __half_raw{static_cast<unsigned short>(v.__x & 0x7FFFu)}; }
inline __half __hmax(__half a, __half b) { return fmaxf(a, b); }
inline __half __hmin(__half a, __half b) { return fminf(a, b); }
inline bool __heq(__half a, __half b) { return float(a) == float(b); }
inline bool __hne(__half a, __half b) { return float(a) < float(b) || float(a) > float(b); }
inline bool __hlt(__half a, __half b) { return float(a) < float(b); }
inline bool __hle(__half a, __half b) { return float(a) <= float(b); }
inline bool __hgt(__half a, __half b) { return float(a) > float(b); }
inline bool __hge(__half a, __half b) { return float(a) >= float(b); }
inline bool __hisnan(__half v) { return (v.__x & 0x7FFFu) > 0x7C00u; }
inline int __hisinf(__half v) { return (v.__x & 0x7FFFu) == 0x7C00u ? (v.__x & 0x8000u ? -1 : 1) : 0; }
inline __half hsqrt(__half v) { return sqrtf(v); }
inline __half hrsqrt(__half v) { return rsqrtf(v); }
inline __half hrcp(__half v) { return 1.0f / float(v); }
inline __half hexp(__half v) { return expf(v); }
inline __half hexp2(__half v) { return exp2f(v); }
inline __half hlog(__half v) { return logf(v); }
inline __half hlog2(__half v) { return log2f(v); }
inline __half hfloor(__half v) { return floorf(v); }
inline __half hceil(__half v) { return ceilf(v); }
inline __half hrint(__half v) { return rintf(v); }
inline __half htrunc(__half v) { return truncf(v); }

inline __half2 __hadd2(__half2 a, __half2 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
inline __half2 __hsub2(__half2 a, __half2 b) { return {__hsub(a.x, b.x), __hsub(a.y, b.y)}; }
inline __half2 __hmul2(__half2 a, __half2 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
inline __half2 __h2div(__half2 a, __half2 b) { return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)}; }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
inline __half2 __hneg2(__half2 v) { return {__hneg(v.x), __hneg(v.y)}; }
inline __half2 __habs2(__half2 v) { return {__habs(v.x), __habs(v.y)}; }
inline __half2 __hmax2(__half2 a, __half2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
inline __half2 __hmin2(__half2 a, __half2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
inline __half2 h2exp(__half2 v) { return {hexp(v.x), hexp(v.y)}; }
inline __half2 h2sqrt(__half2 v) { return {hsqrt(v.x), hsqrt(v.y)}; }

inline __half operator+(__half a, __half b) { return __hadd(a, b); }
inline __half operator-(__half a, __half b) { return __hsub(a, b); }
inline __half operator*(__half a, __half b) { return __hmul(a, b); }
inline __half operator/(__half a, __half b) { return __hdiv(a, b); }
inline __half operator-(__half v) { return __hneg(v); }
inline __half operator+(__half v) { return v; }
inline __half& operator+=(__half& a, __half b) { return a = a + b; }
inline __half& operator-=(__half& a, __half b) { return a = a - b; }
inline __half& operator*=(__half& a, __half b) { return a = a * b; }
inline __half& operator/=(__half& a, __half b) { return a = a / b; }
inline bool operator==(__half a, __half b) { return float(a) == float(b); }
inline bool operator!=(__half a, __half b) { return float(a) != float(b); }
inline bool operator<(__half a, __half b) { return float(a) < float(b); }
inline bool operator>(__half a, __half b) { return float(a) > float(b); }
inline bool operator<=(__half a, __half b) { return float(a) <= float(b); }
inline bool operator>=(__half a, __half b) { return float(a) >= float(b); }
inline __half2 operator+(__half2 a, __half2 b) { return __hadd2(a, b); }
inline __half2 operator-(__half2 a, __half2 b) { return __hsub2(a, b); }
inline __half2 operator*(__half2 a, __half2 b) { return __hmul2(a, b); }
inline __half2 operator/(__half2 a, __half2 b) { return __h2div(a, b); }
inline __half2& operator+=(__half2& a, __half2 b) { return a = a + b; }
inline __half2& operator*=(__half2& a, __half2 b) { return a = a * b; }

inline __half atomicAdd(__half* p, __half v) {
    return ::host::update<uint16_t>(p, [v](__half old) { return __hadd(old, v); });
}
inline __half2 atomicAdd(__half2* p, __half2 v) {
    return ::host::update<uint32_t>(p, [v](__half2 old) { return __hadd2(old, v); });
}
