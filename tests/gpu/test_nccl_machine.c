/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a communicator, over a table of calls that the test fills. */
#include "tests/gpu/nccl_story.h"

#include <sched.h>
#include <semaphore.h>

static dt_ms in(dt_ms ms)
{
    return dt_clock_after(dt_clock_monotonic(), ms);
}

static int connect_one(struct dt_comm *c, struct dt_err *err)
{
    ncclUniqueId id;
    memset(&id, 'i', sizeof id);
    return dt_comm_connect(c, id, 2, 0, in(2000), err);
}

static void ready_one(struct dt_comm *c)
{
    struct dt_err err = {0};
    CHECK_OK(dt_comm_init(c, fake_calls(), NULL, &err), err);
    CHECK_OK(connect_one(c, &err), err);
}

static void check_state(struct dt_comm *c, enum dt_comm_state state)
{
    CHECK_EQ(dt_comm_state(c), state);
}

static void end_one(struct dt_comm *c)
{
    dt_comm_close(c, 100);
    dt_comm_finish(c);
}

STORY(connecting_is_over_when_nccl_says_so)
{
    struct dt_comm c;
    fake.init = ncclInProgress;
    fake.polls = 5;
    ready_one(&c);
    CHECK_EQ(fake.asked, 6);
    check_state(&c, DT_COMM_READY);
    end_one(&c);
    CHECK_STR(fake.log, "init finalize destroy ");
}

STORY(one_that_nccl_does_not_begin_leaves_nothing)
{
    struct dt_comm c;
    struct dt_err err = {0};
    fake.init = ncclUnhandledCudaError;
    fake.text = "Cuda failure 35 'CUDA driver version is insufficient'";
    CHECK_OK(dt_comm_init(&c, fake_calls(), NULL, &err), err);
    CHECK_FAIL(connect_one(&c, &err), err, "driver version is insufficient");
    check_state(&c, DT_COMM_FAILED);
    end_one(&c);
    CHECK_EQ(fake.aborts, 0);
}

STORY(one_that_fails_while_connecting_is_aborted)
{
    struct dt_comm c;
    struct dt_err err = {0};
    fake.init = ncclInProgress;
    fake.polls = 2;
    fake.async = ncclSystemError;
    CHECK_OK(dt_comm_init(&c, fake_calls(), NULL, &err), err);
    CHECK_FAIL(connect_one(&c, &err), err, "unhandled system error");
    end_one(&c);
    CHECK_STR(fake.log, "init abort ");
}

STORY(connecting_ends_at_the_deadline)
{
    struct dt_comm c;
    struct dt_err err = {0};
    ncclUniqueId id;
    memset(&id, 'i', sizeof id);
    fake.init = ncclInProgress;
    fake.polls = 1 << 30;
    CHECK_OK(dt_comm_init(&c, fake_calls(), NULL, &err), err);
    CHECK_FAIL(dt_comm_connect(&c, id, 2, 0, in(20), &err), err, "NCCL is still at it");
    CHECK_EQ(err.code, DT_E_TIMEOUT);
    end_one(&c);
    CHECK_EQ(fake.aborts, 1);
}

STORY(a_call_in_progress_is_waited_for)
{
    struct dt_comm c;
    struct dt_err err = {0};
    ready_one(&c);
    fake.polls = 3;
    CHECK(dt_comm_enter(&c, &err) != NULL);
    check_state(&c, DT_COMM_BUSY);
    CHECK_OK(dt_comm_leave(&c, ncclInProgress, "a call", in(2000), &err), err);
    CHECK_EQ(fake.polls, 0);
    check_state(&c, DT_COMM_READY);
    end_one(&c);
}

STORY(a_call_that_fails_makes_all_later_ones_say_why)
{
    struct dt_comm c;
    struct dt_err err = {0}, later = {0};
    ready_one(&c);
    CHECK(dt_comm_enter(&c, &err) != NULL);
    CHECK_FAIL(dt_comm_leave(&c, ncclInvalidUsage, "a call", in(10), &err), err,
               "a call: NCCL says");
    CHECK(dt_comm_enter(&c, &later) == NULL);
    CHECK_STR(later.text, err.text);
    CHECK_FAIL(dt_comm_check(&c, &later), later, err.text);
    end_one(&c);
    CHECK_STR(fake.log, "init abort ");
}

