/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors a model has: a table per family and kind of unit, one row a tensor. Names and
 * layouts are Hugging Face's, so a checkpoint opens there as it lies.
 *
 * A linear layer computes y = x W + b. GPT-2 stores its four W as [in, out]; a Llama, as torch's
 * Linear, as [out, in]. */
#include "worker_runtime/model/shape.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))

enum extent {
    ONE, /* behind another: there is no second dimension */
    WIDTH,
    INNER,
    HEADS,
    KV_HEADS,
    QKV,
    HEAD_DIM,
    POSITIONS,
    VOCABULARY,
    EXPERTS,
    EXPERT_INNER,
    SHARED_INNER,
};

enum start {
    NORMAL,   /* of the deviation initializer_range */
    RESIDUAL, /* the same by 1 / sqrt(2 layers): two of them add to the stream in each block, so
                 that it keeps its size */
    NEUTRAL,  /* a norm's weight that changes nothing: 1, or 0 where 1 is added to it */
    ZEROS
};

/* How a tensor is cut among ranks that share a block: a column layer by its outputs, a row layer by
 * its inputs, a matrix of words by the words. */
enum cut {
    WHOLE, /* each has all of it */
    DIM0,
    DIM1,
    QKV_DIM0, /* queries, keys and values lie one behind the other in it, and each is cut */
    QKV_DIM1,
};

enum need {
    ALWAYS,
    UNTIED,
    QKV_BIASES,
    QK_NORMS,
    TWO_NORMS,
    FOUR_NORMS,
    ONE_MLP,     /* the same for all tokens */
    ROUTED,      /* experts beside each other */
    EACH_EXPERT, /* the same, and there is a tensor for each of them, whose number is in the name */
    SHARED_EXPERT,
};

struct row {
    const char *name;
    enum extent dims[2];
    enum start start;
    enum cut cut;
    enum need need; /* which models have it */
};

/* clang-format off */
static const struct row gpt2_embed[] = {
    [DT_GPT2_WTE] = {"wte.weight", {VOCABULARY, WIDTH}, NORMAL, DIM0, ALWAYS},
    [DT_GPT2_WPE] = {"wpe.weight", {POSITIONS, WIDTH}, NORMAL, WHOLE, ALWAYS},
};
static const struct row gpt2_block[] = {
    [DT_GPT2_LN_1_WEIGHT] = {"ln_1.weight", {WIDTH}, NEUTRAL, WHOLE, ALWAYS},
    [DT_GPT2_LN_1_BIAS] = {"ln_1.bias", {WIDTH}, ZEROS, WHOLE, ALWAYS},
    [DT_GPT2_C_ATTN_WEIGHT] = {"attn.c_attn.weight", {WIDTH, QKV}, NORMAL, QKV_DIM1, ALWAYS},
    [DT_GPT2_C_ATTN_BIAS] = {"attn.c_attn.bias", {QKV}, ZEROS, QKV_DIM0, ALWAYS},
    [DT_GPT2_ATTN_PROJ_WEIGHT] = {"attn.c_proj.weight", {HEADS, WIDTH}, RESIDUAL, DIM0, ALWAYS},
    [DT_GPT2_ATTN_PROJ_BIAS] = {"attn.c_proj.bias", {WIDTH}, ZEROS, WHOLE, ALWAYS},
    [DT_GPT2_LN_2_WEIGHT] = {"ln_2.weight", {WIDTH}, NEUTRAL, WHOLE, ALWAYS},
    [DT_GPT2_LN_2_BIAS] = {"ln_2.bias", {WIDTH}, ZEROS, WHOLE, ALWAYS},
    [DT_GPT2_C_FC_WEIGHT] = {"mlp.c_fc.weight", {WIDTH, INNER}, NORMAL, DIM1, ALWAYS},
    [DT_GPT2_C_FC_BIAS] = {"mlp.c_fc.bias", {INNER}, ZEROS, DIM0, ALWAYS},
    [DT_GPT2_MLP_PROJ_WEIGHT] = {"mlp.c_proj.weight", {INNER, WIDTH}, RESIDUAL, DIM0, ALWAYS},
    [DT_GPT2_MLP_PROJ_BIAS] = {"mlp.c_proj.bias", {WIDTH}, ZEROS, WHOLE, ALWAYS},
};
static const struct row gpt2_head[] = {
    [DT_GPT2_LN_F_WEIGHT] = {"ln_f.weight", {WIDTH}, NEUTRAL, WHOLE, ALWAYS},
    [DT_GPT2_LN_F_BIAS] = {"ln_f.bias", {WIDTH}, ZEROS, WHOLE, ALWAYS},
    [DT_GPT2_LM_HEAD] = {"lm_head.weight", {VOCABULARY, WIDTH}, NORMAL, DIM0, UNTIED},
};

