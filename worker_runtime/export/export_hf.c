/* SPDX-License-Identifier: Apache-2.0 */
/* The weights take long and may find no room, so they are written before all else, and get their
 * name after it: a folder with them is whole, and a failure leaves the model that was there. */
#include "worker_runtime/export/inside.h"

#include "base/auto.h"
#include "base/draft.h"
#include "base/fs.h"
#include "worker_runtime/ckpt/companions.h"
#include "worker_runtime/ckpt/convert.h"
#include "worker_runtime/ckpt/safetensors.h"
#include "worker_runtime/saved/saved_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define WEIGHTS "model.safetensors"
#define CHUNK ((size_t)1 << 20) /* elements */

struct exporting {
    const struct dt_export_options *o;
    struct dt_saved_model saved;
    struct dt_st_tensor *tensors; /* as they are written */
};

static enum dt_dtype type_of(const struct exporting *x, size_t tensor)
{
    switch (x->o->type) {
    case DT_EXPORT_F16:
        return DT_F16;
    case DT_EXPORT_BF16:
        return DT_BF16;
    case DT_EXPORT_F32:
    case DT_EXPORT_Q8_0:
        return DT_F32;
    case DT_EXPORT_AS_IT_IS:
        break;
    }
    enum dt_dtype type = dt_ckpt_weights_type(x->saved.weights, tensor);
    return type == DT_F64 ? DT_F32 : type;
}

static int list_tensors(struct exporting *x, struct dt_err *err)
{
    const struct dt_ckpt_model *m = &x->saved.model;
    x->tensors = calloc(m->count, sizeof *x->tensors);
    if (!x->tensors)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu tensors", m->count);
    for (size_t i = 0; i < m->count; i++) {
        const struct dt_tensor *t = &m->tensors[i];
        x->tensors[i] = (struct dt_st_tensor){.name = t->name,
                                              .type = type_of(x, i),
                                              .rank = t->rank,
                                              .dims = {t->dims[0], t->dims[1]}};
    }
    return 0;
}

static int join_path(char out[PATH_MAX], const char *folder, const char *name, struct dt_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        return dt_err_set(err, DT_E_USAGE, "the path %.60s... is too long", folder);
    return 0;
}

/* By way of ROOM, which is for CHUNK floats, and OUT. */
static int write_tensor(const struct exporting *x, size_t tensor, struct dt_draft *d, float *room,
                        void *out, struct dt_err *err)
{
    enum dt_dtype type = x->tensors[tensor].type;
    size_t count = x->saved.model.tensors[tensor].count;
    for (size_t at = 0; at < count; at += CHUNK) {
        size_t n = count - at < CHUNK ? count - at : CHUNK;
        if (dt_export_goes_on(x->o, err) < 0 ||
            dt_ckpt_weights_read(x->saved.weights, tensor, at, n, room, err) < 0 ||
            dt_export_check_range(room, n, type == DT_F16 ? DT_F16_END : INFINITY,
                                  x->tensors[tensor].name, err) < 0)
            return -1;
        dt_convert_from_f32(type, room, out, n);
        if (dt_draft_write(d, out, n * dt_dtype_size(type), err) < 0)
            return -1;
    }
    return 0;
}

static int write_tensors(const struct exporting *x, struct dt_draft *d, struct dt_err *err)
{
    struct dt_buf head = {0};
    DT_AUTO_FREE float *room = malloc(CHUNK * sizeof *room);
    DT_AUTO_FREE float *out = malloc(CHUNK * sizeof *out);
    if (!room || !out)
        return dt_err_set(err, DT_E_MEMORY, "no memory to write weights");
    int rc = dt_st_header(x->tensors, x->saved.model.count, NULL, &head, err);
    if (rc == 0)
        rc = dt_draft_write(d, head.at, head.len, err);
    dt_buf_finish(&head);
    for (size_t i = 0; rc == 0 && i < x->saved.model.count; i++)
        rc = write_tensor(x, i, d, room, out, err);
    return rc;
}

