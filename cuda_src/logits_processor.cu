// What happens to logits [batch, vocabulary] between the model and the sampler: temperature, repetition penalty, forbidden
// tokens, and the cutoff of the nucleus (top-p).
//
// A processed logit is x / temperature; of a token among the row's recent ones it is then divided by the penalty when
// positive and multiplied by it otherwise, once however often the token occurs; a forbidden token gets kMasked.
#include "common/order.cuh"
#include "common/reduce.cuh"
#include "common/row_scan.cuh"

namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * reduce::kWarp;
constexpr int kChunk = 4096;        // most logits a block of the fused kernel works on
constexpr int kWords = kChunk / 32;
constexpr int kQuads = kChunk / (4 * kThreads);  // a thread's, of 16 bytes
constexpr float kMasked = -65504.0f;  // the lowest number of fp16: finite, and without any probability

__device__ inline float penalised(float value, float penalty) {
    return value > 0.0f ? value / penalty : value * penalty;
}

__device__ inline float process(float logit, float inv_temperature, float penalty, unsigned int recent, unsigned int bad) {
    const float value = logit * inv_temperature;
    return bad ? kMasked : recent ? penalised(value, penalty) : value;
}

// Marks which logits of the flat range [begin, end) appear in `ids` [rows, count], ids of their rows.
__device__ inline void mark(const int* ids, long long count, long long width, long long begin, long long end,
        unsigned int* marks) {
    if (count == 0) return;
    const long long first = begin / width, last = (end - 1) / width;
    for (long long i = first * count + threadIdx.x; i < (last + 1) * count; i += kThreads) {
        const long long place = i / count * width + ids[i] - begin;
        if (place >= 0 && place < end - begin) atomicOr(marks + place / 32, 1u << (place % 32));
    }
}

// Nucleus: weights are exp(x - largest x) in units of 2^-40, integers, so that their sums do not depend on the order in
// which blocks add them up. 2^23 of them fit 64 bits.
constexpr float kUnits = 1099511627776.0f;
constexpr float kLog2E = 1.44269504f;
constexpr int kBins = 1024;           // of the first look at a row
constexpr float kBinsPerUnit = 36.0f;  // they reach 28 below the largest logit, where a weight is less than a unit
constexpr int kDigits = 256;

__device__ inline unsigned long long weight_of(float below) {
    return static_cast<unsigned long long>(rintf(exp2f(-kLog2E * below) * kUnits));
}

// Grows with the distance from the largest logit, so bins keep the order of the logits; kBins for what has no weight.
__device__ inline int bin_of(float below) {
    const float scaled = below * kBinsPerUnit;
    return scaled < static_cast<float>(kBins) ? static_cast<int>(scaled) : kBins;
}

// Smallest count, at most 2^23, with count * weight >= sum > 0. Bit by bit: a division of 64 bits is a call.
__device__ inline unsigned long long count_to_reach(unsigned long long sum, unsigned long long weight) {
    unsigned long long short_of = 0ULL;  // the largest count that does not reach it
#pragma unroll 1
    for (int bit = 22; bit >= 0; --bit) {
        if ((short_of + (1ULL << bit)) * weight < sum) short_of += 1ULL << bit;
    }
    return short_of + 1ULL;
}

// What the three kernels hand on for each row.
struct Nucleus {
    unsigned int largest;          // rank of the largest logit
    unsigned int bin;              // where the weight reaches the target
    unsigned int candidates;       // logits in it
    unsigned int above;            // logits in the bins before it
    unsigned long long above_weight;
    unsigned long long target;
    unsigned long long total;
};

// Sum over the threads of the block before this one, and over all of them in `total`.
__device__ inline unsigned long long sum_before(unsigned long long value, unsigned long long (&scratch)[kWarps],
        unsigned long long* total) {
    const int warp = static_cast<int>(threadIdx.x) / reduce::kWarp;
    const int lane = static_cast<int>(threadIdx.x) % reduce::kWarp;
    unsigned long long upto = value;
#pragma unroll
    for (int offset = 1; offset < reduce::kWarp; offset *= 2) {
        const unsigned long long other = __shfl_up_sync(reduce::kAllLanes, upto, offset);
        if (lane >= offset) upto += other;
    }
    __syncthreads();
    if (lane == reduce::kWarp - 1) scratch[warp] = upto;
    __syncthreads();
    unsigned long long before = 0ULL, all = 0ULL;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
        if (w < warp) before += scratch[w];
        all += scratch[w];
    }
    *total = all;
    return before + upto - value;
}

