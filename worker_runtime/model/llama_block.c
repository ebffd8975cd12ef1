/* SPDX-License-Identifier: Apache-2.0 */
/* The block of a Llama and its kin: RMSNorm, no biases but of queries, keys and values, positions
 * as rotations of queries and keys, fewer heads of keys and values than of queries, and an mlp with
 * a gate. Weights are stored [out, in], so q, k and v, one behind the other, are one matrix. A
 * Gemma's is the same with a GELU in its gate and, from Gemma 2 on, a norm behind each branch. */
#include "worker_runtime/model/experts.h"
#include "worker_runtime/model/linear.h"

static struct dt_norm norm_of(const struct dt_block *b, size_t weight, float *rstd)
{
    return (struct dt_norm){
        .rows = b->own_rows,
        .width = b->shape->width,
        .eps = b->shape->norm_eps,
        .plus = dt_shape_norm_plus(b->shape),
        .weight = dt_block_param(b, weight),
        .rstd = rstd,
    };
}

static size_t in_weight(const struct dt_block *b, enum dt_branch branch)
{
    if (branch == DT_BRANCH_ATTENTION)
        return DT_LLAMA_INPUT_NORM;
    return b->shape->branch_norms ? DT_LLAMA_MLP_IN_NORM : DT_LLAMA_POST_NORM;
}

static size_t out_weight(enum dt_branch branch)
{
    return branch == DT_BRANCH_ATTENTION ? DT_LLAMA_ATTENTION_OUT_NORM : DT_LLAMA_MLP_OUT_NORM;
}

static struct dt_norm in_norm(const struct dt_block *b, enum dt_branch branch)
{
    return norm_of(b, in_weight(b, branch), b->kept->rstd[branch]);
}

/* Where the last layer of a branch writes. */
static dt_elem *given(const struct dt_block *b, enum dt_branch branch)
{
    return b->shape->branch_norms ? b->kept->gave[branch] : dt_block_branch(b);
}

/* What the branch has given becomes, in dt_block_branch(), what it adds to the stream. */
static void leave_branch(const struct dt_block *b, enum dt_branch branch)
{
    if (!b->shape->branch_norms)
        return;
    struct dt_norm n = norm_of(b, out_weight(branch), b->kept->gave_rstd[branch]);
    b->ops->norm_forward(&n, dt_block_branch(b), NULL, b->kept->gave[branch], NULL, b->stream);
}

/* The gradient of what the branch has given: in ROOM, as wide as the stream, or where it is held;
 * or the stream's where that is one. */
static const dt_elem *enter_branch(const struct dt_block *b, enum dt_branch branch, dt_elem *room)
{
    size_t weight = out_weight(branch), all = b->own_rows * b->shape->width;
    if (!b->shape->branch_norms)
        return dt_block_dgave_stream(b, branch);
    struct dt_norm n = norm_of(b, weight, b->kept->gave_rstd[branch]);
    room = dt_block_dgave(b, branch, room);
    b->device->table->clear(b->device, room, all * dt_dtype_size(b->ops->elem));
    b->ops->norm_backward(&n, room, dt_block_grad(b, weight), NULL, b->kept->gave[branch],
                          b->dstream, b->stream);
    return room;
}

static struct dt_linear linear(const struct dt_block *b, size_t weight, size_t in, size_t out)
{
    return (struct dt_linear){
        .rows = b->rows,
        .in = in,
        .out = out,
        .layout = DT_WEIGHT_OUT_IN,
        .weight = dt_block_param(b, weight),
    };
}

struct linears {
    struct dt_linear qkv, o, gate, up, gate_up, down; /* GATE_UP: both as one */
};

static struct linears linears(const struct dt_block *b)
{
    const struct dt_shape *s = b->shape;
    size_t q = s->heads * s->head_dim, k = s->kv_heads * s->head_dim;
    struct linears l = {
        .qkv = linear(b, DT_LLAMA_Q, s->width, q + 2 * k),
        .o = linear(b, DT_LLAMA_O, q, s->width),
        .gate = linear(b, DT_LLAMA_GATE, s->width, s->inner),
        .up = linear(b, DT_LLAMA_UP, s->width, s->inner),
        .gate_up = linear(b, DT_LLAMA_GATE, s->width, 2 * s->inner),
        .down = linear(b, DT_LLAMA_DOWN, s->inner, s->width),
    };
    if (s->qkv_bias)
        l.qkv.bias = dt_block_param(b, DT_LLAMA_Q_BIAS);
    return l;
}

