/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/experts.h"

#include "worker_runtime/model/exchange.h"
#include "worker_runtime/model/linear.h"

static struct dt_routes routes(const struct dt_block *b)
{
    const struct dt_shape *s = b->shape;
    return (struct dt_routes){.rows = b->rows,
                              .experts = s->experts,
                              .picks = s->expert_picks,
                              .to_one = s->weigh_picks,
                              .logsums = b->kept->router_logsums,
                              .z_slope = b->z_slope};
}

static struct dt_linear linear(const struct dt_block *b, size_t weight, size_t in, size_t out)
{
    return (struct dt_linear){.rows = b->rows,
                              .in = in,
                              .out = out,
                              .layout = DT_WEIGHT_OUT_IN,
                              .weight = dt_block_param(b, weight)};
}

/* Layer WHICH of an expert, for the rows that it has. */
static struct dt_linear own_linear(const struct dt_block *b, const struct dt_own_rows *own,
                                   size_t which, size_t expert)
{
    const struct dt_shape *s = b->shape;
    bool down = which == DT_LLAMA_EXPERT_DOWN;
    struct dt_linear l =
        linear(b, which, down ? s->expert_inner : s->width, down ? s->width : s->expert_inner);
    l.rows = (size_t)(own->first[expert + 1] - own->first[expert]);
    l.weight = (const char *)l.weight + expert * l.in * l.out * dt_dtype_size(b->ops->elem);
    return l;
}

/* Where the rows of an expert are in an array that has so many numbers of each; NULL stays. */
static const dt_elem *rows_at(const struct dt_block *b, int32_t first, const dt_elem *x,
                              size_t width)
{
    return x ? (const char *)x + (size_t)first * width * dt_dtype_size(b->ops->elem) : NULL;
}

static dt_elem *out_at(const struct dt_block *b, int32_t first, dt_elem *x, size_t width)
{
    return x ? (char *)x + (size_t)first * width * dt_dtype_size(b->ops->elem) : NULL;
}

static void products(const struct dt_block *b, const struct dt_own_rows *own, size_t which,
                     dt_elem *out, const dt_elem *x)
{
    for (size_t e = 0; e < own->experts; e++) {
        struct dt_linear l = own_linear(b, own, which, e);
        int32_t at = own->first[e];
        if (l.rows)
            dt_linear_product(b, &l, out_at(b, at, out, l.out), rows_at(b, at, x, l.in));
    }
}

/* X and DX as dt_linear_product_backward() has them. */
static void products_backward(const struct dt_block *b, const struct dt_own_rows *own, size_t which,
                              dt_elem *dx, bool add, const dt_elem *x, const dt_elem *dout)
{
    for (size_t e = 0; e < own->experts; e++) {
        struct dt_linear l = own_linear(b, own, which, e);
        int32_t at = own->first[e];
        if (l.rows)
            dt_linear_product_backward(b, &l, out_at(b, at, dx, l.in), add, rows_at(b, at, x, l.in),
                                       rows_at(b, at, dout, l.out));
    }
}

static void route(const struct dt_block *b, const dt_elem *x)
{
    const struct dt_kept *kept = b->kept;
    const struct dt_routes r = routes(b);
    struct dt_linear router = linear(b, DT_LLAMA_ROUTER, b->shape->width, r.experts);
    if (b->rows)
        dt_linear_product(b, &router, b->scratch->scores, x);
    b->ops->route(&r, kept->probs, kept->experts, kept->weights, b->scratch->scores, b->stream);
    b->ops->route_sort(&r, &kept->order, kept->experts, b->stream);
    dt_exchange_plan(b);
    for (size_t e = 0; b->counts && e < r.experts; e++)
        b->counts[e] = kept->first[e + 1] - kept->first[e];
    if (b->counts) /* those of whole samples are balanced */
        dt_team_sum(b->context, b->counts, r.experts, DT_I32);
}

/* -- the shared expert ------------------------------------------------------------------------ */

struct shared {
    struct dt_linear weight, gate, up, down;
};

