/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/linear.h"

/* The gradient of a parameter of B, which lies in the unit's gradients as it does in the unit. */
static dt_elem *grad_of(const struct dt_block *b, const dt_elem *param)
{
    return param ? b->grads + ((const char *)param - b->params) : NULL;
}

static void backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx, bool add,
                     const dt_elem *x, const dt_elem *dout)
{
    b->ops->linear_backward(l, dx, add, grad_of(b, l->weight), grad_of(b, l->bias), x, dout,
                            b->stream);
}

void dt_linear_column_forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                              const dt_elem *x)
{
    b->ops->linear_forward(l, out, x, b->stream);
}

void dt_linear_column_gelu_forward(const struct dt_block *b, const struct dt_linear *l,
                                   dt_elem *out, dt_elem *pre, const dt_elem *x)
{
    b->ops->linear_gelu_forward(l, out, pre, x, b->stream);
}

void dt_linear_column_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                               bool add, const dt_elem *x, const dt_elem *dout)
{
    backward(b, l, dx, add, x, dout);
}

void dt_linear_row_forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                           const dt_elem *x)
{
    b->ops->linear_forward(l, out, x, b->stream);
}

void dt_linear_row_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                            const dt_elem *x, const dt_elem *dout)
{
    backward(b, l, dx, false, x, dout);
}
