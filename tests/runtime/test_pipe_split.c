/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/pipeline/split.h"

static const struct dt_shape gpt2 = {.family = DT_GPT2,
                                     .layers = 12,
                                     .heads = 12,
                                     .kv_heads = 12,
                                     .width = 768,
                                     .head_dim = 64,
                                     .inner = 3072,
                                     .positions = 1024,
                                     .vocabulary = 50257,
                                     .tied = true};
static const struct dt_shape llama_8b = {.family = DT_LLAMA,
                                         .layers = 32,
                                         .heads = 32,
                                         .kv_heads = 8,
                                         .width = 4096,
                                         .head_dim = 128,
                                         .inner = 14336,
                                         .positions = 8192,
                                         .vocabulary = 128256};

static struct dt_pipe_unit *units_of(const struct dt_shape *s, size_t positions, bool recompute)
{
    struct dt_err err = {0};
    struct dt_pipe_unit *units = dt_pipe_units(s, positions, recompute, &err);
    CHECK_OK(units ? 0 : -1, err);
    return units;
}

static double time_of(const struct dt_pipe_unit *u)
{
    return u->forward + u->input + u->weight;
}

/* By hand: 12 C^2 weights of matrices, 2 of a token's operations each, three times; attention reads
 * half of the positions, two products forward and five back. */
TEST(a_unit_costs_what_its_products_do)
{
    const double block = 12.0 * 768 * 768, pairs = 1024.0 * 1025 / 2;
    struct dt_pipe_unit *u = units_of(&gpt2, 1024, false);
    CHECK(time_of(&u[0]) == 0);
    CHECK(u[0].params == (50257.0 + 1024) * 768);
    CHECK(u[1].forward == 2 * block * 1024 + 4 * 768 * pairs);
    CHECK(u[1].weight == 2 * block * 1024);
    CHECK(time_of(&u[1]) == 6 * block * 1024 + 14 * 768 * pairs);
    CHECK(u[1].kept == 10.0 * 768 * 1024);
    CHECK(u[1].params == block + 13 * 768);
    CHECK(time_of(&u[13]) == 6.0 * 50257 * 768 * 1024);
    CHECK(u[13].params == (50257 + 2) * 768.0);
    free(u);
    u = units_of(&gpt2, 1024, true);
    CHECK(u[1].input == 4 * block * 1024 + (4 + 10) * 768 * pairs);
    CHECK(u[1].kept == 768.0 * 1024);
    free(u);
    u = units_of(&llama_8b, 8192, false);
    CHECK(u[1].kept == (2 * 4096.0 + 2 * 1024 + 2 * 4096 + 2 * 14336) * 8192);
    CHECK(u[33].params == (128256.0 + 1) * 4096);
    free(u);
    struct dt_shape moe = llama_8b;
    moe.family = DT_QWEN2_MOE;
    moe.experts = 64;
    moe.expert_picks = 8;
    moe.expert_inner = 768;
    moe.shared_inner = 3072;
    u = units_of(&moe, 8192, false);
    CHECK(u[1].kept == (2 * 4096.0 + 2 * 1024 + 2 * 4096 + 2 * (8 * 768 + 3072)) * 8192);
    free(u);
}

/* A layer with a window costs what its tokens read. */
TEST(a_window_makes_a_block_cheaper)
{
    struct dt_shape s = llama_8b;
    s.family = DT_MISTRAL;
    s.window = 4;
    struct dt_pipe_unit *u = units_of(&s, 8, false);
    CHECK(u[1].forward - u[1].weight == 4 * 4096.0 * (1 + 2 + 3 + 4 * 5));
    free(u);
}

static const char *split_text(const struct dt_shape *s, struct dt_pipe_plan p, char text[100])
{
    struct dt_err err = {0};
    struct dt_pipe_unit *u = units_of(s, s->positions, false);
    size_t first[20], len = 0;
    CHECK_OK(dt_pipe_split(&p, u, s->layers, 1, first, &err), err);
    CHECK_EQ(first[0], 0);
    for (size_t q = 0; q < (size_t)(p.stages * p.chunks); q++)
        len +=
            (size_t)snprintf(text + len, 100 - len, "%s%zu", q ? " " : "", first[q + 1] - first[q]);
    free(u);
    return text;
}

