/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run, as those tell them who only hear what happened. */
#include "tests/rendezvous/rdzv_story.h"

/* The last of KIND that the last step told, or NULL. */
static const struct dt_rdzv_action *last(enum dt_event_kind kind)
{
    for (size_t i = done.len; i-- > 0;)
        if (done.at[i].type == DT_DO_TELL && done.at[i].tell.kind == kind)
            return &done.at[i];
    return NULL;
}

static const char *words(enum dt_event_kind kind)
{
    const struct dt_rdzv_action *a = last(kind);
    return a ? dt_rdzv_text(&done, a->text) : "";
}

static void leave(uint64_t id, bool stopping, const char *because)
{
    frame(id, (struct dt_message){.type = DT_MSG_LEAVE,
                                  .round = last_round[node_of(id)],
                                  .leave.stopping = stopping,
                                  .why = because});
}

TEST(a_job_begins_and_ends_well)
{
    begin(2, 2);
    snprintf(spec.script, sizeof spec.script, "train.py");
    snprintf(spec.user, sizeof spec.user, "ada");
    join(1000);
    CHECK_STR(happened, "run_began node_joined/node0 ");
    CHECK_STR(words(DT_EVENT_RUN_BEGAN), "begins: train.py as ada");
    join(1001);
    CHECK_STR(words(DT_EVENT_ROUND_BEGAN),
              "round 0: 2 nodes, 4 ranks, workers meet at 10.0.0.0:40000");
    result(1000, true);
    result(1001, true);
    CHECK_STR(happened, "run_began node_joined/node0 node_joined/node1 round_began "
                        "run_ended_well ");
    *happened = '\0';
    join(2000);
    CHECK_STR(happened, "run_began node_joined/node0 ");
    CHECK_STR(words(DT_EVENT_RUN_BEGAN), "begins anew: train.py as ada");
    end();
}

TEST(a_node_that_is_lost_ends_the_round_and_the_job_has_too_few)
{
    begin_running(2, 2, 2);
    lose(1001);
    now += DT_SECOND;
    tick();
    CHECK_STR(happened, "node_lost/node1 round_ended below_min ");
    CHECK_EQ(last(DT_EVENT_ROUND_ENDED)->round, 0);
    CHECK(last(DT_EVENT_NODE_LOST)->tell.silent); /* the round's end says so in the log */
    CHECK(!last(DT_EVENT_BELOW_MIN)->tell.silent);
    CHECK_STR(words(DT_EVENT_BELOW_MIN),
              "1 node is left, and the job needs 2: no round begins before others come");
    join(1000);
    pass(60 * DT_SECOND, 1, 1);
    CHECK_STR(happened, "node_lost/node1 round_ended below_min "); /* and that once */
    end();
}

TEST(a_node_that_leaves_is_told_of_once)
{
    begin_running(3, 2, 3);
    leave(1002, true, "SIGTERM");
    CHECK_STR(happened, "node_left/node2 round_ended ");
    leave(1002, false, "SIGTERM");
    CHECK_STR(happened, "node_left/node2 round_ended ");
    join(1000);
    join(1001);
    CHECK_STR(happened, "node_left/node2 round_ended round_began ");
    end();
}

static void fail(uint64_t id, int rank, const char *cause)
{
    frame(id, (struct dt_message){.type = DT_MSG_RESULT,
                                  .round = last_round[node_of(id)],
                                  .result = {.evidence = DT_EVIDENCE_PROGRAM,
                                             .rank = rank,
                                             .exit_code = 1,
                                             .signature = "",
                                             .text = "rank 3 exited with 1",
                                             .cause = cause}});
}

TEST(a_worker_that_fails_is_named_once_all_nodes_are_back)
{
    begin(2, 2);
    spec.max_restarts = 1;
    join(1000);
    join(1001);
    *happened = '\0';
    fail(1001, 3, "rank 3 ran out of GPU memory");
    CHECK_STR(happened, "round_ended ");
    join(1000);
    join(1001);
    CHECK_STR(happened, "round_ended worker_failed/node1:3 round_began ");
    CHECK_EQ(last(DT_EVENT_WORKER_FAILED)->round, 0);
    CHECK_STR(words(DT_EVENT_WORKER_FAILED),
              "root cause of round 0: node1: rank 3 ran out of GPU memory");
    *happened = '\0';
    fail(1001, 3, NULL); /* without a cause, what its agent saw is told: the log has it already */
    join(1000);
    join(1001);
    CHECK_STR(happened, "round_ended worker_failed/node1:3 run_ended_badly ");
    CHECK_STR(words(DT_EVENT_WORKER_FAILED), "node1: rank 3 exited with 1");
    CHECK(last(DT_EVENT_WORKER_FAILED)->tell.silent);
    CHECK_EQ(last(DT_EVENT_WORKER_FAILED)->round, 1);
    end();
}

TEST(what_people_do_is_told)
{
    begin_running(2, 2, 2);
    step(&(struct dt_rdzv_event){.type = DT_EV_SAVE});
    CHECK_STR(words(DT_EVENT_SAVE_ASKED),
              "a checkpoint is asked for: 2 of 2 nodes ask their workers to save");
    step(&(struct dt_rdzv_event){.type = DT_EV_PAUSE, .text = "the roof leaks"});
    CHECK_STR(words(DT_EVENT_PAUSED), "the run is paused (the roof leaks)");
    join(1000);
    join(1001);
    step(&(struct dt_rdzv_event){.type = DT_EV_RESUME});
    CHECK_STR(happened, "save_asked paused round_ended resumed round_began ");
    *happened = '\0';
    CHECK_EQ(dt_exclude_drain(&exclude, "node1", false, "a new disk", now), 0);
    step(&(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = "node1"});
    CHECK_STR(happened, "node_drained/node1 round_ended below_min ");
    CHECK_STR(words(DT_EVENT_NODE_DRAINED), "node1 is drained (a new disk)");
    end();
}

TEST(who_does_not_fit_is_refused)
{
    begin_running(2, 2, 2);
    spec.max_nodes = 3;
    join(1002);
    CHECK_STR(happened, "node_refused/node2 ");
    CHECK(strstr(words(DT_EVENT_NODE_REFUSED), "node2 asks for --nnodes 2:3") != NULL);
    end();
}

TEST(spares_that_are_missing_are_told)
{
    begin(2, 2);
    spec.spares = 2;
    for (uint64_t i = 1000; i < 1003; i++)
        join(i);
    lose(1002);
    now += DT_SECOND;
    tick();
    *happened = '\0';
    lose(1001);
    now += DT_SECOND;
    tick();
    join(1000);
    join(1003);
    CHECK(strstr(happened, "round_began spares_exhausted ") != NULL);
    *happened = '\0';
    join(1001 + 1000);
    lose(1003);
    now += DT_SECOND;
    tick();
    join(1004);
    join(1000);
    CHECK(strstr(happened, "round_began spares_short ") != NULL);
    CHECK_STR(words(DT_EVENT_SPARES_SHORT), "1 of 2 spares stand by");
    *happened = '\0';
    join(1005);
    CHECK(strstr(happened, "spares_there ") != NULL);
    CHECK_STR(words(DT_EVENT_SPARES_THERE), "2 of 2 spares stand by");
    end();
}
