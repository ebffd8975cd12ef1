/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/export/inside.h"

#include "base/auto.h"
#include "base/draft.h"
#include "worker_runtime/export/gguf_model.h"
#include "worker_runtime/export/gguf_vocab.h"
#include "worker_runtime/saved/saved_model.h"

#include <stdlib.h>

struct exporting {
    const struct dt_export_options *o;
    struct dt_saved_model saved;
    struct dt_gguf_tensor *tensors; /* as they are written */
    bool has_factors;               /* of rotary positions, the last tensor */
    float factors[DT_HEAD_DIM_MOST / 2];
    struct dt_gguf file;
    struct dt_draft draft;
};

/* -- what is written -------------------------------------------------------------------------- */

static enum dt_gguf_type type_of(const struct exporting *x, size_t tensor)
{
    static const enum dt_gguf_type types[] = {[DT_EXPORT_F32] = DT_GGUF_F32,
                                              [DT_EXPORT_F16] = DT_GGUF_F16,
                                              [DT_EXPORT_BF16] = DT_GGUF_BF16,
                                              [DT_EXPORT_Q8_0] = DT_GGUF_Q8_0};
    if (x->o->type != DT_EXPORT_AS_IT_IS)
        return types[x->o->type];
    enum dt_dtype type = dt_ckpt_weights_type(x->saved.weights, tensor);
    return type == DT_F16 ? DT_GGUF_F16 : type == DT_BF16 ? DT_GGUF_BF16 : DT_GGUF_F32;
}

static int list_tensors(struct exporting *x, struct dt_err *err)
{
    const struct dt_ckpt_model *m = &x->saved.model;
    DT_AUTO_FREE enum dt_gguf_type *types = calloc(m->count, sizeof *types);
    x->tensors = calloc(m->count, sizeof *x->tensors);
    if (!types || !x->tensors)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu tensors", m->count);
    for (size_t i = 0; i < m->count; i++)
        types[i] = type_of(x, i);
    if (dt_gguf_model_tensors(m->shape, m->tensors, m->count, types, x->tensors, err) < 0 ||
        dt_gguf_put_model(&x->file, m->shape, types[0], err) < 0)
        return -1;
    for (size_t i = 0; i < m->count; i++)
        dt_gguf_put_tensor(&x->file, x->tensors[i].name, x->tensors[i].type, x->tensors[i].rows,
                           x->tensors[i].width);
    x->has_factors = dt_gguf_rope_factors(m->shape, x->factors);
    if (x->has_factors)
        dt_gguf_put_tensor(&x->file, "rope_freqs.weight", DT_GGUF_F32, 0, m->shape->head_dim / 2);
    return 0;
}

static int put_vocab(struct exporting *x, struct dt_err *err)
{
    const struct dt_export_options *o = x->o;
    char folder[PATH_MAX];
    if (dt_saved_model_tokenizer(o->tokenizer, o->model, o->base, &x->saved.shape, folder, err) < 0)
        return -1;
    return *folder ? dt_gguf_put_vocab(&x->file, folder, &x->saved.shape, err)
                   : dt_gguf_put_bytes_vocab(&x->file, &x->saved.shape, err);
}

static int write_head(struct exporting *x, struct dt_err *err)
{
    struct dt_buf head = {0};
    dt_gguf_put_head(&x->file, &head);
    int rc = head.bad ? dt_err_set(err, DT_E_MEMORY, "no memory to write %s", x->o->out)
                      : dt_draft_write(&x->draft, head.at, head.len, err);
    dt_buf_finish(&head);
    return rc;
}

/* -- its data --------------------------------------------------------------------------------- */

/* Where weights of the type end; a Q8_0 has 127 times a factor of 16 bits at most. */
static float end_of(enum dt_gguf_type type)
{
    return type == DT_GGUF_F16 ? DT_F16_END : type == DT_GGUF_Q8_0 ? 127 * DT_F16_END : INFINITY;
}

static int write_row(struct exporting *x, const struct dt_gguf_tensor *t, const float *row,
                     void *out, struct dt_err *err)
{
    if (dt_export_goes_on(x->o, err) < 0 ||
        dt_export_check_range(row, t->width, end_of(t->type),
                              x->saved.model.tensors[t->source].name, err) < 0)
        return -1;
    dt_gguf_encode(t->type, row, t->width, out);
    return dt_draft_write(&x->draft, out, dt_gguf_row_bytes(t->type, t->width), err);
}

static int write_rows(struct exporting *x, const struct dt_gguf_tensor *t, float *row, void *out,
                      struct dt_err *err)
{
    for (size_t r = 0; r < (t->rows ? t->rows : 1); r++) {
        size_t first = dt_gguf_source_row(&x->saved.shape, t, r) * t->width;
        if (dt_ckpt_weights_read(x->saved.weights, t->source, first, t->width, row, err) < 0)
            return -1;
        for (size_t i = 0; t->turn == DT_GGUF_PLUS_ONE && i < t->width; i++)
            row[i] += 1;
        if (write_row(x, t, row, out, err) < 0)
            return -1;
    }
    return 0;
}

