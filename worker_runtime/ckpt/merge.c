/* SPDX-License-Identifier: Apache-2.0 */
/* The model goes from one file to the other a stretch of rows at a time, so that the size of a
 * model is none of memory. */
#include "worker_runtime/ckpt/merge.h"

#include "base/auto.h"
#include "base/fs.h"
#include "base/json.h"
#include "worker_runtime/ckpt/convert.h"
#include "worker_runtime/ckpt/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CONFIG_MAX ((size_t)1 << 20)
#define CHUNK ((size_t)1 << 20) /* elements that are on their way, but a row at least */

struct merge {
    const struct dt_ckpt_merge *o;
    char from[PATH_MAX], base[PATH_MAX]; /* the two folders */
    struct dt_buf base_config, lora_config;
    struct dt_shape shape;
    struct dt_lora lora;
    struct dt_ckpt_model model, adapters;
    struct dt_ckpt_weights *weights, *pairs;
    float *left, *right, *rows; /* of the tensor at hand */
    uint8_t *bytes;             /* its rows as they are written */
    int fd;
};

/* -- what there is ---------------------------------------------------------------------------- */

static int parse(struct dt_json *doc, const struct dt_buf *text, struct dt_err *err)
{
    return dt_json_parse(doc, (const char *)text->at, text->len, CONFIG_MAX, err);
}

static int read_config(const char *dir, const char *name, struct dt_buf *text, struct dt_err *err)
{
    char path[PATH_MAX];
    if (dt_ckpt_join_path(path, dir, name, err) < 0)
        return -1;
    return dt_fs_read(path, CONFIG_MAX, text, err);
}

/* The base that the adapters name, unless somebody names another. */
static int find_base(struct merge *m, struct dt_err *err)
{
    struct dt_json doc;
    char room[PATH_MAX];
    const char *base = m->o->base;
    if (parse(&doc, &m->lora_config, err) < 0)
        return dt_err_wrap(err, "%s", m->from);
    int rc = base ? 0 : dt_json_string(&doc, NULL, "base_model_name_or_path", &base, err);
    if (rc == 0)
        snprintf(m->base, sizeof m->base, "%s", dt_ckpt_weights_folder(base, room));
    else
        dt_err_set(err, DT_E_USAGE,
                   "%s does not say which model it adapts; name its folder by --init-from",
                   m->from);
    dt_json_finish(&doc);
    return rc;
}

static int read_shape(struct merge *m, struct dt_err *err)
{
    struct dt_json doc;
    if (read_config(m->base, "config.json", &m->base_config, err) < 0)
        return m->o->base
                   ? -1
                   : dt_err_wrap(err, "the model of %s, which --init-from can name", m->from);
    int rc = parse(&doc, &m->base_config, err);
    if (rc == 0)
        rc = dt_shape_read(&m->shape, &doc, NULL, NULL, err);
    dt_json_finish(&doc);
    return rc < 0 ? dt_err_wrap(err, "%s/config.json", m->base) : 0;
}

static int read_lora(struct merge *m, struct dt_err *err)
{
    struct dt_json doc;
    int rc = parse(&doc, &m->lora_config, err);
    if (rc == 0)
        rc = dt_lora_read(&m->lora, &m->shape, &doc, err);
    dt_json_finish(&doc);
    return rc < 0 ? dt_err_wrap(err, "%s/adapter_config.json", m->from) : 0;
}

static int open_tensors(struct merge *m, struct dt_err *err)
{
    m->model = (struct dt_ckpt_model){.shape = &m->shape,
                                      .tensors = dt_shape_tensors(&m->shape, err),
                                      .count = dt_shape_tensor_count(&m->shape)};
    m->adapters = (struct dt_ckpt_model){.shape = &m->shape, .lora = &m->lora};
    if (m->model.tensors)
        m->adapters.tensors = dt_lora_tensors(&m->lora, &m->shape, &m->adapters.count, err);
    if (!m->adapters.tensors)
        return -1;
    m->weights = dt_ckpt_weights_open(m->base, &m->model, err);
    m->pairs = m->weights ? dt_ckpt_weights_open(m->from, &m->adapters, err) : NULL;
    return m->pairs ? 0 : -1;
}

static int open_all(struct merge *m, struct dt_err *err)
{
    char room[PATH_MAX];
    snprintf(m->from, sizeof m->from, "%s", dt_ckpt_weights_folder(m->o->adapters, room));
    if (read_config(m->from, "adapter_config.json", &m->lora_config, err) < 0 ||
        find_base(m, err) < 0 || read_shape(m, err) < 0 || read_lora(m, err) < 0)
        return -1;
    return open_tensors(m, err);
}

