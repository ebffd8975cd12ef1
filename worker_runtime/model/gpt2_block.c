/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2's block: LayerNorm with bias, one matrix for queries, keys and values, GELU. Weights are
 * stored [in, out]. */
#include "worker_runtime/model/dropout.h"
#include "worker_runtime/model/linear.h"

static struct dt_norm norm(const struct dt_block *b, int which)
{
    size_t weight = which == 0 ? DT_GPT2_LN_1_WEIGHT : DT_GPT2_LN_2_WEIGHT;
    size_t bias = which == 0 ? DT_GPT2_LN_1_BIAS : DT_GPT2_LN_2_BIAS;
    return (struct dt_norm){
        .rows = b->own_rows,
        .width = b->shape->width,
        .eps = b->shape->norm_eps,
        .weight = dt_block_param(b, weight),
        .bias = dt_block_param(b, bias),
        .mean = b->kept->mean[which],
        .rstd = b->kept->rstd[which],
    };
}

/* Each weight is followed by its bias. */
static struct dt_linear linear(const struct dt_block *b, size_t weight)
{
    size_t width = b->shape->width, inner = b->shape->inner;
    size_t attended = b->shape->heads * b->shape->head_dim;
    struct dt_linear l = {
        .rows = b->rows,
        .in = width,
        .out = width,
        .layout = DT_WEIGHT_IN_OUT,
        .weight = dt_block_param(b, weight),
        .bias = dt_block_param(b, weight + 1),
    };
    if (weight == DT_GPT2_C_ATTN_WEIGHT)
        l.out = 3 * attended;
    if (weight == DT_GPT2_ATTN_PROJ_WEIGHT)
        l.in = attended;
    if (weight == DT_GPT2_C_FC_WEIGHT)
        l.out = inner;
    if (weight == DT_GPT2_MLP_PROJ_WEIGHT)
        l.in = inner;
    return l;
}

/* What the branch has given becomes, where it is, what it adds to the stream. */
static void leave_branch(const struct dt_block *b, enum dt_branch branch)
{
    const struct dt_dropout *d = &b->drop_branch[branch];
    if (d->gone_below > 0)
        dt_drop_rows(b, d, b->shape->width, dt_block_branch(b), false, dt_block_branch(b));
}

/* The gradient of what the branch has given: the stream's, or in normed, which is of no use yet,
 * what dropout leaves of it. */
static const dt_elem *enter_branch(const struct dt_block *b, enum dt_branch branch)
{
    const struct dt_dropout *d = &b->drop_branch[branch];
    if (d->gone_below == 0)
        return dt_block_dgave_stream(b, branch);
    dt_elem *dgave = dt_block_dgave(b, branch, dt_block_normed(b));
    dt_drop_rows(b, d, b->shape->width, dgave, false, b->dstream);
    return dgave;
}

void dt_gpt2_forward(const struct dt_block *b, const dt_elem *from, const dt_elem *add, bool output)
{
    const struct dt_kept *kept = b->kept;
    const struct dt_scratch *s = b->scratch;
    struct dt_norm ln_1 = norm(b, 0), ln_2 = norm(b, 1);
    struct dt_linear c_attn = linear(b, DT_GPT2_C_ATTN_WEIGHT);
    struct dt_linear attn_proj = linear(b, DT_GPT2_ATTN_PROJ_WEIGHT);
    struct dt_linear c_fc = linear(b, DT_GPT2_C_FC_WEIGHT);
    struct dt_linear mlp_proj = linear(b, DT_GPT2_MLP_PROJ_WEIGHT);
    struct dt_attention attention = dt_block_attention(b);

    if (from)
        dt_linear_columns_begin(b, &ln_1, b->input, from, add);
    else
        dt_linear_columns_begin(b, &ln_1, NULL, b->input, NULL);
    dt_linear_column_forward(b, &c_attn, kept->qkv, s->normed);
    dt_block_attention_forward(b, &attention);
    dt_linear_row_forward(b, &attn_proj, dt_block_branch(b), kept->attended);
    leave_branch(b, DT_BRANCH_ATTENTION);

    dt_linear_columns_begin(b, &ln_2, kept->middle, b->input, dt_block_branch(b));
    dt_linear_column_gelu_forward(b, &c_fc, s->wide, kept->pre, s->normed);
    if (!output)
        return;
    dt_linear_row_forward(b, &mlp_proj, dt_block_branch(b), s->wide);
    leave_branch(b, DT_BRANCH_MLP);
}

