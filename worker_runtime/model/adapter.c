/* SPDX-License-Identifier: Apache-2.0 */
/* Of a layer L with weights W, out += s B A drop(x), or with magnitudes as lora.h has it:
 *
 *     out += (g - 1) drop(x) W + g s B A drop(x)        g = m / n, of each output
 *
 * n is made forward and kept until the way back, where it is a constant: m, A and B change behind
 * that. Without dropout drop(x) W is what OUT has, and backward both terms in W are one: the
 * layer's product with g dout. With it they are two.
 *
 * Where ranks share the layer all of this is of a rank's part, of outputs or of inputs, and joins
 * the others' where the layer's own does (linear.h): what adds up of W's parts adds up of B A's.
 * Not so n, of which a part of the inputs has a part alone.
 *
 * m's gradient wants drop(x) W once more: a third product with W beside those of LoRA, and with
 * dropout five in all. To keep it would take as much memory as all that a block keeps. */
#include "worker_runtime/model/adapter.h"

#include "worker_runtime/model/dropout.h"
#include "worker_runtime/model/linear.h"
#include "worker_runtime/model/weight.h"
#include "worker_runtime/ops/by_chance.h"

/* -- which layer, and where ------------------------------------------------------------------- */

/* The next pair of L from *I on; NULL: there is none. */
static const struct dt_lora_pair *next_pair(const struct dt_block *b, const struct dt_linear *l,
                                            size_t *i, size_t *column)
{
    while (*i < b->adapters.count) {
        const struct dt_lora_pair *p = &b->adapters.pairs[(*i)++];
        if (dt_weight_has(b, l, p->tensor, column))
            return p;
    }
    return NULL;
}

size_t dt_adapter_outputs(const struct dt_block *b, const struct dt_linear *l)
{
    const struct dt_lora_pair *p;
    size_t column, outputs = 0;
    for (size_t i = 0; (p = next_pair(b, l, &i, &column));)
        outputs += p->out;
    return outputs;
}

/* Where outputs from COLUMN on begin. */
static dt_elem *at_column(const struct dt_block *b, const dt_elem *out, size_t column)
{
    return (char *)out + column * dt_dtype_size(b->ops->elem);
}

static const dt_elem *adapter_param(const struct dt_block *b, size_t at)
{
    return b->adapters.params + at * dt_dtype_size(b->ops->elem);
}

static dt_elem *adapter_grad(const struct dt_block *b, size_t at)
{
    return b->adapters.grads + at * dt_dtype_size(b->ops->elem);
}

/* -- its parts -------------------------------------------------------------------------------- */

static struct dt_linear layer_a(const struct dt_block *b, const struct dt_lora_pair *p)
{
    return (struct dt_linear){
        .rows = b->rows,
        .in = p->in,
        .out = p->r,
        .layout = DT_WEIGHT_OUT_IN,
        .weight = adapter_param(b, p->a_at),
    };
}

/* Its outputs are some of those of L. */
static struct dt_linear layer_b(const struct dt_block *b, const struct dt_linear *l,
                                const struct dt_lora_pair *p)
{
    return (struct dt_linear){
        .rows = b->rows,
        .in = p->r,
        .out = p->out,
        .out_stride = dt_linear_stride(l),
        .layout = DT_WEIGHT_OUT_IN,
        .weight = adapter_param(b, p->b_at),
    };
}

/* That part of L which P stands beside, without a bias. */
static struct dt_linear layer_w(const struct dt_block *b, const struct dt_linear *l,
                                const struct dt_lora_pair *p)
{
    return (struct dt_linear){
        .rows = b->rows,
        .in = p->in,
        .out = p->out,
        .out_stride = dt_linear_stride(l),
        .layout = l->layout,
        .weight = dt_block_param(b, p->tensor),
    };
}

static struct dt_magnitude magnitude_of(const struct dt_block *b, const struct dt_linear *l,
                                        const struct dt_lora_pair *p, size_t column)
{
    return (struct dt_magnitude){
        .rows = b->rows,
        .width = p->out,
        .stride = dt_linear_stride(l),
        .magnitudes = adapter_param(b, p->m_at),
        .bias = l->bias ? at_column(b, l->bias, column) : NULL,
        .rnorms = b->adapters.rnorms + p->outs_at,
    };
}

static struct dt_dropout dropout_of(const struct dt_block *b, const struct dt_lora_pair *p)
{
    return (struct dt_dropout){
        .start = dt_mix(b->adapters.chance + p->tensor),
        .gone_below = b->adapters.gone_below,
        .scale = b->adapters.dropout_scale,
    };
}

