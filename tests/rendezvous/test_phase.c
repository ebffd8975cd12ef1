/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/inside.h"
#include "tests/lib/check.h"

static int bugs;

void __wrap_dt_bug(const char *fmt, ...);
void __wrap_dt_bug(const char *fmt, ...)
{
    (void)fmt;
    bugs++;
}

/* A run in STATE, with something known that belongs to each state. */
static void begin(struct dt_rdzv *r, enum dt_run_state state)
{
    *r = (struct dt_rdzv){.now = 1000,
                          .state = state,
                          .round = 3,
                          .gathering = {.pause_until = 1, .fault.pending = true},
                          .running = {.grow_at = 2, .done_gone = 1, .recovery.until = 3},
                          .closed = {.kind = DT_CLOSE_FAILED, .why = "it failed"}};
    dt_list_init(&r->members.all);
    bugs = 0;
}

TEST(a_closed_run_can_only_begin_anew)
{
    static const struct {
        enum dt_run_state from, to;
        int bugs;
    } rows[] = {
        {DT_RUN_GATHERING, DT_RUN_GATHERING, 0}, {DT_RUN_GATHERING, DT_RUN_RUNNING, 0},
        {DT_RUN_GATHERING, DT_RUN_CLOSED, 0},    {DT_RUN_RUNNING, DT_RUN_GATHERING, 0},
        {DT_RUN_RUNNING, DT_RUN_RUNNING, 0},     {DT_RUN_RUNNING, DT_RUN_CLOSED, 0},
        {DT_RUN_CLOSED, DT_RUN_GATHERING, 0},    {DT_RUN_CLOSED, DT_RUN_RUNNING, 1},
        {DT_RUN_CLOSED, DT_RUN_CLOSED, 1},
    };
    struct dt_rdzv r;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s to %s", dt_run_state_name(rows[i].from), dt_run_state_name(rows[i].to));
        begin(&r, rows[i].from);
        rdzv_enter(&r, rows[i].to);
        CHECK_EQ(bugs, rows[i].bugs);
        CHECK_EQ(r.state, rows[i].to);
        CHECK_EQ(r.since, 1000);
        CHECK_EQ(r.round, 3); /* outlives them all */
    }
}

TEST(what_belongs_to_a_state_ends_with_it)
{
    struct dt_rdzv r;
    begin(&r, DT_RUN_RUNNING);
    rdzv_enter(&r, DT_RUN_GATHERING);
    CHECK_EQ(r.running.grow_at, 0);
    CHECK_EQ(r.running.done_gone, 0);
    CHECK_EQ(r.running.recovery.until, 0);
    CHECK_EQ(r.closed.kind, 0);
    CHECK_STR(r.closed.why, "");
    CHECK_EQ(r.gathering.pause_until, 0); /* and begins empty */
    CHECK(!r.gathering.fault.pending);
    CHECK_EQ(r.budget.healthy_since, DT_FOREVER);
    begin(&r, DT_RUN_GATHERING);
    rdzv_enter(&r, DT_RUN_RUNNING);
    CHECK_EQ(r.gathering.pause_until, 0);
    CHECK_EQ(r.running.done_gone, 0);
    CHECK_EQ(r.running.first_step, -1);
    CHECK_EQ(r.budget.healthy_since, 1000);
}
