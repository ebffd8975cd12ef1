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
    size_t rows, positions, width, vocabulary; /* row n is at position first + n % positions */
    const int32_t *ids; /* [rows], each within the vocabulary, or negative: no word, which is zeros,
                           and has no gradient */
    size_t first;
    const int32_t *places; /* [rows], each below positions: row n is at position first + places[n];
                              NULL: as above */
};

/* LayerNorm, or RMSNorm where bias and mean are NULL. What is normed is multiplied by weight +
 * PLUS: 1 in models whose weights say how far they are from 1. */
struct dt_norm {
    size_t rows, width;
    float eps, plus;
    const dt_elem *weight, *bias; /* [width] */
    float *mean, *rstd;           /* [rows]: written forward, read backward */
};

/* RMSNorm of each head by itself, which stand side by side in a row. */
struct dt_head_norm {
    size_t rows, heads, head_dim, stride; /* stride: from row to row */
    float eps, plus;                      /* plus: as above */
    const dt_elem *weight;                /* [head_dim]: of every head */
};

/* Rotates pairs (i, i + head_dim/2) of each head by position * speeds[i], as Hugging Face's Llama,
 * and multiplies them by SCALE. Row n is at position first + n % positions. */
struct dt_rope {
    size_t rows, positions, heads, head_dim, stride; /* stride: from row to row */
    const float *speeds;                             /* [head_dim / 2]: floats on every device */
    float scale;
    size_t first;
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

/* An mlp's gate and what it lets through, each [rows, width]. */
struct dt_gate {
    size_t rows, width;
    size_t stride; /* of both and of their gradients, from row to row, as halves of one row have it;
                      0: packed, as out and dout always are */
};

static inline size_t dt_gate_stride(const struct dt_gate *g)
{
    return g->stride ? g->stride : g->width;
}

#define DT_GPU_HEAD_DIM_MOST 256 /* of attention on a GPU; a CPU takes any */

/* Element number i of a call goes where dt_chance_bits(start, i) of ops/by_chance.h is below
 * GONE_BELOW: none where that is 0. What stays is multiplied by SCALE. Elements are counted one
 * after the other; or where a call has WIDTH of each of some rows of PITCH, those that it lacks are
 * counted, too (dt_chance_place()). */
struct dt_dropout {
    uint64_t start;
    uint32_t gone_below;
    float scale;
    size_t width, pitch; /* 0: rows are whole */
};

/* Causal attention. Of each sequence there are KEYS keys, at positions 0 to keys - 1, and QUERIES
 * queries, at positions first to first + queries - 1, which are positions of keys too. A query at
 * position p reads the keys up to p, those of its own document, and of them the last WINDOW.
 *
 * A score is SCALE times the product of a query and a key, and where there is a CAP,
 * cap * tanh(score / cap), which is never beyond it.
 *
 * Query head h reads key/value head h / (heads / kv_heads). Strides are from row to row.
 *
 * The weights of a query, once they sum to 1, lose what DROPOUT takes; the logsum knows nothing of
 * it. On a processor alone: elsewhere it takes nothing.
 *
 * On a processor K and V may be of a stretch of the keys, KEYS_FROM to KEYS_TO - 1, and the same
 * queries meet the others in further calls. A query that reads none of a stretch gets 0, and a
 * logsum of -INFINITY. A call that JOINS others' adds to what these gave: forward, out and logsum
 * become those of the keys of all; backward, where out and logsum are of all keys, dq, dk and dv
 * are added to. */
struct dt_attention {
    size_t batch, queries, keys, first;
    size_t window; /* 0: all */
    /* [batch, keys]: the position where the document begins that a position belongs to; it never
     * falls from one position to the next. NULL: a sequence is one document. */
    const int32_t *documents;
    size_t heads, kv_heads, head_dim;
    float scale; /* 0: 1 / sqrt(head_dim) */
    float cap;   /* 0: none */
    size_t q_stride, k_stride, v_stride, out_stride;
    const dt_elem *q, *k, *v;
    float *logsum;             /* [batch, heads, queries]: written forward, read backward */
    struct dt_dropout dropout; /* of weights, by dt_attention_weight(); zeroed: none */
    size_t all_heads;          /* of the model, of which those here are from FIRST_HEAD on */
    size_t first_head;
    size_t keys_from, keys_to; /* that are here; 0 and 0: all */
    bool joins;
};

static inline size_t dt_attention_keys_to(const struct dt_attention *a)
{
    return a->keys_to > 0 ? a->keys_to : a->keys;
}

/* Rows that K and V have of each sequence. */
static inline size_t dt_attention_keys_here(const struct dt_attention *a)
{
    return dt_attention_keys_to(a) - a->keys_from;
}

/* The number among all weights, by which dropout knows it, of what head H of sequence B gives the
 * first key for the query at POSITION; those of other keys follow. It is the same on each rank that
 * has some of the heads, or of the queries. */
static inline uint64_t dt_attention_weight(const struct dt_attention *a, size_t b, size_t h,
                                           size_t position)
{
    uint64_t head = (uint64_t)b * a->all_heads + a->first_head + h;
    return (head * a->keys + position) * a->keys;
}

/* The first key that the query at POSITION of sequence B reads; the last is its own position. It
 * never falls from one position to the next. DOCUMENTS is read here. */
static inline size_t dt_attention_begins(const struct dt_attention *a, size_t b, size_t position)
{
    size_t document = a->documents ? (size_t)a->documents[b * a->keys + position] : 0;
    size_t window = a->window > 0 && position >= a->window ? position + 1 - a->window : 0;
    return document > window ? document : window;
}

struct dt_cross_entropy {
    size_t rows, vocabulary, stride; /* logits beyond vocabulary are padding */
    const int32_t *targets;          /* [rows]; negative: does not count */
    float scale;                     /* of the gradients: 1 / tokens, times the loss scale */
    float cap; /* the loss is of cap * tanh(logit / cap), the gradients are those of logits; 0: none
                */
    const float *weights; /* [rows]: by which the gradients of each are multiplied too; NULL: 1 */
};

/* COUNT numbers in NF4, PACKED as ops/nf4.h has them; each is rounded to TYPE. */
struct dt_nf4 {
    size_t count;
    const void *packed;
    enum dt_dtype type;
};

/* Outputs of a linear layer that are given a length by themselves, as DoRA does: output j is
 * multiplied by magnitudes[j] * rnorms[j]. All arrays of rows have one stride. */
struct dt_magnitude {
    size_t rows, width, stride;
    const dt_elem *magnitudes; /* [width] */
    const dt_elem *bias;       /* [width], which is not multiplied; NULL: none */
    const float *rnorms;       /* [width]: 1 / norm; 0 where that is 0 */
};

#define DT_PARTS_MOST 256 /* of one call of adamw, and of sum_squares */

/* A step of the optimizer. */
struct dt_adamw {
    float beta1, beta2, eps;
    float bias1, bias2;       /* 1 - beta^step, or 1 without bias correction */
    float grad_scale;         /* gradients are multiplied by it: clipping and loss scale in one */
    bool decoupled;           /* AdamW; else the decay joins the gradient */
    bool float_grads;         /* gradients are floats; else as the device computes */
    enum dt_dtype model_type; /* what the updated parameters are rounded to */
};

/* Elements that stand in a row and that a step treats alike: COUNT of each array. Parts of one call
 * do not overlap. */
struct dt_adamw_part {
    size_t count;
    float *master, *exp_avg, *exp_avg_sq;
    dt_elem *params; /* may be MASTER where both are floats of one value: a copy less */
    const void *grads;
    float lr, weight_decay;
    /* Not 0: rounded up or down by chance, up the more often the nearer it is, so that small
     * updates are not lost; the chance of element i of a part is dt_chance_bits(dt_mix(chance),
     * chance_at + i) of ops/by_chance.h, on every device. For 16 bits only. */
    uint64_t chance, chance_at;
};

/* Numbers whose squares are added up. */
struct dt_squares_part {
    size_t count;
    const void *x;
};

/* Which experts each row goes through. A pick is one row with one of its experts: pick n * picks +
 * j is the j'th of row n. */
struct dt_routes {
    size_t rows, experts, picks;
    bool to_one;    /* weights of a row's picks are made to sum to 1 */
    float *logsums; /* [rows]: log sum exp of a row's logits, that is kept for backward; or NULL */
    float z_slope;  /* backward: times a row's, what its own slope is; 0: nothing */
};

/* Rows and picks in the order of experts, and of rows for one expert. */
struct dt_route_order {
    int32_t *first;  /* [experts + 1]: where those of each expert begin */
    int32_t *picks;  /* [rows * picks]: the pick that stands there */
    int32_t *places; /* [rows * picks]: where a pick stands */
};

/* The position of row N from e->first on. */
static inline size_t dt_embedding_place(const struct dt_embedding *e, size_t n)
{
    return e->places ? (size_t)e->places[n] : n % e->positions;
}

/* What each op is, as the type of a function. Whoever implements one declares its function by this
 * type, so an op's parameters are written here and where it is defined. */

/* out[N,C] = token[id] + position[first + place]; position may be NULL. Backward: dtoken +=,
 * dposition
 * +=. */
typedef void dt_embedding_forward_fn(const struct dt_embedding *e, dt_elem *out,
                                     const dt_elem *token, const dt_elem *position,
                                     struct dt_stream *s);
typedef void dt_embedding_backward_fn(const struct dt_embedding *e, dt_elem *dtoken,
                                      dt_elem *dposition, const dt_elem *dout, struct dt_stream *s);

/* sum = x + add, out = norm(sum), of the sum as it is stored; add NULL: out = norm(x), and sum
 * may be NULL. sum may be x. */
typedef void dt_norm_forward_fn(const struct dt_norm *n, dt_elem *out, dt_elem *sum,
                                const dt_elem *x, const dt_elem *add, struct dt_stream *s);
/* dx += gradient through the norm of x (the sum, forward); dweight += ; dbias += unless NULL.
 * dweight NULL: neither is wanted. */
typedef void dt_norm_backward_fn(const struct dt_norm *n, dt_elem *dx, dt_elem *dweight,
                                 dt_elem *dbias, const dt_elem *x, const dt_elem *dout,
                                 struct dt_stream *s);

/* out = x / rms(x) * (weight + plus). out may be x. */
typedef void dt_head_norm_forward_fn(const struct dt_head_norm *n, dt_elem *out, const dt_elem *x,
                                     struct dt_stream *s);
/* dx = gradient through the norm of x; dweight += unless NULL. dx may be dout. */
typedef void dt_head_norm_backward_fn(const struct dt_head_norm *n, dt_elem *dx, dt_elem *dweight,
                                      const dt_elem *x, const dt_elem *dout, struct dt_stream *s);

/* In place, over heads heads of each row. BACKWARD rotates the other way, with the same scale. */
typedef void dt_rope_fn(const struct dt_rope *r, dt_elem *x, bool backward, struct dt_stream *s);

/* out[N,out] = x[N,in] W + bias. What lies between rows is neither read nor written, here and
 * backward. */
typedef void dt_linear_forward_fn(const struct dt_linear *l, dt_elem *out, const dt_elem *x,
                                  struct dt_stream *s);
/* pre = x W + bias, out = gelu(pre), in one pass; pre may be NULL where no backward follows.
 * Both are packed. */
typedef void dt_linear_gelu_forward_fn(const struct dt_linear *l, dt_elem *out, dt_elem *pre,
                                       const dt_elem *x, struct dt_stream *s);
/* dx = dout W' (ADD: +=), dweight +=, dbias +=. Each may be NULL where it is not wanted; X may be
 * NULL without dweight. */
typedef void dt_linear_backward_fn(const struct dt_linear *l, dt_elem *dx, bool add,
                                   dt_elem *dweight, dt_elem *dbias, const dt_elem *x,
                                   const dt_elem *dout, struct dt_stream *s);

/* linear_backward() of a layer whose X is gelu(pre), and back through that GELU in one pass: dpre =
 * (dout W') gelu'(pre). All are packed. */
typedef void dt_linear_gelu_backward_fn(const struct dt_linear *l, dt_elem *dpre, dt_elem *dweight,
                                        dt_elem *dbias, const dt_elem *x, const dt_elem *pre,
                                        const dt_elem *dout, struct dt_stream *s);

typedef void dt_attention_forward_fn(const struct dt_attention *a, dt_elem *out,
                                     struct dt_stream *s);
/* dq, dk, dv have the strides of q, k, v, and unless A joins are assigned, 0 where no query reads a
 * key. */
typedef void dt_attention_backward_fn(const struct dt_attention *a, dt_elem *dq, dt_elem *dk,
                                      dt_elem *dv, const dt_elem *out, const dt_elem *dout,
                                      struct dt_stream *s);

/* The tanh form. out may be pre; dpre may be dout. */
typedef void dt_gelu_forward_fn(size_t n, dt_elem *out, const dt_elem *pre, struct dt_stream *s);
typedef void dt_gelu_backward_fn(size_t n, dt_elem *dpre, const dt_elem *pre, const dt_elem *dout,
                                 struct dt_stream *s);

/* out = gate * sigmoid(gate) * up, of swiglu; gelu(gate) * up, of geglu. dgate may be gate, or dout
 * where all is packed; dup may be up. What lies between rows is neither read nor written. */
typedef void dt_swiglu_forward_fn(const struct dt_gate *g, dt_elem *out, const dt_elem *gate,
                                  const dt_elem *up, struct dt_stream *s);
typedef void dt_swiglu_backward_fn(const struct dt_gate *g, dt_elem *dgate, dt_elem *dup,
                                   const dt_elem *gate, const dt_elem *up, const dt_elem *dout,
                                   struct dt_stream *s);
typedef dt_swiglu_forward_fn dt_geglu_forward_fn;
typedef dt_swiglu_backward_fn dt_geglu_backward_fn;

/* losses[N] of each row (0 where it does not count), and, with GRADIENTS, logits become scale *
 * weight * dlogits in place. */
typedef void dt_cross_entropy_fn(const struct dt_cross_entropy *c, float *losses, dt_elem *logits,
                                 bool gradients, struct dt_stream *s);

/* Where ranks have other words each, VOCABULARY of them, and a target of VOCABULARY or more is one
 * of another rank.
 *
 * sums[N,3]: of each row that counts, the largest logit, the sum of exp(logit - that), and the
 * target's logit, 0 where another rank has it. */
typedef void dt_cross_entropy_sums_fn(const struct dt_cross_entropy *c, float *sums,
                                      const dt_elem *logits, struct dt_stream *s);
/* cross_entropy by SUMS[parts,N,3], those of all ranks. */
typedef void dt_cross_entropy_join_fn(const struct dt_cross_entropy *c, size_t parts,
                                      const float *sums, float *losses, dt_elem *logits,
                                      bool gradients, struct dt_stream *s);

/* to += from */
typedef void dt_add_fn(size_t n, dt_elem *to, const dt_elem *from, struct dt_stream *s);

/* The same; TO is of floats, whatever FROM is of. */
typedef dt_add_fn dt_add_to_floats_fn;

/* to[rows, WIDTH] = from[rows, WIDTH], whose rows have strides of their own; what lies between rows
 * is neither read nor written. */
typedef void dt_copy_rows_fn(size_t rows, size_t width, dt_elem *to, size_t to_stride,
                             const dt_elem *from, size_t from_stride, struct dt_stream *s);

/* out = what dropout leaves of x, or with ADD += ; out may be x. Of a gradient it is backward. */
typedef void dt_dropout_fn(const struct dt_dropout *d, size_t n, dt_elem *out, bool add,
                           const dt_elem *x, struct dt_stream *s);

/* rnorms[out] = 1 / the norm of what makes each output of L, its weights and an adapter's, W +
 * SCALE B A, with A [r, in] and B [out, r]; 0 where that is 0. */
typedef void dt_magnitude_norms_fn(const struct dt_linear *l, size_t r, float scale,
                                   const dt_elem *a, const dt_elem *b, float *rnorms,
                                   struct dt_stream *s);
/* With g = magnitude * rnorm of the column: out += (g - 1) base + g sum. BASE NULL: it is what OUT
 * has, without the bias. */
typedef void dt_magnitude_forward_fn(const struct dt_magnitude *m, dt_elem *out,
                                     const dt_elem *base, const dt_elem *sum, struct dt_stream *s);
/* dsum = g dout; dbase = (g - 1) dout, unless NULL; dmagnitudes += rnorm (base + sum) dout, summed
 * over rows. BASE is not NULL. dsum may be sum, dbase may be base. */
typedef void dt_magnitude_backward_fn(const struct dt_magnitude *m, dt_elem *dsum, dt_elem *dbase,
                                      dt_elem *dmagnitudes, const dt_elem *base, const dt_elem *sum,
                                      const dt_elem *dout, struct dt_stream *s);

/* probs = softmax(logits), [rows, experts]; experts[rows, picks]: of the largest of each row, the
 * largest first and of equals the first; weights: what each of them counts. Leaves r->logsums. */
typedef void dt_route_fn(const struct dt_routes *r, float *probs, int32_t *experts, float *weights,
                         const dt_elem *logits, struct dt_stream *s);
/* From the gradients of weights, DWEIGHTS, of each row's probs, DPROBS [experts] (NULL: 0), and of
 * r->logsums to those of logits. */
typedef void dt_route_backward_fn(const struct dt_routes *r, dt_elem *dlogits, const float *probs,
                                  const int32_t *experts, const float *dweights,
                                  const float *dprobs, struct dt_stream *s);
typedef void dt_route_sort_fn(const struct dt_routes *r, const struct dt_route_order *to,
                              const int32_t *experts, struct dt_stream *s);
/* out[rows * picks, width] = x[rows, width] of each pick's row, in that order. */
typedef void dt_route_spread_fn(const struct dt_routes *r, const struct dt_route_order *o,
                                size_t width, dt_elem *out, const dt_elem *x, struct dt_stream *s);
/* out[rows, width] = (ADD: +=) the sum of each row's picks of x[rows * picks, width], the first
 * pick first. */
typedef void dt_route_collect_fn(const struct dt_routes *r, const struct dt_route_order *o,
                                 size_t width, dt_elem *out, bool add, const dt_elem *x,
                                 struct dt_stream *s);

/* x[n] *= weights[of[n]], row by row; OF NULL: weights[n]. */
typedef void dt_weigh_forward_fn(size_t rows, size_t width, dt_elem *x, const float *weights,
                                 const int32_t *of, struct dt_stream *s);
/* dweights[of[n]] = the product of x[n] and dout[n]; then both are multiplied by weights[of[n]]: x
 * to what it was forward, and dout to its gradient. */
typedef void dt_weigh_backward_fn(size_t rows, size_t width, dt_elem *x, dt_elem *dout,
                                  float *dweights, const float *weights, const int32_t *of,
                                  struct dt_stream *s);
typedef void dt_sigmoid_forward_fn(size_t n, float *out, const dt_elem *x, struct dt_stream *s);
typedef void dt_sigmoid_backward_fn(size_t n, dt_elem *dx, const float *out, const float *dout,
                                    struct dt_stream *s);

/* Master and moments are floats; params get the updated values rounded to model_type, as dt_elem.
 * An element's bits do not hang on the parts beside its own. */
typedef void dt_adamw_fn(const struct dt_adamw *a, size_t parts, const struct dt_adamw_part *part,
                         struct dt_stream *s);

/* sums[i] = the sum of part i's squares, in double and in blocks of fixed size; infinite or NaN
 * when an element is. Its bits do not hang on the parts beside it. Host memory: waits, once for all
 * parts. TYPE: of all elements, dt_elem's or DT_F32. */
typedef void dt_sum_squares_fn(enum dt_dtype type, size_t parts, double *sums,
                               const struct dt_squares_part *part, struct dt_stream *s);

/* out may be x when sizes are equal. To 16 bits: to nearest, ties to even, too large becomes
 * infinite. */
typedef void dt_cast_fn(size_t n, void *out, enum dt_dtype out_type, const void *x,
                        enum dt_dtype type, struct dt_stream *s);

/* x becomes what is left of it when stored as TYPE and read back. */
typedef void dt_round_to_fn(size_t n, float *x, enum dt_dtype type, struct dt_stream *s);

/* out = the numbers, which are exactly bitsandbytes' before they are rounded. */
typedef void dt_nf4_expand_fn(const struct dt_nf4 *q, dt_elem *out, struct dt_stream *s);

struct dt_ops {
    const char *name; /* "x86-64-v4" */
    enum dt_dtype elem;
    dt_embedding_forward_fn *embedding_forward;
    dt_embedding_backward_fn *embedding_backward;
    dt_norm_forward_fn *norm_forward;
    dt_norm_backward_fn *norm_backward;
    dt_head_norm_forward_fn *head_norm_forward;
    dt_head_norm_backward_fn *head_norm_backward;
    dt_rope_fn *rope;
    dt_linear_forward_fn *linear_forward;
    dt_linear_gelu_forward_fn *linear_gelu_forward;
    dt_linear_backward_fn *linear_backward;
    dt_linear_gelu_backward_fn *linear_gelu_backward;
    dt_attention_forward_fn *attention_forward;
    dt_attention_backward_fn *attention_backward;
    dt_gelu_forward_fn *gelu_forward;
    dt_gelu_backward_fn *gelu_backward;
    dt_swiglu_forward_fn *swiglu_forward;
    dt_swiglu_backward_fn *swiglu_backward;
    dt_geglu_forward_fn *geglu_forward;
    dt_geglu_backward_fn *geglu_backward;
    dt_cross_entropy_fn *cross_entropy;
    dt_cross_entropy_sums_fn *cross_entropy_sums;
    dt_cross_entropy_join_fn *cross_entropy_join;
    dt_add_fn *add;
    dt_add_to_floats_fn *add_to_floats;
    dt_copy_rows_fn *copy_rows;
    dt_dropout_fn *dropout;
    dt_adamw_fn *adamw;
    dt_sum_squares_fn *sum_squares;
    dt_cast_fn *cast;
    dt_round_to_fn *round_to;
    dt_nf4_expand_fn *nf4_expand;
    dt_magnitude_norms_fn *magnitude_norms;
    dt_magnitude_forward_fn *magnitude_forward;
    dt_magnitude_backward_fn *magnitude_backward;
    dt_route_fn *route;
    dt_route_backward_fn *route_backward;
    dt_route_sort_fn *route_sort;
    dt_route_spread_fn *route_spread;
    dt_route_collect_fn *route_collect;
    dt_weigh_forward_fn *weigh_forward;
    dt_weigh_backward_fn *weigh_backward;
    dt_sigmoid_forward_fn *sigmoid_forward;
    dt_sigmoid_backward_fn *sigmoid_backward;
};

/* Plain loops that say what each op means: what other devices are tested against. Any processor, no
 * BLAS, one thread. */
extern const struct dt_ops dt_ops_reference;
/* The fast ones, for the best instructions this processor has: ops/cpu/. */
const struct dt_ops *dt_ops_cpu(void);

#endif