static const struct row llama_embed[] = {
    [DT_LLAMA_EMBED_TOKENS] = {"embed_tokens.weight", {VOCABULARY, WIDTH}, NORMAL, DIM0, ALWAYS},
};
static const struct row llama_block[] = {
    [DT_LLAMA_INPUT_NORM] = {"input_layernorm.weight", {WIDTH}, NEUTRAL, WHOLE, ALWAYS},
    [DT_LLAMA_Q] = {"self_attn.q_proj.weight", {HEADS, WIDTH}, NORMAL, DIM0, ALWAYS},
    [DT_LLAMA_K] = {"self_attn.k_proj.weight", {KV_HEADS, WIDTH}, NORMAL, DIM0, ALWAYS},
    [DT_LLAMA_V] = {"self_attn.v_proj.weight", {KV_HEADS, WIDTH}, NORMAL, DIM0, ALWAYS},
    [DT_LLAMA_Q_BIAS] = {"self_attn.q_proj.bias", {HEADS}, ZEROS, DIM0, QKV_BIASES},
    [DT_LLAMA_K_BIAS] = {"self_attn.k_proj.bias", {KV_HEADS}, ZEROS, DIM0, QKV_BIASES},
    [DT_LLAMA_V_BIAS] = {"self_attn.v_proj.bias", {KV_HEADS}, ZEROS, DIM0, QKV_BIASES},
    [DT_LLAMA_Q_NORM] = {"self_attn.q_norm.weight", {HEAD_DIM}, NEUTRAL, WHOLE, QK_NORMS},
    [DT_LLAMA_K_NORM] = {"self_attn.k_norm.weight", {HEAD_DIM}, NEUTRAL, WHOLE, QK_NORMS},
    [DT_LLAMA_O] = {"self_attn.o_proj.weight", {WIDTH, HEADS}, NORMAL, DIM1, ALWAYS},
    [DT_LLAMA_POST_NORM] = {"post_attention_layernorm.weight", {WIDTH}, NEUTRAL, WHOLE, TWO_NORMS},
    [DT_LLAMA_GATE] = {"mlp.gate_proj.weight", {INNER, WIDTH}, NORMAL, DIM0, ONE_MLP},
    [DT_LLAMA_UP] = {"mlp.up_proj.weight", {INNER, WIDTH}, NORMAL, DIM0, ONE_MLP},
    [DT_LLAMA_DOWN] = {"mlp.down_proj.weight", {WIDTH, INNER}, NORMAL, DIM1, ONE_MLP},
    [DT_LLAMA_ATTENTION_OUT_NORM] = {"post_attention_layernorm.weight", {WIDTH}, NEUTRAL, WHOLE, FOUR_NORMS},
    [DT_LLAMA_MLP_IN_NORM] = {"pre_feedforward_layernorm.weight", {WIDTH}, NEUTRAL, WHOLE, FOUR_NORMS},
    [DT_LLAMA_MLP_OUT_NORM] = {"post_feedforward_layernorm.weight", {WIDTH}, NEUTRAL, WHOLE, FOUR_NORMS},
    [DT_LLAMA_ROUTER] = {"mlp.gate.weight", {EXPERTS, WIDTH}, NORMAL, WHOLE, ROUTED},
    [DT_LLAMA_EXPERT_GATE] = {"mlp.experts.%zu.gate_proj.weight", {EXPERT_INNER, WIDTH}, NORMAL, DIM0, EACH_EXPERT},
    [DT_LLAMA_EXPERT_UP] = {"mlp.experts.%zu.up_proj.weight", {EXPERT_INNER, WIDTH}, NORMAL, DIM0, EACH_EXPERT},
    [DT_LLAMA_EXPERT_DOWN] = {"mlp.experts.%zu.down_proj.weight", {WIDTH, EXPERT_INNER}, NORMAL, DIM1, EACH_EXPERT},
    [DT_LLAMA_SHARED_SWITCH] = {"mlp.shared_expert_gate.weight", {ONE, WIDTH}, NORMAL, WHOLE, SHARED_EXPERT},
    [DT_LLAMA_SHARED_GATE] = {"mlp.shared_expert.gate_proj.weight", {SHARED_INNER, WIDTH}, NORMAL, DIM0, SHARED_EXPERT},
    [DT_LLAMA_SHARED_UP] = {"mlp.shared_expert.up_proj.weight", {SHARED_INNER, WIDTH}, NORMAL, DIM0, SHARED_EXPERT},
    [DT_LLAMA_SHARED_DOWN] = {"mlp.shared_expert.down_proj.weight", {WIDTH, SHARED_INNER}, NORMAL, DIM1, SHARED_EXPERT},
};
/* What a Mixtral has under another name. */
#define MIXTRAL "block_sparse_moe."
static const char *const mixtral_names[DT_LLAMA_BLOCK_TENSORS] = {
    [DT_LLAMA_ROUTER] = MIXTRAL "gate.weight",
    [DT_LLAMA_EXPERT_GATE] = MIXTRAL "experts.%zu.w1.weight",
    [DT_LLAMA_EXPERT_UP] = MIXTRAL "experts.%zu.w3.weight",
    [DT_LLAMA_EXPERT_DOWN] = MIXTRAL "experts.%zu.w2.weight",
};
static const struct row llama_head[] = {
    [DT_LLAMA_NORM] = {"norm.weight", {WIDTH}, NEUTRAL, WHOLE, ALWAYS},
    [DT_LLAMA_LM_HEAD] = {"lm_head.weight", {VOCABULARY, WIDTH}, NORMAL, DIM0, UNTIED},
};
/* clang-format on */

