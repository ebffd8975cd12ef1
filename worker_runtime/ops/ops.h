/* SPDX-License-Identifier: Apache-2.0 */
/* The table of ops: all the arithmetic that training needs, forward and backward, and nothing else.
 * A device fills it; the model and the optimizer call it. Arrays are row-major and packed unless a
 * stride is named. A dt_elem is what the device computes with: float on the CPU; float or bfloat16
 * on a GPU. Sizes are in elements.
 *
 * Letters: N rows (tokens of a micro-batch, B * T), C width, T positions, V vocabulary. "+=" adds
 * to what is there. Outputs may not overlap inputs unless said. Results have the same bits for the
 * same inputs, device and number of threads. */
#ifndef DT_WORKER_RUNTIME_OPS_OPS_H
#define DT_WORKER_RUNTIME_OPS_OPS_H

#include <dtrun/dtype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void dt_elem;
struct dt_stream;

struct dt_embedding {
    size_t rows, positions, width, vocabulary; /* row n is at position n % positions */
    const int32_t *ids;                        /* [rows], each within the vocabulary */
};

/* LayerNorm, or RMSNorm where bias and mean are NULL. */
struct dt_norm {
    size_t rows, width;
    float eps;
    const dt_elem *weight, *bias; /* [width] */
    float *mean, *rstd;           /* [rows]: written forward, read backward */
};

/* Rotates pairs (i, i + head_dim/2) of each head by position * theta^(-2i/head_dim), as Hugging
 * Face's Llama. */
struct dt_rope {
    size_t rows, positions, heads, head_dim, stride; /* stride: from row to row */
    float theta;
};

enum dt_weight_layout { DT_WEIGHT_IN_OUT, DT_WEIGHT_OUT_IN }; /* GPT-2's Conv1D; torch's Linear */
struct dt_linear {
    size_t rows, in, out, out_stride; /* of out and dout, from row to row; 0: packed */
    enum dt_weight_layout layout;
    const dt_elem *weight, *bias; /* bias may be NULL */
};

static inline size_t dt_linear_stride(const struct dt_linear *l)
{
    return l->out_stride ? l->out_stride : l->out;
}

/* Causal attention. Query head h reads key/value head h / (heads / kv_heads). Strides are from row
 * to row. */
struct dt_attention {
    size_t batch, positions, heads, kv_heads, head_dim;
    size_t q_stride, k_stride, v_stride, out_stride;
    const dt_elem *q, *k, *v;
    float *logsum; /* [batch, heads, positions]: written forward, read backward */
};

struct dt_cross_entropy {
    size_t rows, vocabulary, stride; /* logits beyond vocabulary are padding */
    const int32_t *targets;          /* [rows]; negative: does not count */
    float scale;                     /* of the gradients: 1 / tokens, times the loss scale */
};

struct dt_adamw {
    float lr, beta1, beta2, eps, weight_decay;
    float bias1, bias2;       /* 1 - beta^step, or 1 without bias correction */
    float grad_scale;         /* gradients are multiplied by it: clipping and loss scale in one */
    bool decoupled;           /* AdamW; else the decay joins the gradient */
    enum dt_dtype model_type; /* what the updated parameters are rounded to */
    /* Not 0: rounded up or down by chance, up the more often the nearer it is, so that small
     * updates are not lost; the chance of element i of a call is dt_chance_bits(dt_mix(chance), i)
     * of model/by_chance.h, on every device. For 16 bits only. */
    uint64_t chance;
};

struct dt_ops {
    const char *name; /* "x86-64-v4" */
    enum dt_dtype elem;

    /* out[N,C] = token[id] + position[t]; position may be NULL. Backward: dtoken += , dposition +=
     * . */
    void (*embedding_forward)(const struct dt_embedding *e, dt_elem *out, const dt_elem *token,
                              const dt_elem *position, struct dt_stream *s);
    void (*embedding_backward)(const struct dt_embedding *e, dt_elem *dtoken, dt_elem *dposition,
                               const dt_elem *dout, struct dt_stream *s);