static struct shared shared(const struct dt_block *b)
{
    size_t width = b->shape->width, inner = b->shape->shared_inner;
    return (struct shared){.weight = linear(b, DT_LLAMA_SHARED_SWITCH, width, 1),
                           .gate = linear(b, DT_LLAMA_SHARED_GATE, width, inner),
                           .up = linear(b, DT_LLAMA_SHARED_UP, width, inner),
                           .down = linear(b, DT_LLAMA_SHARED_DOWN, inner, width)};
}

static void shared_forward(const struct dt_block *b, dt_elem *out, const dt_elem *x)
{
    const struct dt_ops *ops = b->ops;
    const struct dt_kept *kept = b->kept;
    const struct dt_scratch *s = b->scratch;
    size_t inner = b->shape->shared_inner;
    const struct dt_gate gate = {b->rows, inner, 0};
    const struct shared l = shared(b);
    dt_linear_product(b, &l.weight, s->scores, x);
    ops->sigmoid_forward(b->rows, kept->shared_weight, s->scores, b->stream);
    dt_linear_product(b, &l.gate, kept->shared_pre, x);
    dt_linear_product(b, &l.up, kept->shared_up, x);
    if (!out)
        return;
    ops->swiglu_forward(&gate, s->wide, kept->shared_pre, kept->shared_up, b->stream);
    ops->weigh_forward(b->rows, inner, s->wide, kept->shared_weight, NULL, b->stream);
    dt_linear_product(b, &l.down, out, s->wide);
}

/* dx = , where DOUT is read for the last time; wide and dwide as in routed_backward(). */
static void shared_backward(const struct dt_block *b, dt_elem *dx, const dt_elem *x,
                            const dt_elem *dout)
{
    const struct dt_ops *ops = b->ops;
    const struct dt_kept *kept = b->kept;
    const struct dt_scratch *s = b->scratch;
    size_t inner = b->shape->shared_inner;
    const struct dt_gate gate = {b->rows, inner, 0};
    const struct shared l = shared(b);
    ops->swiglu_forward(&gate, s->wide, kept->shared_pre, kept->shared_up, b->stream);
    dt_linear_product_backward(b, &l.down, s->dwide, false, NULL, dout);
    ops->weigh_backward(b->rows, inner, s->wide, s->dwide, s->dweights, kept->shared_weight, NULL,
                        b->stream);
    dt_linear_product_backward(b, &l.down, NULL, false, s->wide, dout);
    ops->swiglu_backward(&gate, s->dwide, s->wide, kept->shared_pre, kept->shared_up, s->dwide,
                         b->stream);
    dt_linear_product_backward(b, &l.gate, dx, false, x, s->dwide);
    dt_linear_product_backward(b, &l.up, dx, true, x, s->wide);
    ops->sigmoid_backward(b->rows, s->scores, kept->shared_weight, s->dweights, b->stream);
    dt_linear_product_backward(b, &l.weight, dx, true, x, s->scores);
}

/* -- all of them ------------------------------------------------------------------------------ */

void dt_experts_forward(const struct dt_block *b, dt_elem *out, const dt_elem *x)
{
    const struct dt_ops *ops = b->ops;
    const struct dt_kept *kept = b->kept;
    const struct dt_scratch *s = b->scratch;
    const struct dt_routes r = routes(b);
    size_t width = b->shape->width, inner = b->shape->expert_inner;
    bool is_shared = b->shape->shared_inner > 0;
    if (is_shared && b->rows)
        shared_forward(b, out, x);
    route(b, x);
    const struct dt_own_rows own = dt_exchange_own(b);
    const struct dt_gate gate = {own.rows, inner, 0};
    ops->route_spread(&r, &kept->order, width, s->spread, x, b->stream);
    const dt_elem *there = dt_exchange_there(b);
    products(b, &own, DT_LLAMA_EXPERT_GATE, kept->pre, there);
    products(b, &own, DT_LLAMA_EXPERT_UP, kept->up, there);
    if (!out)
        return;
    ops->swiglu_forward(&gate, s->wide, kept->pre, kept->up, b->stream);
    ops->weigh_forward(own.rows, inner, s->wide, own.weights, own.of, b->stream);
    products(b, &own, DT_LLAMA_EXPERT_DOWN, dt_exchange_room(b), s->wide);
    dt_exchange_back(b);
    ops->route_collect(&r, &kept->order, width, out, is_shared, s->spread, b->stream);
}

