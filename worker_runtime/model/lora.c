/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers are adapted, and the tensors that follow. A model of one block stands for all, since
 * blocks are alike. */
#include "worker_runtime/model/lora.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MOST 128

float dt_lora_scale(const struct dt_lora *l)
{
    return l->alpha / (l->rslora ? sqrtf((float)l->r) : (float)l->r);
}

/* -- the linear layers of a block ------------------------------------------------------------- */

struct layers {
    const struct dt_shape *shape;
    struct dt_tensor *tensors; /* of a model with one block */
    size_t count;
};

static int open_layers(struct layers *y, const struct dt_shape *s, struct dt_err *err)
{
    struct dt_shape one = *s;
    one.layers = 1;
    *y = (struct layers){s, dt_shape_tensors(&one, err), dt_shape_tensor_count(&one)};
    return y->tensors ? 0 : -1;
}

static void close_layers(struct layers *y)
{
    free(y->tensors);
}

/* The next weight of a linear layer from *I on; NULL: there is none. */
static const struct dt_tensor *next_layer(const struct layers *y, size_t *i)
{
    while (*i < y->count) {
        const struct dt_tensor *t = &y->tensors[(*i)++];
        if (t->unit == 1 && t->rank == 2)
            return t;
    }
    return NULL;
}

/* The layer's path in the model that has a head, as peft calls it. */
static void path_of(const struct layers *y, const struct dt_tensor *t, char out[PATH_MOST])
{
    bool bare = y->shape->family == DT_GPT2 && y->shape->tied;
    snprintf(out, PATH_MOST, "%s%s", bare ? "transformer." : "", t->name);
    *strrchr(out, '.') = '\0'; /* ".weight" */
}

/* What of it is within the block. */
static const char *inner_path(const char *path)
{
    return strstr(path, ".0.") + strlen(".0.");
}

static bool means(const char *name, const char *path)
{
    size_t n = strlen(path), m = strlen(name);
    return n >= m && strcmp(path + n - m, name) == 0 && (n == m || path[n - m - 1] == '.');
}

static bool is_target(const struct dt_lora *l, const struct dt_tensor *t)
{
    return l->targets & (uint32_t)1 << t->which;
}

/* -- targets ---------------------------------------------------------------------------------- */

static int refuse(const struct layers *y, const char *name, struct dt_err *err)
{
    struct dt_buf known = {0};
    const struct dt_tensor *t;
    char path[PATH_MOST];
    for (size_t i = 0; (t = next_layer(y, &i));) {
        path_of(y, t, path);
        dt_buf_printf(&known, "%s%s", known.len ? ", " : "", inner_path(path));
    }
    dt_err_set(err, DT_E_USAGE, "\"%.80s\" is no linear layer of each block; those are %s", name,
               dt_buf_cstr(&known));
    dt_buf_finish(&known);
    return -1;
}

int dt_lora_target(struct dt_lora *l, const struct dt_shape *s, const char *name,
                   struct dt_err *err)
{
    struct layers y;
    uint32_t targets = 0;
    const struct dt_tensor *t;
    char path[PATH_MOST];
    if (open_layers(&y, s, err) < 0)
        return -1;
    for (size_t i = 0; (t = next_layer(&y, &i));) {
        path_of(&y, t, path);
        if (*name && means(name, inner_path(path)))
            targets |= (uint32_t)1 << t->which;
    }
    l->targets |= targets;
    int rc = targets ? 0 : refuse(&y, name, err);
    close_layers(&y);
    return rc;
}

int dt_lora_target_all(struct dt_lora *l, const struct dt_shape *s, struct dt_err *err)
{
    struct layers y;
    const struct dt_tensor *t;
    if (open_layers(&y, s, err) < 0)
        return -1;
    for (size_t i = 0; (t = next_layer(&y, &i));)
        l->targets |= (uint32_t)1 << t->which;
    close_layers(&y);
    return 0;
}

static const char *last_name(const char *path)
{
    return strrchr(path, '.') + 1;
}

/* How many layers NAME means. */
static size_t count_meant(const struct layers *y, const char *name)
{
    const struct dt_tensor *t;
    size_t n = 0;
    char path[PATH_MOST];
    for (size_t i = 0; (t = next_layer(y, &i));) {
        path_of(y, t, path);
        n += means(name, path);
    }
    return n;
}

int dt_lora_each_target(const struct dt_lora *l, const struct dt_shape *s,
                        void (*say)(void *arg, const char *name), void *arg, struct dt_err *err)
{
    struct layers y;
    const struct dt_tensor *t;
    char path[PATH_MOST];
    if (open_layers(&y, s, err) < 0)
        return -1;
    for (size_t i = 0; (t = next_layer(&y, &i));) {
        path_of(&y, t, path);
        bool alone = count_meant(&y, last_name(path)) == 1;
        if (is_target(l, t))
            say(arg, alone ? last_name(path) : inner_path(path));
    }
    close_layers(&y);
    return 0;
}

/* -- what is saved ---------------------------------------------------------------------------- */

const char *dt_lora_embedding(const struct dt_shape *s)
{
    return s->family == DT_GPT2 ? "wte" : "embed_tokens";
}

