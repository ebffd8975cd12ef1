/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that somebody else saved: one file, or shards with an index. Each of our tensors is bound
 * to one of theirs by name first, so that all that does not fit is known before anything is read.
 */
#include "worker_runtime/ckpt/adapted.h"
#include "worker_runtime/ckpt/inside.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"
#include "base/json.h"
#include "worker_runtime/ckpt/bitsandbytes.h"
#include "worker_runtime/ckpt/convert.h"
#include "worker_runtime/ckpt/pack.h"
#include "worker_runtime/model/packed.h"
#include "worker_runtime/no_folder.h"
#include "worker_runtime/ops/nf4.h"

#define WEIGHTS "model.safetensors"
#define PICKLED "pytorch_model.bin"
#define INDEX "model.safetensors.index.json"
#define INDEX_MAX ((size_t)100 << 20)
#define CHUNK ((size_t)1 << 18) /* elements */

struct bound {
    const struct dt_st_file *file;
    const struct dt_st_tensor *tensor; /* NULL: none yet */
};

struct dt_ckpt_weights {
    char dir[PATH_MAX]; /* where they are */
    struct dt_st_file *files;
    size_t count;
    const struct dt_ckpt_model *model;
    struct bound *bound;               /* as MODEL's tensors */
    struct dt_bnb_weight *quantized;   /* likewise: those that bitsandbytes wrote in NF4 */
    struct dt_ckpt_adapters *adapters; /* NULL: none */
    bool nf4; /* what is read of linear layers of blocks is what NF4 leaves of it */
    enum dt_dtype nf4_type;
    struct unpacking *unpacking; /* the last tensor of those that was read */
};

struct unpacking {
    size_t tensor;
    void *packed; /* NULL: none yet */
};

/* -- opening ---------------------------------------------------------------------------------- */

static bool has(const char *dir, const char *name)
{
    char path[PATH_MAX];
    return dt_ckpt_join_path(path, dir, name, NULL) == 0 && dt_fs_exists(path);
}

const char *dt_ckpt_weights_folder(const char *dir, char room[PATH_MAX])
{
    if (has(dir, WEIGHTS) || has(dir, INDEX) || has(dir, DT_CKPT_ADAPTER))
        return dir;
    int64_t latest = dt_ckpt_latest(dir);
    return latest < 0 ? dir : dt_ckpt_step_path(dir, latest, room);
}