struct RankVisitor {
    unsigned int largest;

    __device__ inline void take_one(float value, int) {
        const unsigned int rank = order::rank_of(value);
        largest = rank > largest ? rank : largest;
    }
    __device__ inline void take(const float (&value)[4], int column) {
#pragma unroll
        for (int i = 0; i < 4; ++i) take_one(value[i], column + i);
    }
};

struct WeightVisitor {
    unsigned long long* bins;
    float largest;

    __device__ inline void take_one(float value, int) {
        const float below = largest - value;
        const int bin = bin_of(below);
        if (bin < kBins) atomicAdd(bins + bin, weight_of(below));
    }
    __device__ inline void take(const float (&value)[4], int column) {
#pragma unroll
        for (int i = 0; i < 4; ++i) take_one(value[i], column + i);
    }
};

// Collects the ranks of the logits in one bin and counts those in the bins before it.
struct CandidateVisitor {
    unsigned int* ranks;
    unsigned int* count;
    float largest;
    int bin;
    unsigned int above;

    __device__ inline void take_one(float value, int) {
        const int found = bin_of(largest - value);
        above += found < bin ? 1u : 0u;
        if (found == bin) ranks[atomicAdd(count, 1u)] = order::rank_of(value);
    }
    __device__ inline void take(const float (&value)[4], int column) {
#pragma unroll
        for (int i = 0; i < 4; ++i) take_one(value[i], column + i);
    }
};

}  // namespace

// processed = logits * inv_temperature, n elements, a quad a thread.
extern "C" __global__ void __launch_bounds__(kThreads) temperature_kernel(const float* logits, float* processed,
        long long n, float inv_temperature) {
    const long long quad = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (4 * quad + 4 <= n) {
        float4 value = reinterpret_cast<const float4*>(logits)[quad];
        value.x *= inv_temperature;
        value.y *= inv_temperature;
        value.z *= inv_temperature;
        value.w *= inv_temperature;
        reinterpret_cast<float4*>(processed)[quad] = value;
    } else {
        for (long long i = 4 * quad; i < n; ++i) processed[i] = logits[i] * inv_temperature;
    }
}

// Penalises recent_ids [rows, recent] in place, an id a thread. Of an id that occurs several times in a row only the first
// acts: no logit is touched twice, nor by two threads.
extern "C" __global__ void __launch_bounds__(kThreads) repetition_penalty_scatter_kernel(float* processed,
        const int* recent_ids, long long rows, long long width, long long recent, float penalty) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= rows * recent) return;
    const long long row = i / recent;
    const int id = recent_ids[i];
    for (long long earlier = row * recent; earlier < i; ++earlier) {
        if (recent_ids[earlier] == id) return;
    }
    float* place = processed + row * width + id;
    *place = penalised(*place, penalty);
}

// Masks bad_ids [rows, bad] in place, an id a thread; a repeated id is masked again with the same value.
extern "C" __global__ void __launch_bounds__(kThreads) bad_words_mask_scatter_kernel(float* processed,
        const int* bad_ids, long long rows, long long width, long long bad) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i < rows * bad) processed[i / bad * width + bad_ids[i]] = kMasked;
}

