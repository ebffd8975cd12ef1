/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that meet at a real store, and all that may go wrong there: each is one sentence that names
 * who is missing or wrong, in bounded time. */
#include "tests/lib/daemon.h"
#include "tests/runtime/ranks.h"

#include "rendezvous/protocol/page.h"
#include "rendezvous/protocol/sync_client.h"
#include "worker_runtime/inside.h"

#include <dtrun/coll.h>
#include <dtrun/context.h>
#include <dtrun/page.h>
#include <math.h>
#include <sched.h>
#include <unistd.h>

#define LONG (60 * DT_SECOND) /* only a hang takes it */
#define SHORT (5 * DT_SECOND) /* where its end is what is waited for, and others come before */

struct place {
    int rank, world, group, groups;
};

static const char *const place_names[] = {"RANK",       "WORLD_SIZE",       "LOCAL_RANK",
                                          "GROUP_RANK", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"};

struct story {
    uint16_t port;
    const struct place *places; /* by process */
};

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_place(const struct story *s, const struct place *p)
{
    set_number("RANK", p->rank);
    set_number("WORLD_SIZE", p->world);
    set_number("LOCAL_RANK", p->groups > 1 ? 0 : p->rank);
    set_number("LOCAL_WORLD_SIZE", p->groups > 1 ? 1 : p->world);
    set_number("GROUP_RANK", p->group);
    set_number("GROUP_WORLD_SIZE", p->groups);
    set_number("MASTER_PORT", s->port);
    set_number("DTRUN_ROUND", 4);
    set_number("OMP_NUM_THREADS", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    setenv("TORCHELASTIC_RUN_ID", "met", 1);
}

static struct dt_context *open_context(const struct rank_self *me, dt_ms start, struct dt_err *err)
{
    const struct story *s = me->arg;
    set_place(s, &s->places[me->rank]);
    return dt_context_open(&(struct dt_context_options){.device = "cpu",
                                                        .start_timeout_ms = start,
                                                        .coll_timeout_ms = LONG},
                           err);
}

static void start_store(struct daemon_process *d)
{
    const char *path = getenv("DT_RENDEZVOUS");
    if (!path)
        SKIP("DT_RENDEZVOUS does not name the daemon; run this by meson");
    DAEMON_START(d, path, "--listen", "127.0.0.1:0");
}

static void sums(struct rank_self *me)
{
    struct dt_err err = {0};
    struct dt_context *c = open_context(me, LONG, &err);
    CHECK_OK(c ? 0 : -1, err);
    CHECK_EQ(dt_context_rank(c), me->rank);
    CHECK_EQ(dt_context_world(c), me->size);
    CHECK_EQ(dt_context_epoch(c), 4);
    for (size_t n = 1; n <= 1000000; n *= 100) {
        float *v = malloc(n * sizeof *v);
        for (size_t i = 0; i < n; i++)
            v[i] = (float)(me->rank + 1);
        CHECK_OK(dt_coll_all_reduce(dt_context_coll(c), v, n, DT_F32, DT_SUM, &err), err);
        for (size_t i = 0; i < n; i++)
            CHECK(v[i] == (float)(me->size * (me->size + 1) / 2));
        free(v);
    }
    dt_context_close(c);
}

TEST(ranks_of_one_and_of_several_hosts_meet_and_sum)
{
    static const struct place one[] = {{0, 3, 0, 1}, {1, 3, 0, 1}, {2, 3, 0, 1}};
    static const struct place several[] = {{0, 3, 0, 3}, {1, 3, 1, 3}, {2, 3, 2, 3}};
    const struct place *worlds[] = {one, several};
    for (int i = 0; i < 2; i++) {
        struct daemon_process d;
        start_store(&d);
        struct story s = {.port = d.port, .places = worlds[i]};
        ranks_run(3, sums, &s);
        daemon_stop(&d);
    }
}

static void misses_some(struct rank_self *me)
{
    struct dt_err err = {0};
    CHECK_FAIL(open_context(me, SHORT, &err) ? 0 : -1, err,
               "ranks 1, 3 of 5 did not come to the job's store at 127.0.0.1:");
    CHECK_EQ(err.code, DT_E_TIMEOUT);
}

TEST(ranks_that_do_not_come_are_named)
{
    static const struct place places[] = {{0, 5, 0, 5}, {2, 5, 2, 5}, {4, 5, 4, 5}};
    struct daemon_process d;
    start_store(&d);
    struct story s = {.port = d.port, .places = places};
    ranks_run(3, misses_some, &s);
    daemon_stop(&d);
}

/* Of the two that are rank 1 the later is told so; the others go on without it. */
static void comes_twice(struct rank_self *me)
{
    struct dt_err err = {0};
    struct dt_context *c = open_context(me, LONG, &err);
    if (c) {
        atomic_fetch_add((_Atomic int *)me->shared, 1);
        CHECK_OK(dt_coll_barrier(dt_context_coll(c), &err), err);
    } else {
        CHECK_EQ(me->rank > 0, true);
        CHECK_FAIL(-1, err,
                   "another process has been rank 1 of this world (epoch 4) already: two "
                   "workers were started with RANK=1");
    }
    dt_context_close(c);
}

TEST(a_rank_that_is_there_twice_is_told_so)
{
    static const struct place places[] = {{0, 2, 0, 2}, {1, 2, 1, 2}, {1, 2, 1, 2}};
    struct daemon_process d;
    start_store(&d);
    struct story s = {.port = d.port, .places = places};
    ranks_run(3, comes_twice, &s);
    daemon_stop(&d);
}

static void differs(struct rank_self *me)
{
    struct dt_err err = {0};
    bool big = me->rank == 1;
    CHECK_FAIL(open_context(me, big ? SHORT : LONG, &err) ? 0 : -1, err,
               big ? "rank 0 has a WORLD_SIZE of 2, rank 1 has 3"
                   : "rank 1 has a WORLD_SIZE of 3, rank 0 has 2");
}

TEST(ranks_that_disagree_about_the_size_of_the_world_are_told_so)
{
    static const struct place places[] = {{0, 2, 0, 2}, {1, 3, 1, 3}};
    struct daemon_process d;
    start_store(&d);
    struct story s = {.port = d.port, .places = places};
    ranks_run(2, differs, &s);
    daemon_stop(&d);
}

static void loses_the_store(struct rank_self *me)
{
    struct dt_err err = {0};
    CHECK_FAIL(open_context(me, LONG, &err) ? 0 : -1, err, "127.0.0.1:");
    CHECK_EQ(err.code, DT_E_DISCONNECTED);
}

TEST(a_store_that_dies_while_ranks_meet_is_named)
{
    static const struct place places[] = {{0, 3, 0, 3}, {1, 3, 1, 3}};
    struct daemon_process d;
    struct dt_err err = {0};
    char at[32];
    start_store(&d);
    struct story s = {.port = d.port, .places = places};
    struct ranks *r = ranks_start(2, loses_the_store, &s);
    snprintf(at, sizeof at, "127.0.0.1:%d", d.port);
    struct dt_sync_client *c = dt_sync_client_open(at, LONG, &err);
    CHECK_OK(c ? 0 : -1, err);
    struct dt_bytes keys[] = {{(const uint8_t *)"/dtrun/rt/4/rank/0", 18},
                              {(const uint8_t *)"/dtrun/rt/4/rank/1", 18}};
    CHECK_OK(dt_sync_client_wait(c, keys, 2, LONG, &err), err);
    kill(d.pid, SIGKILL);
    ranks_end(r);
    dt_sync_client_close(c);
    daemon_stop(&d);
}

static void finds_nothing(struct rank_self *me)
{
    struct dt_err err = {0};
    CHECK_FAIL(open_context(me, SHORT, &err) ? 0 : -1, err,
               "rank 0 does not reach the job's store (MASTER_ADDR, MASTER_PORT)");
}

TEST(a_store_that_is_not_there_is_named)
{
    static const struct place places[] = {{0, 2, 0, 2}};
    struct story s = {.port = 1, .places = places};
    ranks_run(1, finds_nothing, &s);
}

/* -- the next world --------------------------------------------------------------------------- */

/* As an agent does for one worker; the page's number is in the environment from here on. */
static struct dt_page *make_page(void)
{
    int fd = memfd_create("page", 0);
    CHECK(fd >= 0 && ftruncate(fd, DT_PAGE_SIZE) == 0);
    struct dt_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(page != MAP_FAILED);
    dt_page_init(page);
    set_number(DT_PAGE_ENV, fd);
    return page;
}

/* A child of the worker's stands for its agent: it ends the round, and gives ROUND of two. */
static pid_t start_agent(struct dt_page *page, const struct story *s, int rank, int round)
{
    struct dt_page_world next = {.rank = rank,
                                 .size = 2,
                                 .groups = 2,
                                 .group = rank,
                                 .local_size = 1,
                                 .restarts = 1,
                                 .round = round,
                                 .master_port = s->port,
                                 .master_addr = "127.0.0.1"};
    pid_t agent = fork();
    if (agent != 0)
        return agent;
    dt_page_end_round(page);
    while (!dt_page_is_waiting(page))
        sched_yield();
    dt_page_give_world(page, &next, 0);
    _exit(0);
}

static int sum(struct dt_context *c, float *v, struct dt_err *err)
{
    *v = (float)dt_context_rank(c) + 1;
    return dt_coll_all_reduce(dt_context_coll(c), v, 1, DT_F32, DT_SUM, err);
}

/* Ranks 0 and 2 of three go on as 0 and 1 of two. */
static void stays(struct rank_self *me)
{
    struct dt_err err = {0};
    const struct story *s = me->arg;
    struct dt_page *page = make_page();
    float v;
    dt_page_let_stay(page);
    set_place(s, &s->places[me->rank]);
    struct dt_context *c = dt_context_open(
        &(struct dt_context_options){
            .device = "cpu", .start_timeout_ms = LONG, .coll_timeout_ms = LONG, .can_stay = true},
        &err);
    CHECK_OK(c ? 0 : -1, err);
    CHECK(dt_page_can_stay(page));
    if (me->rank == 1)
        _exit(0); /* who closes the context instead waits for the others */
    struct dt_device *device = dt_context_device(c);
    dt_page_update(dt_context_page(c), &(struct dt_page_values){.step = 5, .loss = 2.5});
    CHECK_FAIL(sum(c, &v, &err), err, "rank 1");
    CHECK(dt_context_may_reenter(c, &err));
    pid_t agent = start_agent(page, s, me->rank / 2, 9);
    CHECK_OK(dt_context_reenter(c, &err), err);
    CHECK_EQ(waitpid(agent, NULL, 0), agent);
    CHECK_EQ(dt_context_rank(c), me->rank / 2);
    CHECK_EQ(dt_context_world(c), 2);
    CHECK_EQ(dt_context_host(c), me->rank / 2);
    CHECK_EQ(dt_context_epoch(c), 9);
    CHECK_EQ(dt_context_restarts(c), 1);
    CHECK_STR(dt_context_run_id(c), "met");
    CHECK_STR(getenv("WORLD_SIZE"), "2");
    CHECK(dt_context_device(c) == device);
    CHECK(dt_page_can_stay(page));
    struct dt_page_told steps;
    dt_page_read(page, &steps);
    CHECK_EQ(steps.step, -1);
    CHECK(!steps.has_loss && isnan(steps.loss));
    CHECK_OK(sum(c, &v, &err), err);
    CHECK(v == 3);
    dt_context_close(c);
}

TEST(ranks_that_lose_another_meet_again_without_it)
{
    static const struct place places[] = {{0, 3, 0, 3}, {1, 3, 1, 3}, {2, 3, 2, 3}};
    struct daemon_process d;
    start_store(&d);
    struct story s = {.port = d.port, .places = places};
    ranks_run(3, stays, &s);
    daemon_stop(&d);
}

TEST(who_may_stay_and_for_which_reason)
{
    static const struct {
        bool can, may, over;
        enum dt_err_code code;
        bool stays;
    } rows[] = {
        {true, true, false, DT_E_DISCONNECTED, true},
        {true, true, true, DT_E_ELSEWHERE, true},
        {true, true, true, DT_E_TIMEOUT, true},
        {true, true, false, DT_E_TIMEOUT, false},
        {true, true, true, DT_E_RUNTIME, false},
        {true, false, true, DT_E_DISCONNECTED, false},
        {false, true, true, DT_E_DISCONNECTED, false},
        {true, true, true, DT_E_CANCELED, true},
        {true, true, false, DT_E_CANCELED, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_page *page = make_page();
        struct dt_err err = {0};
        CHECK_ROW("row %zu", i);
        for (size_t k = 0; k < sizeof place_names / sizeof *place_names; k++)
            unsetenv(place_names[k]);
        struct dt_context *c = dt_context_open(
            &(struct dt_context_options){.device = "cpu", .can_stay = rows[i].can}, &err);
        CHECK_OK(c ? 0 : -1, err);
        if (rows[i].may)
            dt_page_let_stay(page);
        if (rows[i].over)
            dt_page_end_round(page);
        err.code = rows[i].code;
        CHECK_EQ(dt_context_may_reenter(c, &err), rows[i].stays);
        dt_context_close(c);
    }
}