static int add_file(struct dt_ckpt_weights *w, const char *dir, const char *name,
                    struct dt_err *err)
{
    char path[PATH_MAX];
    struct dt_st_file *more = reallocarray(w->files, w->count + 1, sizeof *w->files);
    if (!more)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the files of %s", dir);
    w->files = more;
    if (dt_ckpt_join_path(path, dir, name, err) < 0 || dt_st_open(&more[w->count], path, err) < 0)
        return -1;
    w->count++;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* Every file that the index names, once. A name is one in this folder. */
static int add_indexed(struct dt_ckpt_weights *w, const char *dir, const struct dt_json *doc,
                       struct dt_err *err)
{
    const struct cJSON *map;
    size_t n = 0;
    if (dt_json_object(doc, NULL, "weight_map", &map, err) < 0)
        return -1;
    DT_AUTO_FREE const char **names = calloc((size_t)cJSON_GetArraySize(map) + 1, sizeof *names);
    if (!names)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the index");
    for (const struct cJSON *c = map->child; c; c = c->next) {
        if (!cJSON_IsString(c) || !*c->valuestring || strchr(c->valuestring, '/'))
            return dt_err_set(err, DT_E_USAGE, "weight_map names a file that is none");
        names[n++] = c->valuestring;
    }
    if (n)
        qsort(names, n, sizeof *names, by_text);
    for (size_t i = 0; i < n; i++)
        if ((i == 0 || strcmp(names[i], names[i - 1]) != 0) && add_file(w, dir, names[i], err) < 0)
            return -1;
    return 0;
}

static int open_files(struct dt_ckpt_weights *w, const char *dir, struct dt_err *err)
{
    char path[PATH_MAX];
    struct dt_buf text = {0};
    struct dt_json doc = {NULL};
    if (w->model->lora)
        return add_file(w, dir, DT_CKPT_ADAPTER, err);
    if (has(dir, WEIGHTS))
        return add_file(w, dir, WEIGHTS, err);
    if (dt_ckpt_join_path(path, dir, INDEX, err) < 0)
        return -1;
    if (!dt_fs_exists(path) && has(dir, DT_CKPT_ADAPTER))
        return dt_err_set(err, DT_E_USAGE,
                          "%s has adapters and no model; dtrun-train merge makes a model of them "
                          "and the one that they adapt",
                          dir);
    if (!dt_fs_exists(path))
        return dt_err_set(err, DT_E_USAGE, "it has neither " WEIGHTS " nor " INDEX "%s",
                          has(dir, PICKLED) ? "; of its " PICKLED " transformers makes one by "
                                              "save_pretrained(FOLDER, safe_serialization=True)"
                                            : "");
    int rc = dt_fs_read(path, INDEX_MAX, &text, err);
    if (rc == 0 && (dt_json_parse(&doc, (const char *)text.at, text.len, INDEX_MAX, err) < 0 ||
                    add_indexed(w, dir, &doc, err) < 0))
        rc = dt_err_wrap(err, "%s", path);
    dt_json_finish(&doc);
    dt_buf_finish(&text);
    return rc;
}

/* -- binding ---------------------------------------------------------------------------------- */

static const char *without(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : name;
}

/* Names apart from what the class that was saved put in front: "transformer." of a GPT-2 with a
 * head, "model." of a Llama with one. */
static const char *bare(const char *name)
{
    return without(without(name, "transformer."), "model.");
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* What files have beside parameters: masks and tables that old versions saved, and a head that is
 * the embedding once more. */
static bool to_ignore(const struct dt_ckpt_weights *w, const char *name)
{
    return ends_in(name, ".attn.bias") || ends_in(name, ".attn.masked_bias") ||
           ends_in(name, ".rotary_emb.inv_freq") ||
           (w->model->shape->tied && strcmp(name, "lm_head.weight") == 0);
}

struct name {
    const char *bare;
    size_t index;
};

static int by_bare(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    return strcmp(x->bare, y->bare);
}

static void show_shape(struct dt_buf *out, const struct dt_st_tensor *t)
{
    for (int i = 0; i < t->rank; i++)
        dt_buf_printf(out, "%s%llu", i ? ", " : "", (unsigned long long)t->dims[i]);
}

static int other_shape(const struct dt_tensor *ours, const struct dt_st_tensor *theirs,
                       struct dt_err *err)
{
    struct dt_st_tensor own = {.rank = ours->rank, .dims = {ours->dims[0], ours->dims[1]}};
    struct dt_buf a = {0}, b = {0};
    show_shape(&a, theirs);
    show_shape(&b, &own);
    dt_err_set(err, DT_E_USAGE, "tensor %s has the shape [%.60s], this model's has [%.60s]",
               theirs->name, dt_buf_cstr(&a), dt_buf_cstr(&b));
    dt_buf_finish(&a);
    dt_buf_finish(&b);
    return -1;
}

/* Whether model tensor I may be stored in NF4. */
static bool may_be_quantized(const struct dt_ckpt_weights *w, size_t i)
{
    return !w->model->lora && dt_packed_is_nf4(w->model->shape, &w->model->tensors[i]);
}

static bool is_quantized(const struct dt_ckpt_weights *w, size_t i)
{
    return w->quantized[i].part[DT_BNB_CODES].tensor;
}

static int bind_part(struct dt_ckpt_weights *w, size_t i, enum dt_bnb_part part,
                     const struct dt_st_file *f, const struct dt_st_tensor *t, struct dt_err *err)
{
    struct dt_bnb_stored *to = &w->quantized[i].part[part];
    if (to->tensor)
        return dt_err_set(err, DT_E_USAGE, "tensor %.200s is there twice", t->name);
    *to = (struct dt_bnb_stored){f, t};
    return 0;
}

static int bind_one(struct dt_ckpt_weights *w, size_t i, const struct dt_st_file *f,
                    const struct dt_st_tensor *t, struct dt_err *err)
{
    const struct dt_tensor *ours = &w->model->tensors[i];
    bool same = t->rank == ours->rank;
    for (int d = 0; same && d < t->rank; d++)
        same = t->dims[d] == ours->dims[d];
    if (w->bound[i].tensor)
        return dt_err_set(err, DT_E_USAGE, "tensors %s and %s are both this model's %s",
                          w->bound[i].tensor->name, t->name, ours->name);
    if (t->type == DT_U8 && may_be_quantized(w, i)) {
        w->bound[i] = (struct bound){f, t};
        return bind_part(w, i, DT_BNB_CODES, f, t, err);
    }
    if (!same)
        return other_shape(ours, t, err);
    if (t->type == DT_DTYPES || !dt_convert_is_float(t->type))
        return dt_err_set(err, DT_E_USAGE, "tensor %s is of no float type that is read here",
                          t->name);
    w->bound[i] = (struct bound){f, t};
    return 0;
}

/* Whose tensor NAME is, or whose PART. */
static const struct name *find_name(const struct dt_ckpt_weights *w, const struct name *names,
                                    const char *name, enum dt_bnb_part *part)
{
    char weight[sizeof w->model->tensors->name];
    size_t length;
    const char *own = bare(name);
    *part = dt_bnb_part_of(own, &length);
    if (snprintf(weight, sizeof weight, "%.*s", (int)length, own) >= (int)sizeof weight)
        return NULL;
    struct name key = {weight, 0};
    return bsearch(&key, names, w->model->count, sizeof key, by_bare);
}

static int bind_file(struct dt_ckpt_weights *w, const struct dt_st_file *f,
                     const struct name *names, struct dt_err *err)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct dt_st_tensor *t = &f->tensors[i];
        enum dt_bnb_part part;
        if (to_ignore(w, t->name))
            continue;
        const struct name *found = find_name(w, names, t->name, &part);
        if (!found || (part != DT_BNB_CODES && !may_be_quantized(w, found->index)))
            return dt_err_set(err, DT_E_USAGE, "tensor %.200s is none of this model's", t->name);
        if (part == DT_BNB_CODES ? bind_one(w, found->index, f, t, err) < 0
                                 : bind_part(w, found->index, part, f, t, err) < 0)
            return -1;
    }
    return 0;
}

