/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/linear.h"

#include "worker_runtime/model/weight.h"
#include "worker_runtime/ops/by_chance.h"

/* -- adapters --------------------------------------------------------------------------------- */

static bool is_beside(const struct dt_block *b, const struct dt_linear *l,
                      const struct dt_lora_pair *p, size_t *column)
{
    return dt_weight_has(b, l, p->tensor, column);
}

/* Outputs of L that have an adapter. */
static size_t adapted(const struct dt_block *b, const struct dt_linear *l)
{
    size_t column, outputs = 0;
    for (size_t i = 0; i < b->adapters.count; i++)
        if (is_beside(b, l, &b->adapters.pairs[i], &column))
            outputs += b->adapters.pairs[i].out;
    return outputs;
}

/* Where outputs from COLUMN on begin. */
static dt_elem *at_column(const struct dt_block *b, const dt_elem *out, size_t column)
{
    return (char *)out + column * dt_dtype_size(b->ops->elem);
}

static struct dt_linear layer_a(const struct dt_block *b, const struct dt_lora_pair *p)
{
    return (struct dt_linear){
        .rows = b->rows,
        .in = p->in,
        .out = b->adapters.r,
        .layout = DT_WEIGHT_OUT_IN,
        .weight = b->adapters.params + p->a_at * dt_dtype_size(b->ops->elem),
    };
}

/* Its outputs are some of those of L. */
static struct dt_linear layer_b(const struct dt_block *b, const struct dt_linear *l,
                                const struct dt_lora_pair *p)
{
    return (struct dt_linear){
        .rows = b->rows,
        .in = b->adapters.r,
        .out = p->out,
        .out_stride = dt_linear_stride(l),
        .layout = DT_WEIGHT_OUT_IN,
        .weight = b->adapters.params + p->b_at * dt_dtype_size(b->ops->elem),
    };
}

static dt_elem *adapter_grad(const struct dt_block *b, size_t at)
{
    return b->adapters.grads + at * dt_dtype_size(b->ops->elem);
}

static struct dt_dropout dropout_of(const struct dt_block *b, const struct dt_lora_pair *p)
{
    return (struct dt_dropout){
        .start = dt_mix(b->adapters.chance + p->tensor) + b->adapters.first_row * p->in,
        .gone_below = b->adapters.gone_below,
        .scale = b->adapters.dropout_scale,
    };
}

/* X as the adapter P gets it. */
static const dt_elem *drop(const struct dt_block *b, const struct dt_lora_pair *p, const dt_elem *x)
{
    const struct dt_dropout d = dropout_of(b, p);
    if (d.gone_below == 0)
        return x;
    b->ops->dropout(&d, b->rows * p->in, b->scratch->dropped, false, x, b->stream);
    return b->scratch->dropped;
}

static void scale(const struct dt_block *b, dt_elem *low)
{
    const struct dt_dropout d = {.scale = b->adapters.scale};
    b->ops->dropout(&d, b->rows * b->adapters.r, low, false, low, b->stream);
}

/* low = s A X, of what drop() gave. */
static void go_low(const struct dt_block *b, const struct dt_lora_pair *p, const dt_elem *x)
{
    const struct dt_linear a = layer_a(b, p);
    b->ops->linear_forward(&a, b->scratch->low, x, b->stream);
    scale(b, b->scratch->low);
}

/* out += what the adapters of L make of X. Outputs without one get the 0 that is there. */
static void add_adapters(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                         const dt_elem *x)
{
    size_t all = b->rows * l->out, outputs = adapted(b, l), column;
    dt_elem *sum = b->scratch->dwide; /* a way back's, which is not under way */
    struct dt_device *device = b->adapters.device;
    if (outputs == 0)
        return;
    if (outputs < l->out)
        device->table->clear(device, sum, all * dt_dtype_size(b->ops->elem));
    for (size_t i = 0; i < b->adapters.count; i++) {
        const struct dt_lora_pair *p = &b->adapters.pairs[i];
        if (!is_beside(b, l, p, &column))
            continue;
        const struct dt_linear up = layer_b(b, l, p);
        go_low(b, p, drop(b, p, x));
        b->ops->linear_forward(&up, at_column(b, sum, column), b->scratch->low, b->stream);
    }
    b->ops->add(all, out, sum, b->stream);
}

