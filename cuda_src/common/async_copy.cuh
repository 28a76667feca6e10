// Copies into shared memory that a thread waits for later, in the groups it made of them: weights on their way cost no registers.
// Before sm_80, and on a CPU, a copy is done when it is asked for.
#pragma once

namespace async_copy {

// 16 bytes that are read once, both addresses on 16: the L2 cache gives up their lines before others.
__device__ inline void vector(void* to, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned int address = static_cast<unsigned int>(__cvta_generic_to_shared(to));
    unsigned long long once;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "l"(once) : "memory");
#else
    *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
#endif
}

// What was asked for since the last group is one; it may be empty.
__device__ inline void end_group() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Until all of this thread's groups but the last kLeft are there.
template <int kLeft>
__device__ inline void wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

}  // namespace async_copy
