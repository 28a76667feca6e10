// One result per lane and function, so that Python can compare each with its definition.
extern "C" __global__ void shuffles(const int* in, int* out) {
    const int lane = threadIdx.x & 31;
    const int v = in[threadIdx.x];
    int* row = out + threadIdx.x * 8;
    row[0] = __shfl_sync(0xFFFFFFFFu, v, 5);
    row[1] = __shfl_up_sync(0xFFFFFFFFu, v, 3);
    row[2] = __shfl_down_sync(0xFFFFFFFFu, v, 3);
    row[3] = __shfl_xor_sync(0xFFFFFFFFu, v, 9);
    row[4] = __shfl_sync(0xFFFFFFFFu, v, lane * 7, 8);
    row[5] = __shfl_up_sync(0xFFFFFFFFu, v, 2, 8);
    row[6] = __shfl_down_sync(0xFFFFFFFFu, v, 2, 8);
    row[7] = __shfl_xor_sync(0xFFFFFFFFu, v, 4, 8);
}

extern "C" __global__ void wide_shuffles(const double* in, double* doubles, long long* longs, float* floats) {
    const unsigned all = 0xFFFFFFFFu;
    const int i = threadIdx.x;
    doubles[i] = __shfl_xor_sync(all, in[i], 1);
    longs[i] = __shfl_xor_sync(all, static_cast<long long>(in[i] * 1e12), 2);
    floats[i] = __shfl_xor_sync(all, static_cast<float>(in[i]), 4);
}

extern "C" __global__ void votes(const int* in, unsigned* out) {
    const unsigned all = 0xFFFFFFFFu;
    const int v = in[threadIdx.x];
    unsigned* row = out + threadIdx.x * 10;
    row[0] = __ballot_sync(all, v & 1);
    row[1] = __any_sync(all, v == 1000000);
    row[2] = __any_sync(all, v == in[0]);
    row[3] = __all_sync(all, v >= 0);
    row[4] = __all_sync(all, v & 1);
    row[5] = __match_any_sync(all, v % 5);
    row[6] = __reduce_add_sync(all, static_cast<unsigned>(v));
    row[7] = __reduce_min_sync(all, static_cast<unsigned>(v));
    row[8] = static_cast<unsigned>(__reduce_max_sync(all, v));
    row[9] = __activemask();
}

// Halves of the warp meet separately, in different order and number of times, then all together.
extern "C" __global__ void partial_masks(int* out) {
    const int lane = threadIdx.x & 31;
    int sum = lane;
    if (lane < 16) {
        for (int offset = 8; offset; offset >>= 1) sum += __shfl_xor_sync(0x0000FFFFu, sum, offset);
    } else {
        for (int round = 0; round < 3; ++round) {
            sum = lane;
            for (int offset = 8; offset; offset >>= 1) sum += __shfl_xor_sync(0xFFFF0000u, sum, offset);
        }
    }
    const unsigned odd = 0xAAAAAAAAu, even = 0x55555555u;
    const unsigned mask = lane & 1 ? odd : even;
    const int first = __shfl_sync(mask, sum, lane & 1);
    __syncwarp();
    out[threadIdx.x] = first * 1000 + __shfl_sync(0xFFFFFFFFu, sum, 31 - lane);
}

// Lanes leave one after another; those that stay still vote.
extern "C" __global__ void leaving(unsigned* out) {
    const unsigned lane = threadIdx.x & 31;
    for (unsigned round = 0; round < 32; ++round) {
        if (lane < round) return;
        out[threadIdx.x] = __ballot_sync(0xFFFFFFFFu, 1);
    }
}

// A block that does not fill its last warp.
extern "C" __global__ void ragged(int* out) {
    int sum = 1;
    for (int offset = 16; offset; offset >>= 1) {
        const int other = __shfl_down_sync(0xFFFFFFFFu, sum, offset);
        const int source = (threadIdx.x & 31) + offset;
        if (source < 32 && (threadIdx.x & ~31u) + source < blockDim.x) sum += other;
    }
    if ((threadIdx.x & 31) == 0) out[threadIdx.x >> 5] = sum;
}

extern "C" __global__ void wrong_mask(int* out) { out[threadIdx.x] = __shfl_sync(0x3u, 1, 0); }