_Static_assert(ROWS(gpt2_block) == DT_GPT2_BLOCK_TENSORS, "a row for each");
_Static_assert(ROWS(llama_block) == DT_LLAMA_BLOCK_TENSORS, "a row for each");
_Static_assert(DT_GPT2_BLOCK_TENSORS <= DT_BLOCK_TENSORS_MOST, "room for each");
_Static_assert(DT_LLAMA_BLOCK_TENSORS <= DT_BLOCK_TENSORS_MOST, "room for each");

struct table {
    const struct row *rows;
    size_t count;
};

static struct table table_of(const struct dt_shape *s, size_t unit)
{
    bool gpt2 = s->family == DT_GPT2;
    if (unit == 0)
        return gpt2 ? (struct table){gpt2_embed, ROWS(gpt2_embed)}
                    : (struct table){llama_embed, ROWS(llama_embed)};
    if (unit <= s->layers)
        return gpt2 ? (struct table){gpt2_block, ROWS(gpt2_block)}
                    : (struct table){llama_block, ROWS(llama_block)};
    return gpt2 ? (struct table){gpt2_head, ROWS(gpt2_head)}
                : (struct table){llama_head, ROWS(llama_head)};
}

static bool has(const struct dt_shape *s, const struct row *row)
{
    switch (row->need) {
    case ALWAYS:
        return true;
    case UNTIED: /* a tied head is the embedding */
        return !s->tied;
    case QKV_BIASES:
        return s->qkv_bias;
    case QK_NORMS:
        return s->qk_norm;
    case TWO_NORMS:
        return !s->branch_norms;
    case FOUR_NORMS:
        return s->branch_norms;
    case ONE_MLP:
        return s->experts == 0;
    case ROUTED:
    case EACH_EXPERT:
        return s->experts > 0;
    case SHARED_EXPERT:
        return s->shared_inner > 0;
    }
    return false;
}