    /* sum = x + add, out = norm(sum), of the sum as it is stored; add NULL: out = norm(x), and sum
     * may be NULL. sum may be x. */
    void (*norm_forward)(const struct dt_norm *n, dt_elem *out, dt_elem *sum, const dt_elem *x,
                         const dt_elem *add, struct dt_stream *s);
    /* dx += gradient through the norm of x (the sum, forward); dweight += ; dbias += unless NULL.
     */
    void (*norm_backward)(const struct dt_norm *n, dt_elem *dx, dt_elem *dweight, dt_elem *dbias,
                          const dt_elem *x, const dt_elem *dout, struct dt_stream *s);

    /* In place, over heads heads of each row. BACKWARD rotates the other way. */
    void (*rope)(const struct dt_rope *r, dt_elem *x, bool backward, struct dt_stream *s);

    /* out[N,out] = x[N,in] W + bias. What lies between rows is neither read nor written, here and
     * backward. */
    void (*linear_forward)(const struct dt_linear *l, dt_elem *out, const dt_elem *x,
                           struct dt_stream *s);
    /* pre = x W + bias, out = gelu(pre), in one pass; pre may be NULL where no backward follows.
     * Both are packed. */
    void (*linear_gelu_forward)(const struct dt_linear *l, dt_elem *out, dt_elem *pre,
                                const dt_elem *x, struct dt_stream *s);
    /* dx = dout W' (NULL: not wanted; ADD: += ), dweight += , dbias += unless NULL. */
    void (*linear_backward)(const struct dt_linear *l, dt_elem *dx, bool add, dt_elem *dweight,
                            dt_elem *dbias, const dt_elem *x, const dt_elem *dout,
                            struct dt_stream *s);

    void (*attention_forward)(const struct dt_attention *a, dt_elem *out, struct dt_stream *s);
    /* dq, dk, dv have the strides of q, k, v, and are assigned. */
    void (*attention_backward)(const struct dt_attention *a, dt_elem *dq, dt_elem *dk, dt_elem *dv,
                               const dt_elem *out, const dt_elem *dout, struct dt_stream *s);

    /* The tanh form. out may be pre; dpre may be dout. */
    void (*gelu_forward)(size_t n, dt_elem *out, const dt_elem *pre, struct dt_stream *s);
    void (*gelu_backward)(size_t n, dt_elem *dpre, const dt_elem *pre, const dt_elem *dout,
                          struct dt_stream *s);
    /* out = gate * sigmoid(gate) * up. dgate may be gate or dout, dup may be up. */
    void (*swiglu_forward)(size_t n, dt_elem *out, const dt_elem *gate, const dt_elem *up,
                           struct dt_stream *s);
    void (*swiglu_backward)(size_t n, dt_elem *dgate, dt_elem *dup, const dt_elem *gate,
                            const dt_elem *up, const dt_elem *dout, struct dt_stream *s);

    /* losses[N] of each row (0 where it does not count), and, with GRADIENTS, logits become scale *
     * dlogits in place. */
    void (*cross_entropy)(const struct dt_cross_entropy *c, float *losses, dt_elem *logits,
                          bool gradients, struct dt_stream *s);

    /* to += from */
    void (*add)(size_t n, dt_elem *to, const dt_elem *from, struct dt_stream *s);
    /* Over float shards: master, moments; PARAMS gets the updated values rounded to model_type, as
     * dt_elem. It may be MASTER where both are floats of one value: a copy less. */
    void (*adamw)(const struct dt_adamw *a, size_t n, float *master, float *exp_avg,
                  float *exp_avg_sq, dt_elem *params, const float *grads, struct dt_stream *s);
    /* *out = the sum of squares, in double and in blocks of fixed size; infinite or NaN when an
     * element is. Host memory: waits. */
    void (*sum_squares)(size_t n, double *out, const float *x, struct dt_stream *s);
    /* out may be x when sizes are equal. To 16 bits: to nearest, ties to even, too large becomes
     * infinite. */
    void (*cast)(size_t n, void *out, enum dt_dtype out_type, const void *x, enum dt_dtype type,
                 struct dt_stream *s);
    /* x becomes what is left of it when stored as TYPE and read back. */
    void (*round_to)(size_t n, float *x, enum dt_dtype type, struct dt_stream *s);
};

/* Plain loops that say what each op means: what other devices are tested against. Any processor, no
 * BLAS, one thread. */
extern const struct dt_ops dt_ops_reference;
/* The fast ones, for the best instructions this processor has: ops/cpu/. */
const struct dt_ops *dt_ops_cpu(void);

#endif
