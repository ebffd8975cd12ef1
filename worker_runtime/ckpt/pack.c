/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/pack.h"

#include "base/auto.h"
#include "worker_runtime/model/packed.h"
#include "worker_runtime/ops/nf4.h"

#include <stdlib.h>

#define CHUNK ((size_t)1 << 18) /* numbers, a multiple of a block */

void dt_ckpt_round(enum dt_dtype type, float *x, size_t n)
{
    for (size_t i = 0; type == DT_BF16 && i < n; i++)
        x[i] = dt_bf16_to_float(dt_float_to_bf16(x[i]));
    for (size_t i = 0; type == DT_F16 && i < n; i++)
        x[i] = dt_f16_to_float(dt_float_to_f16(x[i]));
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int pack_parts(const struct dt_ckpt_weights *w, size_t tensor, enum dt_dtype type,
                      struct dt_nf4_writer *to, struct dt_err *err)
{
    DT_AUTO_FREE float *x = malloc(CHUNK * sizeof *x);
    if (!x)
        return dt_err_set(err, DT_E_MEMORY, "no memory to quantize weights");
    while (to->done < to->count) {
        size_t n = smaller(to->count - to->done, CHUNK);
        if (dt_ckpt_weights_read_stored(w, tensor, to->done, n, x, err) < 0)
            return -1;
        dt_ckpt_round(type, x, n);
        if (dt_nf4_write(to, x, n, err) < 0)
            return -1;
    }
    return 0;
}

/* Columns of [ROWS, COLUMNS] first. A row of what is written is a column, of which each number
 * stands elsewhere: so the tensor is there as a whole. */
static int pack_turned(const struct dt_ckpt_weights *w, const struct dt_tensor *t, size_t tensor,
                       enum dt_dtype type, struct dt_nf4_writer *to, struct dt_err *err)
{
    size_t rows = t->dims[0], columns = t->dims[1], count = rows * columns;
    DT_AUTO_FREE float *x = malloc(count * sizeof *x), *turned = malloc(count * sizeof *x);
    if (!x || !turned)
        return dt_err_set(err, DT_E_MEMORY, "no memory to quantize %s", t->name);
    if (dt_ckpt_weights_read_stored(w, tensor, 0, count, x, err) < 0)
        return -1;
    dt_ckpt_round(type, x, count);
    for (size_t i = 0; i < count; i++)
        turned[i % columns * rows + i / columns] = x[i];
    return dt_nf4_write(to, turned, count, err);
}

int dt_ckpt_pack(const struct dt_ckpt_weights *w, const struct dt_ckpt_model *m, size_t tensor,
                 enum dt_dtype type, void *packed, struct dt_err *err)
{
    const struct dt_tensor *t = &m->tensors[tensor];
    const struct dt_bnb_weight *quantized = dt_ckpt_weights_quantized(w, tensor);
    struct dt_nf4_writer to = {0};
    if (quantized)
        return dt_bnb_pack(quantized, dt_packed_numbers(t), packed, err);
    int rc = dt_nf4_open(&to, packed, dt_packed_numbers(t), err);
    if (rc == 0)
        rc = dt_packed_turns(m->shape) ? pack_turned(w, t, tensor, type, &to, err)
                                       : pack_parts(w, tensor, type, &to, err);
    if (rc == 0)
        dt_nf4_finish(&to);
    dt_nf4_close(&to);
    return rc < 0 ? dt_err_wrap(err, "%s in NF4", t->name) : 0;
}

void dt_ckpt_unpack(const struct dt_ckpt_model *m, size_t tensor, const void *packed,
                    enum dt_dtype type, uint64_t first, size_t count, float *out)
{
    const struct dt_tensor *t = &m->tensors[tensor];
    size_t rows = t->dims[0], columns = t->dims[1], numbers = rows * columns;
    if (!dt_packed_turns(m->shape))
        dt_nf4_read(packed, numbers, first, count, out);
    for (size_t i = first; dt_packed_turns(m->shape) && i < first + count; i++)
        dt_nf4_read(packed, numbers, i % columns * rows + i / columns, 1, out + (i - first));
    dt_ckpt_round(type, out, count);
}
