// What a .cu file may use without including anything, for a C++ compiler on a CPU. Included before the source.
// No CUDA header is read: this works where no toolkit is installed.
//
// Limits, by design: no textures, no inline PTX, no tensor-core intrinsics, no cooperative groups, no launches
// from a kernel. __CUDA_ARCH__ is undefined and HOST_BACKEND is 1. __device__ and __constant__ variables exist
// once per process, not once per virtual device.
#pragma once

#define HOST_BACKEND 1

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qualifiers.h"
#include "vector_types.h"
#include "thread.h"
#include "warp.h"
#include "atomics.h"
#include "intrinsics.h"

// CUDA code writes `__shared__ alignas(16) float x[4]`, where standard C++ wants alignas before `static`.
namespace host {
template <size_t bytes>
constexpr size_t alignment() { return bytes; }
template <class T>
constexpr size_t alignment() { return alignof(T); }
}  // namespace host
#define alignas(...) __attribute__((aligned(::host::alignment<__VA_ARGS__>())))