/* -- one tensor ------------------------------------------------------------------------------- */

/* The number of the first of the two matrices beside T; the second is behind it. false: T has no
 * adapter. */
static bool find_pair(const struct merge *m, const struct dt_tensor *t, size_t *pair)
{
    size_t each = 2 * (size_t)__builtin_popcount(m->lora.targets), before = 0;
    if (t->unit == 0 || t->unit > m->shape.layers || !(m->lora.targets & (uint32_t)1 << t->which))
        return false;
    for (size_t i = 0; i < t->which; i++)
        before += m->lora.targets >> i & 1;
    *pair = m->lora.saves_embedding + (t->unit - 1) * each + 2 * before;
    return true;
}

/* Where tensor number TENSOR of the model is read: its own weights, or what the adapters save. */
static const struct dt_ckpt_weights *source_of(const struct merge *m, size_t tensor, size_t *at)
{
    bool embedding = m->lora.saves_embedding && tensor == 0;
    bool head = m->lora.saves_head && tensor == m->model.count - 1;
    *at = embedding ? 0 : head ? m->adapters.count - 1 : tensor;
    return embedding || head ? m->pairs : m->weights;
}

/* X of [rows, columns], as the columns of the result. */
static void turn(const float *x, size_t rows, size_t columns, float *out)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            out[c * rows + r] = x[r * columns + c];
}

/* What is added to row i of T is the sum over k of left[i, k] right[k, :], so the two are B and A,
 * or where T is [in, out] both turned round. */
static int read_pair(struct merge *m, const struct dt_tensor *t, size_t pair, struct dt_err *err)
{
    const struct dt_tensor *a = &m->adapters.tensors[pair], *b = a + 1;
    size_t r = m->lora.r, rows = t->dims[0], columns = t->dims[1];
    bool turned = m->shape.family == DT_GPT2;
    DT_AUTO_FREE float *x = malloc((a->count + b->count) * sizeof *x);
    m->left = malloc(rows * r * sizeof *m->left);
    m->right = malloc(columns * r * sizeof *m->right);
    if (!x || !m->left || !m->right)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the adapter of %s", t->name);
    if (dt_ckpt_weights_read(m->pairs, pair, 0, a->count, x, err) < 0 ||
        dt_ckpt_weights_read(m->pairs, pair + 1, 0, b->count, x + a->count, err) < 0)
        return -1;
    if (turned) {
        turn(x, r, rows, m->left);
        turn(x + a->count, columns, r, m->right);
    } else {
        memcpy(m->left, x + a->count, b->count * sizeof *x);
        memcpy(m->right, x, a->count * sizeof *x);
    }
    return 0;
}

/* The sum is made before the weight joins it: that is the larger one. */
static void add_row(const struct merge *m, size_t row, size_t columns, float *sum, float *to)
{
    const float *left = m->left + row * m->lora.r;
    float scale = dt_lora_scale(&m->lora);
    memset(sum, 0, columns * sizeof *sum);
    for (size_t k = 0; k < m->lora.r; k++)
        for (size_t c = 0; c < columns; c++)
            sum[c] += left[k] * m->right[k * columns + c];
    for (size_t c = 0; c < columns; c++)
        to[c] += scale * sum[c];
}

static int write_all(const struct merge *m, const void *bytes, size_t len, struct dt_err *err)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t done = write(m->fd, at, len);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return dt_err_errno(err, DT_E_RUNTIME, done < 0 ? errno : ENOSPC, "cannot write %s",
                                m->o->out);
        at += done;
        len -= (size_t)done;
    }
    return 0;
}

static int write_rows(struct merge *m, size_t tensor, size_t columns, size_t rows,
                      struct dt_err *err)
{
    const struct dt_tensor *t = &m->model.tensors[tensor];
    enum dt_dtype type = dt_ckpt_weights_type(m->weights, tensor);
    float *sum = m->rows + rows * columns;
    size_t at;
    const struct dt_ckpt_weights *from = source_of(m, tensor, &at);
    for (size_t first = 0; first < t->dims[0]; first += rows) {
        size_t left = t->dims[0] - first, n = left < rows ? left : rows;
        if (dt_ckpt_weights_read(from, at, first * columns, n * columns, m->rows, err) < 0)
            return -1;
        for (size_t i = 0; m->left && i < n; i++)
            add_row(m, first + i, columns, sum, m->rows + i * columns);
        dt_convert_from_f32(type, m->rows, m->bytes, n * columns);
        if (write_all(m, m->bytes, n * columns * dt_dtype_size(type), err) < 0)
            return -1;
    }
    return 0;
}

