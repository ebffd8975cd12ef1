/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/packed_base.h"

#include "base/auto.h"
#include "worker_runtime/ckpt/convert.h"
#include "worker_runtime/ckpt/pack.h"
#include "worker_runtime/ckpt/recut.h"
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/model/packed.h"
#include "worker_runtime/ops/nf4.h"
#include "worker_runtime/ops/ops.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)1 << 16) /* words */

struct packing {
    const struct dt_ckpt_model *model;
    struct dt_ckpt_weights *weights;
    enum dt_dtype type, elem; /* what weights are rounded to, and what is computed with */
    size_t tensor; /* the last one that was asked for: the next is most often behind it */
    int rc;        /* of the first failure */
    struct dt_err why;
};

/* A part of a tensor that is packed as a whole. A rank asks for at most one part of each. */
static int fill_nf4(struct packing *f, size_t first, size_t count, void *out)
{
    const struct dt_tensor *t = &f->model->tensors[f->tensor];
    size_t words = dt_nf4_parts_of(NULL, dt_packed_numbers(t)).words;
    DT_AUTO_FREE uint32_t *packed = malloc(words * sizeof *packed);
    if (!packed)
        return dt_err_set(&f->why, DT_E_MEMORY, "no memory to quantize %s", t->name);
    if (dt_ckpt_pack(f->weights, f->model, f->tensor, f->type, packed, &f->why) < 0)
        return -1;
    memcpy(out, packed + first, count * sizeof *packed);
    return 0;
}

/* Numbers as the device has them, some to a word; the last word of all may have fewer. */
static int fill_plain(struct packing *f, size_t first, size_t count, uint32_t *out)
{
    size_t each = sizeof *out / dt_dtype_size(f->elem);
    size_t numbers = dt_packed_numbers(&f->model->tensors[f->tensor]);
    DT_AUTO_FREE float *x = malloc(CHUNK * each * sizeof *x);
    if (!x)
        return dt_err_set(&f->why, DT_E_MEMORY, "no memory to read weights");
    for (size_t at = first; at < first + count; at += CHUNK) {
        size_t left = first + count - at, n = (left < CHUNK ? left : CHUNK) * each;
        n = numbers - at * each < n ? numbers - at * each : n;
        if (dt_ckpt_weights_read(f->weights, f->tensor, at * each, n, x, &f->why) < 0)
            return -1;
        dt_ckpt_round(f->type, x, n);
        dt_convert_from_f32(f->elem, x, out + (at - first), n);
    }
    return 0;
}

static void fill(void *arg, size_t unit, size_t param, size_t first, size_t count, float *out)
{
    struct packing *f = arg;
    const struct dt_ckpt_model *m = f->model;
    while (m->tensors[f->tensor].unit != unit || m->tensors[f->tensor].index != param)
        f->tensor = (f->tensor + 1) % m->count;
    if (f->rc < 0)
        return;
    if (dt_packed_is_nf4(m->shape, &m->tensors[f->tensor]))
        f->rc = fill_nf4(f, first, count, out);
    else
        f->rc = fill_plain(f, first, count, (uint32_t *)out);
}

int dt_packed_base_load(struct dt_zero *base, const char *dir, const struct dt_ckpt_model *m,
                        enum dt_dtype type, struct dt_err *err)
{
    struct packing f = {.model = m, .type = type, .elem = dt_zero_device(base)->ops->elem};
    f.weights = dt_ckpt_weights_open(dir, m, err);
    struct dt_coll *all = m->recut ? m->recut->world : dt_zero_group(base);
    int rc = dt_agree(all, f.weights ? 0 : -1, err);
    if (rc == 0)
        rc = dt_zero_fill(base, fill, &f, err);
    if (rc == 0) {
        if (f.rc < 0)
            *err = f.why;
        rc = dt_agree(all, f.rc, err);
    }
    dt_ckpt_weights_close(f.weights);
    return rc;
}
