// Kernels that follow each other in a graph, each starting while the one ahead of it ends (programmatic dependent launch): what
// does not depend on that one, such as asking for weights, is done before `wait`, by every block. A kernel that calls it may be
// launched so; without a graph, before sm_90 and on a CPU, it starts when the one ahead has ended.
#pragma once

namespace overlap {

// Until all kernels ahead have ended and what they wrote can be read.
__device__ inline void wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The kernel behind may start, as soon as all blocks of this one have come here or ended. It comes after `wait`: so before its own
// a kernel may read what was written by any but the one just ahead.
__device__ inline void release() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Asks for `bytes` from `from` on into the L2 cache, both multiples of 16.
__device__ inline void ahead(const void* from, unsigned int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

// The same of the line that holds `from`.
__device__ inline void ahead(const void* from) {
#if defined(__CUDA_ARCH__)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from) : "memory");
#endif
}

}  // namespace overlap
