// What the tensor cores of sm_80 and later are asked for: 16 x 8 sums of bfloat16, float16 or float8 products in float32, or of int8
// products in int32. TENSOR_CORES says whether they are there, TENSOR_CORES_FP8 whether they take float8 (sm_89 and later); without
// them kernels multiply otherwise.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define TENSOR_CORES 1
#else
#define TENSOR_CORES 0
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define TENSOR_CORES_FP8 1
#else
#define TENSOR_CORES_FP8 0
#endif

namespace tensor {

#if TENSOR_CORES
// sum += a b of a warp: a is 16 x 16, b 16 x 8. With g = lane / 4 and t = lane % 4 a lane holds of `a` rows g and g + 8 at columns
// 2 t, 2 t + 1 (words 0 and 1) and 2 t + 8, 2 t + 9 (2 and 3), of `b` these rows of column g, and of the sums columns 2 t and
// 2 t + 1 of row g, then of row g + 8.
__device__ inline void multiply(float (&sum)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same with float16.
__device__ inline void multiply_fp16(float (&sum)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#if TENSOR_CORES_FP8
// The same with float8 (e4m3): a is 16 x 32, b 32 x 8, and a lane holds what it does of int8.
__device__ inline void multiply_fp8(float (&sum)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// sum += a b of a warp in integers: a is 16 x 32, b 32 x 8. A lane holds of `a` rows g and g + 8 at columns 4 t … 4 t + 3 (words 0 and
// 1) and 4 t + 16 … (2 and 3), of `b` these rows of column g, and of the sums what it holds above.
__device__ inline void multiply_int8(int (&sum)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices of 16-bit numbers from shared memory, a row of 16 bytes at each lane's address.
__device__ inline void load_matrices(unsigned int (&to)[4], const unsigned short* from) {
    const unsigned int address = static_cast<unsigned int>(__cvta_generic_to_shared(from));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}
#endif

}  // namespace tensor
