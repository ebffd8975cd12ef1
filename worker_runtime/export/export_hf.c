/* SPDX-License-Identifier: Apache-2.0 */
/* The weights take long and may find no room, so they are written before all else, and get their
 * name after it: a folder with them is whole, and a failure leaves the model that was there. */
#include "worker_runtime/export/inside.h"

#include "base/auto.h"
#include "base/draft.h"
#include "base/fs.h"
#include "worker_runtime/ckpt/companions.h"
#include "worker_runtime/ckpt/convert.h"
#include "worker_runtime/ckpt/pack.h"
#include "worker_runtime/ckpt/safetensors.h"
#include "worker_runtime/model/packed.h"
#include "worker_runtime/ops/nf4.h"
#include "worker_runtime/saved/saved_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define WEIGHTS "model.safetensors"
#define CHUNK ((size_t)1 << 20) /* elements */

/* A tensor as it is written: one of the model's, or with NF4 a part of it. */
struct written {
    size_t tensor;
    bool nf4;
    enum dt_bnb_part part;
    char name[DT_BNB_NAME_SIZE]; /* with NF4 */
};

struct exporting {
    const struct dt_export_options *o;
    struct dt_saved_model saved;
    struct dt_st_tensor *tensors; /* as they are written */
    struct written *written;      /* likewise: what they are */
    size_t count;                 /* of both */
    void *packed;                 /* the weight at hand, in NF4 */
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
    case DT_EXPORT_NF4:
    case DT_EXPORT_AS_IT_IS:
        break;
    }
    enum dt_dtype type = dt_ckpt_weights_type(x->saved.weights, tensor);
    return type == DT_F64 ? DT_F32 : type;
}

static void list_parts(struct exporting *x, size_t tensor)
{
    const struct dt_tensor *t = &x->saved.model.tensors[tensor];
    for (int part = 0; part < DT_BNB_PARTS; part++) {
        struct written *w = &x->written[x->count];
        *w = (struct written){.tensor = tensor, .nf4 = true, .part = (enum dt_bnb_part)part};
        dt_bnb_describe(w->part, t->name, t->count, w->name, &x->tensors[x->count++]);
    }
}

static int list_tensors(struct exporting *x, struct dt_err *err)
{
    const struct dt_ckpt_model *m = &x->saved.model;
    bool nf4 = x->o->type == DT_EXPORT_NF4;
    size_t most = m->count * (nf4 ? DT_BNB_PARTS : 1);
    x->tensors = calloc(most, sizeof *x->tensors);
    x->written = calloc(most, sizeof *x->written);
    if (!x->tensors || !x->written)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu tensors", m->count);
    if (nf4 && *x->saved.adapters)
        return dt_err_set(err, DT_E_USAGE,
                          "%s has adapters, and what they learned is lost where their sum with a "
                          "model is rounded to 4 bits; leave --dtype nf4 out",
                          x->saved.adapters);
    if (nf4 && m->shape->experts > 0)
        return dt_err_set(err, DT_E_USAGE,
                          "a model with experts is not rounded to 4 bits so far; leave --dtype nf4 "
                          "out");
    for (size_t i = 0; i < m->count; i++) {
        const struct dt_tensor *t = &m->tensors[i];
        if (nf4 && dt_packed_is_nf4(m->shape, t)) {
            list_parts(x, i);
            continue;
        }
        x->written[x->count].tensor = i;
        x->tensors[x->count++] = (struct dt_st_tensor){.name = t->name,
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

/* The first part of a weight has it packed, and the others follow at once. */
static int write_part(struct exporting *x, const struct written *w, struct dt_draft *d,
                      struct dt_err *err)
{
    const struct dt_ckpt_model *m = &x->saved.model;
    const struct dt_tensor *t = &m->tensors[w->tensor];
    bool turns = dt_packed_turns(m->shape);
    size_t words = dt_nf4_parts_of(NULL, t->count).words;
    enum dt_dtype type = type_of(x, w->tensor);
    struct dt_bnb_room room;
    if (w->part == DT_BNB_CODES) {
        free(x->packed);
        x->packed = malloc(words * sizeof(uint32_t));
        if (!x->packed)
            return dt_err_set(err, DT_E_MEMORY, "no memory for %s in NF4", t->name);
        if (dt_export_goes_on(x->o, err) < 0 ||
            dt_ckpt_pack(x->saved.weights, m, w->tensor, type, x->packed, err) < 0)
            return -1;
    }
    struct dt_bytes bytes = dt_bnb_bytes(w->part, x->packed, t->dims[turns ? 1 : 0],
                                         t->dims[turns ? 0 : 1], type, &room);
    return dt_draft_write(d, bytes.at, bytes.len, err);
}

/* By way of ROOM, which is for CHUNK floats, and OUT. */
static int write_tensor(const struct exporting *x, size_t i, struct dt_draft *d, float *room,
                        void *out, struct dt_err *err)
{
    enum dt_dtype type = x->tensors[i].type;
    size_t tensor = x->written[i].tensor;
    size_t count = x->saved.model.tensors[tensor].count;
    for (size_t at = 0; at < count; at += CHUNK) {
        size_t n = count - at < CHUNK ? count - at : CHUNK;
        if (dt_export_goes_on(x->o, err) < 0 ||
            dt_ckpt_weights_read(x->saved.weights, tensor, at, n, room, err) < 0 ||
            dt_export_check_range(room, n, type == DT_F16 ? DT_F16_END : INFINITY,
                                  x->tensors[i].name, err) < 0)
            return -1;
        dt_convert_from_f32(type, room, out, n);
        if (dt_draft_write(d, out, n * dt_dtype_size(type), err) < 0)
            return -1;
    }
    return 0;
}

static int write_tensors(struct exporting *x, struct dt_draft *d, struct dt_err *err)
{
    struct dt_buf head = {0};
    DT_AUTO_FREE float *room = malloc(CHUNK * sizeof *room);
    DT_AUTO_FREE float *out = malloc(CHUNK * sizeof *out);
    if (!room || !out)
        return dt_err_set(err, DT_E_MEMORY, "no memory to write weights");
    int rc = dt_st_header(x->tensors, x->count, NULL, &head, err);
    if (rc == 0)
        rc = dt_draft_write(d, head.at, head.len, err);
    dt_buf_finish(&head);
    for (size_t i = 0; rc == 0 && i < x->count; i++)
        rc = x->written[i].nf4 ? write_part(x, &x->written[i], d, err)
                               : write_tensor(x, i, d, room, out, err);
    return rc;
}

static int draft_weights(struct exporting *x, struct dt_draft *d, struct dt_err *err)
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
    if (x->o->type == DT_EXPORT_NF4)
        dt_shape_write_nf4(&x->saved.shape, x->tensors[0].type, &text);
    else
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
    free(x.written);
    free(x.packed);
    dt_saved_model_close(&x.saved);
    return rc;
}
