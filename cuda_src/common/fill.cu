// First contents of every buffer: fill_uniform_<dtype>, fill_integers_<dtype> and fill_constant_<bits>bit.
// Any grid covers any n; a constant is the element's bit pattern, so one kernel serves all types of a
// size. Integers wrap to their type; runner/check/generator.py refuses what does not fit.
#include "generator.cuh"

namespace {

template <typename Word>
struct alignas(16) Pack {
    Word lanes[16 / sizeof(Word)];
};

// Calls make(i) for every element once. 16-byte stores when the buffer starts on such a boundary.
template <typename Word, typename Make>
__device__ inline void fill(Word* out, long long n, Make make) {
    constexpr int kLanes = 16 / static_cast<int>(sizeof(Word));
    const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
    const bool aligned = (reinterpret_cast<unsigned long long>(out) & 15ULL) == 0;
    const long long packs = aligned ? n / kLanes : 0;
    for (long long pack = thread; pack < packs; pack += threads) {
        Pack<Word> made;
        for (int lane = 0; lane < kLanes; ++lane) made.lanes[lane] = make(pack * kLanes + lane);
        reinterpret_cast<Pack<Word>*>(out)[pack] = made;
    }
    for (long long i = packs * kLanes + thread; i < n; i += threads) out[i] = make(i);
}

template <typename Type>
struct MakeUniform {
    unsigned long long key;
    float low, width;
    __device__ typename Type::Word operator()(long long i) const {
        return Type::from(generator::uniform(key, i, low, width));
    }
};

template <typename Type>
struct MakeInteger {
    unsigned long long key;
    long long low, span;
    __device__ typename Type::Word operator()(long long i) const {
        return Type::from(generator::integer(key, i, low, span));
    }
};

template <typename Word>
struct MakeConstant {
    Word value;
    __device__ Word operator()(long long) const { return value; }
};

}  // namespace

extern "C" __global__ void fill_uniform_float64(double* out, long long n,
        unsigned long long key, float low, float width) {
    fill(out, n, MakeUniform<generator::Float64>{key, low, width});
}

extern "C" __global__ void fill_uniform_float32(float* out, long long n,
        unsigned long long key, float low, float width) {
    fill(out, n, MakeUniform<generator::Float32>{key, low, width});
}

extern "C" __global__ void fill_uniform_float16(unsigned short* out, long long n,
        unsigned long long key, float low, float width) {
    fill(out, n, MakeUniform<generator::Float16>{key, low, width});
}

extern "C" __global__ void fill_uniform_bfloat16(unsigned short* out, long long n,
        unsigned long long key, float low, float width) {
    fill(out, n, MakeUniform<generator::Bfloat16>{key, low, width});
}

extern "C" __global__ void fill_uniform_float8_e4m3(unsigned char* out, long long n,
        unsigned long long key, float low, float width) {
    fill(out, n, MakeUniform<generator::Float8E4M3>{key, low, width});
}

extern "C" __global__ void fill_uniform_float8_e5m2(unsigned char* out, long long n,
        unsigned long long key, float low, float width) {
    fill(out, n, MakeUniform<generator::Float8E5M2>{key, low, width});
}

extern "C" __global__ void fill_integers_float64(double* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Float64>{key, low, span});
}

extern "C" __global__ void fill_integers_float32(float* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Float32>{key, low, span});
}

extern "C" __global__ void fill_integers_float16(unsigned short* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Float16>{key, low, span});
}

extern "C" __global__ void fill_integers_bfloat16(unsigned short* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Bfloat16>{key, low, span});
}

extern "C" __global__ void fill_integers_float8_e4m3(unsigned char* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Float8E4M3>{key, low, span});
}

extern "C" __global__ void fill_integers_float8_e5m2(unsigned char* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Float8E5M2>{key, low, span});
}

extern "C" __global__ void fill_integers_int64(long long* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Whole<long long>>{key, low, span});
}

extern "C" __global__ void fill_integers_int32(int* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Whole<int>>{key, low, span});
}

extern "C" __global__ void fill_integers_int16(short* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Whole<short>>{key, low, span});
}

extern "C" __global__ void fill_integers_int8(signed char* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Whole<signed char>>{key, low, span});
}

extern "C" __global__ void fill_integers_uint64(unsigned long long* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Whole<unsigned long long>>{key, low, span});
}

extern "C" __global__ void fill_integers_uint32(unsigned int* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Whole<unsigned int>>{key, low, span});
}

extern "C" __global__ void fill_integers_uint16(unsigned short* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Whole<unsigned short>>{key, low, span});
}

extern "C" __global__ void fill_integers_uint8(unsigned char* out, long long n,
        unsigned long long key, long long low, long long span) {
    fill(out, n, MakeInteger<generator::Whole<unsigned char>>{key, low, span});
}

extern "C" __global__ void fill_constant_64bit(unsigned long long* out, long long n,
        unsigned long long bits) {
    fill(out, n, MakeConstant<unsigned long long>{static_cast<unsigned long long>(bits)});
}

extern "C" __global__ void fill_constant_32bit(unsigned int* out, long long n, unsigned long long bits) {
    fill(out, n, MakeConstant<unsigned int>{static_cast<unsigned int>(bits)});
}

extern "C" __global__ void fill_constant_16bit(unsigned short* out, long long n, unsigned long long bits) {
    fill(out, n, MakeConstant<unsigned short>{static_cast<unsigned short>(bits)});
}

extern "C" __global__ void fill_constant_8bit(unsigned char* out, long long n, unsigned long long bits) {
    fill(out, n, MakeConstant<unsigned char>{static_cast<unsigned char>(bits)});
}
