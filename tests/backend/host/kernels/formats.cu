#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void widen_half(const half* in, float* out, long long n) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __half2float(in[i]);
}

extern "C" __global__ void widen_bfloat16(const __nv_bfloat16* in, float* out, long long n) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __bfloat162float(in[i]);
}

// Rounds to nearest even into each format; row 0 half, 1 bfloat16; fp8 saturating and not.
extern "C" __global__ void narrow(const float* in, unsigned short* half_out, unsigned short* bf_out,
        unsigned char* fp8_out, long long n) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    half_out[i] = __half_as_ushort(__float2half(in[i]));
    bf_out[i] = __bfloat16_as_ushort(__float2bfloat16(in[i]));
    fp8_out[i] = __nv_cvt_float_to_fp8(in[i], __NV_SATFINITE, __NV_E4M3);
    fp8_out[n + i] = __nv_cvt_float_to_fp8(in[i], __NV_SATFINITE, __NV_E5M2);
    fp8_out[2 * n + i] = __nv_cvt_float_to_fp8(in[i], __NV_NOSAT, __NV_E4M3);
    fp8_out[3 * n + i] = __nv_cvt_float_to_fp8(in[i], __NV_NOSAT, __NV_E5M2);
}

// Without the processor's own conversion, from double, and in all four rounding modes.
extern "C" __global__ void narrow_half(const float* in, unsigned short* out, long long n) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = __half_as_ushort(__double2half(static_cast<double>(in[i])));
    out[n + i] = __half_as_ushort(__float2half_rz(in[i]));
    out[2 * n + i] = __half_as_ushort(__float2half_ru(in[i]));
    out[3 * n + i] = __half_as_ushort(__float2half_rd(in[i]));
}

extern "C" __global__ void widen_fp8(float* e4m3, float* e5m2) {
    const unsigned char code = static_cast<unsigned char>(threadIdx.x);
    e4m3[threadIdx.x] = __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
    __nv_fp8_e5m2 value;
    value.__x = code;
    e5m2[threadIdx.x] = static_cast<float>(value);
}

extern "C" __global__ void half_arithmetic(const half* a, const half* b, const half* c, half* out, long long n) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = a[i] + b[i];
    out[n + i] = __hmul(a[i], b[i]);
    out[2 * n + i] = __hfma(a[i], b[i], c[i]);
    const half2 pair = __hfma2(__halves2half2(a[i], b[i]), __half2half2(c[i]), __floats2half2_rn(1.0f, -1.0f));
    out[3 * n + i] = __low2half(pair);
    out[4 * n + i] = __high2half(pair);
}

extern "C" __global__ void half_shuffle(const half* in, half* out, half2* pairs) {
    out[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, in[threadIdx.x], 1);
    pairs[threadIdx.x] = __shfl_down_sync(0xFFFFFFFFu, __half2half2(in[threadIdx.x]), 1);
}
