// A copy, and ways to get it wrong. FAULT is compiled in.
#if FAULT == 4
#error "this family was told not to compile"
#endif

extern "C" __global__ void faulty_copy(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
#if FAULT == 1
    *(volatile float*)(i * 8) = 1.0f;
#elif FAULT == 2
    while (*(volatile float*)&x[i] < 2.0f) {
    }
#elif FAULT == 3
    y[i] = x[i] + (i == n - 1 ? 0.5f : 0.0f);
#elif FAULT == 6
    y[i] = x[i] / 0.0f * 0.0f;
#elif FAULT == 7
    if (i) y[i] = x[i];
#else
    y[i] = x[i];
#endif
}
