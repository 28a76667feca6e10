// Rotary embedding of x [B, T, H, D] and its move to [B, H, T, D], the layout that attention and the KV cache read:
// in two kernels and in one, with sines computed on the fly or looked up. Elements 2i and 2i + 1 of a head are rotated
// by position * theta^(-2i / D).
//
// A block works on one token: blockIdx.x is b * T + t, a thread takes a piece of one of its heads. Pieces are two pairs
// (16 bytes) where 4 divides D, else one pair (8 bytes). Reads are consecutive across a token's heads, writes across
// tokens of a head, a head's D elements at a time.

namespace {

constexpr float kTwoPi = 6.28318530717958648f;

// Where this thread's piece is: its offset in either layout, its first pair and its token.
struct Place {
    long long bshd;
    long long bhsd;
    int pair;
    int token;
};

// False for a thread beyond the token's last piece. `width` elements a piece.
__device__ inline bool locate(long long tokens, long long heads, long long dim, int width, Place* at) {
    const unsigned int pieces = static_cast<unsigned int>(dim) / width;
    const unsigned int number = blockIdx.y * blockDim.x + threadIdx.x;
    if (number >= pieces * static_cast<unsigned int>(heads)) return false;
    const unsigned int head = number / pieces;
    const unsigned int element = (number - head * pieces) * width;
    const unsigned int batch = blockIdx.x / static_cast<unsigned int>(tokens);
    const unsigned int token = blockIdx.x - batch * static_cast<unsigned int>(tokens);
    at->bshd = blockIdx.x * heads * dim + static_cast<long long>(number) * width;
    at->bhsd = ((batch * heads + head) * tokens + token) * dim + element;
    at->pair = static_cast<int>(element / 2);
    at->token = static_cast<int>(token);
    return true;
}

// (cosine, sine) of the angle of `pair` at `token`, on the special function unit. The angle is kept in turns, as the sum
// of two floats (frequency[pair] holds both, too): whole turns drop out exactly, so the error is that of an angle
// below half a turn at any position up to 2^24.
__device__ inline float2 sincos_of(const float2* __restrict__ frequency, int pair, int token) {
    const float2 turns_per_token = frequency[pair];
    const float position = static_cast<float>(token);
    const float turns = position * turns_per_token.x;
    const float rest = fmaf(position, turns_per_token.y, fmaf(position, turns_per_token.x, -turns));
    const float angle = ((turns - rintf(turns)) + rest) * kTwoPi;
    float2 both;
    __sincosf(angle, &both.y, &both.x);
    return both;
}

__device__ inline float2 rotate(float2 pair, float2 by) {
    return make_float2(pair.x * by.x - pair.y * by.y, pair.x * by.y + pair.y * by.x);
}

// Rotates a piece; `angle_of(pair)` gives its pairs' (cosine, sine).
template <class Angle>
__device__ inline void rotate_piece(const float* from, float* to, int pair, bool two, Angle angle_of) {
    if (two) {
        const float4 piece = *reinterpret_cast<const float4*>(from);
        const float2 low = rotate(make_float2(piece.x, piece.y), angle_of(pair));
        const float2 high = rotate(make_float2(piece.z, piece.w), angle_of(pair + 1));
        *reinterpret_cast<float4*>(to) = make_float4(low.x, low.y, high.x, high.y);
    } else {
        *reinterpret_cast<float2*>(to) = rotate(*reinterpret_cast<const float2*>(from), angle_of(pair));
    }
}

__device__ inline bool in_fours(long long dim) { return dim % 4 == 0; }
__device__ inline int width_of(long long dim) { return in_fours(dim) ? 4 : 2; }

}  // namespace

// out = x rotated, both [B, T, H, D].
extern "C" __global__ void __launch_bounds__(256) rope_sincos_bshd_kernel(const float* __restrict__ x,
        const float2* __restrict__ frequency, float* __restrict__ out, long long tokens, long long heads,
        long long dim) {
    Place at;
    if (!locate(tokens, heads, dim, width_of(dim), &at)) return;
    rotate_piece(x + at.bshd, out + at.bshd, at.pair, in_fours(dim),
            [&](int pair) { return sincos_of(frequency, pair, at.token); });
}

// [B, T, H, D] to [B, H, T, D].
extern "C" __global__ void __launch_bounds__(256) bshd_to_bhsd_kernel(const float* __restrict__ x,
        float* __restrict__ out, long long tokens, long long heads, long long dim) {
    Place at;
    if (!locate(tokens, heads, dim, width_of(dim), &at)) return;
    if (in_fours(dim)) {
        *reinterpret_cast<float4*>(out + at.bhsd) = *reinterpret_cast<const float4*>(x + at.bshd);
    } else {
        *reinterpret_cast<float2*>(out + at.bhsd) = *reinterpret_cast<const float2*>(x + at.bshd);
    }
}

// Both at once.
extern "C" __global__ void __launch_bounds__(256) fused_rope_sincos_bhsd_kernel(const float* __restrict__ x,
        const float2* __restrict__ frequency, float* __restrict__ out, long long tokens, long long heads,
        long long dim) {
    Place at;
    if (!locate(tokens, heads, dim, width_of(dim), &at)) return;
    rotate_piece(x + at.bshd, out + at.bhsd, at.pair, in_fours(dim),
            [&](int pair) { return sincos_of(frequency, pair, at.token); });
}

// Both at once, cosines and sines from tables [T, D / 2].
extern "C" __global__ void __launch_bounds__(256) fused_rope_lut_bhsd_kernel(const float* __restrict__ x,
        const float* __restrict__ cos_lut, const float* __restrict__ sin_lut, float* __restrict__ out, long long tokens,
        long long heads, long long dim) {
    Place at;
    if (!locate(tokens, heads, dim, width_of(dim), &at)) return;
    const long long first = at.token * (dim / 2) + at.pair;
    if (in_fours(dim)) {
        const float2 cosines = *reinterpret_cast<const float2*>(cos_lut + first);
        const float2 sines = *reinterpret_cast<const float2*>(sin_lut + first);
        rotate_piece(x + at.bshd, out + at.bhsd, at.pair, true, [&](int pair) {
            return pair == at.pair ? make_float2(cosines.x, sines.x) : make_float2(cosines.y, sines.y);
        });
    } else {
        const float2 both = make_float2(cos_lut[first], sin_lut[first]);
        rotate_piece(x + at.bshd, out + at.bhsd, at.pair, false, [&](int) { return both; });
    }
}
