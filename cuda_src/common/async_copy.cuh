// Copies into shared memory that a thread waits for later, in the groups it made of them: weights on their way cost no registers.
// Before sm_80, and on a CPU, a copy is done when it is asked for.
#pragma once

namespace async_copy {

// 16 bytes, both addresses on 16.
__device__ inline void vector(void* to, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned int address = static_cast<unsigned int>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
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