/* Tensors of a row. */
static size_t many(const struct dt_shape *s, const struct row *row)
{
    return row->need == EACH_EXPERT ? dt_shape_own_experts(s) : has(s, row);
}

static size_t extent(const struct dt_shape *s, enum extent e)
{
    const size_t sizes[] = {
        [ONE] = 1,
        [WIDTH] = s->width,
        [INNER] = s->inner,
        [HEADS] = s->heads * s->head_dim,
        [KV_HEADS] = s->kv_heads * s->head_dim,
        [QKV] = (s->heads + 2 * s->kv_heads) * s->head_dim,
        [HEAD_DIM] = s->head_dim,
        [POSITIONS] = s->positions,
        [VOCABULARY] = s->vocabulary,
        [EXPERTS] = s->experts,
        [EXPERT_INNER] = s->expert_inner,
        [SHARED_INNER] = s->shared_inner,
    };
    return sizes[e];
}

static size_t unit_elements(const struct dt_shape *s, size_t unit)
{
    struct table t = table_of(s, unit);
    size_t n = 0;
    for (const struct row *row = t.rows; row < t.rows + t.count; row++)
        n += many(s, row) * extent(s, row->dims[0]) * extent(s, row->dims[1]);
    return n;
}

static size_t unit_tensors(const struct dt_shape *s, size_t unit)
{
    struct table t = table_of(s, unit);
    size_t n = 0;
    for (const struct row *row = t.rows; row < t.rows + t.count; row++)
        n += many(s, row);
    return n;
}

size_t dt_shape_unit_count(const struct dt_shape *s)
{
    assert(s->layers <= DT_LAYERS_MOST);
    return s->layers + 2;
}

size_t dt_shape_params(const struct dt_shape *s)
{
    return unit_elements(s, 0) + s->layers * unit_elements(s, 1) + unit_elements(s, s->layers + 1);
}

size_t dt_shape_active_params(const struct dt_shape *s)
{
    size_t idle = s->experts - s->expert_picks;
    return dt_shape_params(s) - s->layers * idle * 3 * s->expert_inner * s->width;
}

size_t dt_shape_tensor_count(const struct dt_shape *s)
{
    /* gcc 14 minds a sum that wraps around */
    assert(s->layers <= DT_LAYERS_MOST && s->experts <= DT_EXPERTS_MOST);
    return unit_tensors(s, 0) + s->layers * unit_tensors(s, 1) + unit_tensors(s, s->layers + 1);
}

static void set_unit_name(struct dt_tensor *t, const struct dt_shape *s)
{
    if (t->unit > 0 && t->unit <= s->layers)
        snprintf(t->unit_name, sizeof t->unit_name, "block.%u", (unsigned)(t->unit - 1));
    else
        snprintf(t->unit_name, sizeof t->unit_name, t->unit == 0 ? "embed" : "head");
}

/* Behind that of the unit. */
static void put_own_name(const struct dt_tensor *t, const struct dt_shape *s, const struct row *row,
                         char *out, size_t size)
{
    bool block = t->unit > 0 && t->unit <= s->layers;
    const char *other = s->family == DT_MIXTRAL && block ? mixtral_names[t->which] : NULL;
    const char *name = other ? other : row->name;
    const char *number = row->need == EACH_EXPERT ? strstr(name, "%zu") : NULL;
    if (number)
        snprintf(out, size, "%.*s%zu%s", (int)(number - name), name, t->expert, number + 3);
    else
        snprintf(out, size, "%s", name);
}

