/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/pipeline/order.h"

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
