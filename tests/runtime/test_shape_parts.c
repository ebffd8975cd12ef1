/* SPDX-License-Identifier: Apache-2.0 */
/* What of a tensor each of several ranks has. */
#include "tests/lib/check.h"
#include "worker_runtime/model/shape.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

static const struct dt_shape cut_shapes[] = {
    {DT_GPT2, 1, 4, 4, 8, 2, 11, 6, 13, 1e-5f, 0, 0.02f, .tied = true},
    {DT_GPT2, 1, 3, 3, 6, 2, 8, 6, 13, 1e-5f, 0, 0.02f, .tied = false},
    {DT_LLAMA, 1, 6, 2, 10, 4, 7, 6, 13, 1e-5f, 100, 0.02f, .tied = false},
    {DT_LLAMA, 1, 8, 4, 16, 2, 12, 6, 9, 1e-5f, 100, 0.02f, .tied = true},
    {DT_QWEN2, 1, 6, 2, 10, 4, 7, 6, 13, 1e-5f, 100, 0.02f, .qkv_bias = true},
    {DT_QWEN2, 1, 8, 2, 10, 4, 8, 6, 13, 1e-5f, 100, 0.02f, .qkv_bias = true},
    {DT_QWEN3, 1, 6, 2, 10, 4, 7, 6, 13, 1e-5f, 100, 0.02f, .qk_norm = true},
    {DT_GEMMA2, 1, 6, 2, 10, 4, 7, 6, 13, 1e-5f, 100, 0.02f, .tied = true, .branch_norms = true},
    {DT_QWEN2_MOE, 1, 6, 2, 10, 4, 7, 6, 13, 1e-5f, 100, 0.02f, .qkv_bias = true, .experts = 3,
     .expert_picks = 2, .expert_inner = 6, .shared_inner = 12},
};

static bool is_whole(const struct dt_tensor *t)
{
    const char *whole[] = {"ln_", "norm", "wpe", "c_proj.bias", "mlp.gate.", "shared_expert_gate"};
    for (size_t i = 0; i < ROWS(whole); i++)
        if (strstr(t->name, whole[i]))
            return true;
    return false;
}

/* How many of PARTS ranks have the same of T. */
static size_t holders_of(const struct dt_shape *s, const struct dt_tensor *t, size_t parts)
{
    bool keys = strstr(t->name, "k_proj") || strstr(t->name, "v_proj");
    if (is_whole(t))
        return parts;
    return keys && parts > s->kv_heads && s->heads % parts == 0 && parts % s->kv_heads == 0
               ? parts / s->kv_heads
               : 1;
}

/* Counts, for each index of the dimension that is cut, the parts that have it. */
static void count_holders(const struct dt_shape *s, const struct dt_tensor *t, size_t parts,
                          int *holders)
{
    for (size_t index = 0; index < parts; index++) {
        struct dt_tensor_part p;
        dt_shape_part(s, t, parts, index, &p);
        for (int i = 0; i < p.stretches; i++) {
            CHECK(p.stretch[i].from <= p.stretch[i].to && p.stretch[i].to <= t->dims[p.dim]);
            for (size_t at = p.stretch[i].from; at < p.stretch[i].to; at++)
                holders[at]++;
        }
    }
}

TEST(the_parts_of_a_tensor_add_up_to_it)
{
    for (size_t i = 0; i < ROWS(cut_shapes); i++) {
        const struct dt_shape *s = &cut_shapes[i];
        struct dt_tensor *tensors = dt_shape_tensors(s, NULL);
        for (const struct dt_tensor *t = tensors; t < tensors + dt_shape_tensor_count(s); t++) {
            for (size_t parts = 1; parts <= 9; parts++) {
                struct dt_tensor_part p;
                dt_shape_part(s, t, parts, 0, &p);
                int *holders = calloc(t->dims[p.dim], sizeof *holders);
                count_holders(s, t, parts, holders);
                for (size_t at = 0; at < t->dims[p.dim]; at++) {
                    CHECK_ROW("%s: %zu of %zu in %zu parts", t->name, at, t->dims[p.dim], parts);
                    CHECK_EQ(holders[at], holders_of(s, t, parts));
                    CHECK_EQ(p.copies, holders_of(s, t, parts));
                }
                free(holders);
            }
        }
        free(tensors);
    }
}

/* Walks through each part from run to run, and counts where they lead to, but for padding, of which
 * there is a row of words at most. */