static void set_name(struct dt_tensor *t, const struct dt_shape *s, const struct row *row)
{
    bool gpt2 = s->family == DT_GPT2;
    char name[48];
    put_own_name(t, s, row, name, sizeof name);
    const char *prefix = !gpt2 ? "model." : s->tied ? "" : "transformer.";
    if (t->unit == s->layers + 1 && t->which == (gpt2 ? DT_GPT2_LM_HEAD : DT_LLAMA_LM_HEAD))
        prefix = "";
    if (t->unit > 0 && t->unit <= s->layers)
        snprintf(t->name, sizeof t->name, "%s%s.%zu.%s", prefix, gpt2 ? "h" : "layers", t->unit - 1,
                 name);
    else
        snprintf(t->name, sizeof t->name, "%s%s", prefix, name);
}

static void set_start(struct dt_tensor *t, const struct dt_shape *s, enum start start)
{
    if (start == NORMAL)
        t->init_std = s->init_std;
    if (start == RESIDUAL)
        t->init_std = s->init_std / sqrtf(2 * (float)s->layers);
    if (start == NEUTRAL)
        t->init_value = 1 - dt_shape_norm_plus(s);
}

static void put_tensor(struct dt_tensor *t, const struct dt_shape *s, const struct row *row)
{
    t->dims[0] = extent(s, row->dims[0]);
    t->dims[1] = extent(s, row->dims[1]);
    t->rank = row->dims[1] == ONE ? 1 : 2;
    t->count = t->dims[0] * t->dims[1];
    t->decay = t->rank == 2;
    set_unit_name(t, s);
    set_name(t, s, row);
    set_start(t, s, row->start);
}

/* Returns where the next unit's go. */
static struct dt_tensor *put_unit(struct dt_tensor *t, const struct dt_shape *s, size_t unit)
{
    struct table table = table_of(s, unit);
    size_t index = 0, offset = 0;
    for (size_t i = 0; i < table.count; i++) {
        const struct row *row = &table.rows[i];
        for (size_t expert = 0; expert < many(s, row); expert++) {
            t->unit = unit;
            t->index = index++;
            t->which = i;
            t->expert = expert;
            t->offset = offset;
            put_tensor(t, s, row);
            offset += t++->count;
        }
    }
    return t;
}

struct dt_tensor *dt_shape_tensors(const struct dt_shape *s, struct dt_err *err)
{
    struct dt_tensor *tensors = calloc(dt_shape_tensor_count(s), sizeof *tensors);
    struct dt_tensor *t = tensors;
    if (!tensors) {
        dt_err_set(err, DT_E_MEMORY, "no memory for the names of %zu tensors",
                   dt_shape_tensor_count(s));
        return NULL;
    }
    for (size_t unit = 0; unit < dt_shape_unit_count(s); unit++)
        t = put_unit(t, s, unit);
    return tensors;
}

int dt_tensor_units(const struct dt_tensor *tensors, size_t count, size_t unit_count,
                    struct dt_unit **units, struct dt_param **params, struct dt_err *err)
{
    *units = calloc(unit_count, sizeof **units);
    *params = calloc(count, sizeof **params);
    if (!*units || !*params) {
        free(*units);
        free(*params);
        *units = NULL;
        *params = NULL;
        return dt_err_set(err, DT_E_MEMORY, "no memory for a table of %zu tensors", count);
    }
    for (size_t i = 0; i < count; i++) {
        struct dt_unit *u = &(*units)[tensors[i].unit];
        (*params)[i] = (struct dt_param){tensors[i].name, tensors[i].count, tensors[i].decay};
        if (u->param_count++ == 0)
            *u = (struct dt_unit){tensors[i].unit_name, &(*params)[i], 1};
    }
    return 0;
}

int dt_shape_units(const struct dt_shape *s, const struct dt_tensor *tensors,
                   struct dt_unit **units, struct dt_param **params, struct dt_err *err)
{
    return dt_tensor_units(tensors, dt_shape_tensor_count(s), dt_shape_unit_count(s), units, params,
                           err);
}

