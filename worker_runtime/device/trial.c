/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of both factors are -1, 0 and 1, so that each sum is a small whole number: every
 * type holds it, and any order of adding gives the same. A product of n rows and columns takes n^3
 * multiplications, and comparing it only n^2: of each row, the elements times random weights are
 * added up, which comes to the same when the row is multiplied as it should be. All of that is
 * modulo 2^64, where nothing is rounded. */
#include "worker_runtime/device/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/ops/ops.h"

#define MILLISECOND INT64_C(1000000)

enum {
    FIRST_SIDE = 128,
    AT_ONCE = 64, /* products that are asked for before somebody waits */
    PIECE = 16 << 20,
    ASIDE = 1 << 20,
};

/* out[i][j] is the sum over k of x[i][k] w[j][k]. */
struct matrices {
    struct dt_device *device;
    size_t n;
    int8_t *x, *w;
    uint64_t *weights; /* of the columns of OUT */
    uint64_t *along;   /* of the columns of X: w transposed times WEIGHTS */
    void *host;        /* elements on their way to the device and back */
    void *dx, *dw, *dout;
    struct dt_linear linear;
};

/* -- products --------------------------------------------------------------------------------- */

static void close_matrices(struct matrices *m)
{
    free(m->x);
    free(m->w);
    free(m->weights);
    free(m->along);
    free(m->host);
    dt_device_free(m->device, m->dx);
    dt_device_free(m->device, m->dw);
    dt_device_free(m->device, m->dout);
}

/* Every second element is 0: sums of 4096 stay far below 256, up to where bfloat16 has all whole
 * numbers. */
static void fill(int8_t *at, size_t count, uint64_t seed)
{
    static const int8_t values[] = {-1, 1, 0, 0};
    for (size_t i = 0; i < count; i++)
        at[i] = values[dt_mix(seed + i) & 3];
}

static enum dt_dtype elem_of(const struct matrices *m)
{
    return m->device->ops->elem;
}

static void send(struct matrices *m, void *to, const int8_t *from)
{
    size_t count = m->n * m->n;
    for (size_t i = 0; i < count; i++)
        if (elem_of(m) == DT_BF16)
            ((uint16_t *)m->host)[i] = dt_float_to_bf16(from[i]);
        else
            ((float *)m->host)[i] = from[i];
    m->device->table->from_host(m->device, to, m->host, count * dt_dtype_size(elem_of(m)));
}

static void weigh(struct matrices *m)
{
    for (size_t j = 0; j < m->n; j++) {
        m->weights[j] = dt_mix(j + 1) | 1; /* odd: no wrong element is multiplied away */
        for (size_t k = 0; k < m->n; k++)
            m->along[k] += (uint64_t)(int64_t)m->w[j * m->n + k] * m->weights[j];
    }
}

static int open_matrices(struct matrices *m, struct dt_device *d, size_t n, struct dt_err *err)
{
    size_t bytes = n * n * dt_dtype_size(d->ops->elem);
    *m = (struct matrices){.device = d,
                           .n = n,
                           .x = malloc(n * n),
                           .w = malloc(n * n),
                           .weights = calloc(n, sizeof *m->weights),
                           .along = calloc(n, sizeof *m->along),
                           .host = malloc(bytes)};
    if (!m->x || !m->w || !m->weights || !m->along || !m->host)
        return dt_err_set(err, DT_E_MEMORY, "no memory of the host for matrices");
    if (!(m->dx = dt_device_alloc(d, bytes, "matrices", err)) ||
        !(m->dw = dt_device_alloc(d, bytes, "matrices", err)) ||
        !(m->dout = dt_device_alloc(d, bytes, "matrices", err)))
        return -1;
    fill(m->x, n * n, 1);
    fill(m->w, n * n, UINT64_C(1) << 40);
    send(m, m->dx, m->x);
    send(m, m->dw, m->w);
    weigh(m);
    m->linear = (struct dt_linear){
        .rows = n, .in = n, .out = n, .layout = DT_WEIGHT_OUT_IN, .weight = m->dw};
    return dt_device_sync(d, err);
}