static void count_runs(const struct dt_shape *s, const struct dt_tensor *t, size_t parts,
                       const struct dt_tensor *own, int *holders)
{
    for (size_t index = 0; index < parts; index++) {
        struct dt_tensor_part p;
        size_t run;
        dt_shape_part(s, t, parts, index, &p);
        for (size_t at = 0; at < own->count; at += run) {
            size_t there = dt_tensor_part_run(t, &p, at, &run);
            if (there == DT_PADDING) {
                CHECK_EQ(own->count - at, p.whole ? 0 : t->dims[1]);
                break;
            }
            CHECK(run > 0 && at + run <= own->count && there + run <= t->count);
            for (size_t i = 0; i < run; i++)
                holders[there + i]++;
        }
    }
}

/* A part has the tensors of a model that is cut as it is. */
TEST(the_runs_of_all_parts_are_the_tensor)
{
    for (size_t i = 0; i < ROWS(cut_shapes); i++) {
        const struct dt_shape *s = &cut_shapes[i];
        struct dt_tensor *tensors = dt_shape_tensors(s, NULL);
        for (size_t parts = 1; parts <= 4; parts++) {
            struct dt_shape cut;
            if (dt_shape_cut(s, parts, &cut, NULL) < 0)
                continue;
            struct dt_tensor *own = dt_shape_tensors(&cut, NULL);
            CHECK_EQ(dt_shape_tensor_count(&cut), dt_shape_tensor_count(s));
            for (size_t n = 0; n < dt_shape_tensor_count(s); n++) {
                const struct dt_tensor *t = &tensors[n];
                int *holders = calloc(t->count, sizeof *holders);
                size_t words = (s->vocabulary + parts - 1) / parts * s->width;
                bool of_words = t->dims[0] == s->vocabulary && t->rank == 2;
                CHECK_EQ(own[n].count, is_whole(t) ? t->count
                                       : of_words  ? words
                                                   : t->count / parts * holders_of(s, t, parts));
                count_runs(s, t, parts, &own[n], holders);
                for (size_t at = 0; at < t->count; at++) {
                    CHECK_ROW("%s: element %zu, %zu parts", t->name, at, parts);
                    CHECK_EQ(holders[at], holders_of(s, t, parts));
                }
                free(holders);
            }
            free(own);
        }
        free(tensors);
    }
}

TEST(what_cannot_be_cut_evenly_is_refused_with_what_can)
{
    static const struct {
        size_t heads, kv_heads, inner, parts, vocabulary; /* INNER: of each expert, too */
        size_t experts, shared_inner;
        const char *words;
    } rows[] = {
        {12, 12, 48, 8, 99, 0, 0,
         "12 heads cannot be cut by 8; this model can be cut by 2, 3, 4, 6 and 12"},
        {12, 2, 48, 3, 99, 0, 0,
         "2 key-value heads cannot be cut by 3; this model can be cut by 2, 4, 6 and 12"},
        {8, 8, 12, 8, 99, 0, 0,
         "12 numbers of inner width cannot be cut by 8; this model can be cut by 2 and 4"},
        {3, 1, 11, 3, 99, 0, 0,
         "11 numbers of inner width cannot be cut by 3; this model can be cut by nothing"},
        {4, 4, 12, 4, 3, 0, 0, "3 words cannot be cut by 4; this model can be cut by 2"},
        {8, 8, 12, 8, 99, 3, 32,
         "12 numbers of an expert's inner width cannot be cut by 8; this model can be cut by 2 "
         "and 4"},
        {8, 8, 16, 4, 99, 5, 6,
         "6 numbers of the shared expert's inner width cannot be cut by 4; this model can be cut "
         "by 2"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_shape s = {.heads = rows[i].heads,
                             .kv_heads = rows[i].kv_heads,
                             .inner = rows[i].inner,
                             .experts = rows[i].experts,
                             .expert_inner = rows[i].inner,
                             .shared_inner = rows[i].shared_inner,
                             .vocabulary = rows[i].vocabulary},
                        cut;
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].words);
        CHECK_FAIL(dt_shape_cut(&s, rows[i].parts, &cut, &err), err, rows[i].words);
    }
}

static struct dt_tensor_part part_of(const struct dt_shape *s, const struct dt_tensor *tensors,
                                     size_t which, size_t parts, size_t index)
{
    struct dt_tensor_part p = {0};
    for (const struct dt_tensor *t = tensors; t < tensors + dt_shape_tensor_count(s); t++)
        if (t->unit == 1 && t->which == which)
            dt_shape_part(s, t, parts, index, &p);
    return p;
}

