/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer's step over the parts of a shard, many in one launch: master weights and both
 * moments in float are read, moved on and written in one pass, with gradients as the model has
 * them or in floats, and so are the parameters that the model computes with, rounded to its type to
 * nearest or by chance (ops/by_chance.h: the same bits as on a CPU). */
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/parts.cuh"
#include "worker_runtime/ops/by_chance.h"

namespace
{

/* A block moves BLOCK elements, the last of a part fewer. What MOST parts and the rest take goes
 * with the launch: 4 KiB of that are taken by every driver. */
enum { THREADS = 256, BLOCK = 1 << 12, MOST = 50 };

/* What is done to a master weight on its way to the model. */
enum rounding { KEEP, TO_BF16, TO_F16, BF16_BY_CHANCE, F16_BY_CHANCE };

/* struct dt_adamw with what is the same for all elements computed before. */
struct step {
    float beta1, beta2, rest1, rest2; /* rest: 1 - beta */
    float grad_scale, eps;
    float root; /* of what v lacks */
};

/* The same of struct dt_adamw_part: parameters E, gradients G. */
template <class E, class G> struct part {
    size_t n;
    float *master, *exp_avg, *exp_avg_sq;
    E *params; /* NULL: they are master */
    const G *grads;
    uint64_t chance;
    float rate, decay,
        pull;       /* rate: lr without m's bias; of the weight itself; into the gradient */
    unsigned first; /* block */
    enum rounding rounding;
    bool aligned; /* for four elements at a time */
};

template <class E, class G> struct table {
    step a;
    unsigned parts, blocks;
    part<E, G> part_of[MOST];
};

/* COUNT elements that are read and written as one. */
template <class T, int COUNT> struct alignas(sizeof(T) * COUNT) together {
    T at[COUNT];
};

__device__ inline float rounded(float x, enum rounding how, uint64_t chance, size_t i)
{
    switch (how) {
    case TO_BF16:
        return dt_bf16_to_float(dt_float_to_bf16(x));
    case TO_F16:
        return dt_f16_to_float(dt_float_to_f16(x));
    case BF16_BY_CHANCE:
        return dt_bf16_to_float(dt_float_to_bf16_by_chance(x, dt_chance_bits(chance, i)));
    case F16_BY_CHANCE:
        return dt_f16_to_float(dt_float_to_f16_by_chance(x, dt_chance_bits(chance, i)));
    default:
        return x;
    }
}

/* As the reference says it, in float. Which products are joined with additions is not left to the
 * compiler, so that an element's bits do not hang on whether it is alone or one of a few. */
template <class E, class G>
__device__ inline void move(const step &a, const part<E, G> &s, float grad, float *master, float *m,
                            float *v)
{
    float g = fmaf(grad, a.grad_scale, s.pull * *master);
    *m = fmaf(a.beta1, *m, a.rest1 * g);
    *v = fmaf(a.beta2, *v, a.rest2 * g * g);
    float by = s.rate * *m / fmaf(sqrtf(*v), a.root, a.eps);
    *master -= fmaf(s.decay, *master, by);
}

template <int COUNT, class E, class G>
__device__ inline void move_at(size_t at, const step &a, const part<E, G> &s)
{
    using floats = together<float, COUNT>;
    together<G, COUNT> g = *reinterpret_cast<const together<G, COUNT> *>(s.grads + at);
    floats p = *reinterpret_cast<const floats *>(s.master + at);
    floats m = *reinterpret_cast<const floats *>(s.exp_avg + at);
    floats v = *reinterpret_cast<const floats *>(s.exp_avg_sq + at);
    together<E, COUNT> params;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        move(a, s, dt_to_float(g.at[i]), &p.at[i], &m.at[i], &v.at[i]);
        params.at[i] = dt_from_float<E>(rounded(p.at[i], s.rounding, s.chance, at + i));
    }
    *reinterpret_cast<floats *>(s.master + at) = p;
    *reinterpret_cast<floats *>(s.exp_avg + at) = m;
    *reinterpret_cast<floats *>(s.exp_avg_sq + at) = v;
    if (s.params)
        *reinterpret_cast<together<E, COUNT> *>(s.params + at) = params;
}

