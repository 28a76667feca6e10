// Kernels that follow each other in a graph, each starting while the one ahead of it ends (programmatic dependent launch): what
// does not depend on that one, such as asking for weights, is done before `wait`, by every block. A kernel that calls it may be
// launched so; without a graph, before sm_90 and on a CPU, it starts when the one ahead has ended.
#pragma once

namespace overlap {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool kPossible = true;
#else
constexpr bool kPossible = false;
#endif

// Until all kernels ahead have ended and what they wrote can be read.
__device__ inline void wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The kernel behind may start, as soon as all blocks of this one have come here or ended. Every kernel calls it after `wait`: so before
// its own a kernel may read what was written by any but the one just ahead, past the L1 cache (`__ldcg`), which knows of no kernels.
__device__ inline void release() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Asks for what lies about `from`, a sector of 32 bytes, into the L2 cache.
__device__ inline void ahead(const void* from) {
#if defined(__CUDA_ARCH__)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from) : "memory");
#endif
}

}  // namespace overlap
