// CUDA's built-in vector types, with its sizes and alignments.
#pragma once

#define HOST_VECTOR1(type, name)                                     \
    struct name##1 {                                                 \
        type x;                                                      \
    };                                                               \
    inline name##1 make_##name##1(type x) { return {x}; }
#define HOST_VECTOR2(type, name, bytes)                              \
    struct alignas(bytes) name##2 {                                  \
        type x, y;                                                   \
    };                                                               \
    inline name##2 make_##name##2(type x, type y) { return {x, y}; }
#define HOST_VECTOR3(type, name)                                     \
    struct name##3 {                                                 \
        type x, y, z;                                                \
    };                                                               \
    inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }
#define HOST_VECTOR4(type, name, bytes)                              \
    struct alignas(bytes) name##4 {                                  \
        type x, y, z, w;                                             \
    };                                                               \
    inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
#define HOST_VECTORS(type, name, bytes2, bytes4)                     \
    HOST_VECTOR1(type, name)                                         \
    HOST_VECTOR2(type, name, bytes2)                                 \
    HOST_VECTOR3(type, name)                                         \
    HOST_VECTOR4(type, name, bytes4)

HOST_VECTORS(signed char, char, 2, 4)
HOST_VECTORS(unsigned char, uchar, 2, 4)
HOST_VECTORS(short, short, 4, 8)
HOST_VECTORS(unsigned short, ushort, 4, 8)
HOST_VECTORS(int, int, 8, 16)
HOST_VECTORS(unsigned int, uint, 8, 16)
HOST_VECTORS(long, long, 2 * sizeof(long), 16)
HOST_VECTORS(unsigned long, ulong, 2 * sizeof(long), 16)
HOST_VECTORS(long long, longlong, 16, 16)
HOST_VECTORS(unsigned long long, ulonglong, 16, 16)
HOST_VECTORS(float, float, 8, 16)
HOST_VECTORS(double, double, 16, 16)

#undef HOST_VECTOR1
#undef HOST_VECTOR2
#undef HOST_VECTOR3
#undef HOST_VECTOR4
#undef HOST_VECTORS

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
