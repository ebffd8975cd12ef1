/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/linear.h"

#include "worker_runtime/model/adapter.h"
#include "worker_runtime/model/weight.h"

void dt_linear_product(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                       const dt_elem *x)
{
    const struct dt_linear own = dt_weight_open(b, l);
    b->ops->linear_forward(&own, out, x, b->stream);
}

/* The gradient of a parameter of B, which lies in the unit's gradients as it does in the unit. */
static dt_elem *grad_of(const struct dt_block *b, const dt_elem *param)
{
    return param && b->grads ? b->grads + ((const char *)param - b->params) : NULL;
}

void dt_linear_product_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                                bool add, const dt_elem *x, const dt_elem *dout)
{
    const struct dt_linear own = dt_weight_open(b, l);
    b->ops->linear_backward(&own, dx, add, x ? grad_of(b, l->weight) : NULL,
                            x ? grad_of(b, l->bias) : NULL, x, dout, b->stream);
}

static void forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                    const dt_elem *x)
{
    dt_linear_product(b, l, out, x);
    if (dt_adapter_outputs(b, l) > 0)
        dt_adapter_forward(b, l, out, x);
}

static void backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx, bool add,
                     const dt_elem *x, const dt_elem *dout)
{
    if (dt_adapter_outputs(b, l) > 0)
        dt_adapter_backward(b, l, dx, add, x, dout);
    else
        dt_linear_product_backward(b, l, dx, add, x, dout);
}

void dt_linear_column_forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                              const dt_elem *x)
{
    forward(b, l, out, x);
}

void dt_linear_column_gelu_forward(const struct dt_block *b, const struct dt_linear *l,
                                   dt_elem *out, dt_elem *pre, const dt_elem *x)
{
    if (dt_adapter_outputs(b, l) == 0) {
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

void dt_linear_columns_end(const struct dt_block *b, size_t in, dt_elem *dx)
{
    dt_team_sum(b->team, dx, b->rows * in, b->ops->elem);
}

void dt_linear_row_forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                           const dt_elem *x)
{
    struct dt_linear own = *l;
    if (!dt_team_is_first(b->team))
        own.bias = NULL;
    forward(b, &own, out, x);
    dt_team_sum(b->team, out, b->rows * l->out, b->ops->elem);
}

void dt_linear_row_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                            const dt_elem *x, const dt_elem *dout)
{
    backward(b, l, dx, false, x, dout);
}
