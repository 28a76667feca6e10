// What surrounds a cold sample: emptying the caches, and a stamp of the clocks.
//
// flush_kernel empties the caches by reading a buffer larger than they are. Reading, not writing: lines that were written
// are still to be sent to memory when the next kernel starts, and it would pay for them (60 MB of them cost an H200 12 us).

constexpr int kUnroll = 4;

extern "C" __global__ void flush_kernel(const uint4* __restrict__ buffer, long long count, unsigned int* sink) {
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    unsigned int seen = 0;
    long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + (kUnroll - 1) * stride < count; i += kUnroll * stride) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const uint4 quad = buffer[i + u * stride];
            seen |= quad.x | quad.y | quad.z | quad.w;
        }
    }
    for (; i < count; i += stride) seen |= buffer[i].x;
    if (seen == 0x5eed5eedu) *sink = seen;  // never: the buffer is zero; it keeps the loads alive
}

namespace {

__device__ inline unsigned long long now_ns() {
#ifdef HOST_BACKEND
    return __globaltimer();
#else
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
#endif
}

__device__ inline unsigned int multiprocessor() {
#ifdef HOST_BACKEND
    return 0;
#else
    unsigned int number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
#endif
}

}  // namespace

// Time (ns) and cycles of multiprocessor 0, into one of several stamps. Every multiprocessor counts cycles of its own, so
// that two stamps can be compared only where both are of the same one: a block on each, and only that one writes.
extern "C" __global__ void stamp_kernel(unsigned long long* stamps, long long place) {
    if (multiprocessor() != 0) return;
    stamps[2 * place] = now_ns();
    stamps[2 * place + 1] = static_cast<unsigned long long>(clock64());
}