static void forget_tensor(struct merge *m)
{
    free(m->left);
    free(m->right);
    free(m->rows);
    free(m->bytes);
    m->left = m->right = m->rows = NULL;
    m->bytes = NULL;
}

static int write_tensor(struct merge *m, size_t tensor, struct dt_ckpt_merged *done,
                        struct dt_err *err)
{
    const struct dt_tensor *t = &m->model.tensors[tensor];
    size_t columns = t->count / t->dims[0], rows = CHUNK / columns + 1, pair;
    bool adapted = find_pair(m, t, &pair);
    int rc = 0;
    m->rows = malloc((rows + 1) * columns * sizeof *m->rows);
    m->bytes = malloc(rows * columns * sizeof(double));
    if (!m->rows || !m->bytes)
        rc = dt_err_set(err, DT_E_MEMORY, "no memory for rows of %s", t->name);
    if (rc == 0 && adapted)
        rc = read_pair(m, t, pair, err);
    if (rc == 0)
        rc = write_rows(m, tensor, columns, rows, err);
    done->layers += adapted;
    done->tensors++;
    forget_tensor(m);
    return rc;
}

/* -- the folder ------------------------------------------------------------------------------- */

static int write_header(struct merge *m, struct dt_err *err)
{
    size_t count = m->model.count;
    struct dt_buf head = {0};
    DT_AUTO_FREE struct dt_st_tensor *all = calloc(count, sizeof *all);
    if (!all)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu tensors", count);
    for (size_t i = 0; i < count; i++) {
        const struct dt_tensor *t = &m->model.tensors[i];
        all[i] = (struct dt_st_tensor){.name = t->name,
                                       .type = dt_ckpt_weights_type(m->weights, i),
                                       .rank = t->rank,
                                       .dims = {t->dims[0], t->dims[1]}};
    }
    int rc = dt_st_header(all, count, NULL, &head, err);
    if (rc == 0)
        rc = write_all(m, head.at, head.len, err);
    dt_buf_finish(&head);
    return rc;
}

/* It gets its name when all of it is there. */
static int write_model(struct merge *m, struct dt_ckpt_merged *done, struct dt_err *err)
{
    char path[PATH_MAX], part[PATH_MAX];
    if (dt_ckpt_join_path(path, m->o->out, "model.safetensors", err) < 0 ||
        dt_ckpt_join_path(part, m->o->out, ".model.safetensors.part", err) < 0)
        return -1;
    if (dt_fs_exists(path))
        return dt_err_set(err, DT_E_USAGE, "%s is there; give another folder", path);
    m->fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (m->fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", part);
    int rc = write_header(m, err);
    for (size_t i = 0; rc == 0 && i < m->model.count; i++)
        rc = write_tensor(m, i, done, err);
    if (rc == 0 && (fsync(m->fd) < 0 || rename(part, path) < 0))
        rc = dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", path);
    close(m->fd);
    if (rc < 0)
        unlink(part);
    return rc;
}

/* The tokenizer that the adapters were trained with counts more than the model's. */
static int write_companions(const struct merge *m, struct dt_err *err)
{
    const char *const folders[] = {m->base, m->from};
    struct dt_companions c = {0};
    int rc = 0;
    for (size_t i = 0; i < 2 && rc == 0; i++)
        if (dt_companions_read(&c, folders[i], err) < 0 ||
            dt_companions_write(&c, m->o->out, err) < 0)
            rc = -1;
    dt_companions_finish(&c);
    return rc;
}

static int write_folder(struct merge *m, struct dt_ckpt_merged *done, struct dt_err *err)
{
    char path[PATH_MAX];
    if (dt_fs_mkdir_p(m->o->out, 0777, err) < 0 ||
        dt_ckpt_join_path(path, m->o->out, "config.json", err) < 0 || write_model(m, done, err) < 0)
        return -1;
    if (dt_fs_replace(path, m->base_config.at, m->base_config.len, 0644, err) < 0)
        return -1;
    return write_companions(m, err);
}

int dt_ckpt_merge(const struct dt_ckpt_merge *o, struct dt_ckpt_merged *done, struct dt_err *err)
{
    struct merge m = {.o = o};
    *done = (struct dt_ckpt_merged){0};
    int rc = open_all(&m, err);
    if (rc == 0)
        rc = write_folder(&m, done, err);
    dt_ckpt_weights_close(m.weights);
    dt_ckpt_weights_close(m.pairs);
    dt_buf_finish(&m.base_config);
    dt_buf_finish(&m.lora_config);
    free(m.model.tensors);
    free(m.adapters.tensors);
    return rc;
}
