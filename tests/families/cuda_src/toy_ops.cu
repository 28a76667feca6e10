// A copy, which every operator of the stand-in runs.
extern "C" __global__ void toy_copy(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
