// One decode step, cheap enough that what the host does between two of them shows.

namespace {

// Keeps the state in [-1, 1]: the new value is a weighted mean of the old one and of an injected one.
constexpr float kKeep = 1.0f - 1.0f / 64.0f;
constexpr float kInject = 1.0f / 64.0f;
constexpr float kVocabularyHalf = 16384.0f;

// A multiple of 2^-23 in [-1, 1) that depends on (element, step) alone.
__device__ inline float injected(long long element, long long step) {
    unsigned int bits = static_cast<unsigned int>(element) * 0x9E3779B1u + static_cast<unsigned int>(step) * 0x85EBCA77u;
    bits = (bits ^ (bits >> 16)) * 0x7FEB352Du;
    bits = (bits ^ (bits >> 15)) * 0x846CA68Bu;
    bits ^= bits >> 16;
    return static_cast<float>(static_cast<int>(bits >> 8) - 8388608) * 1.1920928955078125e-7f;
}

// Rounds once: kInject * injected is exact, and so the multiply-add is the only rounding.
__device__ inline float advance(float value, long long element, long long step) {
    return fmaf(kKeep, value, kInject * injected(element, step));
}

}  // namespace

// to = one step from `from` (which may be the same array), n elements, one quad a thread; tokens[step] is taken from
// the new value of element step * 7919 mod n, as an id below 32768.
extern "C" __global__ void decode_step_kernel(const float* from, float* to, int* tokens, long long n, long long step) {
    const long long quad = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long first = quad * 4;
    if (first >= n) return;
    if (first + 4 <= n) {
        float4 value = reinterpret_cast<const float4*>(from)[quad];
        value.x = advance(value.x, first, step);
        value.y = advance(value.y, first + 1, step);
        value.z = advance(value.z, first + 2, step);
        value.w = advance(value.w, first + 3, step);
        reinterpret_cast<float4*>(to)[quad] = value;
    } else {
#pragma unroll 1
        for (long long i = first; i < n; ++i) to[i] = advance(from[i], i, step);
    }
    const long long chosen = (step * 7919) % n;
    if (chosen / 4 == quad) {
        const float scaled = floorf(to[chosen] * kVocabularyHalf) + kVocabularyHalf;
        tokens[step] = static_cast<int>(fminf(scaled, 2.0f * kVocabularyHalf - 1.0f));
    }
}
