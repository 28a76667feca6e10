// The end of a compiled unit: the table of its kernels and the functions Python calls. The unit defines HOST_KERNELS
// as HOST_KERNEL(name) for each entry point, and HOST_ABI as a string that changes with these headers.
//
// A process uses the pool of the first library it loads for a given HOST_ABI; the other libraries run their own
// kernels on its threads and stacks.
#pragma once

#include "pool.h"

namespace host {

struct Entry {
    const char* name;
    void (*invoke)(const char* arguments);
    void (*run)(Worker&, Launch&);
    int count;
    const char* const* kinds;  // NumPy's type codes, "i8" or "f4"; "p" for a pointer, "?" for what cannot be passed
};

template <class T>
constexpr const char* kKind = "?";
template <class T>
constexpr const char* kKind<T*> = "p";
template <>
constexpr const char* kKind<bool> = "b1";
template <>
constexpr const char* kKind<char> = "i1";
template <>
constexpr const char* kKind<signed char> = "i1";
template <>
constexpr const char* kKind<unsigned char> = "u1";
template <>
constexpr const char* kKind<short> = "i2";
template <>
constexpr const char* kKind<unsigned short> = "u2";
template <>
constexpr const char* kKind<int> = "i4";
template <>
constexpr const char* kKind<unsigned> = "u4";
template <>
constexpr const char* kKind<long> = sizeof(long) == 8 ? "i8" : "i4";
template <>
constexpr const char* kKind<unsigned long> = sizeof(long) == 8 ? "u8" : "u4";
template <>
constexpr const char* kKind<long long> = "i8";
template <>
constexpr const char* kKind<unsigned long long> = "u8";
template <>
constexpr const char* kKind<float> = "f4";
template <>
constexpr const char* kKind<double> = "f8";

template <class T>
struct Plain { using Type = T; };
template <class T>
struct Plain<const T> { using Type = T; };

template <class T>
inline T argument(const char* arguments, unsigned index) {
    T value;
    __builtin_memcpy(static_cast<void*>(&value), arguments + 8 * index, sizeof value < 8 ? sizeof value : 8);
    return value;
}

template <unsigned... I>
struct Indices {};
template <unsigned N, unsigned... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <unsigned... I>
struct Count<0, I...> { using Type = Indices<I...>; };

template <auto function>
struct Kernel;
template <class... A, void (*function)(A...)>
struct Kernel<function> {
    static constexpr const char* kinds[sizeof...(A) + 1] = {kKind<typename Plain<A>::Type>..., nullptr};
    template <unsigned... I>
    static void call(const char* arguments, Indices<I...>) {
        (void)arguments;
        do {
            function(argument<typename Plain<A>::Type>(arguments, I)...);
        } while (next_thread());
    }
    static void invoke(const char* arguments) { call(arguments, typename Count<sizeof...(A)>::Type()); }
    static constexpr Entry entry(const char* name) { return {name, invoke, run_blocks, sizeof...(A), kinds}; }
};

}  // namespace host

#define HOST_KERNEL(name) ::host::Kernel<&name>::entry(#name),
static const ::host::Entry host_table[] = {HOST_KERNELS{nullptr, nullptr, nullptr, 0, nullptr}};

#define HOST_EXPORT extern "C" __attribute__((visibility("default")))

#if HOST_SANITIZE
#define HOST_MODE " sanitize"
#else
#define HOST_MODE ""
#endif
#if HOST_REGISTER_SWITCH
#define HOST_SWITCH " registers"
#else
#define HOST_SWITCH " ucontext"
#endif

HOST_EXPORT const char* host_abi() { return HOST_ABI HOST_MODE HOST_SWITCH; }
#if HOST_SANITIZE
// Where this library's static shared variables are: (address, bytes) each. The table stays the caller's.
HOST_EXPORT void host_static_shared(const uint64_t* spans, unsigned count) {
    ::host::static_shared = {spans, count};
}
#endif
HOST_EXPORT const ::host::Entry* host_entries() { return host_table; }
HOST_EXPORT void* host_pool_create(unsigned cores) { return new ::host::Pool(HOST_SANITIZE || !cores ? 1 : cores); }
HOST_EXPORT void host_pool_destroy(void* pool) { static_cast<::host::Pool*>(pool)->destroy(); }

// Runs a kernel of any library with the same HOST_ABI to its end. 0, or 1 with a message in `error` (256 bytes).
// Under the sanitizer: `seed` of the order of threads and blocks, 0 = not shuffled; whether to `count` barriers.
HOST_EXPORT int host_launch(void* pool, const ::host::Entry* entry, const unsigned* grid, const unsigned* block,
                            size_t shared_bytes, const char* arguments, int priority, uint64_t seed, int count,
                            char* error) {
    ::host::Launch launch = {};
    launch.run = entry->run;
    launch.invoke = entry->invoke;
    launch.arguments = arguments;
    launch.grid = {grid[0], grid[1], grid[2]};
    launch.block = {block[0], block[1], block[2]};
    launch.blocks = static_cast<uint64_t>(grid[0]) * grid[1] * grid[2];
    launch.shared_bytes = shared_bytes;
    launch.seed = seed;
    launch.shuffled = seed != 0;
    launch.counted = count != 0;
    static_cast<::host::Pool*>(pool)->run(launch, priority);
    if (launch.failed) memcpy(error, launch.error, sizeof launch.error);
    return launch.failed;
}
