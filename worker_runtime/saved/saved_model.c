/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/saved/saved_model.h"

#include "base/fs.h"
#include "base/json.h"
#include "worker_runtime/ckpt/adapted.h"
#include "worker_runtime/config/model_file.h"
#include "worker_runtime/data/tokenize.h"

#include <stdio.h>
#include <stdlib.h>

static int read_shape(struct dt_saved_model *m, struct dt_buf *notes, struct dt_err *err)
{
    struct dt_json doc;
    if (dt_model_file_read(&doc, m->folder, err) < 0)
        return -1;
    int rc = dt_shape_read(&m->shape, &doc, NULL, notes, err);
    dt_json_finish(&doc);
    return rc < 0 ? dt_err_wrap(err, "%s/config.json", m->folder) : 0;
}

static int set_path(char to[PATH_MAX], const char *path, struct dt_err *err)
{
    if ((size_t)snprintf(to, PATH_MAX, "%s", path) >= PATH_MAX)
        return dt_err_set(err, DT_E_USAGE, "the path %.60s... is too long", path);
    return 0;
}

static int find_folders(struct dt_saved_model *m, const char *folder, const char *base,
                        struct dt_err *err)
{
    char room[PATH_MAX], named[PATH_MAX];
    folder = dt_ckpt_weights_folder(folder, room);
    if (!dt_ckpt_has_adapters(folder)) {
        if (base)
            return dt_err_set(err, DT_E_USAGE,
                              "%s has no adapters, for which %s would be the model", folder, base);
        return set_path(m->folder, folder, err);
    }
    if (set_path(m->adapters, folder, err) < 0 ||
        (!base && dt_ckpt_adapters_base(folder, named, err) < 0))
        return -1;
    return set_path(m->folder, dt_ckpt_weights_folder(base ? base : named, room), err);
}

static int open_adapters(struct dt_saved_model *m, struct dt_buf *notes, struct dt_err *err)
{
    enum dt_dtype type = DT_F32;
    struct dt_ckpt_adapters *a = dt_ckpt_adapters_open(m->adapters, &m->shape, err);
    if (!a)
        return -1;
    bool nf4 = dt_ckpt_adapters_nf4(m->adapters, &type);
    if (nf4)
        dt_ckpt_weights_quantize(m->weights, type);
    dt_ckpt_weights_adapt(m->weights, a);
    dt_buf_printf(notes, "the adapters of %zu layers in %s are in the weights of %s%s\n",
                  dt_ckpt_adapters_layers(a), m->adapters, m->folder,
                  nf4 ? ", as NF4 leaves these: so they were trained" : "");
    return 0;
}

int dt_saved_model_open(struct dt_saved_model *m, const char *folder, const char *base,
                        struct dt_buf *notes, struct dt_err *err)
{
    *m = (struct dt_saved_model){0};
    if (find_folders(m, folder, base, err) < 0)
        return -1;
    if (read_shape(m, notes, err) < 0)
        return *m->adapters
                   ? dt_err_wrap(err, "the model of %s, which --init-from can name", m->adapters)
                   : -1;
    m->model = (struct dt_ckpt_model){.shape = &m->shape,
                                      .tensors = dt_shape_tensors(&m->shape, err),
                                      .count = dt_shape_tensor_count(&m->shape)};
    if (!m->model.tensors)
        return -1;
    m->weights = dt_ckpt_weights_open(m->folder, &m->model, err);
    if (!m->weights)
        return -1;
    return *m->adapters ? open_adapters(m, notes, err) : 0;
}

void dt_saved_model_close(struct dt_saved_model *m)
{
    dt_ckpt_weights_close(m->weights);
    free(m->model.tensors);
    *m = (struct dt_saved_model){0};
}

static bool has_tokenizer(const char *folder)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/tokenizer.json", folder) < (int)sizeof path &&
           dt_fs_exists(path);
}

/* Training on our files of bytes leaves their end in the model, where the model names no other. */
static bool is_of_bytes(const struct dt_shape *s)
{
    return s->vocabulary == DT_BYTE_VOCABULARY ||
           (s->eos.count == 1 && s->eos.id[0] == DT_BYTE_END);
}

int dt_saved_model_tokenizer(const char *named, const char *model, const char *base,
                             const struct dt_shape *s, char out[PATH_MAX], struct dt_err *err)
{
    char room[PATH_MAX], said[PATH_MAX], other[PATH_MAX];
    model = dt_ckpt_weights_folder(model, room);
    if (!has_tokenizer(model) && dt_ckpt_has_adapters(model) &&
        (base || dt_ckpt_adapters_base(model, said, NULL) == 0))
        model = dt_ckpt_weights_folder(base ? base : said, other);
    const char *folder = named ? named : has_tokenizer(model) ? model : "";
    if (*folder == '\0' && !is_of_bytes(s))
        return dt_err_set(err, DT_E_USAGE,
                          "%s has no tokenizer.json; name the folder of the model's tokenizer by "
                          "--tokenizer",
                          model);
    if (snprintf(out, PATH_MAX, "%s", folder) >= PATH_MAX)
        return dt_err_set(err, DT_E_USAGE, "the path %.60s... is too long", folder);
    return 0;
}
