/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer's step over n elements of a shard: master weights and both moments in float are
 * read, moved on and written in one pass, and so are the parameters that the model computes with,
 * rounded to its type to nearest or by chance (ops/by_chance.h: the same bits as on a CPU). */
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"
#include "worker_runtime/ops/by_chance.h"

namespace
{

enum { THREADS = 256 };

/* What is done to a master weight on its way to the model. */
enum rounding { KEEP, TO_BF16, TO_F16, BF16_BY_CHANCE, F16_BY_CHANCE };

/* struct dt_adamw with what is the same for all elements computed before. */
struct step {
    float beta1, beta2, rest1, rest2; /* rest: 1 - beta */
    float grad_scale, eps, rate;      /* rate: lr without m's bias */
    float root;                       /* of what v lacks */
    float decay, pull;                /* of the weight itself; into the gradient */
    enum rounding rounding;
    uint64_t chance;
};

template <class E> struct shard {
    size_t n;
    float *master, *exp_avg, *exp_avg_sq;
    E *params; /* NULL: they are master */
    const float *grads;
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
__device__ inline void move(const step &a, float grad, float *master, float *m, float *v)
{
    float g = fmaf(grad, a.grad_scale, a.pull * *master);
    *m = fmaf(a.beta1, *m, a.rest1 * g);
    *v = fmaf(a.beta2, *v, a.rest2 * g * g);
    float by = a.rate * *m / fmaf(sqrtf(*v), a.root, a.eps);
    *master -= fmaf(a.decay, *master, by);
}

template <class E, int COUNT>
__device__ inline void move_at(size_t at, const step &a, const shard<E> &s)
{
    using floats = together<float, COUNT>;
    floats g = *reinterpret_cast<const floats *>(s.grads + at);
    floats p = *reinterpret_cast<const floats *>(s.master + at);
    floats m = *reinterpret_cast<const floats *>(s.exp_avg + at);
    floats v = *reinterpret_cast<const floats *>(s.exp_avg_sq + at);
    together<E, COUNT> params;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        move(a, g.at[i], &p.at[i], &m.at[i], &v.at[i]);
        params.at[i] = dt_from_float<E>(rounded(p.at[i], a.rounding, a.chance, at + i));
    }
    *reinterpret_cast<floats *>(s.master + at) = p;
    *reinterpret_cast<floats *>(s.exp_avg + at) = m;
    *reinterpret_cast<floats *>(s.exp_avg_sq + at) = v;
    if (s.params)
        *reinterpret_cast<together<E, COUNT> *>(s.params + at) = params;
}

template <class E, int COUNT> __global__ void __launch_bounds__(THREADS) adamw(step a, shard<E> s)
{
    size_t first = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x, groups = s.n / COUNT;
    for (size_t g = first; g < groups; g += stride)
        move_at<E, COUNT>(g * COUNT, a, s);
    if (groups * COUNT + first < s.n)
        move_at<E, 1>(groups * COUNT + first, a, s);
}

enum rounding rounding_of(const struct dt_adamw *a)
{
    if (a->model_type == DT_BF16)
        return a->chance ? BF16_BY_CHANCE : TO_BF16;
    if (a->model_type == DT_F16)
        return a->chance ? F16_BY_CHANCE : TO_F16;
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
    s.rate = a->lr / a->bias1;
    s.root = 1 / sqrtf(a->bias2);
    s.decay = a->decoupled ? a->lr * a->weight_decay : 0;
    s.pull = a->decoupled ? 0 : a->weight_decay;
    s.rounding = rounding_of(a);
    s.chance = dt_mix(a->chance) + a->chance_at;
    return s;
}

template <class E> cudaError_t run(const step &a, const shard<E> &s, cudaStream_t stream)
{
    constexpr int COUNT = 4;
    bool aligned = dt_aligned16(s.master, s.exp_avg, s.exp_avg_sq, s.grads) &&
                   reinterpret_cast<uintptr_t>(s.params) % (COUNT * sizeof(E)) == 0;
    if (aligned)
        return dt_launch(adamw<E, COUNT>, dim3(dt_blocks(s.n, THREADS * COUNT)), dim3(THREADS), 0,
                         stream, a, s);
    return dt_launch(adamw<E, 1>, dim3(dt_blocks(s.n, THREADS)), dim3(THREADS), 0, stream, a, s);
}

} // namespace

cudaError_t dt_cuda_adamw(enum dt_dtype elem, const struct dt_adamw *a, size_t n, float *master,
                          float *exp_avg, float *exp_avg_sq, void *params, const float *grads,
                          struct dt_stream *s)
{
    if (n == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        E *to = params == master ? nullptr : static_cast<E *>(params);
        return run<E>(step_of(a), {n, master, exp_avg, exp_avg_sq, to, grads}, s->compute);
    });
}
