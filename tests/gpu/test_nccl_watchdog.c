/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of what is seen: rows of facts. Then the thread itself, over a table of calls that
 * the test fills: that it sees, tells the device, aborts, and ends at once when it is told to. */
#include "tests/gpu/nccl_story.h"

#include "cuda/nccl/verdict.h"

#include <signal.h>
#include <sys/wait.h>

/* -- deciding --------------------------------------------------------------------------------- */

struct row {
    const char *story;
    struct dt_comm_facts facts[2];
    int n;
    enum dt_comm_verdict verdict;
    const char *says;
};

#define AT(...)                                                                                    \
    {                                                                                              \
        .group = "world", .timeout = 30000, __VA_ARGS__                                            \
    }
#define RUNNING(ms) .under_way = true, .call = "all-reduce number 7", .waited = (ms)
#define DEAD .gone = 3, .gone_pid = 812
#define MET(r, age) .error = (r), .error_age = (age), .error_is = "NCCL's words"

#define FAILED(is, age)                                                                            \
    .failed = &(const struct dt_err){.code = (is), .text = "what a call met"}, .error_age = (age)

/* clang-format off */
static const struct row rows[] = {
    {"all is well", {AT(.connecting = false)}, 1, DT_COMM_VERDICT_FINE, ""},
    {"a collective runs", {AT(RUNNING(29999))}, 1, DT_COMM_VERDICT_FINE, ""},
    {"a collective runs for too long", {AT(RUNNING(30000))}, 1, DT_COMM_VERDICT_LOST, "all-reduce number 7 of group world has not ended in 30 s"},
    {"a rank ends in a collective", {AT(RUNNING(100), DEAD)}, 1, DT_COMM_VERDICT_LOST, "rank 3 (pid 812 on this host) ended while all-reduce number 7 of group world was under way"},
    {"a rank ends, and the collective may yet", {AT(RUNNING(99), DEAD)}, 1, DT_COMM_VERDICT_SOON, ""},
    {"a rank ends while NCCL takes a call", {AT(.busy = 99, DEAD)}, 1, DT_COMM_VERDICT_SOON, ""},
    {"a rank ends before NCCL can take a call", {AT(.busy = 100, DEAD)}, 1, DT_COMM_VERDICT_LOST, "rank 3 (pid 812 on this host) ended while group world started a collective"},
    {"NCCL takes long over a call", {AT(.busy = 20000)}, 1, DT_COMM_VERDICT_FINE, ""},
    {"NCCL takes a call just in time", {AT(.busy = 30499)}, 1, DT_COMM_VERDICT_FINE, ""},
    {"NCCL does not take a call", {AT(.busy = 30500)}, 1, DT_COMM_VERDICT_LOST, "NCCL has not taken a call of group world in 30 s: a rank has not come to it"},
    {"NCCL does not connect", {AT(.busy = 30500, .connecting = true)}, 1, DT_COMM_VERDICT_LOST, "NCCL has not connected group world in 30 s: a rank has not come to it"},
    {"a dead rank explains a call that is not taken", {AT(.busy = 30500, DEAD)}, 1, DT_COMM_VERDICT_LOST, "rank 3 (pid 812"},
    {"a rank has done its work", {AT(DEAD)}, 1, DT_COMM_VERDICT_FINE, ""},
    {"a rank ends before it came", {AT(.connecting = true, DEAD)}, 1, DT_COMM_VERDICT_LOST, "rank 3 (pid 812 on this host) ended while group world was being made"},
    {"an error is young", {AT(MET(ncclSystemError, 499))}, 1, DT_COMM_VERDICT_SOON, ""},
    {"an error stays", {AT(MET(ncclSystemError, 500))}, 1, DT_COMM_VERDICT_LOST, "group world: NCCL's words"},
    {"a remote error is young", {AT(RUNNING(500), MET(ncclRemoteError, 499))}, 1, DT_COMM_VERDICT_SOON, ""},
    {"a remote error stays", {AT(RUNNING(500), MET(ncclRemoteError, 500))}, 1, DT_COMM_VERDICT_LOST, "group world: NCCL's words"},
    {"a dead rank explains a remote error", {AT(RUNNING(500), DEAD, MET(ncclRemoteError, 900))}, 1, DT_COMM_VERDICT_LOST, "rank 3 (pid 812"},
    {"a dead rank explains a timeout", {AT(RUNNING(40000), DEAD)}, 1, DT_COMM_VERDICT_LOST, "rank 3 (pid 812"},
    {"a call has failed just now", {AT(FAILED(DT_E_LIMIT, 499))}, 1, DT_COMM_VERDICT_SOON, ""},
    {"a call has failed, and nobody aborts", {AT(FAILED(DT_E_LIMIT, 500))}, 1, DT_COMM_VERDICT_LOST, "group world: what a call met"},
    {"a dead rank explains a call that failed", {AT(RUNNING(500), DEAD, FAILED(DT_E_DISCONNECTED, 900))}, 1, DT_COMM_VERDICT_LOST, "rank 3 (pid 812"},
    {"the agent explains a call that failed elsewhere", {AT(FAILED(DT_E_DISCONNECTED, 900), .round_over = true)}, 1, DT_COMM_VERDICT_LOST, "the agent has ended this world"},
    {"the agent ends the world", {AT(.round_over = true)}, 1, DT_COMM_VERDICT_LOST, "the agent has ended this world"},
    {"the agent explains a remote error", {AT(MET(ncclRemoteError, 900), .round_over = true)}, 1, DT_COMM_VERDICT_LOST, "the agent has ended this world"},
    {"an error of our own is the news", {AT(MET(ncclUnhandledCudaError, 900), .round_over = true)}, 1, DT_COMM_VERDICT_LOST, "NCCL's words"},
    {"the agent does not wait for a young error", {AT(MET(ncclSystemError, 1), .round_over = true)}, 1, DT_COMM_VERDICT_LOST, "the agent has ended this world"},
    {"the agent takes a dead rank's grace away", {AT(RUNNING(1), DEAD, .round_over = true)}, 1, DT_COMM_VERDICT_LOST, "rank 3 (pid 812"},
    {"a dead rank is named before the agent is", {AT(RUNNING(100), DEAD, .round_over = true)}, 1, DT_COMM_VERDICT_LOST, "rank 3 (pid 812"},
    {"the best reason counts, whichever group has it", {AT(RUNNING(40000)), AT(RUNNING(100), DEAD)}, 2, DT_COMM_VERDICT_LOST, "rank 3 (pid 812"},
    {"one group is well, the other soon is not", {AT(MET(ncclRemoteError, 3)), AT(RUNNING(1))}, 2, DT_COMM_VERDICT_SOON, ""},
    {"no groups", {AT(DEAD)}, 0, DT_COMM_VERDICT_FINE, ""},
};
/* clang-format on */