/* Ranks that share a layer by its inputs have as many of them each. */
static struct dt_inputs inputs_of(const struct dt_block *b, const struct dt_lora_pair *p)
{
    size_t parts = b->team && p->by_inputs ? (size_t)dt_coll_size(b->team->group) : 1;
    size_t index = parts > 1 ? (size_t)b->team->index : 0;
    return (struct dt_inputs){p->in, index * p->in, parts * p->in};
}

/* OUT = what dropout leaves of what P is fed with, X; ADD: +=. */
static void drop_rows(const struct dt_block *b, const struct dt_lora_pair *p, dt_elem *out,
                      bool add, const dt_elem *x)
{
    const struct dt_dropout d = dropout_of(b, p);
    const struct dt_inputs inputs = inputs_of(b, p);
    dt_drop_inputs(b, &d, &inputs, out, add, x);
}

/* X as the adapter P gets it. */
static const dt_elem *drop(const struct dt_block *b, const struct dt_lora_pair *p, const dt_elem *x)
{
    if (b->adapters.gone_below == 0)
        return x;
    drop_rows(b, p, b->scratch->dropped, false, x);
    return b->scratch->dropped;
}

static void scale(const struct dt_block *b, const struct dt_lora_pair *p, dt_elem *low)
{
    const struct dt_dropout d = {.scale = p->scale};
    b->ops->dropout(&d, b->rows * p->r, low, false, low, b->stream);
}

/* low = s A X, of what drop() gave. */
static void go_low(const struct dt_block *b, const struct dt_lora_pair *p, const dt_elem *x)
{
    const struct dt_linear a = layer_a(b, p);
    b->ops->linear_forward(&a, b->scratch->low, x, b->stream);
    scale(b, p, b->scratch->low);
}

/* SUM, from its column on, = s B A X. */
static void go_up(const struct dt_block *b, const struct dt_linear *l, const struct dt_lora_pair *p,
                  dt_elem *sum, const dt_elem *x)
{
    const struct dt_linear up = layer_b(b, l, p);
    go_low(b, p, x);
    b->ops->linear_forward(&up, sum, b->scratch->low, b->stream);
}

/* -- forward ---------------------------------------------------------------------------------- */

/* Of each output of P, with its weights as the products of the layer have them. */
static void find_norms(const struct dt_block *b, const struct dt_linear *l,
                       const struct dt_lora_pair *p)
{
    const struct dt_linear w = layer_w(b, l, p), own = dt_weight_open(b, &w);
    b->ops->magnitude_norms(&own, p->r, p->scale, adapter_param(b, p->a_at),
                            adapter_param(b, p->b_at), b->adapters.rnorms + p->outs_at, b->stream);
}

static void magnify(const struct dt_block *b, const struct dt_linear *l,
                    const struct dt_lora_pair *p, size_t column, dt_elem *out, const dt_elem *x)
{
    const struct dt_magnitude m = magnitude_of(b, l, p, column);
    const struct dt_linear w = layer_w(b, l, p);
    const dt_elem *fed = drop(b, p, x);
    dt_elem *sum = at_column(b, b->scratch->sum, column), *base = NULL;
    find_norms(b, l, p);
    go_up(b, l, p, sum, fed);
    if (fed != x) {
        base = at_column(b, b->scratch->base, column);
        dt_linear_product(b, &w, base, fed);
    }
    b->ops->magnitude_forward(&m, at_column(b, out, column), base, sum, b->stream);
}

/* Outputs without an adapter get the 0 that is there. */
static void add_adapters(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                         const dt_elem *x)
{
    size_t all = b->rows * l->out, column;
    dt_elem *sum = b->scratch->dwide; /* a way back's, which is not under way */
    struct dt_device *device = b->adapters.device;
    const struct dt_lora_pair *p;
    if (dt_adapter_outputs(b, l) < l->out)
        device->table->clear(device, sum, all * dt_dtype_size(b->ops->elem));
    for (size_t i = 0; (p = next_pair(b, l, &i, &column));)
        go_up(b, l, p, at_column(b, sum, column), drop(b, p, x));
    b->ops->add(all, out, sum, b->stream);
}

void dt_adapter_forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                        const dt_elem *x)
{
    const struct dt_lora_pair *p;
    size_t column;
    if (!b->adapters.rnorms) {
        add_adapters(b, l, out, x);
        return;
    }
    for (size_t i = 0; (p = next_pair(b, l, &i, &column));)
        magnify(b, l, p, column, out, x);
}

/* -- backward --------------------------------------------------------------------------------- */

