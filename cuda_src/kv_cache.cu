// Writing keys and values into a KV cache of three layouts: a whole prompt, or one token a sequence.
//
// K and V arrive as a projection leaves them, token by token: [B, T, H, D]. The cache has a plane for K and one for V:
//   BSHD   [2, B, T, H, D]         as it comes
//   BHSD   [2, B, H, T, D]         each head's tokens together
//   paged  [2, pages, page, H, D]  token-major within a page; table[b, t / page] names the page
// blockIdx.y is the plane. Caches are handled as 32-bit words: layouts move bits and never look at the values.
#include "common/copy_rows.cuh"

namespace {

using copy_rows::kThreads;

struct Size {
    unsigned int context;
    unsigned int heads;
    unsigned int dim;
};

__device__ inline Size size_of(long long context, long long heads, long long dim) {
    return {static_cast<unsigned int>(context), static_cast<unsigned int>(heads), static_cast<unsigned int>(dim)};
}

// Word `word` (of heads * dim) of token t of sequence b in each layout, from the start of a plane.

__device__ inline long long in_bshd(const Size& size, unsigned int b, unsigned int t, unsigned int word) {
    return (static_cast<long long>(b) * size.context + t) * size.heads * size.dim + word;
}

__device__ inline long long in_bhsd(const Size& size, unsigned int b, unsigned int t, unsigned int word) {
    const unsigned int h = word / size.dim;
    return ((static_cast<long long>(b) * size.heads + h) * size.context + t) * size.dim + (word - h * size.dim);
}

__device__ inline long long in_pages(const Size& size, const int* table, unsigned int page, unsigned int b,
        unsigned int t, unsigned int word) {
    const unsigned int table_width = (size.context + page - 1) / page;
    const unsigned int logical = t / page;
    const long long slot = static_cast<long long>(table[static_cast<long long>(b) * table_width + logical]) * page
                           + (t - logical * page);
    return slot * size.heads * size.dim + word;
}

// All tokens of a plane.
template <class Layout>
__device__ inline void fill(const float* k, const float* v, int* cache, long long plane, long long batch,
        const Size& size, long long contiguous, const Layout& layout) {
    const long long width = static_cast<long long>(size.heads) * size.dim;
    copy_rows::copy(blockIdx.y == 0 ? k : v, cache + blockIdx.y * plane, batch * size.context, width, contiguous,
            [&](unsigned int token, unsigned int word) {
                const unsigned int b = token / size.context;
                return copy_rows::Place{token * width + word, layout(b, token - b * size.context, word)};
            });
}

// Token positions[b] of each sequence b.
template <class Layout>
__device__ inline void append(const float* k, const float* v, const int* positions, int* cache, long long plane,
        long long batch, const Size& size, long long contiguous, const Layout& layout) {
    const long long width = static_cast<long long>(size.heads) * size.dim;
    copy_rows::copy(blockIdx.y == 0 ? k : v, cache + blockIdx.y * plane, batch, width, contiguous,
            [&](unsigned int b, unsigned int word) {
                return copy_rows::Place{b * width + word, layout(b, static_cast<unsigned int>(positions[b]), word)};
            });
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) fill_bshd_kernel(const float* k, const float* v,
        int* cache, long long batch, long long context, long long heads, long long dim) {
    const Size size = size_of(context, heads, dim);
    fill(k, v, cache, batch * context * heads * dim, batch, size, heads * dim,
            [&](unsigned int b, unsigned int t, unsigned int word) { return in_bshd(size, b, t, word); });
}

extern "C" __global__ void __launch_bounds__(kThreads) fill_bhsd_kernel(const float* k, const float* v,
        int* cache, long long batch, long long context, long long heads, long long dim) {
    const Size size = size_of(context, heads, dim);
    fill(k, v, cache, batch * context * heads * dim, batch, size, dim,
            [&](unsigned int b, unsigned int t, unsigned int word) { return in_bhsd(size, b, t, word); });
}

extern "C" __global__ void __launch_bounds__(kThreads) fill_paged_kernel(const float* k, const float* v,
        const int* table, int* pool, long long batch, long long context, long long heads, long long dim,
        long long pages, long long page) {
    const Size size = size_of(context, heads, dim);
    const unsigned int tokens = static_cast<unsigned int>(page);
    fill(k, v, pool, pages * page * heads * dim, batch, size, heads * dim,
            [&](unsigned int b, unsigned int t, unsigned int w) { return in_pages(size, table, tokens, b, t, w); });
}

extern "C" __global__ void __launch_bounds__(kThreads) fill_bshd_append_kernel(const float* k, const float* v,
        const int* positions, int* cache, long long batch, long long context, long long heads, long long dim) {
    const Size size = size_of(context, heads, dim);
    append(k, v, positions, cache, batch * context * heads * dim, batch, size, heads * dim,
            [&](unsigned int b, unsigned int t, unsigned int word) { return in_bshd(size, b, t, word); });
}

extern "C" __global__ void __launch_bounds__(kThreads) fill_bhsd_append_kernel(const float* k, const float* v,
        const int* positions, int* cache, long long batch, long long context, long long heads, long long dim) {
    const Size size = size_of(context, heads, dim);
    append(k, v, positions, cache, batch * context * heads * dim, batch, size, dim,
            [&](unsigned int b, unsigned int t, unsigned int word) { return in_bhsd(size, b, t, word); });
}

extern "C" __global__ void __launch_bounds__(kThreads) fill_paged_append_kernel(const float* k, const float* v,
        const int* positions, const int* table, int* pool, long long batch, long long context, long long heads,
        long long dim, long long pages, long long page) {
    const Size size = size_of(context, heads, dim);
    const unsigned int tokens = static_cast<unsigned int>(page);
    append(k, v, positions, pool, pages * page * heads * dim, batch, size, heads * dim,
            [&](unsigned int b, unsigned int t, unsigned int w) { return in_pages(size, table, tokens, b, t, w); });
}

// How an append is checked, untimed: the tokens it should have written, out of a cache with these strides, an element
// of [2, B, H, D] a thread. `page` is 0 for a cache without pages.
extern "C" __global__ void __launch_bounds__(kThreads) read_appended_kernel(const int* cache,
        const int* positions, const int* table, int* appended, long long batch, long long heads, long long dim,
        long long plane, long long sequence_stride, long long token_stride, long long head_stride,
        long long table_width, long long page) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= 2 * batch * heads * dim) return;
    const long long d = i % dim;
    const long long h = i / dim % heads;
    const long long b = i / (dim * heads) % batch;
    const long long kv = i / (dim * heads * batch);
    long long token = positions[b] * token_stride + b * sequence_stride;
    if (page > 0) token = (table[b * table_width + positions[b] / page] * page + positions[b] % page) * token_stride;
    appended[i] = cache[kv * plane + token + h * head_stride + d];
}
