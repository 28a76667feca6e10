// Arithmetic, conversion, bit and memory intrinsics. The fast ones (__expf, …) are the exact library functions here.
#pragma once

#include <time.h>

#include "vector_types.h"

// --- views of bits
namespace host {
template <class To, class From>
inline To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
}  // namespace host

inline float __int_as_float(int v) { return ::host::bit_cast<float>(v); }
inline int __float_as_int(float v) { return ::host::bit_cast<int>(v); }
inline float __uint_as_float(unsigned v) { return ::host::bit_cast<float>(v); }
inline unsigned __float_as_uint(float v) { return ::host::bit_cast<unsigned>(v); }
inline double __longlong_as_double(long long v) { return ::host::bit_cast<double>(v); }
inline long long __double_as_longlong(double v) { return ::host::bit_cast<long long>(v); }
inline double __hiloint2double(int high, int low) {
    const uint64_t top = static_cast<unsigned>(high);
    return ::host::bit_cast<double>(top << 32 | static_cast<unsigned>(low));
}
inline int __double2hiint(double v) { return static_cast<int>(::host::bit_cast<uint64_t>(v) >> 32); }
inline int __double2loint(double v) { return static_cast<int>(::host::bit_cast<uint64_t>(v)); }

// --- min, max, and what <math.h> lacks
#define HOST_MIN_MAX(type)                                         \
    inline type min(type a, type b) { return b < a ? b : a; }      \
    inline type max(type a, type b) { return a < b ? b : a; }
HOST_MIN_MAX(int)
HOST_MIN_MAX(unsigned)
HOST_MIN_MAX(long)
HOST_MIN_MAX(unsigned long)
HOST_MIN_MAX(long long)
HOST_MIN_MAX(unsigned long long)
#undef HOST_MIN_MAX
inline unsigned min(int a, unsigned b) { return min(static_cast<unsigned>(a), b); }
inline unsigned min(unsigned a, int b) { return min(a, static_cast<unsigned>(b)); }
inline unsigned max(int a, unsigned b) { return max(static_cast<unsigned>(a), b); }
inline unsigned max(unsigned a, int b) { return max(a, static_cast<unsigned>(b)); }
inline long long min(long long a, int b) { return min(a, static_cast<long long>(b)); }
inline long long min(int a, long long b) { return min(static_cast<long long>(a), b); }
inline long long max(long long a, int b) { return max(a, static_cast<long long>(b)); }
inline long long max(int a, long long b) { return max(static_cast<long long>(a), b); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(static_cast<double>(a), b); }
inline double min(double a, float b) { return fmin(a, static_cast<double>(b)); }
inline double max(float a, double b) { return fmax(static_cast<double>(a), b); }
inline double max(double a, float b) { return fmax(a, static_cast<double>(b)); }

inline float rsqrtf(float v) { return static_cast<float>(1.0 / sqrt(static_cast<double>(v))); }
inline double rsqrt(double v) { return 1.0 / sqrt(v); }
inline float rsqrt(float v) { return rsqrtf(v); }
inline float rcbrtf(float v) { return 1.0f / cbrtf(v); }
inline float sinpif(float v) { return sinf(3.14159265358979323846f * v); }
inline float cospif(float v) { return cosf(3.14159265358979323846f * v); }
inline void sincospif(float v, float* s, float* c) { *s = sinpif(v), *c = cospif(v); }
inline float normcdff(float v) { return 0.5f * erfcf(-v * 0.70710678118654752440f); }

// The C library has names like __expf of its own: macros go round them.
#define __expf(v) expf(v)
#define __exp10f(v) powf(10.0f, v)
#define __logf(v) logf(v)
#define __log2f(v) log2f(v)
#define __log10f(v) log10f(v)
#define __sinf(v) sinf(v)
#define __cosf(v) cosf(v)
#define __tanf(v) tanf(v)
#define __powf(a, b) powf(a, b)
#define __sincosf(v, s, c) (*(s) = sinf(v), *(c) = cosf(v))
#define __tanhf(v) tanhf(v)
// Named apart from the C library's clock().
#define clock() static_cast<clock_t>(clock64())
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float __saturatef(float v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }  // NaN gives 0
inline float __frsqrt_rn(float v) { return rsqrtf(v); }

