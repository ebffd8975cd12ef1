/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/pipeline/simulate.h"

/* Lists worked out by hand: F, B, I and W with the micro-batch, and behind a point the chunk. */
static const struct {
    struct dt_pipe_plan plan;
    int stage;
    const char *list;
} lists[] = {
    {{DT_PIPE_GPIPE, 2, 1, 3}, 0, "F0 F1 F2 B0 B1 B2"},
    {{DT_PIPE_GPIPE, 2, 1, 3}, 1, "F0 F1 F2 B0 B1 B2"},
    {{DT_PIPE_1F1B, 3, 1, 4}, 0, "F0 F1 F2 B0 F3 B1 B2 B3"},
    {{DT_PIPE_1F1B, 3, 1, 4}, 1, "F0 F1 B0 F2 B1 F3 B2 B3"},
    {{DT_PIPE_1F1B, 3, 1, 4}, 2, "F0 B0 F1 B1 F2 B2 F3 B3"},
    {{DT_PIPE_1F1B, 4, 1, 2}, 0, "F0 F1 B0 B1"},
    {{DT_PIPE_1F1B, 1, 1, 2}, 0, "F0 B0 F1 B1"},
    {{DT_PIPE_INTERLEAVED, 2, 2, 2}, 0, "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0"},
    {{DT_PIPE_INTERLEAVED, 2, 2, 2}, 1, "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0"},
    {{DT_PIPE_INTERLEAVED, 2, 2, 4},
     1,
     "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0"},
    {{DT_PIPE_ZB_H1, 3, 1, 4}, 0, "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3"},
    {{DT_PIPE_ZB_H1, 3, 1, 4}, 1, "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3"},
    {{DT_PIPE_ZB_H1, 3, 1, 4}, 2, "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3"},
};

static const char *text_of(const struct dt_pipe_plan *p, int stage, char *text, size_t size)
{
    struct dt_pipe_op *ops = calloc(dt_pipe_op_count(p), sizeof *ops);
    size_t len = 0;
    dt_pipe_list(p, stage, ops);
    for (size_t i = 0; i < dt_pipe_op_count(p); i++) {
        len += (size_t)snprintf(text + len, size - len, "%s%c%d", i ? " " : "", "FBIW"[ops[i].kind],
                                ops[i].micro);
        if (p->chunks > 1)
            len += (size_t)snprintf(text + len, size - len, ".%d", ops[i].chunk);
    }
    free(ops);
    return text;
}

TEST(each_stage_has_its_list)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char text[400];
        CHECK_ROW("%s, row %zu", dt_pipe_schedule_name(lists[i].plan.schedule), i);
        CHECK_STR(text_of(&lists[i].plan, lists[i].stage, text, sizeof text), lists[i].list);
    }
}

/* What is held between a forward and the end of its backward. */
static int held_at_most(const struct dt_pipe_plan *p, int stage)
{
    struct dt_pipe_op *ops = calloc(dt_pipe_op_count(p), sizeof *ops);
    int held = 0, most = 0;
    dt_pipe_list(p, stage, ops);
    for (size_t i = 0; i < dt_pipe_op_count(p); i++) {
        held += ops[i].kind == DT_PIPE_FORWARD;
        most = held > most ? held : most;
        held -= ops[i].kind == DT_PIPE_BACKWARD || ops[i].kind == DT_PIPE_WEIGHT;
    }
    CHECK_EQ(held, 0);
    free(ops);
    return most;
}

TEST(a_stage_holds_as_many_as_it_has_slots)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        CHECK_ROW("%s, row %zu", dt_pipe_schedule_name(lists[i].plan.schedule), i);
        CHECK_EQ(dt_pipe_slots(&lists[i].plan, lists[i].stage),
                 held_at_most(&lists[i].plan, lists[i].stage));
    }
}