/* The head of the small GPT-2 is worth more than four blocks, that of the Llama more than one. */
TEST(the_stage_with_the_head_has_fewer_blocks)
{
    static const struct {
        const struct dt_shape *shape;
        struct dt_pipe_plan plan;
        const char *blocks;
    } rows[] = {
        {&gpt2, {DT_PIPE_1F1B, 1, 1, 8}, "12"},
        {&gpt2, {DT_PIPE_1F1B, 2, 1, 8}, "8 4"},
        {&gpt2, {DT_PIPE_1F1B, 3, 1, 8}, "5 6 1"},
        {&gpt2, {DT_PIPE_1F1B, 12, 1, 12}, "1 1 1 1 1 1 1 1 1 1 1 1"},
        {&llama_8b, {DT_PIPE_1F1B, 2, 1, 8}, "17 15"},
        {&llama_8b, {DT_PIPE_1F1B, 4, 1, 8}, "8 9 9 6"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[100];
        CHECK_ROW("row %zu", i);
        CHECK_STR(split_text(rows[i].shape, rows[i].plan, text), rows[i].blocks);
    }
}

/* Sections may be less even than stages: of the small GPT-2 each has as much as 8.4 blocks, and
 * the section with the head alone can have no less than 5.8. */
TEST(chunks_make_stages_even)
{
    static const struct {
        const struct dt_shape *shape;
        struct dt_pipe_plan plan;
        const char *blocks;
    } rows[] = {
        {&gpt2, {DT_PIPE_INTERLEAVED, 2, 2, 8}, "3 3 5 1"},
        {&gpt2, {DT_PIPE_INTERLEAVED, 2, 6, 8}, "1 1 1 1 1 1 1 1 1 1 1 1"},
        {&gpt2, {DT_PIPE_INTERLEAVED, 3, 2, 9}, "4 4 1 1 1 1"},
        {&llama_8b, {DT_PIPE_INTERLEAVED, 4, 2, 8}, "4 4 4 4 5 4 5 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[100];
        CHECK_ROW("row %zu", i);
        CHECK_STR(split_text(rows[i].shape, rows[i].plan, text), rows[i].blocks);
    }
}

struct sizes {
    double time, memory;
};

static double most(double a, double b)
{
    return a > b ? a : b;
}

static bool is_less(struct sizes a, struct sizes b)
{
    return a.time < b.time || (a.time == b.time && a.memory < b.memory);
}

/* Of the slowest, and of the largest, stage. */
static struct sizes sizes_of(const struct dt_pipe_plan *p, const struct dt_pipe_unit *u,
                             size_t layers, size_t samples, const size_t *first)
{
    struct sizes all = {0, 0};
    for (size_t q = 0; q < (size_t)p->stages; q++) {
        struct sizes own = {0, 0};
        double slots = dt_pipe_slots(p, (int)q);
        size_t end = q == (size_t)p->stages - 1 ? layers + 2 : first[q + 1] + 1;
        for (size_t i = q == 0 ? 0 : first[q] + 1; i < end; i++) {
            own.time += time_of(&u[i]);
            own.memory += 4 * u[i].params + u[i].kept * (double)samples * slots;
        }
        all.time = most(all.time, own.time);
        all.memory = most(all.memory, own.memory);
    }
    return all;
}

/* All ways to put borders into FIRST[Q ...]. */
static void try_all(const struct dt_pipe_plan *p, const struct dt_pipe_unit *u, size_t layers,
                    size_t samples, size_t *first, size_t q, struct sizes *best)
{
    size_t left = (size_t)p->stages - q;
    if (left == 0) {
        struct sizes s = sizes_of(p, u, layers, samples, first);
        *best = is_less(s, *best) ? s : *best;
        return;
    }
    for (size_t at = first[q - 1] + 1; at + left <= layers; at++) {
        first[q] = at;
        try_all(p, u, layers, samples, first, q + 1, best);
    }
}

static unsigned next_number(unsigned *state)
{
    *state = *state * 1103515245 + 12345;
    return *state >> 16 & 0x7fff;
}

/* Few different costs make many ties; all are whole, so that sums are exact in any order. */
TEST(no_other_way_is_better)
{
    unsigned state = 7;
    for (int story = 0; story < 300; story++) {
        struct dt_pipe_unit u[12] = {{0}};
        size_t layers = 1 + next_number(&state) % 10, first[12] = {0}, samples = 1 + story % 3;
        struct dt_pipe_plan p = {.schedule = story % 2 ? DT_PIPE_1F1B : DT_PIPE_GPIPE,
                                 .stages = 1 + (int)(next_number(&state) % layers),
                                 .chunks = 1,
                                 .micros = 1 + story % 7};
        struct dt_err err = {0};
        for (size_t i = 0; i < layers + 2; i++)
            u[i] = (struct dt_pipe_unit){.forward = next_number(&state) % 3,
                                         .input = 1 + next_number(&state) % 2,
                                         .weight = 1,
                                         .params = next_number(&state) % 4,
                                         .kept = next_number(&state) % 5};
        struct sizes best = {1e9, 1e9};
        CHECK_ROW("story %d: %zu layers, %d stages", story, layers, p.stages);
        first[p.stages] = layers;
        try_all(&p, u, layers, samples, first, 1, &best);
        CHECK_OK(dt_pipe_split(&p, u, layers, samples, first, &err), err);
        struct sizes found = sizes_of(&p, u, layers, samples, first);
        CHECK(found.time == best.time);
        CHECK(found.memory == best.memory);
    }
}

TEST(each_stage_wants_a_block)
{
    struct dt_pipe_plan deep = {DT_PIPE_1F1B, 13, 1, 16};
    struct dt_pipe_unit *u = units_of(&gpt2, 1024, false);
    struct dt_err err = {0};
    size_t first[20];
    CHECK_FAIL(dt_pipe_split(&deep, u, 12, 1, first, &err), err,
               "a pipeline of 13 stages takes a model of as many blocks at least, and this one has "
               "12");
    struct dt_pipe_plan many = {DT_PIPE_INTERLEAVED, 2, 7, 16};
    CHECK_FAIL(dt_pipe_split(&many, u, 12, 1, first, &err), err,
               "a pipeline of 2 stages with 7 chunks each takes a model of 14 blocks at least, and "
               "this one has 12");
    free(u);
}