// All three at once over n = rows * width logits, `chunk` (a multiple of 32 up to kChunk) a block. Both lists become bits,
// one a logit, so that a logit looks at a bit and not through the lists.
extern "C" __global__ void __launch_bounds__(kThreads) fused_logits_processor_kernel(const float* logits,
        float* processed, const int* recent_ids, const int* bad_ids, long long n, long long width, long long recent,
        long long bad, long long chunk, float inv_temperature, float penalty) {
    __shared__ unsigned int seen[kWords];
    __shared__ unsigned int masked[kWords];
    const long long begin = blockIdx.x * chunk;
    const long long end = begin + chunk < n ? begin + chunk : n;
    for (int i = static_cast<int>(threadIdx.x); i < kWords; i += kThreads) seen[i] = masked[i] = 0u;
    __syncthreads();
    mark(recent_ids, recent, width, begin, end, seen);
    mark(bad_ids, bad, width, begin, end, masked);
    __syncthreads();
    const int count = static_cast<int>(end - begin);
    float4 loaded[kQuads];
#pragma unroll
    for (int u = 0; u < kQuads; ++u) {
        const int at = 4 * (u * kThreads + static_cast<int>(threadIdx.x));
        if (at + 4 <= count) loaded[u] = *reinterpret_cast<const float4*>(logits + begin + at);
    }
#pragma unroll
    for (int u = 0; u < kQuads; ++u) {
        const int at = 4 * (u * kThreads + static_cast<int>(threadIdx.x));
        if (at >= count) continue;
        const unsigned int penalties = (seen[at / 32] >> (at % 32)) & 15u;
        const unsigned int masks = (masked[at / 32] >> (at % 32)) & 15u;
        if (at + 4 <= count) {
            float4 value = loaded[u];
            value.x = process(value.x, inv_temperature, penalty, penalties & 1u, masks & 1u);
            value.y = process(value.y, inv_temperature, penalty, penalties & 2u, masks & 2u);
            value.z = process(value.z, inv_temperature, penalty, penalties & 4u, masks & 4u);
            value.w = process(value.w, inv_temperature, penalty, penalties & 8u, masks & 8u);
            *reinterpret_cast<float4*>(processed + begin + at) = value;
        } else {
#pragma unroll 1
            for (int i = 0; at + i < count; ++i) {
                const unsigned int bit = 1u << i;
                processed[begin + at + i] =
                        process(logits[begin + at + i], inv_temperature, penalty, penalties & bit, masks & bit);
            }
        }
    }
}

// Nucleus, 1 of 3: the largest logit of each row. Grid (parts, rows).
extern "C" __global__ void __launch_bounds__(kThreads) top_p_max_kernel(const float* processed,
        unsigned long long* nuclei, long long width) {
    RankVisitor visitor = {0u};
    row_scan::scan<kThreads>(processed, blockIdx.y, width, blockIdx.x, gridDim.x, visitor);
#pragma unroll
    for (int offset = reduce::kWarp / 2; offset > 0; offset /= 2) {
        const unsigned int other = __shfl_xor_sync(reduce::kAllLanes, visitor.largest, offset);
        visitor.largest = other > visitor.largest ? other : visitor.largest;
    }
    Nucleus* nucleus = reinterpret_cast<Nucleus*>(nuclei) + blockIdx.y;
    if (threadIdx.x % reduce::kWarp == 0) atomicMax(&nucleus->largest, visitor.largest);
}

// Nucleus, 2 of 3: weight by distance from the largest logit, and the bin where it reaches top_p of all. `histogram`
// [rows, kBins] is zero between launches. Grid (parts, rows).
extern "C" __global__ void __launch_bounds__(kThreads) top_p_histogram_kernel(const float* processed,
        unsigned long long* nuclei, unsigned long long* histogram, unsigned int* tickets, long long width, float top_p) {
    constexpr int kPerThread = kBins / kThreads;
    __shared__ unsigned long long bins[kBins];
    __shared__ unsigned long long scratch[kWarps];
    Nucleus* nucleus = reinterpret_cast<Nucleus*>(nuclei) + blockIdx.y;
    unsigned long long* all = histogram + static_cast<long long>(blockIdx.y) * kBins;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) bins[i * kThreads + threadIdx.x] = 0ULL;
    __syncthreads();
    WeightVisitor visitor = {bins, order::value_of(nucleus->largest)};
    row_scan::scan<kThreads>(processed, blockIdx.y, width, blockIdx.x, gridDim.x, visitor);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
        const int bin = i * kThreads + static_cast<int>(threadIdx.x);
        if (bins[bin] != 0ULL) atomicAdd(all + bin, bins[bin]);
    }
    if (!reduce::last_to_arrive(tickets + blockIdx.y, gridDim.x)) return;

    unsigned long long mine[kPerThread], sum = 0ULL, total = 0ULL;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
        unsigned long long* bin = all + threadIdx.x * kPerThread + i;
        mine[i] = __ldcg(bin);
        *bin = 0ULL;
        sum += mine[i];
    }
    unsigned long long before = sum_before(sum, scratch, &total);
    const double wanted = ceil(static_cast<double>(top_p) * static_cast<double>(total));
    const unsigned long long target = static_cast<unsigned long long>(wanted);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
        if (before < target && before + mine[i] >= target) {
            nucleus->bin = threadIdx.x * kPerThread + i;
            nucleus->above_weight = before;
            nucleus->target = target;
            nucleus->total = total;
        }
        before += mine[i];
    }
}

