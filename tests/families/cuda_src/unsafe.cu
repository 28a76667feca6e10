// A copy that comes out right on a good day, with a fault of its own in each kernel.

// With 1000 elements there is room behind the buffer, on a GPU and on a heap.
extern "C" __global__ void unsafe_out_of_bounds(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i <= n) y[i] = i < n ? x[i] : 0.0f;  // one too many
}

extern "C" __global__ void unsafe_race(const float* x, float* y, long long n) {
    __shared__ long long first;
    if (threadIdx.x == 0) first = blockIdx.x * (long long)blockDim.x;
    const long long i = first + threadIdx.x;  // nothing orders this after the write
    if (i >= 0 && i < n) y[i] = x[i];
}

extern "C" __global__ void unsafe_unset(const float* x, const float* never, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = fabsf(never[i]) < 1e30f ? x[i] : 0.0f;  // right as long as the memory holds nothing odd
}

extern "C" __global__ void unsafe_barrier(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (threadIdx.x < 16) __syncthreads();  // the others never come
    if (i < n) y[i] = x[i];
}

extern "C" __global__ void unsafe_none(const float* x, float* y, long long n) {
    __shared__ float cells[32];
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    cells[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = cells[threadIdx.x];
}