/* Model tensor I is there, with all that belongs to it and nothing else. */
static int check_bound(struct dt_ckpt_weights *w, size_t i, struct dt_err *err)
{
    const struct dt_tensor *t = &w->model->tensors[i];
    struct dt_bnb_weight *q = &w->quantized[i];
    bool turns = dt_packed_turns(w->model->shape);
    if (!w->bound[i].tensor)
        return dt_err_set(err, DT_E_USAGE, "tensor %s is missing", t->name);
    if (is_quantized(w, i))
        return dt_bnb_check(q, t, t->dims[turns ? 1 : 0], t->dims[turns ? 0 : 1], err);
    for (int part = 0; part < DT_BNB_PARTS; part++)
        if (q->part[part].tensor)
            return dt_err_set(err, DT_E_USAGE,
                              "tensor %.200s says how a weight is quantized that is not",
                              q->part[part].tensor->name);
    return 0;
}

static int bind_all(struct dt_ckpt_weights *w, struct dt_err *err)
{
    DT_AUTO_FREE struct name *names = calloc(w->model->count + 1, sizeof *names);
    w->bound = calloc(w->model->count + 1, sizeof *w->bound);
    w->quantized = calloc(w->model->count + 1, sizeof *w->quantized);
    if (!names || !w->bound || !w->quantized)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu tensors", w->model->count);
    for (size_t i = 0; i < w->model->count; i++)
        names[i] = (struct name){bare(w->model->tensors[i].name), i};
    qsort(names, w->model->count, sizeof *names, by_bare);
    for (size_t i = 0; i < w->count; i++)
        if (bind_file(w, &w->files[i], names, err) < 0)
            return -1;
    for (size_t i = 0; i < w->model->count; i++)
        if (check_bound(w, i, err) < 0)
            return -1;
    return 0;
}

/* -- reading ---------------------------------------------------------------------------------- */