TEST(the_reason_told_is_the_one_that_explains_the_others)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct dt_err why = {0};
        CHECK_ROW("%s", r->story);
        CHECK_EQ(dt_comm_verdict(r->facts, r->n, &why), r->verdict);
        CHECK_FAIL(-1, why, r->says);
        CHECK_EQ(why.code != DT_E_NONE, r->verdict == DT_COMM_VERDICT_LOST);
    }
}

/* -- the thread ------------------------------------------------------------------------------- */

struct stand { /* a communicator under watch, with one other rank */
    struct dt_comm comm;
    struct dt_flights flights;
    struct dt_peers peers;
    struct dt_watched watched;
};

static void take_lose(void *arg, const struct dt_err *why)
{
    dt_cuda_device_lose(arg, why);
}

static bool ask_round(void *arg)
{
    (void)arg;
    return fake.round_over;
}

static struct dt_comm_watchdog *open_watchdog(void)
{
    struct dt_err err = {0};
    struct dt_comm_watchdog_of of = {
        .calls = fake_calls(), .round_over = ask_round, .lose = take_lose};
    struct dt_comm_watchdog *d = dt_comm_watchdog_open(&of, &err);
    CHECK_OK(d ? 0 : -1, err);
    return d;
}

/* Rank 0 of two; rank 3 of the world is process PID. */
static void stand_up_as(struct stand *s, const struct dt_comm_last *last,
                        struct dt_comm_watchdog *d, int pid, dt_ms timeout)
{
    struct dt_err err = {0};
    struct dt_coll_member who[2] = {{.world_rank = 0, .pid = getpid()}, {3, 0, pid}};
    struct dt_coll_group g = {.members = who, .size = 2};
    ncclUniqueId id;
    memset(&id, 'i', sizeof id);
    memset(s, 0, sizeof *s);
    CHECK_OK(dt_comm_init(&s->comm, fake_calls(), last, &err), err);
    CHECK_OK(dt_comm_connect(&s->comm, id, 2, 0, DT_FOREVER, &err), err);
    dt_flights_init(&s->flights, fake_calls());
    CHECK_OK(dt_peers_open(&s->peers, &g, &err), err);
    s->watched.comm = &s->comm;
    s->watched.flights = &s->flights;
    s->watched.peers = &s->peers;
    s->watched.group = "world";
    s->watched.timeout = timeout;
    CHECK_OK(dt_comm_watchdog_add(d, &s->watched, &err), err);
}

