/* SPDX-License-Identifier: Apache-2.0 */
/* What stands between an mlp's two products: GELU in its tanh form, and gates by SiLU and by GELU;
 * each element alone. By e^x, as tanh(u) = 1 - 2 / (1 + e^2u): one power and one division an
 * element, both approximate (approximate.cuh). What comes out is so within 2^-21 of the largest
 * that went in, and slopes within 2^-20; where x is far below 0, what is left of it is within 2^-16
 * of its own size, or 1e-30. */
#include "cuda/kernels/approximate.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/map.cuh"

namespace
{

/* 2u = x (A + B x^2), u = sqrt(2/pi) (x + 0.044715 x^3) */
constexpr float A = 1.5957691216f, B = 0.044715f * 1.5957691216f;

/* gelu(x) = x/2 (1 + tanh(u)) = x / (1 + e^-2u) */
__device__ inline float gelu_of(float x)
{
    return dt_divide(x, 1 + dt_exp(-x * (A + B * x * x)));
}

struct gelu {
    enum { IN = 1, OUT = 1 };
    static __device__ void of(const float (&x)[IN], float (&y)[OUT])
    {
        y[0] = gelu_of(x[0]);
    }
};

/* With z = sigmoid(2u): gelu' = z + x z (1 - z) 2u'. Past 20 nothing changes any more, and smaller
 * numbers keep the powers finite; the exponent is kept where 1 - z = e^-2u z is a number. The
 * comparisons are such that NaN passes. */
__device__ inline float gelu_slope_of(float x)
{
    x = x > 20 ? 20 : x;
    x = x < -20 ? -20 : x;
    float u2 = x * (A + B * x * x);
    float e = dt_exp(u2 < -80 ? 80 : -u2), z = dt_divide(1, 1 + e);
    return z + x * z * z * e * (A + 3 * B * x * x);
}

struct gelu_slope {
    enum { IN = 2, OUT = 1 };
    static __device__ void of(const float (&in)[IN], float (&dpre)[OUT])
    {
        dpre[0] = in[1] * gelu_slope_of(in[0]);
    }
};

/* silu(g) = g sigmoid(g) */
struct swiglu {
    enum { IN = 2, OUT = 1 };
    static __device__ void of(const float (&x)[IN], float (&y)[OUT])
    {
        y[0] = dt_divide(x[0], 1 + dt_exp(-x[0])) * x[1];
    }
};

/* silu' = z + g z (1 - z), z = sigmoid(g) */
struct swiglu_slope {
    enum { IN = 3, OUT = 2 };
    static __device__ void of(const float (&x)[IN], float (&y)[OUT])
    {
        float gate = x[0], up = x[1], dout = x[2], z = dt_divide(1, 1 + dt_exp(-gate));
        y[0] = dout * up * z * (1 + gate * (1 - z));
        y[1] = dout * gate * z;
    }
};

struct geglu {
    enum { IN = 2, OUT = 1 };
    static __device__ void of(const float (&x)[IN], float (&y)[OUT])
    {
        y[0] = gelu_of(x[0]) * x[1];
    }
};

struct geglu_slope {
    enum { IN = 3, OUT = 2 };
    static __device__ void of(const float (&x)[IN], float (&y)[OUT])
    {
        float gate = x[0], up = x[1], dout = x[2];
        y[0] = dout * up * gelu_slope_of(gate);
        y[1] = dout * gelu_of(gate);
    }
};

template <class E> E *to(void *x)
{
    return static_cast<E *>(x);
}

template <class E> const E *from(const void *x)
{
    return static_cast<const E *>(x);
}

/* F of both, and of both and dout: packed, or as they lie. */
template <class F>
cudaError_t gate_forward(enum dt_dtype elem, const struct dt_gate *g, void *out, const void *gate,
                         const void *up, struct dt_stream *s)
{
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        const dt_arrays<E, 2, 1> a = {{to<E>(out)}, {from<E>(gate), from<E>(up)}};
        size_t apart = dt_gate_stride(g);
        if (apart == g->width)
            return dt_map<F, E>(g->rows * g->width, a, s->compute);
        return dt_map_rows<F, E>(g->rows, g->width, a, {{g->width}, {apart, apart}}, s->compute);
    });
}

template <class F>
cudaError_t gate_backward(enum dt_dtype elem, const struct dt_gate *g, void *dgate, void *dup,
                          const void *gate, const void *up, const void *dout, struct dt_stream *s)
{
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        const dt_arrays<E, 3, 2> a = {{to<E>(dgate), to<E>(dup)},
                                      {from<E>(gate), from<E>(up), from<E>(dout)}};
        size_t apart = dt_gate_stride(g);
        if (apart == g->width)
            return dt_map<F, E>(g->rows * g->width, a, s->compute);
        return dt_map_rows<F, E>(g->rows, g->width, a, {{apart, apart}, {apart, apart, g->width}},
                                 s->compute);
    });
}

} // namespace

cudaError_t dt_cuda_gelu_forward(enum dt_dtype elem, size_t n, void *out, const void *pre,
                                 struct dt_stream *s)
{
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return dt_map<gelu, E>(n, {{to<E>(out)}, {from<E>(pre)}}, s->compute);
    });
}

cudaError_t dt_cuda_gelu_backward(enum dt_dtype elem, size_t n, void *dpre, const void *pre,
                                  const void *dout, struct dt_stream *s)
{
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return dt_map<gelu_slope, E>(n, {{to<E>(dpre)}, {from<E>(pre), from<E>(dout)}}, s->compute);
    });
}

cudaError_t dt_cuda_swiglu_forward(enum dt_dtype elem, const struct dt_gate *g, void *out,
                                   const void *gate, const void *up, struct dt_stream *s)
{
    return gate_forward<swiglu>(elem, g, out, gate, up, s);
}

cudaError_t dt_cuda_swiglu_backward(enum dt_dtype elem, const struct dt_gate *g, void *dgate,
                                    void *dup, const void *gate, const void *up, const void *dout,
                                    struct dt_stream *s)
{
    return gate_backward<swiglu_slope>(elem, g, dgate, dup, gate, up, dout, s);
}

cudaError_t dt_cuda_geglu_forward(enum dt_dtype elem, const struct dt_gate *g, void *out,
                                  const void *gate, const void *up, struct dt_stream *s)
{
    return gate_forward<geglu>(elem, g, out, gate, up, s);
}

cudaError_t dt_cuda_geglu_backward(enum dt_dtype elem, const struct dt_gate *g, void *dgate,
                                   void *dup, const void *gate, const void *up, const void *dout,
                                   struct dt_stream *s)
{
    return gate_backward<geglu_slope>(elem, g, dgate, dup, gate, up, dout, s);
}