template <class E, class G>
__global__ void __launch_bounds__(THREADS) adamw(const __grid_constant__ table<E, G> t)
{
    constexpr int COUNT = 4;
    const part<E, G> &s = t.part_of[dt_part_of_block(t)];
    size_t from = static_cast<size_t>(blockIdx.x - s.first) * BLOCK;
    size_t to = s.n - from < BLOCK ? s.n : from + BLOCK;
    size_t whole = s.aligned ? to - (to - from) % COUNT : from;
    for (size_t i = from + threadIdx.x * COUNT; i < whole; i += THREADS * COUNT)
        move_at<COUNT>(i, t.a, s);
    for (size_t i = whole + threadIdx.x; i < to; i += THREADS)
        move_at<1>(i, t.a, s);
}

enum rounding rounding_of(enum dt_dtype type, bool by_chance)
{
    if (type == DT_BF16)
        return by_chance ? BF16_BY_CHANCE : TO_BF16;
    if (type == DT_F16)
        return by_chance ? F16_BY_CHANCE : TO_F16;
    return KEEP;
}

step step_of(const struct dt_adamw *a)
{
    step s = {};
    s.beta1 = a->beta1;
    s.beta2 = a->beta2;
    s.rest1 = 1 - a->beta1;
    s.rest2 = 1 - a->beta2;
    s.grad_scale = a->grad_scale;
    s.eps = a->eps;
    s.root = 1 / sqrtf(a->bias2);
    return s;
}

template <class E, class G>
part<E, G> part_of(const struct dt_adamw *a, const struct dt_adamw_part *p)
{
    part<E, G> s = {};
    s.n = p->count;
    s.master = p->master;
    s.exp_avg = p->exp_avg;
    s.exp_avg_sq = p->exp_avg_sq;
    s.params = p->params == p->master ? nullptr : static_cast<E *>(p->params);
    s.grads = static_cast<const G *>(p->grads);
    s.chance = dt_mix(p->chance) + p->chance_at;
    s.rate = p->lr / a->bias1;
    s.decay = a->decoupled ? p->lr * p->weight_decay : 0;
    s.pull = a->decoupled ? 0 : p->weight_decay;
    s.rounding = rounding_of(a->model_type, p->chance != 0);
    s.aligned = dt_aligned16(s.master, s.exp_avg, s.exp_avg_sq) &&
                reinterpret_cast<uintptr_t>(s.params) % (4 * sizeof(E)) == 0 &&
                reinterpret_cast<uintptr_t>(s.grads) % (4 * sizeof(G)) == 0;
    return s;
}

/* Parts from *NEXT on that go into one launch: MOST, and as many blocks as a grid has. */
template <class E, class G>
table<E, G> next_table(const struct dt_adamw *a, size_t parts, const struct dt_adamw_part *p,
                       size_t *next)
{
    table<E, G> t = {};
    t.a = step_of(a);
    for (; *next < parts && t.parts < MOST; ++*next) {
        size_t blocks = dt_divide_up(p[*next].count, BLOCK);
        if (blocks > INT32_MAX - t.blocks)
            break;
        if (blocks == 0)
            continue;
        t.part_of[t.parts] = part_of<E, G>(a, &p[*next]);
        t.part_of[t.parts++].first = t.blocks;
        t.blocks += static_cast<unsigned>(blocks);
    }
    return t;
}

template <class E, class G>
cudaError_t run(const struct dt_adamw *a, size_t parts, const struct dt_adamw_part *p,
                cudaStream_t stream)
{
    static_assert(sizeof(table<E, G>) <= 4096, "what a launch takes along");
    for (size_t next = 0; next < parts;) {
        size_t before = next;
        table<E, G> t = next_table<E, G>(a, parts, p, &next);
        if (next == before)
            return cudaErrorInvalidValue; /* more than any device holds */
        if (t.parts == 0)
            continue;
        cudaError_t e = dt_launch(adamw<E, G>, dim3(t.blocks), dim3(THREADS), 0, stream, t);
        if (e != cudaSuccess)
            return e;
    }
    return cudaSuccess;
}

} // namespace

cudaError_t dt_cuda_adamw(enum dt_dtype elem, const struct dt_adamw *a, size_t parts,
                          const struct dt_adamw_part *part, struct dt_stream *s)
{
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return a->float_grads ? run<E, float>(a, parts, part, s->compute)
                              : run<E, E>(a, parts, part, s->compute);
    });
}