static void stand_up(struct stand *s, struct dt_comm_watchdog *d, int pid, dt_ms timeout)
{
    stand_up_as(s, NULL, d, pid, timeout);
}

static void start_flight(struct stand *s)
{
    struct dt_err err = {0};
    struct dt_flight *f = dt_flights_take(&s->flights, DT_LANE_REDUCE, &err);
    CHECK_OK(f ? 0 : -1, err);
    f->kind = DT_ALL_REDUCE;
    f->sequence = 7;
    static char lane;
    fake_calls()->event_record(f->done, (cudaStream_t)(void *)&lane);
    dt_flights_begin(&s->flights, f);
    dt_flights_let_go(&s->flights, f);
}

static void stand_down(struct stand *s, struct dt_comm_watchdog *d, bool last)
{
    CHECK_EQ(dt_comm_watchdog_remove(d, &s->watched), last);
    dt_comm_close(&s->comm, 100);
    dt_comm_finish(&s->comm);
    dt_flights_finish(&s->flights);
    dt_peers_close(&s->peers);
}

/* The abort is what the thread does last. */
static void wait_for_aborts(int n)
{
    pthread_mutex_lock(&fake.lock);
    while (fake.aborts < n)
        pthread_cond_wait(&fake.aborted, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
}

STORY(a_thread_with_nothing_to_see_ends_at_once)
{
    struct dt_comm_watchdog *d = open_watchdog();
    struct stand s;
    stand_up(&s, d, 0, 30000);
    stand_down(&s, d, true);
    dt_comm_watchdog_close(d);
    CHECK(!fake.is_lost);
    dt_ms from = dt_clock_monotonic();
    for (int i = 0; i < 40; i++)
        dt_comm_watchdog_close(open_watchdog());
    CHECK(dt_clock_monotonic() - from < 5000); /* and not 40 pauses of a thread with no work */
}

static int child_that_waits(void)
{
    int pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    return pid;
}

STORY(a_rank_that_is_killed_is_named_and_all_groups_are_aborted_at_once)
{
    struct dt_comm_watchdog *d = open_watchdog();
    struct stand a, b;
    struct dt_err err = {0};
    int pid = child_that_waits();
    fake.hang = true;
    stand_up(&a, d, pid, 30000);
    stand_up(&b, d, 0, 30000);
    start_flight(&a);
    kill(pid, SIGKILL);
    wait_for_aborts(2);
    CHECK_STR(fake.log, "init init ( abort abort ) ");
    CHECK_FAIL(-1, fake.lost, "rank 3 (pid ");
    CHECK_FAIL(-1, fake.lost, "ended while all-reduce number 7 of group world was under way");
    CHECK_FAIL(dt_comm_check(&a.comm, &err), err, fake.lost.text);
    CHECK_FAIL(dt_comm_check(&b.comm, &err), err, fake.lost.text);
    waitpid(pid, NULL, 0);
    stand_down(&a, d, false);
    stand_down(&b, d, true);
    dt_comm_watchdog_close(d);
    CHECK_EQ(fake.aborts, 2);
}

STORY(a_rank_that_ends_behind_its_work_is_let_go)
{
    struct dt_comm_watchdog *d = open_watchdog();
    struct stand a, b;
    int pid = child_that_waits();
    stand_up(&a, d, pid, 30000);
    start_flight(&a); /* done at once */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    /* Looks have been taken when the word of an error in a second group has come through. */
    stand_up(&b, d, 0, 30000);
    fake.async = ncclInternalError;
    wait_for_aborts(2);
    CHECK_FAIL(-1, fake.lost, "internal error");
    stand_down(&a, d, false);
    stand_down(&b, d, true);
    dt_comm_watchdog_close(d);
}

struct cause {
    const char *story;
    ncclResult_t async;
    bool hang, round_over;
    const char *says;
};

TEST(whatever_is_seen_ends_in_one_abort)
{
    static const struct cause causes[] = {
        {"NCCL met an error", ncclRemoteError, false, false, "another rank ended or the network"},
        {"a collective hangs", ncclSuccess, true, false, "has not ended in 0.15 s"},
        {"the agent ends the world", ncclSuccess, false, true, "the agent has ended this world"},
    };
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        CHECK_ROW("%s", causes[i].story);
        struct stand s;
        fake_reset();
        fake.hang = causes[i].hang;
        struct dt_comm_watchdog *d = open_watchdog();
        stand_up(&s, d, 0, 150);
        start_flight(&s);
        fake.async = causes[i].async;
        fake.round_over = causes[i].round_over;
        wait_for_aborts(1);
        CHECK_FAIL(-1, fake.lost, causes[i].says);
        stand_down(&s, d, true);
        dt_comm_watchdog_close(d);
        CHECK_EQ(fake.aborts, 1);
        CHECK_NOTHING_LEFT;
    }
}