#define CHECK_STRETCH(a, b) CHECK((a).from == (b).from && (a).to == (b).to)

/* What a column layer gives on a rank is what the row layer behind it takes there. */
TEST(what_a_rank_finds_it_goes_on_with)
{
    static const struct layers {
        size_t q, o, up, down;
        int column, row; /* the dimensions that are cut */
    } all[] = {
        {DT_GPT2_C_ATTN_WEIGHT, DT_GPT2_ATTN_PROJ_WEIGHT, DT_GPT2_C_FC_WEIGHT,
         DT_GPT2_MLP_PROJ_WEIGHT, 1, 0},
        {DT_LLAMA_Q, DT_LLAMA_O, DT_LLAMA_UP, DT_LLAMA_DOWN, 0, 1},
        {DT_LLAMA_Q, DT_LLAMA_O, DT_LLAMA_EXPERT_UP, DT_LLAMA_EXPERT_DOWN, 0, 1},
    };
    for (size_t i = 0; i < 2 * ROWS(cut_shapes); i++) {
        const struct dt_shape *s = &cut_shapes[i / 2];
        struct dt_tensor *tensors = dt_shape_tensors(s, NULL);
        const struct layers *layers = &all[s->experts ? 2 : s->family != DT_GPT2];
        struct dt_tensor_part q = part_of(s, tensors, layers->q, 2, i % 2);
        struct dt_tensor_part o = part_of(s, tensors, layers->o, 2, i % 2);
        struct dt_tensor_part up = part_of(s, tensors, layers->up, 2, i % 2);
        struct dt_tensor_part down = part_of(s, tensors, layers->down, 2, i % 2);
        CHECK_ROW("shape %zu, part %zu of 2", i / 2, i % 2);
        CHECK_STRETCH(q.stretch[0], o.stretch[0]);
        CHECK_STRETCH(up.stretch[0], down.stretch[0]);
        CHECK_EQ(q.dim, layers->column);
        CHECK_EQ(up.dim, layers->column);
        CHECK_EQ(o.dim, layers->row);
        CHECK_EQ(down.dim, layers->row);
        free(tensors);
    }
}

TEST(query_heads_are_with_the_keys_and_values_they_read)
{
    const struct dt_shape *llama_shape = &cut_shapes[3], *gpt2_shape = &cut_shapes[1];
    struct dt_tensor *tensors = dt_shape_tensors(llama_shape, NULL);
    /* Eight heads of two that read four, in three parts. */
    struct dt_tensor_part q = part_of(llama_shape, tensors, DT_LLAMA_Q, 3, 1);
    struct dt_tensor_part k = part_of(llama_shape, tensors, DT_LLAMA_K, 3, 1);
    CHECK_STRETCH(q.stretch[0], ((struct dt_dim_stretch){4, 8})); /* heads 2 and 3 */
    CHECK_STRETCH(k.stretch[0], ((struct dt_dim_stretch){2, 4})); /* which read 1 */
    free(tensors);
    /* Three heads of two, in two parts: one, and two of them. */
    tensors = dt_shape_tensors(gpt2_shape, NULL);
    struct dt_tensor_part qkv = part_of(gpt2_shape, tensors, DT_GPT2_C_ATTN_BIAS, 2, 1);
    CHECK_EQ(qkv.stretches, 3);
    CHECK_STRETCH(qkv.stretch[0], ((struct dt_dim_stretch){2, 6}));
    CHECK_STRETCH(qkv.stretch[1], ((struct dt_dim_stretch){8, 12}));
    CHECK_STRETCH(qkv.stretch[2], ((struct dt_dim_stretch){14, 18}));
    free(tensors);
    /* Eight heads of four that read two, in four parts: the last two parts read the second. */
    const struct dt_shape *shared = &cut_shapes[5];
    tensors = dt_shape_tensors(shared, NULL);
    for (size_t index = 2; index < 4; index++) {
        q = part_of(shared, tensors, DT_LLAMA_Q, 4, index);
        k = part_of(shared, tensors, DT_LLAMA_V_BIAS, 4, index);
        CHECK_STRETCH(q.stretch[0], ((struct dt_dim_stretch){8 * index, 8 * index + 8}));
        CHECK_STRETCH(k.stretch[0], ((struct dt_dim_stretch){4, 8}));
        CHECK_EQ(k.copies, 2);
    }
    free(tensors);
}