static const struct {
    struct dt_pipe_plan plan;
    const char *why;
} refused[] = {
    {{DT_PIPE_1F1B, 0, 1, 4}, "a pipeline has 1 to 4096 stages, not 0"},
    {{DT_PIPE_1F1B, 4097, 1, 4}, "a pipeline has 1 to 4096 stages, not 4097"},
    {{DT_PIPE_1F1B, 4, 1, 0}, "a step of a pipeline has 1 to 65536 micro-batches, not 0"},
    {{DT_PIPE_1F1B, 4, 1, 65537}, "a step of a pipeline has 1 to 65536 micro-batches, not 65537"},
    {{DT_PIPE_1F1B, 4, 0, 4}, "each of the 4 stages of a pipeline has 1 to 1024 chunks, not 0"},
    {{DT_PIPE_1F1B, 4, 2, 4}, "1F1B runs one chunk on each stage, not 2"},
    {{DT_PIPE_ZB_H1, 4, 2, 4}, "ZB-H1 runs one chunk on each stage, not 2"},
    {{DT_PIPE_INTERLEAVED, 1024, 5, 1024},
     "each of the 1024 stages of a pipeline has 1 to 4 chunks, not 5"},
    {{DT_PIPE_INTERLEAVED, 4, 1, 4},
     "interleaved 1F1B takes 2 stages and 2 chunks a stage at least, not 4 and 1; without them, "
     "take 1F1B"},
    {{DT_PIPE_INTERLEAVED, 4, 2, 6},
     "interleaved 1F1B takes a multiple of its 4 stages as the number of micro-batches of a step, "
     "not 6"},
};

TEST(what_cannot_be_is_refused)
{
    struct dt_err err = {0};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        CHECK_ROW("row %zu", i);
        CHECK_EQ(dt_pipe_check(&refused[i].plan, &err), -1);
        CHECK_STR(err.text, refused[i].why);
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        CHECK_ROW("list %zu", i);
        CHECK_OK(dt_pipe_check(&lists[i].plan, &err), err);
    }
}

/* -- lists against each other ------------------------------------------------------------------ */

struct story {
    struct dt_pipe_trial trial;
    struct dt_pipe_op *ops;
    struct dt_pipe_times *times;
    struct dt_pipe_use *use;
    double makespan;
    struct dt_err err;
};

/* A stage takes EACH, shared among its chunks. */
static struct story story_of(struct dt_pipe_plan p, struct dt_pipe_times each)
{
    size_t sections = (size_t)(p.stages * p.chunks), count = dt_pipe_op_count(&p);
    struct story s = {.ops = calloc((size_t)p.stages * count, sizeof *s.ops),
                      .times = calloc(sections, sizeof *s.times),
                      .use = calloc((size_t)p.stages, sizeof *s.use)};
    CHECK_OK(dt_pipe_check(&p, &s.err), s.err);
    for (int stage = 0; stage < p.stages; stage++)
        dt_pipe_list(&p, stage, s.ops + (size_t)stage * count);
    for (size_t q = 0; q < sections; q++)
        s.times[q] = (struct dt_pipe_times){each.forward / p.chunks, each.input / p.chunks,
                                            each.weight / p.chunks};
    s.trial = (struct dt_pipe_trial){.plan = p, .ops = s.ops, .times = s.times, .room = -1};
    return s;
}

static int simulate(struct story *s)
{
    return dt_pipe_simulate(&s->trial, s->use, &s->makespan, &s->err);
}

static void finish(struct story *s)
{
    free(s->ops);
    free(s->times);
    free(s->use);
}