STORY(the_first_reason_counts_and_nccl_is_told_once)
{
    struct dt_comm c;
    struct dt_err first = {.code = DT_E_DISCONNECTED, .text = "rank 3 ended"};
    struct dt_err second = {.code = DT_E_TIMEOUT, .text = "too late"}, err = {0};
    ready_one(&c);
    dt_comm_fail(&c, &first);
    check_state(&c, DT_COMM_FAILED);
    dt_comm_abort(&c, &second);
    dt_comm_abort(&c, &second);
    check_state(&c, DT_COMM_ABORTED);
    CHECK_FAIL(dt_comm_check(&c, &err), err, "rank 3 ended");
    CHECK_EQ(err.code, DT_E_DISCONNECTED);
    end_one(&c);
    CHECK_EQ(fake.aborts, 1);
    CHECK_EQ(fake.finalizes, 0);
}

STORY(an_end_that_others_do_not_come_to_is_an_abort)
{
    struct dt_comm c;
    ready_one(&c);
    fake.finalize = ncclInProgress;
    fake.polls = 1 << 30;
    dt_comm_close(&c, 20);
    dt_comm_finish(&c);
    CHECK_STR(fake.log, "init finalize abort ");
}

STORY(one_that_never_connected_ends_without_a_word)
{
    struct dt_comm c;
    struct dt_err err = {0};
    CHECK_OK(dt_comm_init(&c, fake_calls(), NULL, &err), err);
    end_one(&c);
    CHECK_STR(fake.log, "");
}

STORY(an_abort_before_the_beginning_keeps_it_from_beginning)
{
    struct dt_comm c;
    struct dt_err why = {.code = DT_E_CANCELED, .text = "called off"}, err = {0};
    CHECK_OK(dt_comm_init(&c, fake_calls(), NULL, &err), err);
    dt_comm_abort(&c, &why);
    CHECK_FAIL(connect_one(&c, &err), err, "called off");
    end_one(&c);
    CHECK_STR(fake.log, "");
}

/* -- two threads ------------------------------------------------------------------------------ */

struct caller {
    struct dt_comm *c;
    pthread_t thread;
    sem_t inside;
    ncclResult_t answers; /* of its call */
    bool stuck;           /* in that */
    int rc;
    struct dt_err err;
};

static void *call(void *arg)
{
    struct caller *x = arg;
    ncclComm_t comm = dt_comm_enter(x->c, &x->err);
    sem_post(&x->inside);
    ncclResult_t r = x->answers;
    if (comm && x->stuck)
        r = fake_calls()->all_gather(NULL, NULL, 0, ncclFloat32, comm, NULL);
    x->rc = comm ? dt_comm_leave(x->c, r, "a call", in(30000), &x->err) : -1;
    return NULL;
}

static void start_caller(struct caller *x)
{
    sem_init(&x->inside, 0, 0);
    CHECK_EQ(pthread_create(&x->thread, NULL, call, x), 0);
    sem_wait(&x->inside);
}

STORY(an_abort_brings_out_who_waits_for_nccl)
{
    struct dt_comm c;
    struct dt_err why = {.code = DT_E_DISCONNECTED, .text = "rank 1 ended"};
    ready_one(&c);
    fake.polls = 1 << 30;
    struct caller x = {.c = &c, .answers = ncclInProgress};
    start_caller(&x);
    dt_ms from = dt_clock_monotonic();
    dt_comm_abort(&c, &why);
    CHECK(dt_clock_monotonic() - from < 900); /* it came out, and was not given up */
    pthread_join(x.thread, NULL);
    CHECK_FAIL(x.rc, x.err, "rank 1 ended");
    end_one(&c);
    CHECK_EQ(fake.aborts, 1);
}

STORY(who_does_not_come_out_is_freed_by_the_abort)
{
    struct dt_comm c;
    struct dt_err why = {.code = DT_E_DISCONNECTED, .text = "rank 1 ended"}, err = {0};
    struct dt_nccl_calls calls = fake_copy();
    CHECK_OK(dt_comm_init(&c, &calls, NULL, &err), err);
    CHECK_OK(connect_one(&c, &err), err);
    fake.stuck = true;
    struct caller x = {.c = &c, .stuck = true};
    start_caller(&x);
    dt_comm_abort(&c, &why);
    pthread_join(x.thread, NULL);
    CHECK_FAIL(x.rc, x.err, "rank 1 ended");
    end_one(&c);
    CHECK_EQ(fake.aborts, 1);
}

