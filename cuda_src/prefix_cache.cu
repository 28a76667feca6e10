// What a cached prefix saves a prefill: its pages are shared through the page table, or copied, or written anew.
//
// A page is [2, page, H, D], K then V, in one piece. Requests that share a prefix form a group; the pages of a group's
// prefix are in `cached`. Page numbers count the cached pages first, then those of the requests' own pool.
//
// All kernels leave a table (a page number for every page of every request) and a probe (the first word of every page,
// read where the table now points to).
#include "common/copy_rows.cuh"

namespace {

using copy_rows::kThreads;

struct Request {
    unsigned int prefix;    // tokens
    unsigned int page;      // tokens of a page
    unsigned int hit_pages; // leading pages that are cached
    long long width;        // words of K (or V) of a token: heads * dim
    __device__ unsigned int pages() const { return (prefix + page - 1) / page; }
};

// Writes pages skip, skip + 1, … of every request from its new K and V [B, prefix, 2, H, D] into a pool that holds
// pages() - skip_in_pool of them a request; `first` is the number of the pool's first page.
__device__ inline void write_pages(const float* kv, int* pool, int* table, float* probe, long long batch,
        const Request& request, unsigned int skip, unsigned int skip_in_pool, long long first) {
    const unsigned int pages = request.pages(), held = pages - skip_in_pool;
    const unsigned int tokens = request.prefix - skip * request.page;
    const unsigned int rows = 2 * tokens;  // K and V of every token
    copy_rows::copy(kv, pool, batch * rows, request.width, request.width, [&](unsigned int row, unsigned int word) {
        const unsigned int b = row / rows, kv_row = row - b * rows;
        const unsigned int plane = kv_row & 1u, t = skip * request.page + (kv_row >> 1);
        const unsigned int p = t / request.page, offset = t - p * request.page;
        const long long slot = static_cast<long long>(b) * held + (p - skip_in_pool);
        const long long from = (static_cast<long long>(b) * request.prefix + t) * 2 + plane;
        return copy_rows::Place{from * request.width + word,
                ((slot * 2 + plane) * request.page + offset) * request.width + word};
    });
    const unsigned int written = pages - skip;
    const long long step = static_cast<long long>(gridDim.x) * kThreads;
    for (long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; i < batch * written; i += step) {
        const unsigned int b = static_cast<unsigned int>(i) / written;
        const unsigned int p = skip + static_cast<unsigned int>(i) - b * written;
        const long long entry = static_cast<long long>(b) * pages + p;
        const long long token = static_cast<long long>(b) * request.prefix + static_cast<long long>(p) * request.page;
        table[entry] = static_cast<int>(first + static_cast<long long>(b) * held + (p - skip_in_pool));
        probe[entry] = kv[token * 2 * request.width];
    }
}

__device__ inline Request request_of(long long prefix, long long page, long long hit_pages, long long width) {
    return {static_cast<unsigned int>(prefix), static_cast<unsigned int>(page), static_cast<unsigned int>(hit_pages),
            width};
}

}  // namespace

// No prefix cache: every page of every request is written.
extern "C" __global__ void __launch_bounds__(kThreads) fill_no_cache_kernel(const float* kv, int* pool, int* table,
        float* probe, long long batch, long long prefix, long long page, long long width, long long cached_pages) {
    write_pages(kv, pool, table, probe, batch, request_of(prefix, page, 0, width), 0, 0, cached_pages);
}

// Hits by reference: the table of a request points to its group's pages. A hit page a thread.
extern "C" __global__ void __launch_bounds__(kThreads) alias_hit_pages_kernel(const float* cached, int* table,
        float* probe, long long batch, long long share, long long pages, long long hit_pages, long long page_words) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= batch * hit_pages) return;
    const long long b = i / hit_pages;
    const long long p = i - b * hit_pages;
    const long long shared = b / share * hit_pages + p;
    table[b * pages + p] = static_cast<int>(shared);
    probe[b * pages + p] = cached[shared * page_words];
}

// The pages that are not cached; the pool holds these alone (skip_in_pool = hit_pages) or all pages (0).
extern "C" __global__ void __launch_bounds__(kThreads) fill_miss_pages_kernel(const float* kv, int* pool, int* table,
        float* probe, long long batch, long long prefix, long long page, long long width, long long hit_pages,
        long long skip_in_pool, long long cached_pages) {
    const Request request = request_of(prefix, page, hit_pages, width);
    write_pages(kv, pool, table, probe, batch, request, request.hit_pages, static_cast<unsigned int>(skip_in_pool),
            cached_pages);
}

// Hits by value: the pages of the group are copied into the request's own.
extern "C" __global__ void __launch_bounds__(kThreads) copy_hit_pages_kernel(const float* cached, int* pool,
        int* table, float* probe, long long batch, long long share, long long pages, long long hit_pages,
        long long page_words, long long cached_pages) {
    const unsigned int hits = static_cast<unsigned int>(hit_pages), sharing = static_cast<unsigned int>(share);
    const unsigned int held = static_cast<unsigned int>(pages), words = static_cast<unsigned int>(page_words);
    const unsigned int rows = static_cast<unsigned int>(batch) * hits;
    copy_rows::copy(cached, pool, rows, words, words, [&](unsigned int row, unsigned int word) {
        const unsigned int b = row / hits, p = row - b * hits;
        // Page numbers are below 2^31.
        return copy_rows::Place{static_cast<long long>(b / sharing * hits + p) * words + word,
                static_cast<long long>(b * held + p) * words + word};
    });
    const long long step = static_cast<long long>(gridDim.x) * kThreads;
    for (long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; i < rows; i += step) {
        const unsigned int b = static_cast<unsigned int>(i) / hits, p = static_cast<unsigned int>(i) - b * hits;
        table[b * held + p] = static_cast<int>(cached_pages + b * held + p);
        probe[b * held + p] = cached[static_cast<long long>(b / sharing * hits + p) * words];
    }
}

// Preparation: K and V as the projection would give them, for cached tokens what the cache holds. An element of
// [B, prefix, 2, width] a thread.
extern "C" __global__ void request_kv_kernel(const float* own, const float* cached, float* kv, long long batch,
        long long prefix, long long page, long long width, long long share, long long hit_pages) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= batch * prefix * 2 * width) return;
    const long long word = i % width;
    const long long plane = i / width % 2;
    const long long t = i / (2 * width) % prefix;
    const long long b = i / (2 * width * prefix);
    if (t < hit_pages * page) {
        const long long shared = b / share * hit_pages + t / page;
        kv[i] = cached[((shared * 2 + plane) * page + t % page) * width + word];
    } else {
        kv[i] = own[i];
    }
}