static double theory(const struct dt_pipe_plan *p, struct dt_pipe_times t)
{
    double others = p->stages - 1, whole = t.forward + t.input + t.weight;
    return p->schedule == DT_PIPE_ZB_H1 ? others * (t.forward + t.input - t.weight)
                                        : others * whole / p->chunks;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Of the table that schedules are known by. */
static int peak(const struct dt_pipe_plan *p, int stage)
{
    int behind = p->stages - 1 - stage;
    switch (p->schedule) {
    case DT_PIPE_GPIPE:
        return p->micros;
    case DT_PIPE_1F1B:
        return least(p->micros, behind + 1);
    case DT_PIPE_INTERLEAVED:
        return least(p->micros * p->chunks, (p->chunks - 1) * p->stages + 2 * behind + 1);
    case DT_PIPE_ZB_H1:
        break;
    }
    return least(p->micros, p->stages);
}

/* By devices, which send and receive in one go and wait for all of that: several chunks are as idle
 * as with room for all so. */
static void check_joint(struct story *s)
{
    s->trial.room = -1;
    CHECK_OK(simulate(s), s->err);
    double wanted = s->makespan;
    s->trial.joint = true;
    s->trial.room = 0;
    CHECK_OK(simulate(s), s->err);
    CHECK_ROW("joint: %g, and with room %g", s->makespan, wanted);
    if (s->trial.plan.chunks > 1)
        CHECK(s->makespan > wanted - 1e-6 && s->makespan < wanted + 1e-6);
}

static void check_plan(struct dt_pipe_plan p)
{
    static const struct dt_pipe_times each[] = {{1, 1, 1}, {1, 1.2, 0.8}, {1, 1.5, 1}};
    CHECK_ROW("%s, %d stages, %d chunks, %d micro-batches", dt_pipe_schedule_name(p.schedule),
              p.stages, p.chunks, p.micros);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        struct story s = story_of(p, each[i]);
        double busy = p.micros * (each[i].forward + each[i].input + each[i].weight);
        CHECK_OK(simulate(&s), s.err);
        for (int stage = 0; stage < p.stages; stage++) {
            double idle = s.makespan - s.use[stage].busy, wanted = theory(&p, each[i]);
            CHECK(s.use[stage].busy > busy * 0.999999 && s.use[stage].busy < busy * 1.000001);
            CHECK_ROW("times %zu, stage %d: %g idle, %g wanted", i, stage, idle, wanted);
            if (p.micros >= p.stages || p.schedule != DT_PIPE_ZB_H1)
                CHECK(idle > wanted - 1e-6 && idle < wanted + 1e-6);
            CHECK_EQ(s.use[stage].held, peak(&p, stage));
            CHECK_EQ(dt_pipe_slots(&p, stage), peak(&p, stage));
        }
        bool chunks = p.chunks > 1; /* these want room, or to know early; see below */
        s.trial.room = 0;
        s.trial.early = chunks;
        CHECK_OK(simulate(&s), s.err);
        s.trial.early = 0;
        for (s.trial.room = chunks; s.trial.room <= DT_PIPE_ROOM_MOST; s.trial.room++) {
            CHECK_ROW("room %d", s.trial.room);
            CHECK_OK(simulate(&s), s.err);
        }
        check_joint(&s);
        finish(&s);
    }
}

TEST(all_are_as_idle_as_theory_says_and_none_waits_for_ever)
{
    static const int stages[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 33, 64};
    static const int micros[] = {1, 2, 3, 4, 7, 8, 13, 16, 31, 48};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        int p = stages[i];
        for (size_t k = 0; k < sizeof micros / sizeof *micros; k++) {
            check_plan((struct dt_pipe_plan){DT_PIPE_GPIPE, p, 1, micros[k]});
            check_plan((struct dt_pipe_plan){DT_PIPE_1F1B, p, 1, micros[k]});
            check_plan((struct dt_pipe_plan){DT_PIPE_ZB_H1, p, 1, micros[k]});
        }
        for (int chunks = 2; p > 1 && chunks <= 4; chunks++)
            for (int m = p; m <= 48 || m == p; m += p * (1 + m / p))
                check_plan((struct dt_pipe_plan){DT_PIPE_INTERLEAVED, p, chunks, m});
    }
}

/* The next op behind *AT that takes from the other stage, or gives to it; NULL: none. */
static const struct dt_pipe_op *next_message(const struct dt_pipe_plan *p, int stage,
                                             const struct dt_pipe_op *ops, size_t *at, bool takes)
{
    size_t count = dt_pipe_op_count(p);
    while (*at < count && !(takes ? dt_pipe_takes : dt_pipe_gives)(p, stage, &ops[*at]))
        ++*at;
    return *at < count ? &ops[(*at)++] : NULL;
}

