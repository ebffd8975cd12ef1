/* SPDX-License-Identifier: Apache-2.0 */
/* Plans are kept for as long as the device is open, and so is each block of memory that they work
 * in: a CUDA graph that was recorded with one goes on using it. Nothing is planned, taken or
 * compared while work is recorded. A recording of a shape that was not compared before has our
 * kernels. */
#include "cuda/cudnn/attention.h"

#include "cuda/cudnn/compare.h"
#include "cuda/cudnn/shape.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLANS = 32,
    OUTPUTS = 3,
};

/* An engine without atomics works in a matrix of all weights: at some length that is too much. */
static const size_t WORKSPACE_MOST = (size_t)1 << 30;

enum standing { UNTRIED, TRUSTED, REFUSED };

struct plan {
    struct dt_cudnn_shape shape;
    enum standing standing;
    struct dt_cudnn_graph graph;
};

struct dt_cudnn_attention {
    struct dt_cudnn_under under;
    void *handle;
    bool off; /* it gave a wrong result once */
    bool deterministic;
    char *workspace;
    size_t bytes;
    int used;
    struct plan plans[PLANS];
};

/* One call of an op. */
struct call {
    const struct dt_attention *a;
    bool backward;
    void *out[OUTPUTS];      /* out; or dq, dk, dv */
    const void *kept, *dout; /* backward: what forward gave, and its gradient */
    /* What the first call's are compared by. */
    int results;
    struct dt_cudnn_array arrays[OUTPUTS];
    const void *at[OUTPUTS];
};

static void say(struct dt_cudnn_attention *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct dt_cudnn_attention *c, const char *format, ...)
{
    char line[700];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (c->under.say)
        c->under.say(c->under.arg, line);
}

struct dt_cudnn_attention *dt_cudnn_attention_open(const struct dt_cudnn_under *under,
                                                   const struct dt_stream *s, struct dt_err *err)
{
    struct dt_cudnn_attention *c = calloc(1, sizeof *c);
    if (!c) {
        dt_err_set(err, DT_E_MEMORY, "no memory for the plans of attention");
        return NULL;
    }
    c->under = *under;
    c->deterministic = !s->fast;
    int status = c->under.calls->create(&c->handle);
    if (status != DT_CUDNN_SUCCESS)
        c->handle = NULL;
    else
        status = c->under.calls->set_stream(c->handle, s->compute);
    if (status == DT_CUDNN_SUCCESS)
        return c;
    dt_cudnn_fail(c->under.calls, status, "starting it", err);
    dt_cudnn_attention_close(c);
    return NULL;
}

void dt_cudnn_attention_close(struct dt_cudnn_attention *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->used; i++)
        dt_cudnn_graph_finish(&c->plans[i].graph);
    if (c->handle)
        c->under.calls->destroy(c->handle);
    free(c);
}

static const char *way_of(const struct plan *p)
{
    return p->shape.backward ? "backward" : "forward";
}

/* -- plans ------------------------------------------------------------------------------------ */

static size_t workspace_of(const struct plan *p)
{
    return dt_cudnn_average_bytes(&p->shape) + dt_cudnn_dq_sum_bytes(&p->shape) +
           p->graph.workspace;
}

/* The block before stays where it is. */
static int grow(struct dt_cudnn_attention *c, size_t bytes, struct dt_err *err)
{
    if (bytes <= c->bytes)
        return 0;
    char *more = c->under.take(c->under.arg, bytes, err);
    if (!more)
        return -1;
    c->workspace = more;
    c->bytes = bytes;
    return 0;
}

/* What a query's keys are limited to. */
static void limits_of(const struct plan *p, char *text, size_t size)
{
    const char *documents = p->shape.documents ? " and documents" : "";
    if (p->shape.window > 0)
        snprintf(text, size, ", by a window of %lld%s", (long long)p->shape.window, documents);
    else
        snprintf(text, size, "%s", p->shape.documents ? ", by documents" : "");
}

static void refuse(struct dt_cudnn_attention *c, struct plan *p, const char *why)
{
    char limits[64];
    p->standing = REFUSED;
    limits_of(p, limits, sizeof limits);
    say(c,
        "attention %s of %lld sequences of %lld positions, %lld heads of %lld numbers%s is "
        "computed by dtrun's own kernels: %s",
        way_of(p), (long long)p->shape.batch, (long long)p->shape.positions,
        (long long)p->shape.heads, (long long)p->shape.head_dim, limits, why);
}

static void make_plan(struct dt_cudnn_attention *c, struct plan *p)
{
    const struct dt_cudnn_where where = {
        .handle = c->handle, .deterministic = c->deterministic, .most = WORKSPACE_MOST};
    struct dt_err err = {0};
    dt_cudnn_graph_begin(&p->graph, c->under.calls);
    dt_cudnn_shape_tell(&p->shape, &p->graph);
    if (dt_cudnn_graph_plan(&p->graph, &where) < 0)
        err = p->graph.failed;
    if (err.code == DT_E_NONE && grow(c, workspace_of(p), &err) == 0)
        return;
    dt_cudnn_graph_finish(&p->graph);
    refuse(c, p, err.text);
}