/* Our row is their column, so all of it is read first. */
static int write_columns(struct exporting *x, const struct dt_gguf_tensor *t, float *row, void *out,
                         struct dt_err *err)
{
    size_t count = t->rows * t->width;
    DT_AUTO_FREE float *all = malloc(count * sizeof *all);
    if (!all)
        return dt_err_set(err, DT_E_MEMORY, "no memory for tensor %s", t->name);
    if (dt_ckpt_weights_read(x->saved.weights, t->source, 0, count, all, err) < 0)
        return -1;
    for (size_t r = 0; r < t->rows; r++) {
        for (size_t i = 0; i < t->width; i++)
            row[i] = all[i * t->rows + r];
        if (write_row(x, t, row, out, err) < 0)
            return -1;
    }
    return 0;
}

static int write_tensor(struct exporting *x, const struct dt_gguf_tensor *t, struct dt_err *err)
{
    static const char none[DT_GGUF_ALIGN];
    DT_AUTO_FREE float *row = malloc(t->width * sizeof *row);
    DT_AUTO_FREE void *out = malloc(t->width * sizeof(float));
    uint64_t bytes = (uint64_t)dt_gguf_row_bytes(t->type, t->width) * (t->rows ? t->rows : 1);
    if (!row || !out)
        return dt_err_set(err, DT_E_MEMORY, "no memory for tensor %s", t->name);
    if ((t->turn == DT_GGUF_TRANSPOSED ? write_columns(x, t, row, out, err)
                                       : write_rows(x, t, row, out, err)) < 0)
        return -1;
    return dt_draft_write(&x->draft, none, dt_gguf_padding(bytes), err);
}

static int write_factors(struct exporting *x, struct dt_err *err)
{
    float out[DT_HEAD_DIM_MOST / 2 + DT_GGUF_ALIGN] = {0};
    size_t pairs = x->saved.shape.head_dim / 2, bytes = pairs * sizeof *out;
    dt_gguf_encode(DT_GGUF_F32, x->factors, pairs, out);
    return dt_draft_write(&x->draft, out, bytes + dt_gguf_padding(bytes), err);
}

static int write_file(struct exporting *x, struct dt_err *err)
{
    if (dt_draft_open(&x->draft, x->o->out, err) < 0 || write_head(x, err) < 0)
        return -1;
    for (size_t i = 0; i < x->saved.model.count; i++)
        if (write_tensor(x, &x->tensors[i], err) < 0)
            return -1;
    if (x->has_factors && write_factors(x, err) < 0)
        return -1;
    return dt_draft_commit(&x->draft, err);
}

/* Told where Q8_0 was asked for and rows do not divide into its blocks. */
static void note_other_types(const struct exporting *x, struct dt_buf *notes)
{
    size_t others = 0;
    for (size_t i = 0; i < x->saved.model.count; i++)
        others += x->o->type == DT_EXPORT_Q8_0 && x->tensors[i].type == DT_GGUF_F16;
    if (others)
        dt_buf_printf(notes, "%zu of %zu tensors are F16: their rows are no multiple of 32\n",
                      others, x->saved.model.count);
}

static bool has_windows(const struct dt_shape *s)
{
    for (size_t layer = 0; layer < s->layers; layer++)
        if (dt_shape_window(s, layer) > 0)
            return true;
    return false;
}

/* llama.cpp has windows where layers take turns at having one, as in a Gemma. */
static void note_window(const struct exporting *x, struct dt_buf *notes)
{
    const struct dt_shape *s = &x->saved.shape;
    if (has_windows(s) && !s->full_every && s->window < s->positions)
        dt_buf_printf(notes,
                      "layers of this model read the last %zu tokens, and llama.cpp lets them read "
                      "all: its answers to longer texts differ; run it with -c %zu\n",
                      s->window, s->window);
}

int dt_export_gguf(const struct dt_export_options *o, struct dt_buf *notes, struct dt_err *err)
{
    struct exporting x = {.o = o, .draft = {.fd = -1}};
    int rc = dt_saved_model_open(&x.saved, o->model, o->base, notes, err);
    if (rc == 0)
        rc = list_tensors(&x, err);
    if (rc == 0)
        rc = put_vocab(&x, err);
    if (rc == 0)
        rc = write_file(&x, err);
    if (rc == 0) {
        note_other_types(&x, notes);
        note_window(&x, notes);
    }
    dt_draft_close(&x.draft);
    free(x.tensors);
    dt_gguf_finish(&x.file);
    dt_saved_model_close(&x.saved);
    return rc;
}
