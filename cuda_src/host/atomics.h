// Atomic functions: atomic between the OS threads that run blocks, on any address.
#pragma once

#include "vector_types.h"

namespace host {

template <class Bits, class T, class Operation>
inline T update(T* address, Operation operation) {
    static_assert(sizeof(Bits) == sizeof(T), "");
    Bits* place = reinterpret_cast<Bits*>(address);
    Bits old = __atomic_load_n(place, __ATOMIC_RELAXED);
    for (;;) {
        T value;
        __builtin_memcpy(static_cast<void*>(&value), &old, sizeof value);
        const T changed = operation(value);
        Bits bits;
        __builtin_memcpy(&bits, static_cast<const void*>(&changed), sizeof bits);
        if (__atomic_compare_exchange_n(place, &old, bits, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return value;
    }
}

}  // namespace host

#define HOST_ATOMIC_INTEGER(type)                                                                                    \
    inline type atomicAdd(type* p, type v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }                    \
    inline type atomicSub(type* p, type v) { return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED); }                    \
    inline type atomicExch(type* p, type v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }                  \
    inline type atomicAnd(type* p, type v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); }                    \
    inline type atomicOr(type* p, type v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }                      \
    inline type atomicXor(type* p, type v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); }                    \
    inline type atomicMin(type* p, type v) {                                                                         \
        return ::host::update<type>(p, [v](type old) { return old < v ? old : v; });                                 \
    }                                                                                                                \
    inline type atomicMax(type* p, type v) {                                                                         \
        return ::host::update<type>(p, [v](type old) { return old > v ? old : v; });                                 \
    }                                                                                                                \
    inline type atomicCAS(type* p, type compare, type v) {                                                           \
        __atomic_compare_exchange_n(p, &compare, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                      \
        return compare;                                                                                              \
    }
HOST_ATOMIC_INTEGER(int)
HOST_ATOMIC_INTEGER(unsigned int)
HOST_ATOMIC_INTEGER(long long)
HOST_ATOMIC_INTEGER(unsigned long long)
#undef HOST_ATOMIC_INTEGER

inline unsigned short atomicCAS(unsigned short* p, unsigned short compare, unsigned short v) {
    __atomic_compare_exchange_n(p, &compare, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return compare;
}
inline unsigned atomicInc(unsigned* p, unsigned limit) {
    return ::host::update<unsigned>(p, [limit](unsigned old) { return old >= limit ? 0u : old + 1u; });
}
inline unsigned atomicDec(unsigned* p, unsigned limit) {
    return ::host::update<unsigned>(p, [limit](unsigned old) { return old == 0u || old > limit ? limit : old - 1u; });
}
inline float atomicAdd(float* p, float v) {
    return ::host::update<uint32_t>(p, [v](float old) { return old + v; });
}
inline double atomicAdd(double* p, double v) {
    return ::host::update<uint64_t>(p, [v](double old) { return old + v; });
}
inline float atomicExch(float* p, float v) {
    return ::host::update<uint32_t>(p, [v](float) { return v; });
}
// Element by element, as on a GPU.
inline float2 atomicAdd(float2* p, float2 v) { return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)}; }
inline float4 atomicAdd(float4* p, float4 v) {
    return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y), atomicAdd(&p->z, v.z), atomicAdd(&p->w, v.w)};
}

#define HOST_ATOMIC_SCOPES(name)                                                                             \
    template <class T, class... V>                                                                           \
    inline auto name##_system(T* p, V... v)->decltype(name(p, v...)) { return name(p, v...); }               \
    template <class T, class... V>                                                                           \
    inline auto name##_block(T* p, V... v)->decltype(name(p, v...)) { return name(p, v...); }
HOST_ATOMIC_SCOPES(atomicAdd)
HOST_ATOMIC_SCOPES(atomicSub)
HOST_ATOMIC_SCOPES(atomicExch)
HOST_ATOMIC_SCOPES(atomicMin)
HOST_ATOMIC_SCOPES(atomicMax)
HOST_ATOMIC_SCOPES(atomicAnd)
HOST_ATOMIC_SCOPES(atomicOr)
HOST_ATOMIC_SCOPES(atomicXor)
HOST_ATOMIC_SCOPES(atomicCAS)
#undef HOST_ATOMIC_SCOPES

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
