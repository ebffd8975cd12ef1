/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/adapted.h"

#include "base/auto.h"
#include "base/fs.h"
#include "base/json.h"
#include "worker_runtime/ckpt/inside.h"
#include "worker_runtime/ckpt/norms.h"

#include <stdio.h>
#include <stdlib.h>

#define CONFIG "adapter_config.json"
#define CONFIG_MAX ((size_t)1 << 20)
#define CHUNK ((size_t)1 << 16) /* elements on their way */

struct dt_ckpt_adapters {
    const struct dt_shape *shape;
    struct dt_lora lora;
    struct dt_ckpt_model model; /* the adapters' tensors */
    struct dt_ckpt_weights *weights;
    /* Of the tensor at hand, whose name is NAME: what is added to its row i is the sum over k of
     * left[i, k] right[k, :], so the two are B and A, or of one that is [in, out] both turned. */
    char name[sizeof((struct dt_tensor *)NULL)->name];
    float *left, *right, *sum; /* SUM: room for a row */
    size_t r;
    float scale;
    /* With magnitudes: norms of the sums, and by what each output is multiplied; else NULL. */
    struct dt_norms norms;
    float *gain;
};

/* -- what there is ---------------------------------------------------------------------------- */

bool dt_ckpt_has_adapters(const char *folder)
{
    char path[PATH_MAX];
    return dt_ckpt_join_path(path, folder, CONFIG, NULL) == 0 && dt_fs_exists(path);
}

static int read_config(const char *folder, struct dt_json *doc, struct dt_err *err)
{
    char path[PATH_MAX];
    struct dt_buf text = {0};
    *doc = (struct dt_json){0};
    if (dt_ckpt_join_path(path, folder, CONFIG, err) < 0)
        return -1;
    int rc = dt_fs_read(path, CONFIG_MAX, &text, err);
    if (rc == 0 && dt_json_parse(doc, (const char *)text.at, text.len, CONFIG_MAX, err) < 0)
        rc = dt_err_wrap(err, "%s", path);
    dt_buf_finish(&text);
    return rc;
}

int dt_ckpt_adapters_base(const char *folder, char base[PATH_MAX], struct dt_err *err)
{
    struct dt_json doc;
    const char *name;
    int rc = read_config(folder, &doc, err);
    if (rc == 0 && (dt_json_string(&doc, NULL, "base_model_name_or_path", &name, NULL) < 0 ||
                    snprintf(base, PATH_MAX, "%s", name) >= PATH_MAX))
        rc = dt_err_set(err, DT_E_USAGE,
                        "%s does not say which model it adapts; name its folder by --init-from",
                        folder);
    dt_json_finish(&doc);
    return rc;
}

bool dt_ckpt_adapters_nf4(const char *folder, enum dt_dtype *type)
{
    char path[PATH_MAX];
    struct dt_st_file f;
    bool found = false;
    if (dt_ckpt_join_path(path, folder, DT_CKPT_ADAPTER, NULL) < 0 ||
        dt_st_open(&f, path, NULL) < 0)
        return false;
    const char *is = dt_st_metadata(&f, DT_CKPT_NF4_KEY);
    for (int i = 0; is && i < DT_CKPT_NF4_WORDS; i++)
        if (strcmp(is, dt_ckpt_nf4_words[i]) == 0) {
            *type = (enum dt_dtype)i;
            found = true;
        }
    dt_st_close(&f);
    return found;
}

static int read_lora(struct dt_ckpt_adapters *a, const char *folder, struct dt_err *err)
{
    struct dt_json doc;
    int rc = read_config(folder, &doc, err);
    if (rc == 0 && dt_lora_read(&a->lora, a->shape, &doc, err) < 0)
        rc = dt_err_wrap(err, "%s/" CONFIG, folder);
    dt_json_finish(&doc);
    return rc;
}

static int open_weights(struct dt_ckpt_adapters *a, const char *folder, struct dt_err *err)
{
    a->model = (struct dt_ckpt_model){.shape = a->shape, .lora = &a->lora};
    a->model.tensors = dt_lora_tensors(&a->lora, a->shape, &a->model.count, err);
    a->weights = a->model.tensors ? dt_ckpt_weights_open(folder, &a->model, err) : NULL;
    return a->weights ? 0 : -1;
}