int dt_lora_save(struct dt_lora *l, const struct dt_shape *s, const char *name, struct dt_err *err)
{
    bool embedding = strcmp(name, dt_lora_embedding(s)) == 0;
    if (!embedding && strcmp(name, "lm_head") != 0)
        return dt_err_set(err, DT_E_USAGE,
                          "\"%.80s\" is not trained beside adapters; %s and lm_head can be", name,
                          dt_lora_embedding(s));
    if (s->tied)
        return dt_err_set(err, DT_E_USAGE,
                          "%s and lm_head are one matrix in this model, and are not trained beside "
                          "adapters: peft would tear them apart",
                          dt_lora_embedding(s));
    l->saves_embedding |= embedding;
    l->saves_head |= !embedding;
    return 0;
}

/* -- tensors ---------------------------------------------------------------------------------- */

/* GPT-2 stores [in, out], a Llama [out, in]. */
static struct dt_lora_pair pair_of(const struct dt_lora *l, const struct dt_shape *s,
                                   const struct dt_tensor *t, size_t at)
{
    size_t in = t->dims[s->family == DT_GPT2 ? 0 : 1], out = t->count / in;
    return (struct dt_lora_pair){.tensor = t->which,
                                 .in = in,
                                 .out = out,
                                 .a_at = at,
                                 .b_at = at + l->r * in,
                                 .m_at = at + l->r * (in + out)};
}

/* Elements of all its tensors. */
static size_t pair_size(const struct dt_lora *l, const struct dt_lora_pair *p)
{
    return l->r * (p->in + p->out) + (l->dora ? p->out : 0);
}

int dt_lora_pairs(const struct dt_lora *l, const struct dt_shape *s,
                  struct dt_lora_pair pairs[DT_BLOCK_TENSORS_MOST], size_t *count,
                  struct dt_err *err)
{
    struct layers y;
    const struct dt_tensor *t;
    if (open_layers(&y, s, err) < 0)
        return -1;
    *count = 0;
    for (size_t i = 0, at = 0, outs = 0; (t = next_layer(&y, &i));) {
        if (!is_target(l, t))
            continue;
        struct dt_lora_pair p = pair_of(l, s, t, at);
        p.outs_at = outs;
        at += pair_size(l, &p);
        outs += p.out;
        pairs[(*count)++] = p;
    }
    close_layers(&y);
    return 0;
}

/* One tensor of the adapter of the layer at PATH in the first block, as it is in BLOCK. All decay,
 * as Hugging Face's optimizers have it. */
static void set_tensor(struct dt_tensor *to, const char *path, size_t block, size_t unit,
                       const char *kind)
{
    int before = (int)(inner_path(path) - path) - (int)strlen(".0.");
    snprintf(to->name, sizeof to->name, "base_model.model.%.*s.%u.%s.lora_%s", before, path,
             (unsigned)block, inner_path(path), kind);
    snprintf(to->unit_name, sizeof to->unit_name, "block.%u", (unsigned)block);
    to->unit = unit;
    to->count = to->dims[0] * to->dims[1];
    to->decay = true;
}

static void set_block(const struct dt_lora *l, const struct layers *y, size_t block,
                      struct dt_tensor *to)
{
    static const char *const kinds[] = {"A.weight", "B.weight", "magnitude_vector"};
    const struct dt_tensor *t;
    size_t index = 0, at = 0;
    char path[PATH_MOST];
    for (size_t i = 0; (t = next_layer(y, &i));) {
        if (!is_target(l, t))
            continue;
        struct dt_lora_pair p = pair_of(l, y->shape, t, at);
        const struct dt_tensor all[] = {
            {.dims = {l->r, p.in},
             .rank = 2,
             .offset = p.a_at,
             .init_bound = 1 / sqrtf((float)p.in)},
            {.dims = {p.out, l->r}, .rank = 2, .offset = p.b_at, .rate = l->plus_ratio},
            {.dims = {p.out, 1}, .rank = 1, .offset = p.m_at, .rate = l->plus_ratio},
        };
        path_of(y, t, path);
        for (size_t k = 0; k < dt_lora_each(l); k++, to++) {
            *to = all[k];
            to->index = index++;
            to->which = t->which;
            set_tensor(to, path, block, dt_lora_block_unit(l, block), kinds[k]);
        }
        at += pair_size(l, &p);
    }
}

/* One of the model's own, which is all that is in UNIT. */
static void set_saved(const struct layers *y, const struct dt_tensor *own, size_t unit,
                      struct dt_tensor *to)
{
    char path[PATH_MOST];
    path_of(y, own, path);
    *to = *own;
    to->unit = unit;
    to->index = to->offset = 0;
    snprintf(to->name, sizeof to->name, "base_model.model.%.70s.weight", path);
}

struct dt_tensor *dt_lora_tensors(const struct dt_lora *l, const struct dt_shape *s, size_t *count,
                                  struct dt_err *err)
{
    struct layers y;
    size_t each = dt_lora_each(l) * (size_t)__builtin_popcount(l->targets);
    if (open_layers(&y, s, err) < 0)
        return NULL;
    *count = s->layers * each + l->saves_embedding + l->saves_head;
    struct dt_tensor *tensors = calloc(*count, sizeof *tensors);
    if (!tensors)
        dt_err_set(err, DT_E_MEMORY, "no memory for the names of %zu tensors", *count);
    for (size_t block = 0; tensors && block < s->layers; block++)
        set_block(l, &y, block, tensors + l->saves_embedding + block * each);
    if (tensors && l->saves_embedding)
        set_saved(&y, &y.tensors[0], 0, tensors);
    if (tensors && l->saves_head)
        set_saved(&y, &y.tensors[y.count - 1], dt_lora_unit_count(l, s) - 1, tensors + *count - 1);
    close_layers(&y);
    return tensors;
}
