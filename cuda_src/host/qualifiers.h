// CUDA's declaration qualifiers.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define HOST_SANITIZE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOST_SANITIZE 1
#endif
#endif
#ifndef HOST_SANITIZE
#define HOST_SANITIZE 0
#endif

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))

// A block runs on one OS thread. Under the address sanitizer there is one OS thread and a plain static, because
// only plain globals get red zones.
//
// "used": otherwise GCC (ipa-reference) may conclude that no call out of a kernel writes the variable and read it before
// a barrier instead of after; the other threads of the block run inside that call.
#if HOST_SANITIZE
#define __shared__ static __attribute__((used))
#else
#define __shared__ static thread_local __attribute__((used))
#endif
