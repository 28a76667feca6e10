// Every thread of every block does the same to one place each.
extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* ull, float* f, double* d, int n) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    atomicAdd(&i[0], 1);
    atomicMin(&i[1], -t);
    atomicMax(&i[2], t);
    atomicSub(&i[3], 2);
    atomicAdd(&u[0], 3u);
    atomicOr(&u[1], 1u << (t & 31));
    atomicAnd(&u[2], ~(1u << (t & 7)));
    atomicXor(&u[3], static_cast<unsigned>(t));
    atomicInc(&u[4], 9u);
    atomicAdd(&ull[0], 1ull << 33);
    atomicMax(&ull[1], static_cast<unsigned long long>(t) << 32);
    atomicAdd(&f[0], 1.0f);
    atomicAdd(&d[0], 0.5);
    // A lock that only atomics hold together: the sum is exact only if it excludes.
    while (atomicCAS(&i[4], 0, 1) != 0) {
    }
    __threadfence();
    i[5] += 1;
    __threadfence();
    atomicExch(&i[4], 0);
}

// The last block to finish sums what the others wrote.
extern "C" __global__ void last_block(int* partial, unsigned* count, int* out) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = static_cast<int>(blockIdx.x) + 1;
        __threadfence();
        last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int sum = 0;
        for (int b = 0; b < static_cast<int>(gridDim.x); ++b) sum += partial[b];
        out[0] = sum;
    }
}

// Sets its own flag, then waits for the other's.
extern "C" __global__ void meet(volatile int* mine, volatile int* theirs) {
    *mine = 1;
    __threadfence_system();
    while (*theirs == 0) __nanosleep(100);
}

// One thread waits for another of the same block without a barrier.
extern "C" __global__ void relay(volatile int* flags) {
    const int i = threadIdx.x;
    if (i + 1 < static_cast<int>(blockDim.x)) {
        while (flags[i + 1] == 0) __nanosleep(100);
    }
    flags[i] = flags[i + 1] + 1;
}

extern "C" __global__ void empty(long long) {}

extern "C" __global__ void add_one(float* data, long long n) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) data[i] += 1.0f;
}