/* wide: what the GELU gave, again; dpre: the gradient of what went into it. What is made
 * again is an input of weights, so their gradients alone want it. */
static void mlp_backward(const struct dt_block *b)
{
    const struct dt_scratch *s = b->scratch;
    struct dt_norm ln_2 = norm(b, 1);
    struct dt_linear c_fc = linear(b, DT_GPT2_C_FC_WEIGHT);
    struct dt_linear mlp_proj = linear(b, DT_GPT2_MLP_PROJ_WEIGHT);
    dt_elem *dpre = dt_block_dpre(b);

    if (b->half != DT_INPUT_HALF)
        b->ops->gelu_forward(b->rows * b->shape->inner, s->wide, b->kept->pre, b->stream);
    dt_linear_row_gelu_backward(b, &mlp_proj, dpre, s->wide, b->kept->pre,
                                enter_branch(b, DT_BRANCH_MLP));

    if (b->half != DT_INPUT_HALF)
        dt_linear_columns_begin(b, &ln_2, NULL, b->kept->middle, NULL);
    dt_linear_column_backward(b, &c_fc, s->branch, false, s->normed, dpre);
    dt_linear_columns_end(b, &ln_2, dt_block_grad(b, DT_GPT2_LN_2_WEIGHT),
                          dt_block_grad(b, DT_GPT2_LN_2_BIAS), b->kept->middle);
}

/* branch: the gradient of what attention gave, then of what went into qkv. */
static void attention_backward(const struct dt_block *b)
{
    const struct dt_scratch *s = b->scratch;
    struct dt_norm ln_1 = norm(b, 0);
    struct dt_linear c_attn = linear(b, DT_GPT2_C_ATTN_WEIGHT);
    struct dt_linear attn_proj = linear(b, DT_GPT2_ATTN_PROJ_WEIGHT);

    struct dt_attention attention = dt_block_attention(b);
    dt_linear_row_backward(b, &attn_proj, s->branch, b->kept->attended,
                           enter_branch(b, DT_BRANCH_ATTENTION));
    dt_block_attention_backward(b, &attention, dt_block_dqkv(b), s->branch);

    if (b->half != DT_INPUT_HALF)
        dt_linear_columns_begin(b, &ln_1, NULL, b->input, NULL);
    dt_linear_column_backward(b, &c_attn, s->branch, false, s->normed, dt_block_dqkv(b));
    dt_linear_columns_end(b, &ln_1, dt_block_grad(b, DT_GPT2_LN_1_WEIGHT),
                          dt_block_grad(b, DT_GPT2_LN_1_BIAS), b->input);
}

/* What both halves of the way back do to weights, with the gradients that one of them has left. */
static void weights_backward(const struct dt_block *b)
{
    const struct dt_scratch *s = b->scratch;
    const struct dt_held *held = b->held;
    struct dt_norm ln_1 = norm(b, 0), ln_2 = norm(b, 1);
    struct dt_linear c_attn = linear(b, DT_GPT2_C_ATTN_WEIGHT);
    struct dt_linear attn_proj = linear(b, DT_GPT2_ATTN_PROJ_WEIGHT);
    struct dt_linear c_fc = linear(b, DT_GPT2_C_FC_WEIGHT);
    struct dt_linear mlp_proj = linear(b, DT_GPT2_MLP_PROJ_WEIGHT);

    b->ops->gelu_forward(b->rows * b->shape->inner, s->wide, b->kept->pre, b->stream);
    dt_linear_row_backward(b, &mlp_proj, NULL, s->wide, held->dgave[DT_BRANCH_MLP]);
    dt_linear_columns_begin(b, &ln_2, NULL, b->kept->middle, NULL);
    dt_linear_column_backward(b, &c_fc, NULL, false, s->normed, held->dpre);

    dt_linear_row_backward(b, &attn_proj, NULL, b->kept->attended,
                           held->dgave[DT_BRANCH_ATTENTION]);
    dt_linear_columns_begin(b, &ln_1, NULL, b->input, NULL);
    dt_linear_column_backward(b, &c_attn, NULL, false, s->normed, held->dqkv);
}

void dt_gpt2_backward(const struct dt_block *b)
{
    if (b->half == DT_WEIGHT_HALF) {
        weights_backward(b);
        return;
    }
    mlp_backward(b);
    attention_backward(b);
}
