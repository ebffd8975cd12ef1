/* SPDX-License-Identifier: Apache-2.0 */
/* One block of a transformer, forward and backward. Both families have the same plan: a stream of N
 * rows of C numbers runs through the model, and each block adds to it twice,
 *
 *     middle = input + attention(norm(input))
 *     output = middle + mlp(norm(middle))
 *
 * so the gradient of the stream runs back through both sums unchanged, and each branch adds its
 * share to it. (In a Gemma 2 and 3 a norm of its own is the last part of each branch.) The last sum
 * is left to whoever reads the output: it is made together with the norm that follows. */
#ifndef DT_WORKER_RUNTIME_MODEL_BLOCK_H
#define DT_WORKER_RUNTIME_MODEL_BLOCK_H

#include "worker_runtime/mesh/rows.h"
#include "worker_runtime/model/activations.h"
#include "worker_runtime/model/lora.h"

#include <math.h>

enum dt_branch { DT_BRANCH_ATTENTION, DT_BRANCH_MLP };

/* The adapters of a block's linear layers; count 0: it has none. */
struct dt_adapters {
    const struct dt_lora_pair *pairs;
    size_t count;
    const char *params; /* the unit's */
    char *grads;        /* laid out alike; NULL when going forward */
    float *rnorms;      /* of each output, from its layer's way forward on; NULL: no magnitudes */
    /* Dropout of what they are fed with, as struct dt_dropout has it; GONE_BELOW 0: none. CHANCE is
     * the block's. */
    uint32_t gone_below;
    float dropout_scale;
    uint64_t chance;
    struct dt_device *device;
};

struct dt_block {
    const struct dt_shape *shape;
    const struct dt_ops *ops;
    struct dt_stream *stream;
    size_t batch, positions, rows; /* POSITIONS: of each sample here */
    size_t own_rows;       /* of the stream and of norms: fewer where the team shares rows */
    uint64_t first_sample; /* its number among all samples of the run */
    /* Position of the first row. What stands before it was read earlier, and is in front of
     * kept->qkv; there is one sample then. */
    size_t first;
    struct dt_pieces pieces;  /* which positions of each sample are here */
    struct dt_team *context;  /* who has the others; NULL: all are here */
    const int32_t *documents; /* [batch, pieces.positions]; NULL: a sample is one */
    size_t window;            /* of attention; 0: none */
    const char *params;       /* the unit's */
    char *grads;              /* laid out alike; NULL when going forward, or where it is frozen */
    struct dt_adapters adapters;
    /* Of attention's weights, and of what the branches give; gone_below 0: nothing goes. */
    struct dt_dropout drop_weights, drop_branch[2];
    const float *speeds;  /* of rotary positions */
    float rope_scale;     /* of what they turn */
    const size_t *offset; /* of each tensor in the unit, in bytes: DT_GPT2_C_FC_WEIGHT, ... */
    const size_t *count;  /* its numbers; 0: the model has none */
    bool nf4;             /* weights of linear layers are packed, and rounded to NF4_TYPE */
    enum dt_dtype nf4_type;
    bool train; /* a way back follows */
    struct dt_device *device;
    struct dt_team *team; /* who has the block's other heads and inner width; NULL: it is whole */
    struct dt_team *experts; /* who has its other experts, and other rows; NULL: nobody */
    int32_t *counts;         /* [experts], the host's: gets the picks of each; NULL: not wanted */
    const float *dprobs;     /* [experts]: what is added to the gradient of each; NULL: nothing */
    float z_slope;           /* times a row's log sum exp, what that one's gradient is */
    dt_elem *input;          /* of own rows, as is ... */
    dt_elem *dstream;        /* ... the gradient of the stream */
    const struct dt_kept *kept;
    enum dt_half half;          /* of the way back */
    const struct dt_held *held; /* NULL on a way back of both halves, and forward */
    const struct dt_scratch *scratch;
};

/* input = FROM + ADD, or as it is where FROM is NULL. Leaves what is kept, and, when the OUTPUT is
 * wanted, the mlp's part of it in dt_block_branch(). */
void dt_gpt2_forward(const struct dt_block *b, const dt_elem *from, const dt_elem *add,
                     bool output);
void dt_llama_forward(const struct dt_block *b, const dt_elem *from, const dt_elem *add,
                      bool output);
/* dstream: the output's gradient becomes the input's. Of the weights' half nothing does: that is of
 * what the inputs' half has left in held. */
void dt_gpt2_backward(const struct dt_block *b);
void dt_llama_backward(const struct dt_block *b);

static inline const dt_elem *dt_block_param(const struct dt_block *b, size_t tensor)
{
    return b->params + b->offset[tensor];
}

static inline dt_elem *dt_block_grad(const struct dt_block *b, size_t tensor)
{
    return b->grads ? b->grads + b->offset[tensor] : NULL;
}

/* Of the stream, or of what it is as wide as. */
static inline struct dt_rows dt_block_rows(const struct dt_block *b)
{
    return (struct dt_rows){b->team, b->rows, b->shape->width, b->ops->elem};
}