struct dt_ckpt_adapters *dt_ckpt_adapters_open(const char *folder, const struct dt_shape *s,
                                               struct dt_err *err)
{
    struct dt_ckpt_adapters *a = calloc(1, sizeof *a);
    if (!a) {
        dt_err_set(err, DT_E_MEMORY, "no memory for adapters");
        return NULL;
    }
    a->shape = s;
    if (read_lora(a, folder, err) == 0 && open_weights(a, folder, err) == 0)
        return a;
    dt_ckpt_adapters_close(a);
    return NULL;
}

static void forget_tensor(struct dt_ckpt_adapters *a)
{
    free(a->left);
    free(a->right);
    free(a->sum);
    free(a->gain);
    dt_norms_finish(&a->norms);
    a->left = a->right = a->sum = a->gain = NULL;
    a->name[0] = '\0';
}

void dt_ckpt_adapters_close(struct dt_ckpt_adapters *a)
{
    if (!a)
        return;
    forget_tensor(a);
    dt_lora_finish(&a->lora);
    dt_ckpt_weights_close(a->weights);
    free(a->model.tensors);
    free(a);
}

size_t dt_ckpt_adapters_layers(const struct dt_ckpt_adapters *a)
{
    return a->shape->layers * (size_t)__builtin_popcount(a->lora.targets);
}

/* -- one tensor ------------------------------------------------------------------------------- */

/* The number of the first of the two matrices beside T; the second is behind it, and magnitudes
 * behind that. false: T has no adapter. */
static bool find_pair(const struct dt_ckpt_adapters *a, const struct dt_tensor *t, size_t *pair)
{
    size_t each = (size_t)__builtin_popcount(a->lora.targets), before = 0;
    if (t->unit == 0 || t->unit > a->shape->layers || !(a->lora.targets & (uint32_t)1 << t->which))
        return false;
    for (size_t i = 0; i < t->which; i++)
        before += a->lora.targets >> i & 1;
    *pair = a->lora.saves_embedding + ((t->unit - 1) * each + before) * dt_lora_each(&a->lora);
    return true;
}

/* T is saved whole, as tensor number AT. */
static bool is_saved(const struct dt_ckpt_adapters *a, const struct dt_tensor *t, size_t *at)
{
    bool head = t->unit == a->shape->layers + 1 && t->rank == 2;
    *at = head ? a->model.count - 1 : 0;
    return head ? a->lora.saves_head : t->unit == 0 && t->index == 0 && a->lora.saves_embedding;
}

/* X of [rows, columns], as the columns of the result. */
static void turn(const float *x, size_t rows, size_t columns, float *out)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            out[c * rows + r] = x[r * columns + c];
}

static int read_pair(struct dt_ckpt_adapters *a, const struct dt_tensor *t, size_t pair,
                     struct dt_err *err)
{
    const struct dt_tensor *low = &a->model.tensors[pair], *up = low + 1;
    size_t r = low->dims[0], rows = t->dims[0], columns = t->dims[1];
    DT_AUTO_FREE float *x = malloc((low->count + up->count) * sizeof *x);
    a->r = r;
    a->scale = dt_lora_scale(&a->lora, t->unit - 1, t->which);
    a->left = malloc(rows * r * sizeof *a->left);
    a->right = malloc(columns * r * sizeof *a->right);
    a->sum = malloc(columns * sizeof *a->sum);
    if (!x || !a->left || !a->right || !a->sum)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the adapter of %s", t->name);
    if (dt_ckpt_weights_read(a->weights, pair, 0, low->count, x, err) < 0 ||
        dt_ckpt_weights_read(a->weights, pair + 1, 0, up->count, x + low->count, err) < 0)
        return -1;
    if (a->shape->family == DT_GPT2) {
        turn(x, r, rows, a->left);
        turn(x + low->count, columns, r, a->right);
    } else {
        memcpy(a->left, x + low->count, up->count * sizeof *x);
        memcpy(a->right, x, low->count * sizeof *x);
    }
    return 0;
}

/* Columns from FROM to below TO of a row. The sum is made before the weight joins it, which is the
 * larger one. */