/* How many of PARTS ranks behind each other have the same key/value head, as there are more ranks,
 * and each has some of the query heads that read it. */
static size_t kv_copies(const struct dt_shape *s, size_t parts)
{
    bool shared = parts > s->kv_heads && parts % s->kv_heads == 0 && s->heads % parts == 0;
    return shared ? parts / s->kv_heads : 1;
}

/* What may not be torn apart: a head; and if each rank has key/value heads of its own, one of these
 * with the query heads that read it. */
static size_t grain_of(const struct dt_shape *s, enum extent e, size_t parts)
{
    if (e == HEADS)
        return kv_copies(s, parts) > 1 ? s->head_dim : s->heads / s->kv_heads * s->head_dim;
    return e == KV_HEADS ? s->head_dim : 1;
}

/* Part INDEX of PARTS of an extent that begins at AT. */
static struct dt_dim_stretch cut_extent(const struct dt_shape *s, enum extent e, size_t at,
                                        size_t parts, size_t index)
{
    size_t grain = grain_of(s, e, parts), grains = extent(s, e) / grain;
    size_t copies = e == KV_HEADS ? kv_copies(s, parts) : 1;
    parts /= copies;
    index /= copies;
    return (struct dt_dim_stretch){at + grains * index / parts * grain,
                                   at + grains * (index + 1) / parts * grain};
}

static void cut_qkv(const struct dt_shape *s, size_t parts, size_t index, struct dt_tensor_part *p)
{
    static const enum extent inside[] = {HEADS, KV_HEADS, KV_HEADS};
    size_t at = 0;
    for (p->stretches = 0; p->stretches < 3; p->stretches++) {
        enum extent e = inside[p->stretches];
        p->stretch[p->stretches] = cut_extent(s, e, at, parts, index);
        at += extent(s, e);
    }
}

void dt_shape_part(const struct dt_shape *s, const struct dt_tensor *t, size_t parts, size_t index,
                   struct dt_tensor_part *out)
{
    const struct row *row = &table_of(s, t->unit).rows[t->which];
    assert(index < parts);
    *out = (struct dt_tensor_part){.dim = row->cut == DIM1 || row->cut == QKV_DIM1,
                                   .whole = row->cut == WHOLE || parts == 1,
                                   .copies = row->cut == WHOLE ? parts : 1,
                                   .stretches = 1,
                                   .stretch = {{0, t->dims[0]}}};
    if (row->dims[0] == KV_HEADS)
        out->copies = kv_copies(s, parts);
    if (row->cut == DIM0 || row->cut == DIM1)
        out->stretch[0] = cut_extent(s, row->dims[out->dim], 0, parts, index);
    else if (row->cut != WHOLE)
        cut_qkv(s, parts, index, out);
}

bool dt_shape_is_of_expert(const struct dt_shape *s, const struct dt_tensor *t)
{
    return table_of(s, t->unit).rows[t->which].need == EACH_EXPERT;
}

void dt_shape_keep_experts(const struct dt_shape *s, size_t parts, size_t index,
                           struct dt_tensor *tensors)
{
    size_t own = s->experts / parts, count = dt_shape_tensor_count(s), at = 0;
    for (struct dt_tensor *t = tensors; t < tensors + count; t++) {
        at = t->index == 0 ? 0 : at;
        if (dt_shape_is_of_expert(s, t) && t->expert / own != index)
            t->count = t->dims[0] = 0;
        t->offset = at;
        at += t->count;
    }
}