/* Queries and keys stand side by side, so one call turns both, of each piece. */
static void rotate(const struct dt_block *b, dt_elem *qkv, bool backward)
{
    const struct dt_shape *s = b->shape;
    size_t length = dt_pieces_length(&b->pieces);
    struct dt_rope rope = {
        .rows = b->batch * length,
        .positions = length,
        .heads = s->heads + s->kv_heads,
        .head_dim = s->head_dim,
        .stride = (s->heads + 2 * s->kv_heads) * s->head_dim,
        .speeds = b->speeds,
        .scale = b->rope_scale,
    };
    size_t bytes = rope.rows * rope.stride * dt_dtype_size(b->ops->elem);
    for (size_t i = 0; i < dt_pieces_count(&b->pieces); i++) {
        rope.first = b->first + dt_pieces_first(&b->pieces, b->pieces.rank, i);
        b->ops->rope(&rope, (char *)qkv + i * bytes, backward, b->stream);
    }
}

/* Of queries, or of keys. */
static struct dt_head_norm head_norm(const struct dt_block *b, size_t weight)
{
    const struct dt_shape *s = b->shape;
    return (struct dt_head_norm){
        .rows = b->rows,
        .heads = weight == DT_LLAMA_Q_NORM ? s->heads : s->kv_heads,
        .head_dim = s->head_dim,
        .stride = (s->heads + 2 * s->kv_heads) * s->head_dim,
        .eps = s->norm_eps,
        .plus = dt_shape_norm_plus(s),
        .weight = dt_block_param(b, weight),
    };
}

/* Where keys begin in a row behind queries. */
static size_t keys_at(const struct dt_block *b)
{
    return b->shape->heads * b->shape->head_dim * dt_dtype_size(b->ops->elem);
}

/* Norms, where they are normed, and turns queries and keys of the rows FROM into TO, which may be
 * FROM; values are not looked at. */
static void turn(const struct dt_block *b, dt_elem *to, const dt_elem *from)
{
    if (b->shape->qk_norm) {
        struct dt_head_norm q = head_norm(b, DT_LLAMA_Q_NORM), k = head_norm(b, DT_LLAMA_K_NORM);
        size_t keys = keys_at(b);
        b->ops->head_norm_forward(&q, to, from, b->stream);
        b->ops->head_norm_forward(&k, (char *)to + keys, (const char *)from + keys, b->stream);
    }
    rotate(b, to, false);
}

/* A way back through the norms needs what they were given: then ROOM takes what is turned. */
static dt_elem *turned_in(const struct dt_block *b, dt_elem *room)
{
    return b->shape->qk_norm && b->train ? room : b->kept->qkv;
}

/* Of queries and keys in TURNED, [N, Q + 2 K]. */
static struct dt_attention attention_of(const struct dt_block *b, const dt_elem *turned)
{
    struct dt_attention a = dt_block_attention(b);
    if (turned != b->kept->qkv) {
        a.q = turned;
        a.k = (const char *)turned + keys_at(b);
    }
    return a;
}

/* From the gradient of queries and keys that are turned to that of what they were. */
static void turn_back(const struct dt_block *b, dt_elem *dqkv)
{
    rotate(b, dqkv, true);
    if (!b->shape->qk_norm)
        return;
    struct dt_attention a = dt_block_attention(b);
    struct dt_head_norm q = head_norm(b, DT_LLAMA_Q_NORM), k = head_norm(b, DT_LLAMA_K_NORM);
    char *dkeys = (char *)dqkv + keys_at(b);
    b->ops->head_norm_backward(&q, dqkv, dt_block_grad(b, DT_LLAMA_Q_NORM), a.q, dqkv, b->stream);
    b->ops->head_norm_backward(&k, dkeys, dt_block_grad(b, DT_LLAMA_K_NORM), a.k, dkeys, b->stream);
}

/* Whether pre and up are halves of one row. Then one product makes both, and on the way back takes
 * the gradients of both; a device says which of the two ways is its own. */
static bool is_joined(const struct dt_block *b)
{
    return b->kept->gate_stride > b->shape->inner;
}

static struct dt_gate gate_of(const struct dt_block *b)
{
    return (struct dt_gate){b->rows, b->shape->inner, b->kept->gate_stride};
}