static void end_child(int pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Its caller may wait for the device then, where earlier collectives do not end. */
STORY(one_in_which_a_call_failed_is_aborted_if_its_owner_does_not)
{
    struct dt_comm_watchdog *d = open_watchdog();
    struct stand s;
    struct dt_err err = {0};
    stand_up(&s, d, 0, 30000);
    fake.hang = true;
    start_flight(&s);
    fake.text = "connection refused";
    CHECK(dt_comm_enter(&s.comm, &err) != NULL);
    CHECK_FAIL(dt_comm_leave(&s.comm, ncclSystemError, "a call", 0, &err), err, "a call: NCCL");
    wait_for_aborts(1);
    CHECK(!fake.hang);
    CHECK_FAIL(-1, fake.lost, "group world: a call: NCCL says");
    stand_down(&s, d, true);
    dt_comm_watchdog_close(d);
    CHECK_EQ(fake.aborts, 1);
}

STORY(a_rank_that_is_killed_before_nccl_connects_to_it_is_named)
{
    struct dt_comm_watchdog *d = open_watchdog();
    struct stand s;
    struct dt_err err = {0};
    int pid = child_that_waits();
    stand_up(&s, d, pid, 30000);
    kill(pid, SIGKILL);
    fake.polls = 1 << 30;
    CHECK(dt_comm_enter(&s.comm, &err) != NULL);
    CHECK_FAIL(dt_comm_leave(&s.comm, ncclInProgress, "a call", DT_FOREVER, &err), err,
               "ended while group world started a collective");
    waitpid(pid, NULL, 0);
    wait_for_aborts(1);
    stand_down(&s, d, true);
    dt_comm_watchdog_close(d);
}

STORY(a_rank_whose_call_does_not_come_back_ends_for_the_reason_that_the_thread_knows)
{
    struct dt_comm_watchdog *d = open_watchdog();
    struct stand s;
    struct dt_err err = {0};
    int pid = child_that_waits();
    stand_up_as(&s, &fake_last, d, pid, 30000);
    fake.stuck = true;
    end_child(pid);
    ncclComm_t comm = dt_comm_enter(&s.comm, &err);
    CHECK(comm != NULL);
    ncclResult_t r = fake_calls()->broadcast(NULL, NULL, 0, ncclFloat32, 0, comm, NULL);
    CHECK_FAIL(dt_comm_leave(&s.comm, r, "a call", 0, &err), err,
               "ended while group world started a collective");
    CHECK_STR(fake.gave_up.text, err.text);
    wait_for_aborts(1);
    stand_down(&s, d, true);
    dt_comm_watchdog_close(d);
    CHECK_EQ(fake.give_ups, 1);
}

TEST(the_first_rank_to_end_is_the_one_to_name)
{
    struct dt_peers p;
    struct dt_err err = {0};
    int a = child_that_waits(), b = child_that_waits();
    struct dt_coll_member who[4] = {{4, 0, getpid()}, {5, 0, a}, {6, 0, b}, {7, 1, b}};
    struct dt_coll_group g = {.members = who, .size = 4};
    CHECK_OK(dt_peers_open(&p, &g, &err), err);
    CHECK_EQ(p.count, 2); /* neither itself nor another host's */
    CHECK(!dt_peers_gone(&p));
    end_child(b);
    CHECK_EQ(dt_peers_gone(&p)->world_rank, 6);
    end_child(a);
    CHECK_EQ(dt_peers_gone(&p)->world_rank, 6);
    dt_peers_close(&p);
    CHECK_OK(dt_peers_open(&p, &g, &err), err); /* both have ended before */
    CHECK_EQ(dt_peers_gone(&p)->world_rank, 5);
    dt_peers_close(&p);
}

/* -- what flies ------------------------------------------------------------------------------- */

STORY(flights_are_used_again_once_they_are_done_and_let_go)
{
    struct dt_flights f;
    struct dt_err err = {0};
    struct dt_flight_report r;
    static char lane;
    dt_flights_init(&f, fake_calls());
    fake.hang = true;
    struct dt_flight *a = dt_flights_take(&f, DT_LANE_GATHER, &err);
    fake_calls()->event_record(a->done, (cudaStream_t)(void *)&lane);
    CHECK(!dt_flights_oldest(&f, 5, &r));
    dt_flights_begin(&f, a);
    CHECK(dt_flights_oldest(&f, 10, &r));
    CHECK(dt_flights_oldest(&f, 35, &r));
    CHECK_EQ(r.waited, 25);
    struct dt_flight *b = dt_flights_take(&f, DT_LANE_REDUCE, &err);
    CHECK(b != a);
    dt_flights_drop(&f, b);
    fake.hang = false;
    CHECK(!dt_flights_oldest(&f, 40, &r));
    CHECK(dt_flights_take(&f, DT_LANE_REDUCE, &err) == b); /* a is held */
    dt_flights_drop(&f, b);
    dt_flights_let_go(&f, a);
    CHECK(dt_flights_take(&f, DT_LANE_REDUCE, &err) == b);
    CHECK(dt_flights_take(&f, DT_LANE_REDUCE, &err) == a);
    CHECK_EQ(fake.events, 4);
    dt_flights_drop(&f, a);
    dt_flights_drop(&f, b);
    dt_flights_finish(&f);
}