TEST(weights_are_nobodys_message)
{
    const struct dt_pipe_plan p = {DT_PIPE_ZB_H1, 3, 1, 4};
    for (int stage = 0; stage < p.stages; stage++) {
        struct dt_pipe_op op = {.kind = DT_PIPE_WEIGHT, .micro = 1};
        CHECK(!dt_pipe_takes(&p, stage, &op) && !dt_pipe_gives(&p, stage, &op));
        op.kind = DT_PIPE_INPUT;
        CHECK_EQ(dt_pipe_takes(&p, stage, &op), stage < 2);
        CHECK_EQ(dt_pipe_gives(&p, stage, &op), stage > 0);
    }
}

/* So one queue is enough for what they give each other, to and fro. */
TEST(of_two_stages_one_takes_in_the_order_in_which_the_other_gives)
{
    for (int chunks = 0; chunks <= 16; chunks++)
        for (int row = 0; row < 40; row++) {
            static const enum dt_pipe_schedule of_one[] = {DT_PIPE_ZB_H1, DT_PIPE_1F1B};
            struct dt_pipe_plan p = {chunks > 1 ? DT_PIPE_INTERLEAVED : of_one[chunks], 2,
                                     chunks ? chunks : 1, 2 + row / 2 * 2};
            struct story s = story_of(p, (struct dt_pipe_times){1, 1, 1});
            int taker = row % 2, forward = 0;
            const struct dt_pipe_op *give, *take;
            const struct dt_pipe_op *ops[] = {s.ops, s.ops + dt_pipe_op_count(&p)};
            CHECK_ROW("%d chunks, %d micro-batches, to stage %d", chunks, p.micros, taker);
            for (size_t gave = 0, took = 0;;) {
                give = next_message(&p, !taker, ops[!taker], &gave, false);
                take = next_message(&p, taker, ops[taker], &took, true);
                if (!give || !take)
                    break;
                int section = give->chunk * 2 + !taker;
                section += give->kind == DT_PIPE_FORWARD ? 1 : -1;
                CHECK(take->kind == give->kind && take->micro == give->micro);
                CHECK_EQ(take->chunk * 2 + taker, section);
                forward += give->kind == DT_PIPE_FORWARD;
            }
            CHECK(!give && !take);
            CHECK_EQ(forward, p.micros * (taker ? p.chunks : p.chunks - 1));
            finish(&s);
        }
}