static int read_elements(const struct bound *b, uint64_t first, size_t count, float *to,
                         struct dt_err *err)
{
    enum dt_dtype type = b->tensor->type;
    size_t width = dt_dtype_size(type);
    uint64_t at = b->file->data_at + b->tensor->begin + first * width;
    DT_AUTO_FREE void *room = malloc(CHUNK * sizeof(double));
    if (!room)
        return dt_err_set(err, DT_E_MEMORY, "no memory to read %s", b->tensor->name);
    while (count) {
        size_t n = count < CHUNK ? count : CHUNK;
        ssize_t got = pread(b->file->fd, room, n * width, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read tensor %s", b->tensor->name);
        n = (size_t)got / width;
        if (n == 0)
            return dt_err_set(err, DT_E_RUNTIME, "tensor %s ends early", b->tensor->name);
        dt_convert_to_f32(type, room, to, n);
        at += n * width;
        to += n;
        count -= n;
    }
    return 0;
}

static int open_all(struct dt_ckpt_weights *w, const char *dir, struct dt_err *err)
{
    char room[PATH_MAX];
    dir = dt_ckpt_weights_folder(dir, room);
    if (snprintf(w->dir, sizeof w->dir, "%s", dir) >= (int)sizeof w->dir)
        return dt_err_set(err, DT_E_USAGE, "the path %.60s... is too long", dir);
    if (dt_is_missing(dir))
        return dt_no_folder(dir, err);
    if (open_files(w, dir, err) < 0 || bind_all(w, err) < 0)
        return dt_err_wrap(err, "%s", dir);
    return 0;
}

struct dt_ckpt_weights *dt_ckpt_weights_open(const char *dir, const struct dt_ckpt_model *m,
                                             struct dt_err *err)
{
    struct dt_ckpt_weights *w = calloc(1, sizeof *w);
    if (!w) {
        dt_err_set(err, DT_E_MEMORY, "no memory for the weights of %s", dir);
        return NULL;
    }
    w->model = m;
    w->unpacking = calloc(1, sizeof *w->unpacking);
    if (!w->unpacking) {
        dt_err_set(err, DT_E_MEMORY, "no memory for the weights of %s", dir);
        dt_ckpt_weights_close(w);
        return NULL;
    }
    if (open_all(w, dir, err) == 0)
        return w;
    dt_ckpt_weights_close(w);
    return NULL;
}

void dt_ckpt_weights_close(struct dt_ckpt_weights *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++)
        dt_st_close(&w->files[i]);
    free(w->files);
    free(w->bound);
    free(w->quantized);
    if (w->unpacking)
        free(w->unpacking->packed);
    free(w->unpacking);
    dt_ckpt_adapters_close(w->adapters);
    free(w);
}

void dt_ckpt_weights_adapt(struct dt_ckpt_weights *w, struct dt_ckpt_adapters *adapters)
{
    w->adapters = adapters;
}

void dt_ckpt_weights_quantize(struct dt_ckpt_weights *w, enum dt_dtype type)
{
    w->nf4 = true;
    w->nf4_type = type;
}

enum dt_dtype dt_ckpt_weights_type(const struct dt_ckpt_weights *w, size_t tensor)
{
    return is_quantized(w, tensor) ? w->quantized[tensor].type : w->bound[tensor].tensor->type;
}

int dt_ckpt_weights_read_stored(const struct dt_ckpt_weights *w, size_t tensor, uint64_t first,
                                size_t count, float *out, struct dt_err *err)
{
    if (read_elements(&w->bound[tensor], first, count, out, err) < 0)
        return dt_err_wrap(err, "%s", w->dir);
    return 0;
}

const struct dt_bnb_weight *dt_ckpt_weights_quantized(const struct dt_ckpt_weights *w,
                                                      size_t tensor)
{
    return is_quantized(w, tensor) ? &w->quantized[tensor] : NULL;
}

/* All of a tensor has to be packed before anything of it is known. */
static int read_packed(const struct dt_ckpt_weights *w, size_t tensor, uint64_t first, size_t count,
                       float *out, struct dt_err *err)
{
    struct unpacking *u = w->unpacking;
    const struct dt_tensor *t = &w->model->tensors[tensor];
    enum dt_dtype type = w->nf4 ? w->nf4_type : w->quantized[tensor].type;
    if (!u->packed || u->tensor != tensor) {
        free(u->packed);
        u->tensor = tensor;
        u->packed = malloc(dt_nf4_parts_of(NULL, dt_packed_numbers(t)).words * sizeof(uint32_t));
        if (!u->packed)
            return dt_err_set(err, DT_E_MEMORY, "no memory for %s in NF4", t->name);
        if (dt_ckpt_pack(w, w->model, tensor, type, u->packed, err) < 0) {
            free(u->packed);
            u->packed = NULL;
            return -1;
        }
    }
    dt_ckpt_unpack(w->model, tensor, u->packed, type, first, count, out);
    return 0;
}

const struct dt_ckpt_model *dt_ckpt_weights_model(const struct dt_ckpt_weights *w)
{
    return w->model;
}

int dt_ckpt_weights_read_bare(const struct dt_ckpt_weights *w, size_t tensor, uint64_t first,
                              size_t count, float *out, struct dt_err *err)
{
    bool packed = is_quantized(w, tensor) || (w->nf4 && may_be_quantized(w, tensor));
    return packed ? read_packed(w, tensor, first, count, out, err)
                  : dt_ckpt_weights_read_stored(w, tensor, first, count, out, err);
}

int dt_ckpt_weights_read(const struct dt_ckpt_weights *w, size_t tensor, uint64_t first,
                         size_t count, float *out, struct dt_err *err)
{
    if (dt_ckpt_weights_read_bare(w, tensor, first, count, out, err) < 0)
        return -1;
    return w->adapters ? dt_ckpt_adapters_apply(w->adapters, w, tensor, first, count, out, err) : 0;
}
