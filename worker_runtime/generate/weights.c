/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/generate/weights.h"

#include "base/auto.h"
#include "worker_runtime/ops/ops.h"
#include "worker_runtime/saved/saved_model.h"

#include <stdlib.h>

#define ALIGN ((size_t)256)     /* of each unit: as dt_device_ops.alloc gives it */
#define CHUNK ((size_t)1 << 20) /* elements on their way */

/* Where each unit begins, and the size of all; SIZE_MAX: more than can be counted. */
static size_t lay_out(const struct dt_ckpt_model *m, size_t elem, size_t *begins)
{
    size_t end = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct dt_tensor *t = &m->tensors[i];
        size_t bytes, begin = (end + ALIGN - 1) / ALIGN * ALIGN;
        if (i == 0 || t->unit != m->tensors[i - 1].unit)
            begins[t->unit] = begin;
        if (__builtin_mul_overflow(t->offset + t->count, elem, &bytes) ||
            __builtin_add_overflow(begins[t->unit], bytes, &end) || end > SIZE_MAX - ALIGN)
            return SIZE_MAX;
    }
    return end;
}

/* By way of a host's memory and of the device's, a part at a time, which becomes what the device
 * computes with on the device itself. */
static int copy_tensor(struct dt_device *d, const struct dt_ckpt_weights *from, size_t tensor,
                       size_t count, char *to, float *host, float *staged, struct dt_err *err)
{
    const struct dt_ops *ops = d->ops;
    for (size_t at = 0; at < count; at += CHUNK) {
        size_t n = count - at < CHUNK ? count - at : CHUNK;
        if (dt_ckpt_weights_read(from, tensor, at, n, host, err) < 0)
            return -1;
        d->table->from_host(d, staged, host, n * sizeof *host);
        ops->cast(n, to + at * dt_dtype_size(ops->elem), ops->elem, staged, DT_F32, d->stream);
    }
    return 0;
}

static int copy_all(struct dt_weights *w, const struct dt_ckpt_model *m,
                    const struct dt_ckpt_weights *from, const size_t *begins, struct dt_err *err)
{
    struct dt_device *d = w->device;
    size_t elem = dt_dtype_size(d->ops->elem);
    DT_AUTO_FREE float *host = malloc(CHUNK * sizeof *host);
    if (!host)
        return dt_err_set(err, DT_E_MEMORY, "no memory to read weights");
    float *staged = dt_device_alloc(d, CHUNK * sizeof *staged, "weights on their way", err);
    int rc = staged ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < m->count; i++) {
        const struct dt_tensor *t = &m->tensors[i];
        char *to = (char *)w->memory + begins[t->unit] + t->offset * elem;
        rc = copy_tensor(d, from, i, t->count, to, host, staged, err);
    }
    if (rc == 0)
        rc = dt_device_sync(d, err);
    dt_device_free(d, staged);
    return rc;
}

static int read_all(struct dt_weights *w, const struct dt_saved_model *saved, struct dt_err *err)
{
    size_t units = dt_shape_unit_count(&saved->shape);
    DT_AUTO_FREE size_t *begins = calloc(units, sizeof *begins);
    w->units = calloc(units, sizeof *w->units);
    if (!begins || !w->units)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu units", units);
    size_t bytes = lay_out(&saved->model, dt_dtype_size(w->device->ops->elem), begins);
    w->memory = dt_device_alloc(w->device, bytes, "parameters", err);
    if (!w->memory)
        return dt_err_wrap(err, "parameters");
    for (size_t u = 0; u < units; u++)
        w->units[u] = (const char *)w->memory + begins[u];
    return copy_all(w, &saved->model, saved->weights, begins, err);
}

int dt_weights_read(struct dt_weights *w, const char *folder, const char *base,
                    struct dt_device *device, struct dt_buf *notes, struct dt_err *err)
{
    struct dt_saved_model saved;
    *w = (struct dt_weights){.device = device};
    int rc = dt_saved_model_open(&saved, folder, base, notes, err);
    if (rc == 0) {
        w->shape = saved.shape;
        rc = read_all(w, &saved, err);
    }
    dt_saved_model_close(&saved);
    if (rc < 0)
        dt_weights_finish(w);
    return rc;
}

void dt_weights_finish(struct dt_weights *w)
{
    if (w->device)
        dt_device_free(w->device, w->memory);
    free(w->units);
    *w = (struct dt_weights){0};
}