size_t dt_tensor_part_run(const struct dt_tensor *t, const struct dt_tensor_part *p, size_t at,
                          size_t *count)
{
    size_t across = p->dim == 0 ? t->dims[1] : 1, width = 0; /* of the part; ACROSS: of its grain */
    for (int i = 0; i < p->stretches; i++)
        width += p->stretch[i].to - p->stretch[i].from;
    /* Cut along dim 0 the tensor is one row of grains; along dim 1 each row has its own. */
    size_t row = p->dim == 0 ? 0 : at / width, grain = p->dim == 0 ? at / across : at % width;
    size_t within = p->dim == 0 ? at % across : 0;
    for (int i = 0; i < p->stretches; i++) {
        const struct dt_dim_stretch *s = &p->stretch[i];
        size_t grains = s->to - s->from;
        if (grain < grains) {
            *count = (grains - grain) * across - within;
            return row * t->dims[1] + (s->from + grain) * across + within;
        }
        grain -= grains;
    }
    *count = SIZE_MAX;
    return DT_PADDING;
}

struct dt_words dt_shape_words(const struct dt_shape *s, size_t parts, size_t index)
{
    struct dt_dim_stretch own = cut_extent(s, VOCABULARY, 0, parts, index);
    return (struct dt_words){.parts = parts, .from = own.from, .to = own.to, .all = s->vocabulary};
}

/* What keeps a block of S from being cut in PARTS; NULL: nothing does. *COUNT: how many there are
 * of it. */
typedef const char *in_the_way_fn(const struct dt_shape *s, size_t parts, size_t *count);

static const char *experts_in_the_way(const struct dt_shape *s, size_t parts, size_t *count)
{
    *count = s->experts;
    return s->experts % parts ? "experts" : NULL;
}

static const char *tensors_in_the_way(const struct dt_shape *s, size_t parts, size_t *count)
{
    *count = s->heads;
    if (s->heads % parts)
        return "heads";
    *count = s->kv_heads;
    if (s->kv_heads % parts && parts % s->kv_heads)
        return "key-value heads";
    *count = s->experts ? s->expert_inner : s->inner;
    if (*count % parts)
        return s->experts ? "numbers of an expert's inner width" : "numbers of inner width";
    *count = s->shared_inner;
    if (s->shared_inner % parts)
        return "numbers of the shared expert's inner width";
    *count = s->vocabulary;
    return s->vocabulary < parts ? "words" : NULL;
}

/* "2, 3 and 6": what S can be cut by, but for 1. */
static void put_parts(const struct dt_shape *s, in_the_way_fn *in_the_way, struct dt_buf *out)
{
    size_t last = 0, count;
    const char *between = "";
    for (size_t n = 2; n <= s->heads || n <= s->experts; n++) {
        if (in_the_way(s, n, &count))
            continue;
        if (last)
            dt_buf_printf(out, "%s%zu", between, last);
        between = last ? ", " : between;
        last = n;
    }
    if (last)
        dt_buf_printf(out, "%s%zu", out->len ? " and " : "", last);
    else
        dt_buf_put_str(out, "nothing");
}

static int check_cut(const struct dt_shape *s, in_the_way_fn *in_the_way, size_t parts,
                     struct dt_err *err)
{
    size_t count;
    const char *what = in_the_way(s, parts, &count);
    struct dt_buf can = {0};
    if (!what)
        return 0;
    put_parts(s, in_the_way, &can);
    dt_err_set(err, DT_E_USAGE, "%zu %s cannot be cut by %zu; this model can be cut by %s", count,
               what, parts, dt_buf_cstr(&can));
    dt_buf_finish(&can);
    return -1;
}

int dt_shape_share_experts(const struct dt_shape *s, size_t parts, struct dt_shape *out,
                           struct dt_err *err)
{
    if (check_cut(s, experts_in_the_way, parts, err) < 0)
        return -1;
    *out = *s;
    out->expert_parts = parts;
    return 0;
}

int dt_shape_cut(const struct dt_shape *s, size_t parts, struct dt_shape *out, struct dt_err *err)
{
    if (check_cut(s, tensors_in_the_way, parts, err) < 0)
        return -1;
    *out = *s;
    out->heads /= parts;
    out->kv_heads = s->kv_heads % parts ? 1 : s->kv_heads / parts;
    out->inner /= parts;
    out->expert_inner /= parts;
    out->shared_inner /= parts;
    out->vocabulary = (s->vocabulary + parts - 1) / parts;
    return 0;
}
