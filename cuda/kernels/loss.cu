/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax cross-entropy of logits[rows, stride], the first VOCABULARY of each row, and its gradient
 * in place. With m a row's largest logit and S the sum of exp(logit - m):
 *
 *   loss = log(S) + m - logit[target]      gradient = scale * (exp(logit - m) / S - (v == target))
 *
 * where scale is that of all rows, times the row's weight if there are weights.
 * Where there is a cap, all this is of y = cap * tanh(logit / cap), and the gradient smaller by the
 * slope of that, 1 - (y / cap)^2.
 *
 * Where ranks have other words each, m, S and the target's logit of each rank's words are one
 * launch, and loss and gradient, by those of all ranks, another.
 *
 * A block takes a row and reads it once: m and S are kept together, S shrinking whenever m grows,
 * and the row stays in shared memory until its gradient is written. What has no room there (half of
 * a multiprocessor's, so that one block reads while another writes) is read again, out of the L2
 * cache, where it still is.
 *
 * Powers are approximate (approximate.cuh): a word's share is within 2 + 1.2 (m - logit) units of
 * its last place, 2^-16 of it at most, as it is 0 before more. */
#include "cuda/kernels/approximate.cuh"
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"

namespace
{

enum { THREADS = 512, FEW_THREADS = 64, AHEAD = 4, KEPT_BACK = 2048 };

/* What becomes of a logit before its loss, and how fast it does where it became Y. */
template <bool CAPPED> struct limit {
    float cap;

    __device__ float of(float x) const
    {
        return CAPPED ? cap * tanhf(x / cap) : x;
    }

    __device__ float slope(float y) const
    {
        return CAPPED ? 1 - y / cap * (y / cap) : 1;
    }
};

/* The largest so far, and the sum of exp(x - largest). */
struct tally {
    float largest, sum;
};

__device__ inline float exp_less(float x, float largest)
{
    return dt_exp(x - largest);
}

/* Nothing but -infinity so far: then x - largest is no number, but the sum is 0. */
__device__ inline float some(float largest)
{
    return largest == -INFINITY ? 0.0f : largest;
}

template <int N> __device__ inline void add(tally &t, const float (&x)[N])
{
    float largest = x[0];
#pragma unroll
    for (int i = 1; i < N; i++)
        largest = fmaxf(largest, x[i]);
    if (largest > t.largest) {
        t.sum *= exp_less(t.largest, largest);
        t.largest = largest;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        t.sum += exp_less(x[i], some(t.largest));
}

/* A row as the elements before the first that is 16-byte aligned, packs of 16 bytes, and what is
 * left: rows of an odd stride each begin differently. */
template <class E> struct row {
    static constexpr int COUNT = dt_pack<E>::COUNT;
    E *at;
    unsigned head, packs, tail; /* tail: where it begins */

    __device__ row(E *logits, size_t vocabulary)
    {
        unsigned length = static_cast<unsigned>(vocabulary);
        unsigned off = static_cast<unsigned>(reinterpret_cast<uintptr_t>(logits) % 16 / sizeof(E));
        at = logits;
        head = off ? COUNT - off : 0;
        head = head < length ? head : length;
        packs = (length - head) / COUNT;
        tail = head + packs * COUNT;
    }

    __device__ dt_pack<E> *pack(unsigned i) const
    {
        return reinterpret_cast<dt_pack<E> *>(at + head) + i;
    }
};

/* Calls use(i, load(i)) for every pack of this thread, with AHEAD loads under way at once. */
template <class E, int BLOCK, class Load, class Use>
__device__ inline void each_pack(unsigned packs, Load load, Use use)
{
    unsigned i = threadIdx.x;
    for (; i + (AHEAD - 1) * BLOCK < packs; i += AHEAD * BLOCK) {
        dt_pack<E> p[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            p[k] = load(i + k * BLOCK);
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            use(i + k * BLOCK, p[k]);
    }
    for (; i < packs; i += BLOCK)
        use(i, load(i));
}

/* Calls use(element) for those of this thread that are in no pack. */
template <class E, class Use>
__device__ inline void each_single(const row<E> &r, unsigned length, Use use)
{
    if (threadIdx.x < r.head)
        use(r.at[threadIdx.x]);
    if (threadIdx.x < length - r.tail)
        use(r.at[r.tail + threadIdx.x]);
}

template <class E, int BLOCK> __device__ inline void clear(E *at, size_t length)
{
    row<E> r(at, length);
    dt_pack<E> none;
#pragma unroll
    for (int i = 0; i < dt_pack<E>::COUNT; i++)
        none.at[i] = dt_from_float<E>(0.0f);
    for (unsigned i = threadIdx.x; i < r.packs; i += BLOCK)
        *r.pack(i) = none;
    each_single(r, static_cast<unsigned>(length), [&](E &x) { x = none.at[0]; });
}

/* This thread's part of a row, whose first packs are KEPT. */
template <class E, int BLOCK, bool CAPPED>
__device__ inline tally read_row(const row<E> &r, unsigned vocabulary, dt_pack<E> *keep,
                                 unsigned kept, const limit<CAPPED> &cap)
{
    tally t = {-INFINITY, 0.0f};
    each_pack<E, BLOCK>(
        r.packs, [&](unsigned i) { return *r.pack(i); },
        [&](unsigned i, const dt_pack<E> &p) {
            float x[dt_pack<E>::COUNT];
            if (i < kept)
                keep[i] = p;
#pragma unroll
            for (int k = 0; k < dt_pack<E>::COUNT; k++)
                x[k] = cap.of(dt_to_float(p.at[k]));
            add(t, x);
        });
    each_single(r, vocabulary, [&](E &element) {
        float x[1] = {cap.of(dt_to_float(element))};
        add(t, x);
    });
    return t;
}

template <class E, int BLOCK, bool CAPPED>
__device__ inline void write_row(const row<E> &r, unsigned vocabulary, const dt_pack<E> *keep,
                                 unsigned kept, float largest, float factor,
                                 const limit<CAPPED> &cap)
{
    auto slope = [&](E logit) {
        float y = cap.of(dt_to_float(logit));
        return dt_from_float<E>(exp_less(y, largest) * factor * cap.slope(y));
    };
    each_pack<E, BLOCK>(
        r.packs, [&](unsigned i) { return i < kept ? keep[i] : *r.pack(i); },
        [&](unsigned i, dt_pack<E> p) {
#pragma unroll
            for (int k = 0; k < dt_pack<E>::COUNT; k++)
                p.at[k] = slope(p.at[k]);
            *r.pack(i) = p;
        });
    each_single(r, vocabulary, [&](E &element) { element = slope(element); });
}

/* In the place of logits that HIT is the target's of; HERE: it is one of them. Each thread reads
 * back only what it kept or wrote itself, but for the target's element, which is read before and
 * written after all others: LOGITS must not be __restrict__, or a compiler may take it across the
 * barriers that see to this. */
template <class E, int BLOCK, bool CAPPED>
__device__ inline void write_gradients(const struct dt_cross_entropy &c, size_t n, const row<E> &r,
                                       const dt_pack<E> *keep, unsigned kept, const tally &t,
                                       float hit, bool here)
{
    limit<CAPPED> cap = {c.cap};
    float scale = c.weights ? c.scale * c.weights[n] : c.scale;
    write_row<E, BLOCK>(r, static_cast<unsigned>(c.vocabulary), keep, kept, t.largest,
                        scale / t.sum, cap);
    clear<E, BLOCK>(r.at + c.vocabulary, c.stride - c.vocabulary);
    __syncthreads();
    if (threadIdx.x == 0 && here)
        r.at[c.targets[n]] =
            dt_from_float<E>((exp_less(hit, t.largest) / t.sum - 1.0f) * scale * cap.slope(hit));
}

/* That of a row, of the threads of a block together. */
template <class E, int BLOCK, bool CAPPED>
__device__ inline tally tally_of(const row<E> &r, unsigned vocabulary, dt_pack<E> *keep,
                                 unsigned kept, const limit<CAPPED> &cap)
{
    tally t = read_row<E, BLOCK>(r, vocabulary, keep, kept, cap);
    float largest = dt_block_max<BLOCK>(t.largest);
    return {largest, dt_block_sum<BLOCK>(t.sum * exp_less(t.largest, some(largest)))};
}

/* A row that does not count. */
template <class E, int BLOCK>
__device__ inline void leave_out(float *loss, E *row, size_t stride, bool gradients)
{
    if (threadIdx.x == 0)
        *loss = 0;
    if (gradients)
        clear<E, BLOCK>(row, stride);
}

template <class E, int BLOCK, bool CAPPED>
__global__ void __launch_bounds__(BLOCK, 2) cross_entropy(struct dt_cross_entropy c, float *losses,
                                                          E *logits, bool gradients, unsigned kept)
{
    DT_SHARED_DYNAMIC(dt_pack<E>, keep);
    limit<CAPPED> cap = {c.cap};

    for (size_t n = blockIdx.x; n < c.rows; n += gridDim.x) {
        E *at = logits + n * c.stride;
        int32_t target = c.targets[n];
        if (target < 0) {
            leave_out<E, BLOCK>(&losses[n], at, c.stride, gradients);
            continue;
        }
        float hit = cap.of(dt_to_float(at[target]));
        row<E> r(at, c.vocabulary);
        tally t = tally_of<E, BLOCK>(r, static_cast<unsigned>(c.vocabulary), keep, kept, cap);
        if (threadIdx.x == 0)
            losses[n] = logf(t.sum) + (t.largest - hit);
        if (gradients)
            write_gradients<E, BLOCK, CAPPED>(c, n, r, keep, kept, t, hit, true);
    }
}

/* Of the words here alone: sums[rows,3] are m, S, and the target's logit. */
template <class E, int BLOCK, bool CAPPED>
__global__ void __launch_bounds__(BLOCK, 2)
    sum_words(struct dt_cross_entropy c, float *sums, E *logits)
{
    limit<CAPPED> cap = {c.cap};

    for (size_t n = blockIdx.x; n < c.rows; n += gridDim.x) {
        E *at = logits + n * c.stride;
        int32_t target = c.targets[n];
        tally t = {0, 0};
        float hit = 0;
        if (target >= 0) {
            row<E> r(at, c.vocabulary);
            t = tally_of<E, BLOCK, CAPPED>(r, static_cast<unsigned>(c.vocabulary), nullptr, 0, cap);
            if (static_cast<size_t>(target) < c.vocabulary)
                hit = cap.of(dt_to_float(at[target]));
        }
        if (threadIdx.x == 0) {
            sums[n * 3] = t.largest;
            sums[n * 3 + 1] = t.sum;
            sums[n * 3 + 2] = hit;
        }
    }
}

/* Row N of sums[parts,rows,3], as if one rank had all words; *HIT: the target's logit. */
__device__ inline tally join_parts(size_t parts, size_t rows, size_t n, const float *sums,
                                   float *hit)
{
    tally t = {-INFINITY, 0};
    *hit = 0;
    for (size_t part = 0; part < parts; part++)
        t.largest = fmaxf(t.largest, sums[(part * rows + n) * 3]);
    for (size_t part = 0; part < parts; part++) {
        const float *of = sums + (part * rows + n) * 3;
        t.sum += of[1] * exp_less(of[0], t.largest);
        *hit += of[2];
    }
    return t;
}

template <class E, int BLOCK, bool CAPPED>
__global__ void __launch_bounds__(BLOCK, 2)
    join_words(struct dt_cross_entropy c, size_t parts, const float *sums, float *losses, E *logits,
               bool gradients)
{
    for (size_t n = blockIdx.x; n < c.rows; n += gridDim.x) {
        E *at = logits + n * c.stride;
        int32_t target = c.targets[n];
        if (target < 0) {
            leave_out<E, BLOCK>(&losses[n], at, c.stride, gradients);
            continue;
        }
        float hit;
        tally t = join_parts(parts, c.rows, n, sums, &hit);
        if (threadIdx.x == 0)
            losses[n] = logf(t.sum) + (t.largest - hit);
        if (!gradients)
            continue;
        row<E> r(at, c.vocabulary);
        bool here = static_cast<size_t>(target) < c.vocabulary;
        write_gradients<E, BLOCK, CAPPED>(c, n, r, nullptr, 0, t, hit, here);
    }
}

/* Packs of a row that shared memory has room for, when a multiprocessor takes two. */
cudaError_t room(unsigned *packs)
{
    int device = 0, shared = 0, most = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    int half = (shared / 2 < most ? shared / 2 : most) - KEPT_BACK;
    *packs = half > 0 ? static_cast<unsigned>(half) / 16 : 0;
    return e;
}

/* A row for which a few threads are enough. */
template <class E> bool is_short(const struct dt_cross_entropy *c)
{
    return c->vocabulary / dt_pack<E>::COUNT < THREADS;
}

template <class E, bool CAPPED>
cudaError_t start(const struct dt_cross_entropy *c, float *losses, E *logits, bool gradients,
                  struct dt_stream *s)
{
    unsigned packs = static_cast<unsigned>(c->vocabulary / dt_pack<E>::COUNT), kept = 0;
    bool few = is_short<E>(c);
    cudaError_t e = gradients ? room(&kept) : cudaSuccess;
    if (e != cudaSuccess)
        return e;
    kept = kept < packs ? kept : packs;
    return dt_launch(few ? cross_entropy<E, FEW_THREADS, CAPPED>
                         : cross_entropy<E, THREADS, CAPPED>,
                     dim3(dt_blocks(c->rows, 1)), dim3(few ? FEW_THREADS : THREADS), kept * 16ul,
                     s->compute, *c, losses, logits, gradients, kept);
}

template <class E, bool CAPPED>
cudaError_t start_sums(const struct dt_cross_entropy *c, float *sums, E *logits,
                       struct dt_stream *s)
{
    bool few = is_short<E>(c);
    return dt_launch(few ? sum_words<E, FEW_THREADS, CAPPED> : sum_words<E, THREADS, CAPPED>,
                     dim3(dt_blocks(c->rows, 1)), dim3(few ? FEW_THREADS : THREADS), 0, s->compute,
                     *c, sums, logits);
}

template <class E, bool CAPPED>
cudaError_t start_join(const struct dt_cross_entropy *c, size_t parts, const float *sums,
                       float *losses, E *logits, bool gradients, struct dt_stream *s)
{
    bool few = is_short<E>(c);
    return dt_launch(few ? join_words<E, FEW_THREADS, CAPPED> : join_words<E, THREADS, CAPPED>,
                     dim3(dt_blocks(c->rows, 1)), dim3(few ? FEW_THREADS : THREADS), 0, s->compute,
                     *c, parts, sums, losses, logits, gradients);
}

bool is_sound(const struct dt_cross_entropy *c)
{
    return c->vocabulary > 0 && c->vocabulary <= c->stride && c->stride <= INT32_MAX;
}

} // namespace

cudaError_t dt_cuda_cross_entropy(enum dt_dtype elem, const struct dt_cross_entropy *c,
                                  float *losses, void *logits, bool gradients, struct dt_stream *s)
{
    if (c->rows == 0)
        return cudaSuccess;
    if (!is_sound(c))
        return cudaErrorInvalidValue;
    return dt_with_elem(elem, [&](auto of) {
        using E = decltype(of);
        E *at = static_cast<E *>(logits);
        return c->cap > 0 ? start<E, true>(c, losses, at, gradients, s)
                          : start<E, false>(c, losses, at, gradients, s);
    });
}

cudaError_t dt_cuda_cross_entropy_sums(enum dt_dtype elem, const struct dt_cross_entropy *c,
                                       float *sums, const void *logits, struct dt_stream *s)
{
    if (c->rows == 0)
        return cudaSuccess;
    if (!is_sound(c))
        return cudaErrorInvalidValue;
    return dt_with_elem(elem, [&](auto of) {
        using E = decltype(of);
        E *at = static_cast<E *>(const_cast<void *>(logits)); /* which are read */
        return c->cap > 0 ? start_sums<E, true>(c, sums, at, s)
                          : start_sums<E, false>(c, sums, at, s);
    });
}

cudaError_t dt_cuda_cross_entropy_join(enum dt_dtype elem, const struct dt_cross_entropy *c,
                                       size_t parts, const float *sums, float *losses, void *logits,
                                       bool gradients, struct dt_stream *s)
{
    if (c->rows == 0)
        return cudaSuccess;
    if (!is_sound(c))
        return cudaErrorInvalidValue;
    return dt_with_elem(elem, [&](auto of) {
        using E = decltype(of);
        E *at = static_cast<E *>(logits);
        return c->cap > 0 ? start_join<E, true>(c, parts, sums, losses, at, gradients, s)
                          : start_join<E, false>(c, parts, sums, losses, at, gradients, s);
    });
}