static bool is_aligned(const struct call *k)
{
    const void *all[] = {k->a->q, k->a->k, k->a->v,   k->a->logsum, k->a->documents,
                         k->kept, k->dout, k->out[0], k->out[1],    k->out[2]};
    uintptr_t bits = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bits |= (uintptr_t)all[i];
    return bits % 16 == 0;
}

/* NULL: our kernels are to be taken. */
static struct plan *find_plan(struct dt_cudnn_attention *c, const struct call *k,
                              struct dt_stream *s)
{
    if (!c || c->off || s->failed.code != DT_E_NONE || !dt_cudnn_takes(k->a) || !is_aligned(k))
        return NULL;
    struct dt_cudnn_shape shape = dt_cudnn_shape_of(k->a, k->backward, c->deterministic);
    struct plan *p = c->plans, *end = c->plans + c->used;
    while (p < end && memcmp(&p->shape, &shape, sizeof shape))
        p++;
    if (p == end && (c->used == PLANS || c->under.is_recording(s)))
        return NULL;
    if (p == end) {
        c->used++;
        p->shape = shape;
        make_plan(c, p);
    }
    if (p->standing == REFUSED || (p->standing == UNTRIED && c->under.is_recording(s)))
        return NULL;
    return p;
}

/* -- running ---------------------------------------------------------------------------------- */

static cudaError_t run_own(struct dt_cudnn_attention *c, const struct call *k, struct dt_stream *s)
{
    return k->backward
               ? c->under.backward(k->a, k->out[0], k->out[1], k->out[2], k->kept, k->dout, s)
               : c->under.forward(k->a, k->out[0], s);
}

/* Where keys are limited, an engine may meet a block of keys that a query has none of, before it
 * meets others: infinite scores would make no numbers there, and finite ones vanish beside those
 * that come. Times log2(e) it is finite still. */
static float masked_of(const struct plan *p)
{
    return p->shape.window > 0 || p->shape.documents ? -1e30f : -INFINITY;
}

static int run_plan(const struct dt_cudnn_attention *c, const struct plan *p, const struct call *k,
                    struct dt_err *err)
{
    const struct dt_attention *a = k->a;
    float scale = a->scale > 0 ? a->scale : (float)(1 / sqrt((double)a->head_dim));
    float masked = masked_of(p), one = 1;
    int32_t window = (int32_t)p->shape.window;
    char *average = c->workspace, *dq_sum = average + dt_cudnn_average_bytes(&p->shape);
    char *workspace = dq_sum + dt_cudnn_dq_sum_bytes(&p->shape);
    const struct {
        enum dt_cudnn_role role;
        const void *at;
        bool in; /* this graph */
    } all[] = {
        {DT_CUDNN_Q, a->q, true},
        {DT_CUDNN_K, a->k, true},
        {DT_CUDNN_V, a->v, true},
        {DT_CUDNN_OUT, k->backward ? k->kept : k->out[0], true},
        {DT_CUDNN_STATS, a->logsum, true},
        {DT_CUDNN_SCALE, &scale, true},
        {DT_CUDNN_MASKED, &masked, true},
        {DT_CUDNN_ONE, &one, k->backward},
        {DT_CUDNN_WINDOW, &window, window > 0},
        {DT_CUDNN_DOCUMENTS, a->documents, p->shape.documents},
        {DT_CUDNN_DOUT, k->dout, k->backward},
        {DT_CUDNN_DQ, k->out[0], k->backward},
        {DT_CUDNN_DK, k->out[1], k->backward},
        {DT_CUDNN_DV, k->out[2], k->backward},
        {DT_CUDNN_AVERAGE, average, k->backward},
        {DT_CUDNN_DQ_SUM, dq_sum, dt_cudnn_dq_sum_bytes(&p->shape) > 0},
    };
    int64_t ids[DT_CUDNN_ROLES];
    void *at[DT_CUDNN_ROLES];
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].in) {
            ids[count] = all[i].role;
            at[count++] = (void *)all[i].at;
        }
    return dt_cudnn_graph_run(&p->graph, c->handle, count, ids, at, workspace, err);
}

/* -- the first time --------------------------------------------------------------------------- */

/* Copies of a call's results, one behind the other; NULL: no memory for them, or *E. */
static char *copy_results(struct dt_cudnn_attention *c, const struct call *k, struct dt_stream *s,
                          cudaError_t *e)
{
    size_t bytes = 0, at = 0;
    for (int i = 0; i < k->results; i++)
        bytes += dt_cudnn_array_bytes(&k->arrays[i]);
    char *copy = malloc(bytes);
    for (int i = 0; copy && i < k->results && *e == cudaSuccess; i++) {
        *e = c->under.fetch(s, copy + at, k->at[i], dt_cudnn_array_bytes(&k->arrays[i]));
        at += dt_cudnn_array_bytes(&k->arrays[i]);
    }
    if (*e == cudaSuccess)
        return copy;
    free(copy);
    return NULL;
}