STORY(the_watchdog_asks_only_when_nobody_is_inside)
{
    struct dt_comm c;
    struct dt_err err = {0};
    ready_one(&c);
    fake.async = ncclRemoteError;
    CHECK_EQ(dt_comm_ask(&c), ncclRemoteError);
    CHECK(dt_comm_enter(&c, &err) != NULL);
    CHECK_EQ(dt_comm_ask(&c), ncclSuccess);
    CHECK_OK(dt_comm_leave(&c, ncclSuccess, "a call", 0, &err), err);
    dt_comm_fail(&c, &(struct dt_err){.code = DT_E_RUNTIME, .text = "x"});
    CHECK_EQ(dt_comm_ask(&c), ncclSuccess);
    end_one(&c);
}

/* -- one that blocks --------------------------------------------------------------------------- */

STORY(one_that_blocks_is_never_asked_how_far_it_is)
{
    struct dt_comm c;
    struct dt_err err = {0};
    CHECK_OK(dt_comm_init(&c, fake_calls(), &fake_last, &err), err);
    CHECK_OK(connect_one(&c, &err), err);
    CHECK_EQ(fake.blocking, 1);
    CHECK(dt_comm_enter(&c, &err) != NULL);
    CHECK_OK(dt_comm_leave(&c, ncclSuccess, "a call", 0, &err), err);
    end_one(&c);
    CHECK_EQ(fake.asked, 0);
    CHECK_STR(fake.log, "init finalize destroy ");
}

struct joiner {                 /* a rank that becomes part of a group */
    struct dt_comm *c, *parent; /* parent NULL: by the id */
    int rc;
    struct dt_err err;
};

static void *join(void *arg)
{
    struct joiner *j = arg;
    j->rc = j->parent ? dt_comm_split(j->c, j->parent, 0, 0, in(30000), &j->err)
                      : connect_one(j->c, &j->err);
    return NULL;
}

/* An abort would free what it stands on. */
static void check_given_up(bool split)
{
    struct dt_comm c, parent;
    struct dt_err why = {.code = DT_E_DISCONNECTED, .text = "rank 1 ended"}, err = {0};
    struct joiner j = {.c = &c, .parent = split ? &parent : NULL};
    pthread_t thread;
    CHECK_ROW(split ? "in a split" : "connecting");
    fake_reset();
    CHECK_OK(dt_comm_init(&parent, fake_calls(), &fake_last, &err), err);
    CHECK_OK(connect_one(&parent, &err), err);
    CHECK_OK(dt_comm_init(&c, fake_calls(), &fake_last, &err), err);
    fake.stuck = true;
    CHECK_EQ(pthread_create(&thread, NULL, join, &j), 0);
    while (fake.waiting == 0)
        sched_yield();
    dt_comm_abort(split ? &parent : &c, &why);
    pthread_join(thread, NULL);
    CHECK_FAIL(j.rc, j.err, "rank 1 ended");
    CHECK_EQ(fake.give_ups, 1);
    CHECK_STR(fake.gave_up.text, "rank 1 ended");
    end_one(&c);
    end_one(&parent);
    CHECK_NOTHING_LEFT;
}

TEST(the_process_of_who_is_stuck_in_one_that_blocks_ends)
{
    check_given_up(false);
    check_given_up(true);
}

/* -- splits ----------------------------------------------------------------------------------- */

STORY(a_split_is_waited_for_at_the_parent_and_then_at_the_part)
{
    struct dt_comm parent, part;
    struct dt_err err = {0};
    ready_one(&parent);
    CHECK_OK(dt_comm_init(&part, fake_calls(), NULL, &err), err);
    fake.split = ncclInProgress;
    fake.polls = 4;
    CHECK_OK(dt_comm_split(&part, &parent, 0, 0, in(2000), &err), err);
    check_state(&parent, DT_COMM_READY);
    check_state(&part, DT_COMM_READY);
    end_one(&part);
    end_one(&parent);
    CHECK_STR(fake.log, "init split finalize destroy finalize destroy ");
}

STORY(a_split_that_fails_takes_the_parent_along)
{
    struct dt_comm parent, part;
    struct dt_err err = {0};
    ready_one(&parent);
    CHECK_OK(dt_comm_init(&part, fake_calls(), NULL, &err), err);
    fake.split = ncclInProgress;
    fake.polls = 1 << 30;
    CHECK_FAIL(dt_comm_split(&part, &parent, 0, 0, in(20), &err), err, "splitting");
    check_state(&parent, DT_COMM_ABORTED);
    end_one(&part);
    end_one(&parent);
    CHECK_EQ(fake.aborts, 2);
}