/* pre and up, of what is normed */
static void into_gate(const struct dt_block *b, const struct linears *l)
{
    const struct dt_kept *kept = b->kept;
    if (is_joined(b)) {
        dt_linear_column_forward(b, &l->gate_up, kept->pre, b->scratch->normed);
        return;
    }
    dt_linear_column_forward(b, &l->gate, kept->pre, b->scratch->normed);
    dt_linear_column_forward(b, &l->up, kept->up, b->scratch->normed);
}

/* wide = act(pre) * up */
static void gate(const struct dt_block *b)
{
    struct dt_gate g = gate_of(b);
    dt_swiglu_forward_fn *forward =
        b->shape->gelu_gate ? b->ops->geglu_forward : b->ops->swiglu_forward;
    forward(&g, b->scratch->wide, b->kept->pre, b->kept->up, b->stream);
}

/* Where the gradients are of what gate() gives, of pre, and of up. Joined ones take the place of
 * pre and up themselves, which nobody reads after that. */
static dt_elem *dgated_of(const struct dt_block *b)
{
    return is_joined(b) ? b->scratch->dwide : dt_block_dpre(b);
}

static dt_elem *dpre_of(const struct dt_block *b)
{
    return is_joined(b) && !b->held ? b->kept->pre : dt_block_dpre(b);
}

static dt_elem *dup_of(const struct dt_block *b)
{
    if (b->held)
        return b->held->dup;
    return is_joined(b) ? b->kept->up : b->scratch->wide;
}

static void gate_back(const struct dt_block *b)
{
    struct dt_gate g = gate_of(b);
    dt_swiglu_backward_fn *backward =
        b->shape->gelu_gate ? b->ops->geglu_backward : b->ops->swiglu_backward;
    backward(&g, dpre_of(b), dup_of(b), b->kept->pre, b->kept->up, dgated_of(b), b->stream);
}

/* dx = what the gradients of pre and up mean for what is normed; NULL: that is not wanted. */
static void out_of_gate(const struct dt_block *b, const struct linears *l, dt_elem *dx)
{
    const dt_elem *normed = b->scratch->normed;
    if (is_joined(b)) {
        dt_linear_column_backward(b, &l->gate_up, dx, false, normed, dpre_of(b));
        return;
    }
    dt_linear_column_backward(b, &l->gate, dx, false, normed, dpre_of(b));
    dt_linear_column_backward(b, &l->up, dx, dx != NULL, normed, dup_of(b));
}

/* OUT NULL: what is kept alone is wanted. */
static void experts_forward(const struct dt_block *b, dt_elem *out)
{
    dt_experts_forward(b, out ? dt_linear_rows_room(b, out) : NULL, b->scratch->normed);
    if (out)
        dt_linear_rows_end(b, out);
}

static void mlp_forward(const struct dt_block *b, const struct linears *l, bool output)
{
    bool wanted = output || b->shape->branch_norms;
    if (b->shape->experts) {
        experts_forward(b, wanted ? given(b, DT_BRANCH_MLP) : NULL);
    } else {
        into_gate(b, l);
        if (!wanted)
            return;
        gate(b);
        dt_linear_row_forward(b, &l->down, given(b, DT_BRANCH_MLP), b->scratch->wide);
    }
    if (wanted)
        leave_branch(b, DT_BRANCH_MLP);
}

void dt_llama_forward(const struct dt_block *b, const dt_elem *from, const dt_elem *add,
                      bool output)
{
    const struct dt_kept *kept = b->kept;
    const struct dt_scratch *s = b->scratch;
    struct dt_norm input_norm = in_norm(b, DT_BRANCH_ATTENTION),
                   post_norm = in_norm(b, DT_BRANCH_MLP);
    struct linears l = linears(b);

    if (b->rows == 0) { /* for others' sake */
        dt_experts_forward(b, output ? s->branch : NULL, s->normed);
        return;
    }
    if (from)
        dt_linear_columns_begin(b, &input_norm, b->input, from, add);
    else
        dt_linear_columns_begin(b, &input_norm, NULL, b->input, NULL);
    dt_linear_column_forward(b, &l.qkv, kept->qkv, s->normed);
    dt_elem *turned = turned_in(b, s->wide);
    turn(b, turned, kept->qkv);
    struct dt_attention attention = attention_of(b, turned);
    dt_block_attention_forward(b, &attention);
    dt_linear_row_forward(b, &l.o, given(b, DT_BRANCH_ATTENTION), kept->attended);
    leave_branch(b, DT_BRANCH_ATTENTION);

    dt_linear_columns_begin(b, &post_norm, kept->middle, b->input, dt_block_branch(b));
    mlp_forward(b, &l, output);
}