/* The farthest that one of them is; negative where one says nothing. */
static double compare(const struct call *k, const char *ours, const char *theirs)
{
    double most = 0;
    size_t at = 0;
    for (int i = 0; i < k->results; i++) {
        double apart = dt_cudnn_apart(&k->arrays[i], ours + at, theirs + at);
        if (apart < 0)
            return apart;
        if (!(apart <= most))
            most = apart;
        if (isnan(most))
            return most;
        at += dt_cudnn_array_bytes(&k->arrays[i]);
    }
    return most;
}

static void judge(struct dt_cudnn_attention *c, struct plan *p, double apart)
{
    if (apart < 0)
        return; /* the next one may tell more */
    if (apart <= DT_CUDNN_APART_MOST) {
        p->standing = TRUSTED;
        return;
    }
    c->off = true;
    p->standing = REFUSED;
    say(c,
        "cuDNN's attention %s is %.2g of its norm apart from dtrun's own, and at most %.2g was "
        "expected: from here on dtrun's own kernels are taken; please report this, with the "
        "versions of cuDNN (%zu) and of the GPU's driver",
        way_of(p), apart, DT_CUDNN_APART_MOST, c->under.calls->version());
}

/* Whether documents limit anything in this call: where each sequence is one, a graph that was told
 * nothing of them would give the same. */
static bool tells(const struct dt_cudnn_attention *c, const struct call *k, struct dt_stream *s,
                  cudaError_t *e)
{
    size_t n = k->a->batch * k->a->keys;
    int32_t *begins = k->a->documents ? malloc(n * sizeof *begins) : NULL;
    bool any = !k->a->documents;
    if (begins)
        *e = c->under.fetch(s, begins, k->a->documents, n * sizeof *begins);
    for (size_t i = 0; begins && *e == cudaSuccess && !any && i < n; i++)
        any = begins[i] > 0;
    free(begins);
    return any;
}

/* Ours, then cuDNN's in its place; and ours once more where that is not to be believed. */
static cudaError_t try_plan(struct dt_cudnn_attention *c, struct plan *p, const struct call *k,
                            struct dt_stream *s)
{
    struct dt_err err = {0};
    cudaError_t e = cudaSuccess;
    bool told = tells(c, k, s, &e);
    if (e == cudaSuccess)
        e = run_own(c, k, s);
    if (!told)
        return e;
    char *ours = e == cudaSuccess ? copy_results(c, k, s, &e) : NULL, *theirs = NULL;
    if (!ours)
        return e;
    if (run_plan(c, p, k, &err) < 0)
        refuse(c, p, err.text);
    else if ((theirs = copy_results(c, k, s, &e)))
        judge(c, p, compare(k, ours, theirs));
    free(ours);
    free(theirs);
    if (e != cudaSuccess || p->standing == TRUSTED)
        return e;
    return run_own(c, k, s);
}

static cudaError_t attend(struct dt_cudnn_attention *c, const struct call *k, struct dt_stream *s)
{
    struct plan *p = find_plan(c, k, s);
    struct dt_err err = {0};
    if (!p)
        return run_own(c, k, s);
    if (p->standing == UNTRIED)
        return try_plan(c, p, k, s);
    if (run_plan(c, p, k, &err) == 0)
        return cudaSuccess;
    s->failed = err;
    return cudaErrorUnknown;
}

static struct dt_cudnn_array array_of(const struct dt_attention *a, size_t heads, size_t stride)
{
    return (struct dt_cudnn_array){.type = DT_BF16,
                                   .rows = a->batch * a->queries,
                                   .width = heads * a->head_dim,
                                   .stride = stride};
}

cudaError_t dt_cudnn_attention_forward(struct dt_cudnn_attention *c, const struct dt_attention *a,
                                       void *out, struct dt_stream *s)
{
    const struct dt_cudnn_array logsums = {
        .type = DT_F32, .rows = 1, .width = a->batch * a->heads * a->queries};
    const struct call k = {
        .a = a,
        .out = {out},
        .results = 2,
        .arrays = {array_of(a, a->heads, a->out_stride), logsums},
        .at = {out, a->logsum},
    };
    return attend(c, &k, s);
}

cudaError_t dt_cudnn_attention_backward(struct dt_cudnn_attention *c, const struct dt_attention *a,
                                        void *dq, void *dk, void *dv, const void *out,
                                        const void *dout, struct dt_stream *s)
{
    const struct call k = {
        .a = a,
        .backward = true,
        .out = {dq, dk, dv},
        .kept = out,
        .dout = dout,
        .results = 3,
        .arrays = {array_of(a, a->heads, a->q_stride), array_of(a, a->kv_heads, a->k_stride),
                   array_of(a, a->kv_heads, a->v_stride)},
        .at = {dq, dk, dv},
    };
    return attend(c, &k, s);
}