// --- single operations that must neither be fused nor reordered
namespace host {
template <class T>
inline T opaque(T value) {  // keeps the compiler from contracting a product into an addition
#if defined(__x86_64__)
    __asm__("" : "+x"(value));
#elif defined(__aarch64__)
    __asm__("" : "+w"(value));
#else
    volatile T kept = value;
    value = kept;
#endif
    return value;
}
}  // namespace host
inline float __fadd_rn(float a, float b) { return ::host::opaque(::host::opaque(a) + ::host::opaque(b)); }
inline float __fsub_rn(float a, float b) { return ::host::opaque(::host::opaque(a) - ::host::opaque(b)); }
inline float __fmul_rn(float a, float b) { return ::host::opaque(a * b); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float v) { return sqrtf(v); }
inline float __frcp_rn(float v) { return 1.0f / v; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return ::host::opaque(::host::opaque(a) + ::host::opaque(b)); }
inline double __dsub_rn(double a, double b) { return ::host::opaque(::host::opaque(a) - ::host::opaque(b)); }
inline double __dmul_rn(double a, double b) { return ::host::opaque(a * b); }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double v) { return sqrt(v); }
inline double __drcp_rn(double v) { return 1.0 / v; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

// --- conversions: saturating, NaN gives 0 (the smallest value for 64-bit signed), as on a GPU
namespace host {
template <class Integer>
inline Integer to_integer(double rounded) {
    constexpr Integer top = static_cast<Integer>(1ULL << (sizeof(Integer) * 8 - 1));
    constexpr Integer lowest_value = top < 0 ? top : Integer(0);
    constexpr Integer largest = static_cast<Integer>(~lowest_value);
    if (rounded != rounded) return sizeof(Integer) == 8 ? top : Integer(0);
    if (rounded <= static_cast<double>(lowest_value)) return lowest_value;
    if (rounded >= static_cast<double>(largest)) return largest;
    return static_cast<Integer>(rounded);
}
}  // namespace host
#define HOST_TO_INTEGER(from, name, integer)                                                                   \
    inline integer __##from##2##name##_rn(from v) { return ::host::to_integer<integer>(rint(double(v))); }     \
    inline integer __##from##2##name##_rz(from v) { return ::host::to_integer<integer>(trunc(double(v))); }    \
    inline integer __##from##2##name##_ru(from v) { return ::host::to_integer<integer>(ceil(double(v))); }     \
    inline integer __##from##2##name##_rd(from v) { return ::host::to_integer<integer>(floor(double(v))); }
HOST_TO_INTEGER(float, int, int)
HOST_TO_INTEGER(float, uint, unsigned)
HOST_TO_INTEGER(float, ll, long long)
HOST_TO_INTEGER(float, ull, unsigned long long)
HOST_TO_INTEGER(double, int, int)
HOST_TO_INTEGER(double, uint, unsigned)
HOST_TO_INTEGER(double, ll, long long)
HOST_TO_INTEGER(double, ull, unsigned long long)
#undef HOST_TO_INTEGER
inline float __int2float_rn(int v) { return static_cast<float>(v); }
inline float __uint2float_rn(unsigned v) { return static_cast<float>(v); }
inline float __ll2float_rn(long long v) { return static_cast<float>(v); }
inline float __ull2float_rn(unsigned long long v) { return static_cast<float>(v); }
inline double __int2double_rn(int v) { return v; }
inline double __uint2double_rn(unsigned v) { return v; }
inline double __ll2double_rn(long long v) { return static_cast<double>(v); }
inline double __ull2double_rn(unsigned long long v) { return static_cast<double>(v); }
inline float __double2float_rn(double v) { return static_cast<float>(v); }

// --- bits and integers
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline int __clz(int v) { return v ? __builtin_clz(static_cast<unsigned>(v)) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll(static_cast<unsigned long long>(v)) : 64; }
inline unsigned __brev(unsigned v) {
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0F0F0F0Fu) | (v & 0x0F0F0F0Fu) << 4;
    return __builtin_bswap32(v);
}
inline unsigned long long __brevll(unsigned long long v) {
    const unsigned long long top = __brev(static_cast<unsigned>(v));
    return top << 32 | __brev(static_cast<unsigned>(v >> 32));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned pick = selector >> 4 * i;
        unsigned byte = static_cast<unsigned>(bytes >> 8 * (pick & 7u)) & 0xFFu;
        if (pick & 8u) byte = byte & 0x80u ? 0xFFu : 0u;  // replicate the sign
        result |= byte << 8 * i;
    }
    return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) << (shift & 31u) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (shift & 31u));
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline long long __mul64hi(long long a, long long b) {
    return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
inline int __mul24(int a, int b) {
    const int64_t x = static_cast<int>(static_cast<unsigned>(a) << 8) >> 8;  // the sign of bit 23 goes up
    const int64_t y = static_cast<int>(static_cast<unsigned>(b) << 8) >> 8;
    return static_cast<int>(x * y);
}
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFFu) * (b & 0xFFFFFFu); }
inline unsigned __sad(int a, int b, unsigned c) {
    return c + (a > b ? unsigned(a) - unsigned(b) : unsigned(b) - unsigned(a));
}
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }

namespace host {
template <class A, class B, class Sum>
inline Sum dot4(unsigned a, unsigned b, Sum c) {
    unsigned sum = static_cast<unsigned>(c);
    for (int i = 0; i < 4; ++i) {
        const int x = static_cast<A>(a >> 8 * i), y = static_cast<B>(b >> 8 * i);
        sum += static_cast<unsigned>(x * y);
    }
    return static_cast<Sum>(sum);
}
}  // namespace host
inline int __dp4a(int a, int b, int c) { return ::host::dot4<int8_t, int8_t>(unsigned(a), unsigned(b), c); }
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) { return ::host::dot4<uint8_t, uint8_t>(a, b, c); }
inline int __dp4a(char4 a, char4 b, int c) { return __dp4a(::host::bit_cast<int>(a), ::host::bit_cast<int>(b), c); }
inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
    return __dp4a(::host::bit_cast<unsigned>(a), ::host::bit_cast<unsigned>(b), c);
}

// --- loads and stores with a cache hint
#define HOST_LOAD(name) \
    template <class T>  \
    inline T name(const T* p) { return *p; }
#define HOST_STORE(name) \
    template <class T>   \
    inline void name(T* p, T v) { *p = v; }
HOST_LOAD(__ldg)
HOST_LOAD(__ldca)
HOST_LOAD(__ldcg)
HOST_LOAD(__ldcs)
HOST_LOAD(__ldlu)
HOST_LOAD(__ldcv)
HOST_STORE(__stwb)
HOST_STORE(__stcg)
HOST_STORE(__stcs)
HOST_STORE(__stwt)
#undef HOST_LOAD
#undef HOST_STORE

// --- clocks: nanoseconds
inline unsigned long long __globaltimer() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<unsigned long long>(now.tv_sec) * 1000000000ULL + static_cast<unsigned long long>(now.tv_nsec);
}
inline long long clock64() { return static_cast<long long>(__globaltimer()); }
