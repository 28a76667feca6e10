// What the tensor cores of sm_90a take straight from shared memory: a warpgroup (four warps) multiplies 64 rows by 256 columns at a
// time and goes on while they work. WARPGROUP_MULTIPLY says whether they are there: no later architecture has these instructions.
// After "Asynchronous Warpgroup Level Matrix Instructions" of the PTX ISA.
#pragma once

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WARPGROUP_MULTIPLY 1
#else
#define WARPGROUP_MULTIPLY 0
#endif

namespace warpgroup {

constexpr int kThreads = 128;
constexpr int kSums = 64 * 256 / kThreads;  // accumulators of a thread
constexpr int kRowBytes = 32;  // of a row of `a` or a column of `b`: 16 numbers of two bytes, or 32 of one
constexpr int kBytesA = 64 * kRowBytes;
constexpr int kBytesB = 256 * kRowBytes;

#if WARPGROUP_MULTIPLY
// Where a matrix lies in shared memory, on 16 bytes: 8 x 16-byte core matrices of 128 bytes each without a swizzle, two of them side
// by side along a row, then the next eight rows. All fields count 16 bytes.
__device__ inline unsigned long long matrix(const void* start) {
    const unsigned long long address = static_cast<unsigned long long>(__cvta_generic_to_shared(start));
    constexpr unsigned long long kAlongRow = 128 / 16, kNextRows = 256 / 16;
    return (address & 0x3FFFFull) >> 4 | kAlongRow << 16 | kNextRows << 32;
}

// Before the first product, and wherever registers of the sums were touched since the last.
__device__ inline void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// What was asked for since the last group is one.
__device__ inline void end_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Until all groups are done. The compiler does not know that the sums are written until then: it may use none of them earlier.
__device__ inline void wait(float (&sum)[kSums]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < kSums; ++i) asm volatile("" : "+f"(sum[i])::"memory");
}

#define WARPGROUP_SUMS                                                                             \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define WARPGROUP_REGISTERS                                                                                                         \
    "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7]),                 \
    "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]),           \
    "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),         \
    "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31]),         \
    "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]), "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]),         \
    "+f"(sum[40]), "+f"(sum[41]), "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47]),         \
    "+f"(sum[48]), "+f"(sum[49]), "+f"(sum[50]), "+f"(sum[51]), "+f"(sum[52]), "+f"(sum[53]), "+f"(sum[54]), "+f"(sum[55]),         \
    "+f"(sum[56]), "+f"(sum[57]), "+f"(sum[58]), "+f"(sum[59]), "+f"(sum[60]), "+f"(sum[61]), "+f"(sum[62]), "+f"(sum[63]),         \
    "+f"(sum[64]), "+f"(sum[65]), "+f"(sum[66]), "+f"(sum[67]), "+f"(sum[68]), "+f"(sum[69]), "+f"(sum[70]), "+f"(sum[71]),         \
    "+f"(sum[72]), "+f"(sum[73]), "+f"(sum[74]), "+f"(sum[75]), "+f"(sum[76]), "+f"(sum[77]), "+f"(sum[78]), "+f"(sum[79]),         \
    "+f"(sum[80]), "+f"(sum[81]), "+f"(sum[82]), "+f"(sum[83]), "+f"(sum[84]), "+f"(sum[85]), "+f"(sum[86]), "+f"(sum[87]),         \
    "+f"(sum[88]), "+f"(sum[89]), "+f"(sum[90]), "+f"(sum[91]), "+f"(sum[92]), "+f"(sum[93]), "+f"(sum[94]), "+f"(sum[95]),         \
    "+f"(sum[96]), "+f"(sum[97]), "+f"(sum[98]), "+f"(sum[99]), "+f"(sum[100]), "+f"(sum[101]), "+f"(sum[102]), "+f"(sum[103]),     \
    "+f"(sum[104]), "+f"(sum[105]), "+f"(sum[106]), "+f"(sum[107]), "+f"(sum[108]), "+f"(sum[109]), "+f"(sum[110]), "+f"(sum[111]), \
    "+f"(sum[112]), "+f"(sum[113]), "+f"(sum[114]), "+f"(sum[115]), "+f"(sum[116]), "+f"(sum[117]), "+f"(sum[118]), "+f"(sum[119]), \
    "+f"(sum[120]), "+f"(sum[121]), "+f"(sum[122]), "+f"(sum[123]), "+f"(sum[124]), "+f"(sum[125]), "+f"(sum[126]), "+f"(sum[127])

// sum += a b: a is 64 x K and b K x 256 as `matrix` says, both with K along their rows of kRowBytes bytes.
#define WARPGROUP_PRODUCT(name, types, transposed)                                                                     \
    __device__ inline void name(float (&sum)[kSums], unsigned long long a, unsigned long long b) {                     \
        asm volatile("wgmma.mma_async.sync.aligned." types " {" WARPGROUP_SUMS "}, %128, %129, 1, 1, 1" transposed ";" \
                     : WARPGROUP_REGISTERS                                                                             \
                     : "l"(a), "l"(b));                                                                                \
    }

WARPGROUP_PRODUCT(multiply_fp16, "m64n256k16.f32.f16.f16", ", 0, 0")
WARPGROUP_PRODUCT(multiply_bf16, "m64n256k16.f32.bf16.bf16", ", 0, 0")
WARPGROUP_PRODUCT(multiply_fp8, "m64n256k32.f32.e4m3.e4m3", "")

#undef WARPGROUP_PRODUCT
#undef WARPGROUP_REGISTERS
#undef WARPGROUP_SUMS

// The shared memory that this thread wrote is seen by products that begin after it; a barrier of the block must follow.
__device__ inline void written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif

}  // namespace warpgroup