/* The share of a step, where backward takes twice as long as forward, in hundredths. */
TEST(a_deep_pipeline_is_idle_for_a_third_or_a_tenth)
{
    static const struct {
        struct dt_pipe_plan plan;
        double idle;
    } rows[] = {
        {{DT_PIPE_GPIPE, 64, 1, 128}, 33.0},       {{DT_PIPE_1F1B, 64, 1, 128}, 33.0},
        {{DT_PIPE_INTERLEAVED, 64, 2, 128}, 19.8}, {{DT_PIPE_INTERLEAVED, 64, 4, 128}, 11.0},
        {{DT_PIPE_ZB_H1, 64, 1, 128}, 14.1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct story s = story_of(rows[i].plan, (struct dt_pipe_times){1, 1, 1});
        CHECK_OK(simulate(&s), s.err);
        double idle = 100 * (1 - s.use[0].busy / s.makespan);
        CHECK_ROW("row %zu: %g", i, idle);
        CHECK(idle > rows[i].idle - 0.06 && idle < rows[i].idle + 0.06);
        finish(&s);
    }
}

/* Stage 0 has a forward of one chunk to give when its neighbour has a backward of another. */
TEST(interleaved_lists_want_room_between_stages)
{
    struct story s = story_of((struct dt_pipe_plan){DT_PIPE_INTERLEAVED, 2, 2, 6},
                              (struct dt_pipe_times){1, 1, 1});
    s.trial.room = 0;
    CHECK_FAIL(simulate(&s), s.err, "deadlock: stage 0 waits until what it has sent is received");
    s.trial.room = 1;
    CHECK_OK(simulate(&s), s.err);
    s.trial.room = 0;
    s.trial.early = 1;
    CHECK_OK(simulate(&s), s.err);
    finish(&s);
}

/* By hand. GPipe, two micro-batches: the last stage is twice as slow as the first. */
TEST(stages_wait_for_slower_ones_and_for_transfers)
{
    struct story s = story_of((struct dt_pipe_plan){DT_PIPE_GPIPE, 2, 1, 2},
                              (struct dt_pipe_times){1, 1.5, 0.5});
    s.times[1] = (struct dt_pipe_times){2, 3, 1};
    s.trial.transfer = 0.5;
    CHECK_OK(simulate(&s), s.err);
    CHECK(s.makespan == 16);
    CHECK(s.use[0].busy == 6 && s.use[1].busy == 12);
    s.trial.room = 0; /* each stage waits until what it has sent is received */
    CHECK_OK(simulate(&s), s.err);
    CHECK(s.makespan == 17);
    finish(&s);
}

/* -- lists that are wrong ---------------------------------------------------------------------- */

/* clang-format off */
static const struct {
    const char *what;
    int stages, micros;
    const char *lists, *why, *why_at_once; /* NULL: all is well */
} broken[] = {
    {"a stage that waits for what it holds back", 2, 2, "F0B0F1B1 F0F1B0B1",
     "deadlock: stage 0 waits for what the backward of micro-batch 0 in chunk 0 takes",
     "deadlock: stage 0 waits for what the backward of micro-batch 0 in chunk 0 takes"},
    {"one that runs ahead of a neighbour", 2, 4, "F0F1F2F3B0B1B2B3 F0B0F1B1F2B2F3B3", NULL,
     "deadlock: stage 0 waits until what it has sent is received, in front of the forward of "
     "micro-batch 3 in chunk 0"},
    {"another order behind a border", 2, 2, "F0F1B0B1 F1F0B0B1",
     "stage 0 sends what the forward of micro-batch 0 in chunk 0 makes, and stage 1 waits for what "
     "the forward of micro-batch 1 in chunk 0 takes",
     NULL},
    {"another order back", 3, 2, "F0F1B0B1 F0F1B1B0 F0B0F1B1",
     "stage 1 sends what the backward of micro-batch 1 in chunk 0 makes, and stage 0 waits for "
     "what the backward of micro-batch 0 in chunk 0 takes",
     NULL},
    {"a backward in front of its forward", 2, 2, "F0F1B0B1 B0F0F1B1",
     "stage 1 has the backward of micro-batch 0 in chunk 0 where it cannot be", NULL},
    {"an op twice", 2, 2, "F0F1B0B0 F0B0F1B1",
     "stage 0 has the backward of micro-batch 0 in chunk 0 where it cannot be", NULL},
    {"a micro-batch that is none", 2, 2, "F0F2B0B2 F0B0F1B1",
     "stage 0 has the forward of micro-batch 2 in chunk 0 where it cannot be", NULL},
    {"weights' gradients that are left out", 2, 2, "F0F1B0B1 F0B0F1I1",
     "stage 1 lacks the end of 1 backwards", NULL},
    {"weights' gradients before their time", 2, 2, "F0F1B0B1 F0B0F1W1",
     "stage 1 has the backward to the weights of micro-batch 1 in chunk 0 where it cannot be",
     NULL},
};
/* clang-format on */

static void read_lists(struct story *s, const char *text)
{
    struct dt_pipe_op *op = s->ops;
    for (const char *at = text; *at; at++)
        if (*at != ' ') {
            op->kind = (enum dt_pipe_kind)(strchr("FBIW", *at) - "FBIW");
            op++->micro = *++at - '0';
        }
}

TEST(what_is_wrong_with_a_list_is_found)
{
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct dt_pipe_plan p = {DT_PIPE_1F1B, broken[i].stages, 1, broken[i].micros};
        struct story s = story_of(p, (struct dt_pipe_times){1, 1, 1});
        CHECK_ROW("%s", broken[i].what);
        read_lists(&s, broken[i].lists);
        for (s.trial.room = -1; s.trial.room < 1; s.trial.room++) {
            const char *why =
                s.trial.room == 0 && broken[i].why_at_once ? broken[i].why_at_once : broken[i].why;
            if (why)
                CHECK_FAIL(simulate(&s), s.err, why);
            else
                CHECK_OK(simulate(&s), s.err);
        }
        finish(&s);
    }
}