// Nucleus, 3 of 3: the logits of that bin are collected in `ranks` [rows, width], and the last block of a row finds among
// them the one that reaches the target, digit by digit. cutoff is the smallest logit kept; of several equal to it as many
// are kept, lowest index first, as it takes. mass is the probability of what is kept, kept their number. Grid (parts, rows).
extern "C" __global__ void __launch_bounds__(kThreads) top_p_cutoff_kernel(const float* processed,
        unsigned long long* nuclei, unsigned int* ranks, unsigned int* tickets, float* cutoff, float* mass, int* kept,
        long long width) {
    __shared__ unsigned long long bins[kDigits];
    __shared__ unsigned long long scratch[kWarps];
    __shared__ unsigned int digit;
    __shared__ unsigned long long reached;
    static_assert(kDigits == kThreads, "a digit a thread");
    const long long row = blockIdx.y;
    Nucleus* nucleus = reinterpret_cast<Nucleus*>(nuclei) + row;
    unsigned int* mine = ranks + row * width;
    const float largest = order::value_of(nucleus->largest);
    CandidateVisitor visitor = {mine, &nucleus->candidates, largest, static_cast<int>(nucleus->bin), 0u};
    row_scan::scan<kThreads>(processed, row, width, blockIdx.x, gridDim.x, visitor);
    if (visitor.above != 0u) atomicAdd(&nucleus->above, visitor.above);
    if (!reduce::last_to_arrive(tickets + row, gridDim.x)) return;

    const unsigned int candidates = __ldcg(&nucleus->candidates);
    const unsigned long long target = nucleus->target;
    unsigned long long above = nucleus->above_weight, total = 0ULL;
    unsigned int prefix = 0u;
    for (int shift = 24; shift >= 0; shift -= 8) {
        bins[threadIdx.x] = 0ULL;
        __syncthreads();
        for (unsigned int i = threadIdx.x; i < candidates; i += kThreads) {
            const unsigned int rank = __ldcg(mine + i);
            // The digits before this one, none of them at first: a shift by 32 would not be defined.
            if (((rank ^ prefix) >> shift) < static_cast<unsigned int>(kDigits)) {
                const unsigned int place = kDigits - 1u - ((rank >> shift) & (kDigits - 1u));
                atomicAdd(bins + place, weight_of(largest - order::value_of(rank)));
            }
        }
        __syncthreads();
        const unsigned long long here = bins[threadIdx.x];
        const unsigned long long before = above + sum_before(here, scratch, &total);
        if (before < target && before + here >= target) {
            digit = kDigits - 1u - threadIdx.x;
            reached = before;
        }
        __syncthreads();
        prefix |= digit << shift;
        above = reached;
    }

    unsigned long long counted = 0ULL;  // larger ones in the upper half, equal ones in the lower
    for (unsigned int i = threadIdx.x; i < candidates; i += kThreads) {
        const unsigned int rank = __ldcg(mine + i);
        counted += rank > prefix ? 1ULL << 32 : rank == prefix ? 1ULL : 0ULL;
    }
    sum_before(counted, scratch, &total);
    if (threadIdx.x != 0) return;
    const float value = order::value_of(prefix);
    const unsigned long long weight = weight_of(largest - value);
    const unsigned long long equal = count_to_reach(target - above, weight);
    cutoff[row] = value;
    mass[row] = __fdividef(static_cast<float>(above + equal * weight), static_cast<float>(nucleus->total));
    kept[row] = static_cast<int>(__ldcg(&nucleus->above) + static_cast<unsigned int>(total >> 32) + equal);
    nucleus->largest = 0u;
    nucleus->candidates = 0u;
    nucleus->above = 0u;
}