/* How long they take in nanoseconds; -1 and *err. */
static int64_t multiply(struct matrices *m, int times, struct dt_err *err)
{
    int64_t began = dt_clock_monotonic_ns();
    for (int i = 0; i < times; i++)
        m->device->ops->linear_forward(&m->linear, m->dout, m->dx, m->device->stream);
    if (dt_device_sync(m->device, err) < 0)
        return -1;
    int64_t took = dt_clock_monotonic_ns() - began;
    return took > 0 ? took : 1;
}

static float element(const struct matrices *m, size_t i)
{
    return elem_of(m) == DT_BF16 ? dt_bf16_to_float(((uint16_t *)m->host)[i])
                                 : ((float *)m->host)[i];
}

static bool is_whole(float x)
{
    return x > -0x1p24f && x < 0x1p24f && x == (float)(int32_t)x;
}

static bool row_is_right(const struct matrices *m, size_t row)
{
    uint64_t wanted = 0, sum = 0;
    for (size_t k = 0; k < m->n; k++) {
        float x = element(m, row * m->n + k);
        if (!is_whole(x))
            return false;
        wanted += (uint64_t)(int64_t)m->x[row * m->n + k] * m->along[k];
        sum += (uint64_t)(int64_t)x * m->weights[k];
    }
    return sum == wanted;
}

static void name_element(const struct matrices *m, size_t row, struct dt_trial *out)
{
    for (size_t j = 0; j < m->n; j++) {
        int wanted = 0;
        for (size_t k = 0; k < m->n; k++)
            wanted += m->x[row * m->n + k] * m->w[j * m->n + k];
        if (element(m, row * m->n + j) == (float)wanted)
            continue;
        snprintf(out->wrong, sizeof out->wrong,
                 "a product of %zu x %zu matrices has %g in row %zu, column %zu, where %d belongs",
                 m->n, m->n, (double)element(m, row * m->n + j), row, j, wanted);
        return;
    }
}

static int compare_product(struct matrices *m, struct dt_trial *out, struct dt_err *err)
{
    size_t bytes = m->n * m->n * dt_dtype_size(elem_of(m));
    m->device->table->to_host(m->device, m->host, m->dout, bytes);
    if (dt_device_sync(m->device, err) < 0)
        return -1;
    out->compared++;
    for (size_t row = 0; row < m->n && !*out->wrong; row++)
        if (!row_is_right(m, row))
            name_element(m, row, out);
    return 0;
}

/* Matrices that are large enough to keep this device busy: of GPUs that are alike, all take the
 * largest. How long a product takes; -1 and *err. */
static int64_t open_largest(struct matrices *m, struct dt_device *d, size_t side,
                            struct dt_err *err)
{
    for (size_t n = FIRST_SIDE;; n *= 2) {
        int64_t took = open_matrices(m, d, n, err) < 0 ? -1 : multiply(m, 1, err);
        if (took >= 0)
            took = multiply(m, 1, err); /* the first one loads what all others find */
        if (took < 0 || took > 2 * MILLISECOND || 2 * n > side)
            return took;
        close_matrices(m);
    }
}

static int try_products(struct dt_device *d, const struct dt_trial_limits *l, struct dt_trial *out,
                        struct dt_err *err)
{
    struct matrices m;
    dt_ms until = dt_clock_after(dt_clock_monotonic(), l->product_time);
    int64_t took = open_largest(&m, d, l->side, err);
    int64_t fit = took > 0 ? 20 * MILLISECOND / took : 0;
    int times = fit < 1 ? 1 : fit > AT_ONCE ? AT_ONCE : (int)fit;
    out->side = m.n;
    int rc = took < 0 ? -1 : 0;
    while (rc == 0) {
        if ((took = multiply(&m, times, err)) < 0 || compare_product(&m, out, err) < 0)
            rc = -1;
        double flops = 2e9 * (double)m.n * (double)m.n * (double)m.n * times / (double)took;
        out->flops = rc == 0 && flops > out->flops ? flops : out->flops;
        if (*out->wrong || dt_clock_monotonic() >= until)
            break;
    }
    close_matrices(&m);
    return rc;
}

/* -- memory ----------------------------------------------------------------------------------- */

/* COUNT pieces, each of SIZE bytes; HOST is one of the host. */
struct area {
    struct dt_device *device;
    uint8_t *at;
    uint64_t *host;
    size_t size, count;
};