/* wide: what the gated product gave, again, then up's gradient; dwide: its gradient, then gate's,
 * where they are neither held nor joined. branch: the gradient of what the mlp gave, then of what
 * went into it. What is made again is an input of weights, so their gradients alone want it. */
static void one_mlp_backward(const struct dt_block *b, const struct linears *l,
                             const struct dt_norm *post_norm)
{
    const struct dt_scratch *s = b->scratch;
    if (b->half != DT_INPUT_HALF)
        gate(b);
    dt_linear_row_backward(b, &l->down, dgated_of(b), s->wide,
                           enter_branch(b, DT_BRANCH_MLP, dt_block_branch(b)));
    gate_back(b);

    if (b->half != DT_INPUT_HALF)
        dt_linear_columns_begin(b, post_norm, NULL, b->kept->middle, NULL);
    out_of_gate(b, l, s->branch);
}

/* branch: the gradient of what the mlp gave, of all rows, then of what went into it. */
static void experts_backward(const struct dt_block *b, const struct dt_norm *post_norm)
{
    const struct dt_scratch *s = b->scratch;
    dt_linear_columns_begin(b, post_norm, NULL, b->kept->middle, NULL);
    dt_experts_backward(b, s->branch, s->normed, dt_linear_rows_back(b, s->branch, b->dstream));
}

static void mlp_backward(const struct dt_block *b, const struct linears *l)
{
    struct dt_norm post_norm = in_norm(b, DT_BRANCH_MLP);

    if (b->shape->experts)
        experts_backward(b, &post_norm);
    else
        one_mlp_backward(b, l, &post_norm);
    dt_linear_columns_end(b, &post_norm, dt_block_grad(b, in_weight(b, DT_BRANCH_MLP)), NULL,
                          b->kept->middle);
}

/* normed: the gradient of what the branch gave; branch: that of what attention gave, then of what
 * went into qkv; dwide: queries and keys, where they are normed. */
static void attention_backward(const struct dt_block *b, const struct linears *l)
{
    const struct dt_scratch *s = b->scratch;
    struct dt_norm input_norm = in_norm(b, DT_BRANCH_ATTENTION);
    dt_elem *dqkv = dt_block_dqkv(b);

    dt_linear_row_backward(b, &l->o, s->branch, b->kept->attended,
                           enter_branch(b, DT_BRANCH_ATTENTION, dt_block_normed(b)));
    dt_elem *turned = turned_in(b, s->dwide);
    if (turned != b->kept->qkv)
        turn(b, turned, b->kept->qkv);
    struct dt_attention attention = attention_of(b, turned);
    dt_block_attention_backward(b, &attention, dqkv, s->branch);
    turn_back(b, dqkv);

    if (b->half != DT_INPUT_HALF)
        dt_linear_columns_begin(b, &input_norm, NULL, b->input, NULL);
    dt_linear_column_backward(b, &l->qkv, s->branch, false, s->normed, dqkv);
    dt_linear_columns_end(b, &input_norm, dt_block_grad(b, DT_LLAMA_INPUT_NORM), NULL, b->input);
}

/* What both halves of the way back do to weights, with the gradients that one of them has left. */
static void weights_backward(const struct dt_block *b, const struct linears *l)
{
    const struct dt_scratch *s = b->scratch;
    const struct dt_held *held = b->held;
    struct dt_norm input_norm = in_norm(b, DT_BRANCH_ATTENTION),
                   post_norm = in_norm(b, DT_BRANCH_MLP);

    gate(b);
    dt_linear_row_backward(b, &l->down, NULL, s->wide, held->dgave[DT_BRANCH_MLP]);
    dt_linear_columns_begin(b, &post_norm, NULL, b->kept->middle, NULL);
    out_of_gate(b, l, NULL);

    dt_linear_row_backward(b, &l->o, NULL, b->kept->attended, held->dgave[DT_BRANCH_ATTENTION]);
    dt_linear_columns_begin(b, &input_norm, NULL, b->input, NULL);
    dt_linear_column_backward(b, &l->qkv, NULL, false, s->normed, held->dqkv);
}

void dt_llama_backward(const struct dt_block *b)
{
    struct linears l = linears(b);
    if (b->half == DT_WEIGHT_HALF) {
        weights_backward(b, &l);
        return;
    }
    if (b->rows == 0) {
        dt_experts_backward(b, b->scratch->branch, b->scratch->normed, b->dstream);
        return;
    }
    mlp_backward(b, &l);
    attention_backward(b, &l);
}