static void add_row(const struct dt_ckpt_adapters *a, size_t row, size_t columns, size_t from,
                    size_t to, float *x)
{
    const float *left = a->left + row * a->r;
    memset(a->sum, 0, columns * sizeof *a->sum);
    for (size_t k = 0; k < a->r; k++)
        for (size_t c = from; c < to; c++)
            a->sum[c] += left[k] * a->right[k * columns + c];
    for (size_t c = from; c < to; c++)
        x[c - from] += a->scale * a->sum[c];
}

static void multiply_row(const struct dt_ckpt_adapters *a, size_t row, size_t from, size_t to,
                         float *x)
{
    for (size_t c = from; c < to; c++)
        x[c - from] *= a->gain[a->norms.in_out ? c : row];
}

/* With NORMED also by what each output is to be multiplied. */
static void add_rows(const struct dt_ckpt_adapters *a, size_t columns, uint64_t first, size_t count,
                     bool normed, float *x)
{
    while (count > 0) {
        size_t row = first / columns, from = first % columns;
        size_t n = columns - from < count ? columns - from : count;
        add_row(a, row, columns, from, from + n, x);
        if (normed)
            multiply_row(a, row, from, from + n, x);
        first += n;
        x += n;
        count -= n;
    }
}

static int find_norms(struct dt_ckpt_adapters *a, const struct dt_ckpt_weights *w, size_t tensor,
                      struct dt_err *err)
{
    const struct dt_tensor *t = &dt_ckpt_weights_model(w)->tensors[tensor];
    DT_AUTO_FREE float *x = malloc(CHUNK * sizeof *x);
    if (!x)
        return dt_err_set(err, DT_E_MEMORY, "no memory to read %s", t->name);
    for (size_t at = 0, n; at < t->count; at += n) {
        n = t->count - at < CHUNK ? t->count - at : CHUNK;
        if (dt_ckpt_weights_read_bare(w, tensor, at, n, x, err) < 0)
            return -1;
        add_rows(a, t->dims[1], at, n, false, x);
        dt_norms_add(&a->norms, at, n, x);
    }
    return 0;
}

/* m / n of each output of a tensor, whose magnitudes are the adapters' tensor MAGNITUDES. Where all
 * weights are 0 there is nothing to multiply. */
static int find_gain(struct dt_ckpt_adapters *a, const struct dt_ckpt_weights *w, size_t tensor,
                     size_t magnitudes, struct dt_err *err)
{
    const struct dt_tensor *t = &dt_ckpt_weights_model(w)->tensors[tensor];
    size_t outputs = a->model.tensors[magnitudes].count;
    a->gain = malloc(outputs * sizeof *a->gain);
    if (!a->gain)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the magnitudes of %s", t->name);
    if (dt_norms_begin(&a->norms, a->shape, t, 0, outputs, err) < 0 ||
        dt_ckpt_weights_read(a->weights, magnitudes, 0, outputs, a->gain, err) < 0 ||
        find_norms(a, w, tensor, err) < 0)
        return -1;
    for (size_t i = 0; i < outputs; i++) {
        float norm = dt_norms_of(&a->norms, i);
        a->gain[i] = norm <= 0 ? 0 : a->gain[i] / norm;
    }
    return 0;
}

static int take_tensor(struct dt_ckpt_adapters *a, const struct dt_ckpt_weights *w, size_t tensor,
                       size_t pair, struct dt_err *err)
{
    const struct dt_tensor *t = &dt_ckpt_weights_model(w)->tensors[tensor];
    if (strcmp(a->name, t->name) == 0)
        return 0;
    forget_tensor(a);
    if (read_pair(a, t, pair, err) < 0 ||
        (a->lora.dora && find_gain(a, w, tensor, pair + 2, err) < 0))
        return -1;
    memcpy(a->name, t->name, sizeof a->name);
    return 0;
}

int dt_ckpt_adapters_apply(struct dt_ckpt_adapters *a, const struct dt_ckpt_weights *w,
                           size_t tensor, uint64_t first, size_t count, float *x,
                           struct dt_err *err)
{
    const struct dt_tensor *t = &dt_ckpt_weights_model(w)->tensors[tensor];
    size_t at, pair;
    if (is_saved(a, t, &at))
        return dt_ckpt_weights_read(a->weights, at, first, count, x, err);
    if (!find_pair(a, t, &pair))
        return 0;
    if (take_tensor(a, w, tensor, pair, err) < 0)
        return -1;
    add_rows(a, t->dims[1], first, count, a->gain != NULL, x);
    return 0;
}
