/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers are adapted, and the tensors that follow. A model of one block stands for all, since
 * blocks are alike. */
#include "worker_runtime/model/lora.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dt_lora_finish(struct dt_lora *l)
{
    free(l->own);
    l->own = NULL;
}

float dt_lora_scale(const struct dt_lora *l, size_t block, size_t which)
{
    const struct dt_lora_share h = dt_lora_share(l, block, which);
    return h.alpha / (l->rslora ? sqrtf((float)h.r) : (float)h.r);
}

static void widen_span(struct dt_lora_span *span, const struct dt_lora_share *h)
{
    span->least.r = h->r < span->least.r ? h->r : span->least.r;
    span->most.r = h->r > span->most.r ? h->r : span->most.r;
    span->least.alpha = fminf(span->least.alpha, h->alpha);
    span->most.alpha = fmaxf(span->most.alpha, h->alpha);
}

struct dt_lora_span dt_lora_span(const struct dt_lora *l, const struct dt_shape *s)
{
    struct dt_lora_span span = {{SIZE_MAX, INFINITY}, {0, 0}};
    if (!l->own)
        return (struct dt_lora_span){{l->r, l->alpha}, {l->r, l->alpha}};
    for (size_t block = 0; block < s->layers; block++)
        for (size_t i = 0; i < DT_BLOCK_TENSORS_MOST; i++) {
            struct dt_lora_share h = dt_lora_share(l, block, i);
            if (l->targets >> i & 1)
                widen_span(&span, &h);
        }
    return span;
}

void dt_lora_say(const struct dt_lora *l, const struct dt_shape *s, char *out, size_t room)
{
    struct dt_lora_span span = dt_lora_span(l, s);
    char ranks[48], alphas[48];
    snprintf(ranks, sizeof ranks, span.least.r < span.most.r ? "%zu to %zu" : "%zu", span.least.r,
             span.most.r);
    snprintf(alphas, sizeof alphas, span.least.alpha < span.most.alpha ? "%g to %g" : "%g",
             (double)span.least.alpha, (double)span.most.alpha);
    snprintf(out, room, "rank %s, alpha %s", ranks, alphas);
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
static void path_of(const struct layers *y, const struct dt_tensor *t, char out[DT_LORA_PATH_MOST])
{
    bool bare = y->shape->family == DT_GPT2 && y->shape->tied;
    snprintf(out, DT_LORA_PATH_MOST, "%s%s", bare ? "transformer." : "", t->name);
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
    char path[DT_LORA_PATH_MOST];
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
    char path[DT_LORA_PATH_MOST];
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
    char path[DT_LORA_PATH_MOST];
    for (size_t i = 0; (t = next_layer(y, &i));) {
        path_of(y, t, path);
        n += means(name, path);
    }
    return n;
}

int dt_lora_layers(const struct dt_lora *l, const struct dt_shape *s,
                   struct dt_lora_layer layers[DT_BLOCK_TENSORS_MOST], size_t *count,
                   struct dt_err *err)
{
    struct layers y;
    const struct dt_tensor *t;
    if (open_layers(&y, s, err) < 0)
        return -1;
    *count = 0;
    for (size_t i = 0; (t = next_layer(&y, &i));) {
        if (!is_target(l, t))
            continue;
        struct dt_lora_layer *to = &layers[(*count)++];
        to->which = t->which;
        path_of(&y, t, to->path);
        to->inner = inner_path(to->path);
        to->name = count_meant(&y, last_name(to->path)) == 1 ? last_name(to->path) : to->inner;
    }
    close_layers(&y);
    return 0;
}

void dt_lora_path(const struct dt_lora_layer *y, size_t block, char out[DT_LORA_PATH_MOST])
{
    int before = (int)(y->inner - y->path) - (int)strlen(".0.");
    snprintf(out, DT_LORA_PATH_MOST, "%.*s.%u.%s", before, y->path, (unsigned)block, y->inner);
}

int dt_lora_each_target(const struct dt_lora *l, const struct dt_shape *s,
                        void (*say)(void *arg, const char *name), void *arg, struct dt_err *err)
{
    struct dt_lora_layer layers[DT_BLOCK_TENSORS_MOST];
    size_t count;
    if (dt_lora_layers(l, s, layers, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        say(arg, layers[i].name);
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
static struct dt_lora_pair pair_of(const struct dt_lora *l, const struct dt_shape *s, size_t block,
                                   const struct dt_tensor *t, size_t at)
{
    size_t r = dt_lora_share(l, block, t->which).r;
    int by_in = s->family == DT_GPT2 ? 0 : 1;
    size_t in = t->dims[by_in], out = t->count / in;
    struct dt_tensor_part part;
    dt_shape_part(s, t, 1, 0, &part);
    return (struct dt_lora_pair){.tensor = t->which,
                                 .by_inputs = part.dim == by_in,
                                 .in = in,
                                 .out = out,
                                 .r = r,
                                 .scale = dt_lora_scale(l, block, t->which),
                                 .a_at = at,
                                 .b_at = at + r * in,
                                 .m_at = at + r * (in + out)};
}

/* Elements of all its tensors. */
static size_t pair_size(const struct dt_lora *l, const struct dt_lora_pair *p)
{
    return p->r * (p->in + p->out) + (l->dora ? p->out : 0);
}

int dt_lora_pairs(const struct dt_lora *l, const struct dt_shape *s, size_t block,
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
        struct dt_lora_pair p = pair_of(l, s, block, t, at);
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
    char path[DT_LORA_PATH_MOST];
    for (size_t i = 0; (t = next_layer(y, &i));) {
        if (!is_target(l, t))
            continue;
        struct dt_lora_pair p = pair_of(l, y->shape, block, t, at);
        const struct dt_tensor all[] = {
            {.dims = {p.r, p.in},
             .rank = 2,
             .offset = p.a_at,
             .init_bound = 1 / sqrtf((float)p.in)},
            {.dims = {p.out, p.r}, .rank = 2, .offset = p.b_at, .rate = l->plus_ratio},
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
    char path[DT_LORA_PATH_MOST];
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

size_t dt_lora_params(const struct dt_lora *l, const struct dt_shape *s)
{
    size_t count = 0, all = 0;
    struct dt_tensor *tensors = dt_lora_tensors(l, s, &count, NULL);
    for (size_t i = 0; tensors && i < count; i++)
        all += tensors[i].count;
    free(tensors);
    return all;
}