/* dx = , or with ADD += . The gradients of what was given are spread already.
 *
 * wide: what went into the products down, once more, then the gradient of up; dwide: the gradient
 * of that, then of the gate. spread: gradients, then rows, then gradients. The gradient of what
 * went into the products down is wanted before their weights are multiplied in, and the weights of
 * the products behind that: so each product goes back in two parts. */
static void routed_backward(const struct dt_block *b, dt_elem *dx, bool add, const dt_elem *x)
{
    const struct dt_ops *ops = b->ops;
    const struct dt_kept *kept = b->kept;
    const struct dt_scratch *s = b->scratch;
    const struct dt_routes r = routes(b);
    const struct dt_own_rows own = dt_exchange_own(b);
    size_t width = b->shape->width, inner = b->shape->expert_inner;
    const struct dt_gate gate = {own.rows, inner, 0};
    dt_elem *there = dt_exchange_there(b);
    ops->swiglu_forward(&gate, s->wide, kept->pre, kept->up, b->stream);
    products_backward(b, &own, DT_LLAMA_EXPERT_DOWN, s->dwide, false, NULL, there);
    ops->weigh_backward(own.rows, inner, s->wide, s->dwide, dt_exchange_slopes(b), own.weights,
                        own.of, b->stream);
    dt_exchange_slopes_back(b);
    products_backward(b, &own, DT_LLAMA_EXPERT_DOWN, NULL, false, s->wide, there);
    ops->swiglu_backward(&gate, s->dwide, s->wide, kept->pre, kept->up, s->dwide, b->stream);
    ops->route_spread(&r, &kept->order, width, s->spread, x, b->stream);
    there = dt_exchange_there(b);
    products_backward(b, &own, DT_LLAMA_EXPERT_GATE, NULL, false, there, s->dwide);
    products_backward(b, &own, DT_LLAMA_EXPERT_UP, NULL, false, there, s->wide);
    there = dt_exchange_room(b);
    products_backward(b, &own, DT_LLAMA_EXPERT_GATE, there, false, NULL, s->dwide);
    products_backward(b, &own, DT_LLAMA_EXPERT_UP, there, true, NULL, s->wide);
    dt_exchange_back(b);
    ops->route_collect(&r, &kept->order, width, dx, add, s->spread, b->stream);
}

void dt_experts_backward(const struct dt_block *b, dt_elem *dx, const dt_elem *x,
                         const dt_elem *dout)
{
    const struct dt_kept *kept = b->kept;
    const struct dt_scratch *s = b->scratch;
    const struct dt_routes r = routes(b);
    const struct dt_linear router = linear(b, DT_LLAMA_ROUTER, b->shape->width, r.experts);
    bool is_shared = b->shape->shared_inner > 0;
    b->ops->route_spread(&r, &kept->order, b->shape->width, s->spread, dout, b->stream);
    if (is_shared && b->rows)
        shared_backward(b, dx, x, dout);
    routed_backward(b, dx, is_shared, x);
    if (b->rows == 0)
        return;
    b->ops->route_backward(&r, s->scores, kept->probs, kept->experts, s->dweights, b->dprobs,
                           b->stream);
    dt_linear_product_backward(b, &router, dx, true, x, s->scores);
}

/* With A = rows of all blocks together, f = picks / A and P = sum of probabilities / A, the loss is
 * experts * sum of f P. Picks have no slope. */
void dt_experts_balance(const struct dt_shape *s, size_t rows, const int32_t *counts, double share,
                        float *out)
{
    double all = (double)rows * (double)s->layers;
    for (size_t e = 0; e < s->experts; e++) {
        double picks = 0;
        for (size_t layer = 0; layer < s->layers; layer++)
            picks += counts[layer * s->experts + e];
        out[e] = (float)(share * (double)s->experts * picks / (all * all));
    }
}