/* No two words are alike, so that memory which answers for other memory is found out. */
static uint64_t word(const struct area *a, size_t piece, size_t i, uint64_t flip)
{
    return (piece * a->size / sizeof(uint64_t) + i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ flip;
}

static void note_rate(double *best, size_t bytes, int64_t began)
{
    int64_t took = dt_clock_monotonic_ns() - began;
    double rate = took > 0 ? (double)bytes * 1e9 / (double)took : 0;
    *best = rate > *best ? rate : *best;
}

static int write_piece(struct area *a, size_t piece, uint64_t flip, struct dt_trial *out,
                       struct dt_err *err)
{
    for (size_t i = 0; i < a->size / sizeof *a->host; i++)
        a->host[i] = word(a, piece, i, flip);
    int64_t began = dt_clock_monotonic_ns();
    a->device->table->from_host(a->device, a->at + piece * a->size, a->host, a->size);
    if (dt_device_sync(a->device, err) < 0)
        return -1;
    note_rate(&out->written, a->size, began);
    return 0;
}

static void name_byte(const struct area *a, size_t piece, size_t i, uint64_t wanted,
                      struct dt_trial *out)
{
    size_t byte = 0;
    const uint8_t *has = (const uint8_t *)&a->host[i], *had = (const uint8_t *)&wanted;
    while (byte + 1 < sizeof wanted && has[byte] == had[byte])
        byte++;
    snprintf(out->wrong, sizeof out->wrong,
             "byte %zu of %zu that were written is read as 0x%02x, where 0x%02x belongs",
             piece * a->size + i * sizeof wanted + byte, a->count * a->size, has[byte], had[byte]);
}

static int read_piece(struct area *a, size_t piece, uint64_t flip, struct dt_trial *out,
                      struct dt_err *err)
{
    int64_t began = dt_clock_monotonic_ns();
    a->device->table->to_host(a->device, a->host, a->at + piece * a->size, a->size);
    if (dt_device_sync(a->device, err) < 0)
        return -1;
    note_rate(&out->got, a->size, began);
    for (size_t i = 0; i < a->size / sizeof *a->host && !*out->wrong; i++)
        if (a->host[i] != word(a, piece, i, flip))
            name_byte(a, piece, i, word(a, piece, i, flip), out);
    return 0;
}

/* Each bit is 0 once and 1 once. What a quarter of TIME did not suffice for is left out. */
static int try_pieces(struct area *a, dt_ms time, struct dt_trial *out, struct dt_err *err)
{
    static const uint64_t flips[] = {0, UINT64_MAX};
    dt_ms until = dt_clock_after(dt_clock_monotonic(), time / 4);
    for (size_t f = 0; f < 2 && !*out->wrong; f++) {
        for (size_t i = 0; i < a->count; i++) {
            if (write_piece(a, i, flips[f], out, err) < 0)
                return -1;
            if (f == 0 && dt_clock_monotonic() >= until)
                a->count = i + 1;
        }
        for (size_t i = 0; i < a->count && !*out->wrong; i++)
            if (read_piece(a, i, flips[f], out, err) < 0)
                return -1;
    }
    out->memory = a->count * a->size;
    return 0;
}

static int try_memory(struct dt_device *d, const struct dt_trial_limits *l, struct dt_trial *out,
                      struct dt_err *err)
{
    size_t size = l->memory < PIECE ? l->memory / ASIDE * ASIDE : PIECE;
    struct area a = {.device = d, .size = size, .count = l->memory / size};
    a.host = d->table->alloc_host(d, size, err);
    a.at = a.host ? dt_device_alloc(d, a.count * size, "a trial of the memory", err) : NULL;
    int rc = a.at ? try_pieces(&a, l->memory_time, out, err) : -1;
    dt_device_free(d, a.at);
    d->table->free_host(d, a.host);
    return rc;
}

int dt_trial_run(struct dt_device *d, const struct dt_trial_limits *l, struct dt_trial *out,
                 struct dt_err *err)
{
    *out = (struct dt_trial){0};
    if (try_products(d, l, out, err) < 0)
        return -1;
    return *out->wrong ? 0 : try_memory(d, l, out, err);
}
