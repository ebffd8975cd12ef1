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
    if (b->half == DT_INPUT_HALF)
        x = NULL;
    if (dt_adapter_outputs(b, l) > 0)
        dt_adapter_backward(b, l, dx, add, x, dout);
    else
        dt_linear_product_backward(b, l, dx, add, x, dout);
}

void dt_linear_columns_begin(const struct dt_block *b, const struct dt_norm *n, dt_elem *sum,
                             const dt_elem *x, const dt_elem *add)
{
    const struct dt_rows r = dt_block_rows(b);
    b->ops->norm_forward(n, dt_block_normed(b), sum, x, add, b->stream);
    dt_rows_gather(&r, b->scratch->normed, dt_block_normed(b));
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

void dt_linear_columns_end(const struct dt_block *b, const struct dt_norm *n, dt_elem *dweight,
                           dt_elem *dbias, const dt_elem *x)
{
    const struct dt_rows r = dt_block_rows(b);
    dt_rows_sum(&r, b->scratch->branch, dt_block_branch(b));
    b->ops->norm_backward(n, b->dstream, dweight, dbias, x, dt_block_branch(b), b->stream);
}

dt_elem *dt_linear_rows_room(const struct dt_block *b, dt_elem *out)
{
    const struct dt_rows r = dt_block_rows(b);
    return dt_rows_shared(&r) ? b->scratch->branch : out;
}

void dt_linear_rows_end(const struct dt_block *b, dt_elem *out)
{
    const struct dt_rows r = dt_block_rows(b);
    dt_rows_sum(&r, dt_linear_rows_room(b, out), out);
}

const dt_elem *dt_linear_rows_back(const struct dt_block *b, dt_elem *room, const dt_elem *dout)
{
    const struct dt_rows r = dt_block_rows(b);
    return dt_rows_gather(&r, room, dout);
}

void dt_linear_row_forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                           const dt_elem *x)
{
    struct dt_linear own = *l;
    if (!dt_team_is_first(b->team))
        own.bias = NULL;
    forward(b, &own, dt_linear_rows_room(b, out), x);
    dt_linear_rows_end(b, out);
}

void dt_linear_row_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                            const dt_elem *x, const dt_elem *dout)
{
    backward(b, l, dx, false, x, dt_linear_rows_back(b, b->scratch->normed, dout));
}

void dt_linear_row_gelu_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dpre,
                                 const dt_elem *x, const dt_elem *pre, const dt_elem *dout)
{
    const dt_elem *all = dt_linear_rows_back(b, b->scratch->normed, dout);
    bool weights = b->half != DT_INPUT_HALF;
    if (dt_adapter_outputs(b, l) == 0) {
        const struct dt_linear own = dt_weight_open(b, l);
        b->ops->linear_gelu_backward(&own, dpre, weights ? grad_of(b, l->weight) : NULL,
                                     weights ? grad_of(b, l->bias) : NULL, x, pre, all, b->stream);
        return;
    }
    backward(b, l, dpre, false, x, all);
    b->ops->gelu_backward(b->rows * l->in, dpre, pre, dpre, b->stream);
}
