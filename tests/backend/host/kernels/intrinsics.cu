extern "C" __global__ void integers(const unsigned* a, const unsigned* b, unsigned* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = __popc(a[i]);
    out[n + i] = __clz(static_cast<int>(a[i]));
    out[2 * n + i] = __ffs(static_cast<int>(a[i]));
    out[3 * n + i] = __brev(a[i]);
    out[4 * n + i] = __umulhi(a[i], b[i]);
    out[5 * n + i] = __byte_perm(a[i], b[i], 0x2561);
    out[6 * n + i] = static_cast<unsigned>(__dp4a(static_cast<int>(a[i]), static_cast<int>(b[i]), 7));
    out[7 * n + i] = __dp4a(a[i], b[i], 7u);
    out[8 * n + i] = __funnelshift_l(a[i], b[i], 13);
    out[9 * n + i] = static_cast<unsigned>(__mul24(static_cast<int>(a[i]), static_cast<int>(b[i])));
    out[10 * n + i] = static_cast<unsigned>(__umul64hi(static_cast<unsigned long long>(a[i]) << 32, b[i]));
}

extern "C" __global__ void floats(const float* in, int* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = __float2int_rn(in[i]);
    out[n + i] = __float2int_rz(in[i]);
    out[2 * n + i] = __float2int_ru(in[i]);
    out[3 * n + i] = __float2int_rd(in[i]);
    out[4 * n + i] = static_cast<int>(__float2uint_rn(in[i]));
    out[5 * n + i] = __float_as_int(__saturatef(in[i]));
}

// The product must round before the sum, whatever -ffp-contract says.
extern "C" __global__ void contraction(const float* a, const float* b, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = __fadd_rn(__fmul_rn(a[i], a[i]), b[i]);
    out[n + i] = __fmaf_rn(a[i], a[i], b[i]);
    out[2 * n + i] = a[i] * a[i] + b[i];
    out[3 * n + i] = __expf(a[i]) + rsqrtf(fabsf(a[i]) + 1.0f) + __fdividef(a[i], 3.0f);
}

extern "C" __global__ void every_type(signed char i8, unsigned char u8, short i16, unsigned short u16, int i32,
        unsigned u32, long long i64, unsigned long long u64, float f32, double f64, bool flag, double* out) {
    out[0] = i8, out[1] = u8, out[2] = i16, out[3] = u16, out[4] = i32, out[5] = u32;
    out[6] = static_cast<double>(i64), out[7] = static_cast<double>(u64), out[8] = f32, out[9] = f64, out[10] = flag;
}