static int draft_weights(const struct exporting *x, struct dt_draft *d, struct dt_err *err)
{
    char path[PATH_MAX];
    if (join_path(path, x->o->out, WEIGHTS, err) < 0 || dt_draft_open(d, path, err) < 0)
        return -1;
    return write_tensors(x, d, err);
}

static int write_config(const struct exporting *x, struct dt_err *err)
{
    char path[PATH_MAX];
    struct dt_buf text = {0};
    if (join_path(path, x->o->out, "config.json", err) < 0)
        return -1;
    dt_shape_write(&x->saved.shape, x->tensors[0].type, &text);
    int rc = text.bad ? dt_err_set(err, DT_E_MEMORY, "no memory to write %s", path)
                      : dt_fs_replace(path, text.at, text.len, 0644, err);
    dt_buf_finish(&text);
    return rc;
}

/* A tokenizer that adapters were trained with counts more than the model's. */
static int read_companions(const struct exporting *x, struct dt_companions *c, struct dt_err *err)
{
    if (x->o->tokenizer)
        return dt_companions_read(c, x->o->tokenizer, err);
    if (dt_companions_read(c, x->saved.folder, err) < 0)
        return -1;
    return *x->saved.adapters ? dt_companions_add(c, x->saved.adapters, err) : 0;
}

/* Where a model is replaced, what it had beside it goes with it: the new one would be taken to have
 * that tokenizer. What stands in a folder without a model somebody has put there. */
static int remove_others(const struct exporting *x, const struct dt_companions *c,
                         struct dt_buf *notes, struct dt_err *err)
{
    char weights[PATH_MAX];
    struct dt_buf removed = {0};
    if (join_path(weights, x->o->out, WEIGHTS, err) < 0)
        return -1;
    if (!dt_fs_exists(weights))
        return 0;
    int rc = dt_companions_remove_others(c, x->o->out, &removed, err);
    if (removed.len)
        dt_buf_printf(notes, "%s: removed, as they were of the model that was there: %s\n",
                      x->o->out, dt_buf_cstr(&removed));
    dt_buf_finish(&removed);
    return rc;
}

static int write_companions(const struct exporting *x, struct dt_buf *notes, struct dt_err *err)
{
    struct dt_companions c = {0};
    int rc = read_companions(x, &c, err);
    if (rc == 0)
        rc = dt_companions_write(&c, x->o->out, err);
    if (rc == 0)
        rc = remove_others(x, &c, notes, err);
    dt_companions_finish(&c);
    return rc;
}

static bool is_same(const char *one, const char *other)
{
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* Its own files would be overwritten while they are read, and a folder of checkpoints or adapters
 * would be taken for the model that was written there. */
static int make_folder(const struct exporting *x, struct dt_err *err)
{
    const char *const own[] = {x->saved.folder, x->saved.adapters, x->o->model};
    if (dt_fs_mkdir_p(x->o->out, 0777, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (is_same(own[i], x->o->out))
            return dt_err_set(
                err, DT_E_USAGE,
                "%s is the model and the folder to write; name another folder to write", x->o->out);
    return 0;
}

int dt_export_hf(const struct dt_export_options *o, struct dt_buf *notes, struct dt_err *err)
{
    struct exporting x = {.o = o};
    struct dt_draft weights = {.fd = -1};
    int rc = dt_saved_model_open(&x.saved, o->model, o->base, notes, err);
    if (rc == 0)
        rc = list_tensors(&x, err);
    if (rc == 0)
        rc = make_folder(&x, err);
    if (rc == 0)
        rc = draft_weights(&x, &weights, err);
    if (rc == 0)
        rc = write_config(&x, err);
    if (rc == 0)
        rc = write_companions(&x, notes, err);
    if (rc == 0)
        rc = dt_draft_commit(&weights, err);
    dt_draft_close(&weights);
    free(x.tensors);
    dt_saved_model_close(&x.saved);
    return rc;
}
