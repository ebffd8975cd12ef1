/* SPDX-License-Identifier: Apache-2.0 */
/* Experts: cut by rows. What a router does for a row is next to nothing beside its products, so
 * that is the reference's, a part of the rows at a time. */
#include <string.h>

#include "worker_runtime/ops/cpu/cpu.h"
#include "worker_runtime/ops/cpu/math.h"
#include "worker_runtime/ops/reference/reference.h"

enum { ROWS = 16 };

struct expert_job {
    const struct dt_routes *routes;
    const struct dt_route_order *order;
    size_t rows, width;
    float *probs, *weights, *out, *x;
    const float *in, *dweights, *dprobs;
    int32_t *experts;
    const int32_t *of;
    bool add;
};

static void run(struct dt_stream *s, dt_pool_work_fn work, struct expert_job *j)
{
    dt_pool_run(s->pool, dt_parts(j->rows, ROWS), work, j);
}

/* The routes of a part of the rows. */
static struct dt_routes part_of(const struct expert_job *j, size_t part, size_t *from)
{
    struct dt_range r = dt_part(j->rows, ROWS, part);
    struct dt_routes own = *j->routes;
    own.rows = r.to - r.from;
    own.logsums = own.logsums ? own.logsums + r.from : NULL;
    *from = r.from;
    return own;
}

static void route(void *arg, size_t part)
{
    const struct expert_job *j = arg;
    size_t from;
    struct dt_routes r = part_of(j, part, &from);
    dt_ref_route(&r, j->probs + from * r.experts, j->experts + from * r.picks,
                 j->weights + from * r.picks, j->in + from * r.experts, NULL);
}

void DT_CPU(route)(const struct dt_routes *r, float *probs, int32_t *experts, float *weights,
                   const dt_elem *logits, struct dt_stream *s)
{
    run(s, route,
        &(struct expert_job){.routes = r,
                             .rows = r->rows,
                             .probs = probs,
                             .experts = experts,
                             .weights = weights,
                             .in = logits});
}

static void route_back(void *arg, size_t part)
{
    const struct expert_job *j = arg;
    size_t from;
    struct dt_routes r = part_of(j, part, &from);
    dt_ref_route_backward(&r, j->out + from * r.experts, j->in + from * r.experts,
                          j->of + from * r.picks, j->dweights + from * r.picks, j->dprobs, NULL);
}

void DT_CPU(route_backward)(const struct dt_routes *r, dt_elem *dlogits, const float *probs,
                            const int32_t *experts, const float *dweights, const float *dprobs,
                            struct dt_stream *s)
{
    run(s, route_back,
        &(struct expert_job){.routes = r,
                             .rows = r->rows,
                             .out = dlogits,
                             .in = probs,
                             .of = experts,
                             .dweights = dweights,
                             .dprobs = dprobs});
}

void DT_CPU(route_sort)(const struct dt_routes *r, const struct dt_route_order *to,
                        const int32_t *experts, struct dt_stream *s)
{
    dt_ref_route_sort(r, to, experts, s);
}

static void spread(void *arg, size_t part)
{
    const struct expert_job *j = arg;
    struct dt_range r = dt_part(j->rows, ROWS, part);
    for (size_t i = r.from; i < r.to; i++)
        memcpy(j->out + i * j->width,
               j->in + (size_t)j->order->picks[i] / j->routes->picks * j->width,
               j->width * sizeof *j->out);
}

void DT_CPU(route_spread)(const struct dt_routes *r, const struct dt_route_order *o, size_t width,
                          dt_elem *out, const dt_elem *x, struct dt_stream *s)
{
    run(s, spread,
        &(struct expert_job){.routes = r,
                             .order = o,
                             .rows = r->rows * r->picks,
                             .width = width,
                             .out = out,
                             .in = x});
}

static void collect(void *arg, size_t part)
{
    const struct expert_job *j = arg;
    struct dt_range r = dt_part(j->rows, ROWS, part);
    size_t picks = j->routes->picks;
    for (size_t n = r.from; n < r.to; n++) {
        float *out = j->out + n * j->width;
        if (!j->add)
            memset(out, 0, j->width * sizeof *out);
        for (size_t k = 0; k < picks; k++) {
            const float *x = j->in + (size_t)j->order->places[n * picks + k] * j->width;
#pragma omp simd
            for (size_t c = 0; c < j->width; c++)
                out[c] += x[c];
        }
    }
}

void DT_CPU(route_collect)(const struct dt_routes *r, const struct dt_route_order *o, size_t width,
                           dt_elem *out, bool add, const dt_elem *x, struct dt_stream *s)
{
    run(s, collect,
        &(struct expert_job){.routes = r,
                             .order = o,
                             .rows = r->rows,
                             .width = width,
                             .out = out,
                             .add = add,
                             .in = x});
}

static void weigh(void *arg, size_t part)
{
    const struct expert_job *j = arg;
    struct dt_range r = dt_part(j->rows, ROWS, part);
    for (size_t n = r.from; n < r.to; n++) {
        float *x = j->x + n * j->width, weight = j->in[j->of ? (size_t)j->of[n] : n];
#pragma omp simd
        for (size_t c = 0; c < j->width; c++)
            x[c] *= weight;
    }
}

void DT_CPU(weigh_forward)(size_t rows, size_t width, dt_elem *x, const float *weights,
                           const int32_t *of, struct dt_stream *s)
{
    run(s, weigh,
        &(struct expert_job){.rows = rows, .width = width, .x = x, .in = weights, .of = of});
}

static void weigh_back(void *arg, size_t part)
{
    const struct expert_job *j = arg;
    struct dt_range r = dt_part(j->rows, ROWS, part);
    for (size_t n = r.from; n < r.to; n++) {
        size_t of = j->of ? (size_t)j->of[n] : n;
        float *x = j->x + n * j->width, *dout = j->out + n * j->width;
        float weight = j->in[of], sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t c = 0; c < j->width; c++) {
            sum += x[c] * dout[c];
            x[c] *= weight;
            dout[c] *= weight;
        }
        j->weights[of] = sum;
    }
}

void DT_CPU(weigh_backward)(size_t rows, size_t width, dt_elem *x, dt_elem *dout, float *dweights,
                            const float *weights, const int32_t *of, struct dt_stream *s)
{
    run(s, weigh_back,
        &(struct expert_job){.rows = rows,
                             .width = width,
                             .x = x,
                             .out = dout,
                             .weights = dweights,
                             .in = weights,
                             .of = of});
}

void DT_CPU(sigmoid_forward)(size_t n, float *out, const dt_elem *x, struct dt_stream *s)
{
    (void)s;
    for (size_t i = 0; i < n; i++)
        out[i] = dt_sigmoid(((const float *)x)[i]);
}

void DT_CPU(sigmoid_backward)(size_t n, dt_elem *dx, const float *out, const float *dout,
                              struct dt_stream *s)
{
    (void)s;
    for (size_t i = 0; i < n; i++)
        ((float *)dx)[i] = dout[i] * out[i] * (1 - out[i]);
}
