// Dynamic shared memory, declared so that the same source compiles for a GPU and for a CPU:
//
//     DYNAMIC_SHARED(float, scores);      // float* scores, the launch's shared_bytes long, 128-byte aligned
//
// Several declarations, of any types, name the same memory: carve one block with pointer arithmetic. A plain
// `extern __shared__` would survive neither two types in one file under nvcc nor compilation for a CPU.
#pragma once

#ifdef HOST_BACKEND
#define DYNAMIC_SHARED(type, name) type* const name = reinterpret_cast<type*>(::host::dynamic_shared())
#else
#define DYNAMIC_SHARED(type, name)                                              \
    extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];      \
    type* const name = reinterpret_cast<type*>(dynamic_shared_bytes)
#endif