/* B's gradient, and in dlow that of A x, from that of SUM; low: as go_low() left it. */
static void up_backward(const struct dt_block *b, const struct dt_linear *l,
                        const struct dt_lora_pair *p, const dt_elem *dsum)
{
    const struct dt_scratch *s = b->scratch;
    const struct dt_linear up = layer_b(b, l, p);
    b->ops->linear_backward(&up, s->dlow, false, adapter_grad(b, p->b_at), NULL, s->low, dsum,
                            b->stream);
    scale(b, p, s->dlow);
}

/* A's gradient; and dx += what dlow means for X, and with dropout DBASE too, the gradient of
 * drop(x) W; NULL: there is none. */
static void down_backward(const struct dt_block *b, const struct dt_linear *l,
                          const struct dt_lora_pair *p, dt_elem *dx, const dt_elem *fed,
                          const dt_elem *dbase)
{
    const struct dt_scratch *s = b->scratch;
    const struct dt_linear down = layer_a(b, p), w = layer_w(b, l, p);
    dt_elem *da = adapter_grad(b, p->a_at);
    if (b->adapters.gone_below == 0) {
        b->ops->linear_backward(&down, dx, true, da, NULL, fed, s->dlow, b->stream);
        return;
    }
    b->ops->linear_backward(&down, NULL, false, da, NULL, fed, s->dlow, b->stream);
    b->ops->linear_backward(&down, s->dropped, false, NULL, NULL, NULL, s->dlow, b->stream);
    if (dbase)
        dt_linear_product_backward(b, &w, s->dropped, true, NULL, dbase);
    drop_rows(b, p, dx, true, s->dropped);
}

/* What has gone low is made once more. */
static void add_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                         const dt_elem *x, const dt_elem *dout)
{
    const struct dt_lora_pair *p;
    size_t column;
    for (size_t i = 0; (p = next_pair(b, l, &i, &column));) {
        const dt_elem *fed = drop(b, p, x);
        go_low(b, p, fed);
        up_backward(b, l, p, at_column(b, dout, column));
        down_backward(b, l, p, dx, fed, NULL);
    }
}

/* m's gradient; and in the columns of P, in the place of SUM its gradient, and with dropout in that
 * of BASE its own. */
static void magnitude_backward(const struct dt_block *b, const struct dt_linear *l,
                               const struct dt_lora_pair *p, size_t column, const dt_elem *fed,
                               const dt_elem *dout)
{
    const struct dt_magnitude m = magnitude_of(b, l, p, column);
    const struct dt_linear w = layer_w(b, l, p);
    dt_elem *sum = at_column(b, b->scratch->sum, column);
    dt_elem *base = at_column(b, b->scratch->base, column);
    bool drops = b->adapters.gone_below > 0;
    go_up(b, l, p, sum, fed);
    dt_linear_product(b, &w, base, fed);
    b->ops->magnitude_backward(&m, sum, drops ? base : NULL, adapter_grad(b, p->m_at), base, sum,
                               at_column(b, dout, column), b->stream);
}

/* Once SUM has g dout, or dout where an output has no adapter, all goes on as without magnitudes.
 */
static void magnified_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                               bool add, const dt_elem *x, const dt_elem *dout)
{
    enum dt_dtype elem = b->ops->elem;
    dt_elem *sum = b->scratch->sum;
    const struct dt_lora_pair *p;
    size_t column;
    if (dt_adapter_outputs(b, l) < l->out)
        b->ops->cast(b->rows * l->out, sum, elem, dout, elem, b->stream);
    for (size_t i = 0; (p = next_pair(b, l, &i, &column));)
        magnitude_backward(b, l, p, column, x, dout);
    dt_linear_product_backward(b, l, dx, add, x, sum);
    add_backward(b, l, dx, x, sum);
}

static void dropped_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                             bool add, const dt_elem *x, const dt_elem *dout)
{
    const struct dt_scratch *s = b->scratch;
    const struct dt_lora_pair *p;
    size_t column;
    dt_linear_product_backward(b, l, dx, add, x, dout);
    for (size_t i = 0; (p = next_pair(b, l, &i, &column));) {
        const dt_elem *fed = drop(b, p, x);
        magnitude_backward(b, l, p, column, fed, dout);
        up_backward(b, l, p, at_column(b, s->sum, column));
        down_backward(b, l, p, dx, fed, at_column(b, s->base, column));
    }
}

void dt_adapter_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx, bool add,
                         const dt_elem *x, const dt_elem *dout)
{
    if (b->adapters.rnorms && b->adapters.gone_below > 0) {
        dropped_backward(b, l, dx, add, x, dout);
    } else if (b->adapters.rnorms) {
        magnified_backward(b, l, dx, add, x, dout);
    } else {
        dt_linear_product_backward(b, l, dx, add, x, dout);
        add_backward(b, l, dx, x, dout);
    }
}
