// Reading the rows of a matrix of floats whose width need not be a multiple of four: rows then start anywhere in a
// 16-byte word. The quads that lie within a row are loaded whole, its few first and last elements one by one.
#pragma once

namespace row_scan {

constexpr int kUnroll = 4;  // quads a thread has in flight

// Part `part` of `parts` of a row, narrower than 2^32, goes to the block's kThreads threads, and each thread hands what it reads to `visitor`,
// columns ascending: take(const float (&value)[4], int column) for four neighbours, take_one(value, column) for one.
template <int kThreads, class Visitor>
__device__ inline void scan(const float* data, long long row, long long width, unsigned int part,
        unsigned int parts, Visitor& visitor) {
    const long long begin = row * width, end = begin + width;
    long long first = (begin + 3) / 4, last = end / 4;  // whole quads
    if (last < first) last = first;
    const long long body = 4 * first < end ? 4 * first : end;    // where they begin
    const long long rest = 4 * last < end ? 4 * last : end;      // and what follows them

    if (part == 0 && begin + threadIdx.x < body) {
        visitor.take_one(data[begin + threadIdx.x], static_cast<int>(threadIdx.x));
    }
    const float4* quads = reinterpret_cast<const float4*>(data);
    // Equal shares, in 32 bits: a division of 64 is a call. The first `more` parts have one quad more.
    const unsigned int count = static_cast<unsigned int>(last - first);
    const unsigned int share = count / parts, more = count % parts;
    const long long start = first + static_cast<long long>(part) * share + (part < more ? part : more);
    const long long stop = start + share + (part < more ? 1 : 0);
    for (long long quad = start + threadIdx.x; quad < stop; quad += kUnroll * kThreads) {
        float4 loaded[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const long long wanted = quad + u * kThreads;
            loaded[u] = quads[wanted < stop ? wanted : stop - 1];
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const long long taken = quad + u * kThreads;
            const float value[4] = {loaded[u].x, loaded[u].y, loaded[u].z, loaded[u].w};
            if (taken < stop) visitor.take(value, static_cast<int>(4 * taken - begin));
        }
    }
    if (part == parts - 1 && rest + threadIdx.x < end) {
        visitor.take_one(data[rest + threadIdx.x], static_cast<int>(rest + threadIdx.x - begin));
    }
}

}  // namespace row_scan