/* What has gone low is made once more. */
static void one_adapter_backward(const struct dt_block *b, const struct dt_linear *l,
                                 const struct dt_lora_pair *p, dt_elem *dx, const dt_elem *x,
                                 const dt_elem *dout)
{
    const struct dt_ops *ops = b->ops;
    const struct dt_scratch *s = b->scratch;
    const struct dt_linear up = layer_b(b, l, p), down = layer_a(b, p);
    const struct dt_dropout d = dropout_of(b, p);
    const dt_elem *fed = drop(b, p, x);

    go_low(b, p, fed);
    ops->linear_backward(&up, s->dlow, false, adapter_grad(b, p->b_at), NULL, s->low, dout,
                         b->stream);
    scale(b, s->dlow);
    if (d.gone_below == 0) {
        ops->linear_backward(&down, dx, true, adapter_grad(b, p->a_at), NULL, fed, s->dlow,
                             b->stream);
        return;
    }
    ops->linear_backward(&down, NULL, false, adapter_grad(b, p->a_at), NULL, fed, s->dlow,
                         b->stream);
    ops->linear_backward(&down, s->dropped, false, NULL, NULL, NULL, s->dlow, b->stream);
    ops->dropout(&d, b->rows * p->in, dx, true, s->dropped, b->stream);
}

static void adapters_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                              const dt_elem *x, const dt_elem *dout)
{
    size_t column;
    for (size_t i = 0; i < b->adapters.count; i++) {
        const struct dt_lora_pair *p = &b->adapters.pairs[i];
        if (is_beside(b, l, p, &column))
            one_adapter_backward(b, l, p, dx, x, at_column(b, dout, column));
    }
}

/* -- layers ----------------------------------------------------------------------------------- */

static void forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                    const dt_elem *x)
{
    const struct dt_linear own = dt_weight_open(b, l);
    b->ops->linear_forward(&own, out, x, b->stream);
    add_adapters(b, l, out, x);
}

/* The gradient of a parameter of B, which lies in the unit's gradients as it does in the unit. */
static dt_elem *grad_of(const struct dt_block *b, const dt_elem *param)
{
    return param && b->grads ? b->grads + ((const char *)param - b->params) : NULL;
}

static void backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx, bool add,
                     const dt_elem *x, const dt_elem *dout)
{
    const struct dt_linear own = dt_weight_open(b, l);
    b->ops->linear_backward(&own, dx, add, grad_of(b, l->weight), grad_of(b, l->bias), x, dout,
                            b->stream);
    adapters_backward(b, l, dx, x, dout);
}

void dt_linear_column_forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                              const dt_elem *x)
{
    forward(b, l, out, x);
}

void dt_linear_column_gelu_forward(const struct dt_block *b, const struct dt_linear *l,
                                   dt_elem *out, dt_elem *pre, const dt_elem *x)
{
    if (adapted(b, l) == 0) {
        const struct dt_linear own = dt_weight_open(b, l);
        b->ops->linear_gelu_forward(&own, out, pre, x, b->stream);
        return;
    }
    forward(b, l, pre, x);
    b->ops->gelu_forward(b->rows * l->out, out, pre, b->stream);
}

void dt_linear_column_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                               bool add, const dt_elem *x, const dt_elem *dout)
{
    backward(b, l, dx, add, x, dout);
}

void dt_linear_row_forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                           const dt_elem *x)
{
    forward(b, l, out, x);
}

void dt_linear_row_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                            const dt_elem *x, const dt_elem *dout)
{
    backward(b, l, dx, false, x, dout);
}