/* Own rows' places in scratch->branch and in scratch->normed. */
static inline dt_elem *dt_block_branch(const struct dt_block *b)
{
    const struct dt_rows r = dt_block_rows(b);
    return dt_rows_place(&r, b->scratch->branch);
}

static inline dt_elem *dt_block_normed(const struct dt_block *b)
{
    const struct dt_rows r = dt_block_rows(b);
    return dt_rows_place(&r, b->scratch->normed);
}

/* Where the gradient is of what came out of the layer of queries, keys and values; and of that in
 * front of the GELU, or of a gate. */
static inline dt_elem *dt_block_dqkv(const struct dt_block *b)
{
    return b->held ? b->held->dqkv : b->scratch->wide;
}

static inline dt_elem *dt_block_dpre(const struct dt_block *b)
{
    return b->held ? b->held->dpre : b->scratch->dwide;
}

/* And of the last layer of a branch: of own rows, in ROOM where it is not held. */
static inline dt_elem *dt_block_dgave(const struct dt_block *b, enum dt_branch branch,
                                      dt_elem *room)
{
    return b->held ? b->held->dgave[branch] : room;
}

/* The same where it is the stream's, which goes on changing. */
static inline const dt_elem *dt_block_dgave_stream(const struct dt_block *b, enum dt_branch branch)
{
    enum dt_dtype elem = b->ops->elem;
    if (!b->held)
        return b->dstream;
    dt_elem *to = b->held->dgave[branch];
    b->ops->cast(b->own_rows * b->shape->width, to, elem, b->dstream, elem, b->stream);
    return to;
}

/* Queries, keys and values of a row stand side by side, in QKV as in its gradient. */
static inline struct dt_attention dt_block_attention(const struct dt_block *b)
{
    const struct dt_shape *s = b->shape;
    size_t q = s->heads * s->head_dim, k = s->kv_heads * s->head_dim;
    size_t elem = dt_dtype_size(b->ops->elem);
    const char *qkv = b->kept->qkv, *keys = qkv - b->first * (q + 2 * k) * elem;
    struct dt_attention a = {
        .batch = b->batch,
        .queries = b->positions,
        .keys = b->first + b->positions,
        .first = b->first,
        .window = b->window,
        .documents = b->documents,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .head_dim = s->head_dim,
        .scale = s->query_scalar > 0 ? 1 / sqrtf(s->query_scalar) : 0,
        .cap = s->score_cap,
        .q_stride = q + 2 * k,
        .k_stride = q + 2 * k,
        .v_stride = q + 2 * k,
        .out_stride = q,
        .q = qkv,
        .k = keys + q * elem,
        .v = keys + (q + k) * elem,
        .logsum = b->kept->logsum,
        .dropout = b->drop_weights,
        .all_heads = b->team ? (size_t)dt_coll_size(b->team->group) * s->heads : s->heads,
        .first_head = b->team ? (size_t)b->team->index * s->heads : 0,
    };
    size_t all = b->pieces.positions; /* of a sample, which all are keys once they are gathered */
    a.dropout.start += b->first_sample * a.all_heads * all * all;
    return a;
}

/* spread.h, swap.h and ring.h */
void dt_spread_forward(const struct dt_block *b, const struct dt_attention *a);
void dt_spread_backward(const struct dt_block *b, const struct dt_attention *a, dt_elem *dqkv,
                        const dt_elem *dout);
void dt_swap_forward(const struct dt_block *b, const struct dt_attention *a);
void dt_swap_backward(const struct dt_block *b, const struct dt_attention *a, dt_elem *dqkv,
                      const dt_elem *dout);

void dt_ring_forward(const struct dt_block *b, const struct dt_attention *a);
void dt_ring_backward(const struct dt_block *b, const struct dt_attention *a, dt_elem *dqkv,
                      const dt_elem *dout);

/* What A gives, into kept->attended. */
static inline void dt_block_attention_forward(const struct dt_block *b,
                                              const struct dt_attention *a)
{
    if (b->context && b->pieces.by == DT_BY_HEADS)
        dt_swap_forward(b, a);
    else if (b->context && b->pieces.by == DT_BY_RING)
        dt_ring_forward(b, a);
    else if (b->context)
        dt_spread_forward(b, a);
    else
        b->ops->attention_forward(a, b->kept->attended, b->stream);
}

/* From the gradient of what A gave, DOUT, to that of qkv. */
static inline void dt_block_attention_backward(const struct dt_block *b,
                                               const struct dt_attention *a, dt_elem *dqkv,
                                               const dt_elem *dout)
{
    if (b->context && b->pieces.by == DT_BY_HEADS) {
        dt_swap_backward(b, a, dqkv, dout);
        return;
    }
    if (b->context && b->pieces.by == DT_BY_RING) {
        dt_ring_backward(b, a, dqkv, dout);
        return;
    }
    if (b->context) {
        dt_spread_backward(b, a, dqkv, dout);
        return;
    }
    size_t elem = dt_dtype_size(b->ops->elem);
    char *dq = dqkv, *dk = dq + a->heads * a->head_dim * elem;
    char *dv = dk + a->kv_heads * a->head_dim * elem;
    b->ops->attention_backward(a, dq, dk, dv, b->kept->attended, dout, b->stream);
}

#endif
