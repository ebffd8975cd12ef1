/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are killed, late, stopped, or call something else: the others learn which. */
#include "tests/runtime/ranks.h"

#include <limits.h>
#include <pthread.h>

static int call_kind(struct dt_coll *c, enum dt_coll_kind kind, char *buf, size_t count,
                     struct dt_err *err)
{
    struct dt_coll_handle h;
    struct dt_coll_call call = {.kind = kind, .send = buf, .recv = buf, .count = count};
    if (kind == DT_ALL_TO_ALL)
        call.recv = buf + 4 * count * (size_t)dt_coll_size(c);
    if (kind == DT_SEND || kind == DT_RECV)
        call.peer = 1;
    if (kind == DT_RECV)
        call.send = NULL;
    int rc = dt_coll_start(c, &call, &h, err);
    return rc < 0 ? rc : dt_coll_wait(c, &h, err);
}

struct death {
    enum dt_coll_kind kind;
    size_t count;
    bool owned;
};

#define VICTIM 1
#define IN_TIME 1500 /* ms, in which those come who are on their way */

/* All come to the barrier; then the victim dies, and the others call until they are told. A send is
 * done when it is under way, so it may take some calls. */
static void survive(struct rank_self *me)
{
    const struct death *d = me->arg;
    struct dt_err err = {0};
    struct dt_coll *c = rank_open(me);
    size_t room = (d->count * 4 + 64) * 10;
    char *buf = d->owned ? dt_coll_alloc(c, room, DT_OWN, &err) : calloc(1, room), wanted[64];
    _Atomic int *pid = me->shared;
    if (me->rank == VICTIM)
        *pid = (int)getpid();
    CHECK_OK(dt_coll_barrier(c, &err), err);
    if (me->rank == VICTIM)
        kill(getpid(), SIGKILL);
    int rc = 0;
    for (int i = 0; rc == 0 && i < 100; i++)
        rc = call_kind(c, d->kind, buf, d->count, &err);
    snprintf(wanted, sizeof wanted, "rank %d (pid %d) is gone", VICTIM, *pid);
    CHECK_FAIL(rc, err, wanted);
    CHECK(strstr(err.text, "of group world"));
    CHECK_FAIL(dt_coll_barrier(c, &err), err, "failed before");
    if (!d->owned)
        free(buf);
    dt_coll_destroy(c);
}

TEST(a_killed_rank_is_named_whatever_is_called)
{
    static const size_t counts[] = {10, 200000};
    for (int kind = 0; kind < DT_COLL_KINDS; kind++)
        for (int how = 0; how < 4; how++) {
            struct death d = {(enum dt_coll_kind)kind, counts[how / 2], how % 2};
            CHECK_ROW("kind %d, %zu elements, %s memory", kind, d.count,
                      d.owned ? "allocated" : "ordinary");
            int n = kind == DT_SEND || kind == DT_RECV ? 2 : 4;
            struct ranks *r = ranks_start(n, survive, &d);
            r->wanted[VICTIM] = SIGKILL;
            ranks_end(r);
        }
}

/* The victim is killed from outside while all are in the middle of large sums. */
static void sum_until_told(struct rank_self *me)
{
    _Atomic int *turns = me->shared;
    struct dt_coll *c = rank_open(me);
    struct dt_err err;
    size_t n = 1 << 20;
    float *v = dt_coll_alloc(c, n * sizeof *v, DT_OWN, &err);
    while (dt_coll_all_reduce(c, v, n, DT_F32, DT_SUM, &err) == 0)
        ++*turns;
    CHECK_FAIL(-1, err, "rank 2 (pid ");
    CHECK_FAIL(-1, err, "is gone");
    dt_coll_destroy(c);
}

TEST(a_rank_killed_in_the_middle_is_named)
{
    for (int i = 0; i < 5; i++) {
        struct ranks *r = ranks_start(3, sum_until_told, NULL);
        _Atomic int *turns = r->proto.shared;
        while (*turns < 20 + 7 * i)
            sched_yield();
        ranks_kill(r, 2, SIGKILL);
        ranks_end(r);
    }
}

/* The victim does not come to make memory. */
static void ask_for_memory(struct rank_self *me)
{
    struct dt_err err = {0};
    struct dt_coll *c = rank_open(me);
    if (me->rank == VICTIM)
        kill(getpid(), SIGKILL);
    CHECK(!dt_coll_alloc(c, 1 << 20, me->arg ? DT_SHARED : DT_OWN, &err));
    CHECK_FAIL(-1, err, "rank 1 (pid ");
    CHECK_EQ(err.code, DT_E_DISCONNECTED);
    CHECK_FAIL(dt_coll_barrier(c, &err), err, "failed before");
    dt_coll_destroy(c);
}

TEST(a_rank_killed_while_memory_is_made_is_named)
{
    static int shared;
    for (int i = 0; i < 10; i++) {
        struct ranks *r = ranks_start(4, ask_for_memory, i % 2 ? &shared : NULL);
        r->wanted[VICTIM] = SIGKILL;
        ranks_end(r);
    }
}

/* Rank 2 stays away, alive, until the others have been told. These begin together: none is late. */
static void be_late(struct rank_self *me)
{
    _Atomic int *told = me->shared, *there = told + 1;
    struct dt_coll *c = rank_open(me);
    struct dt_err err = {0};
    CHECK_EQ(dt_coll_timeout_ms(c, 0), -1);
    CHECK_EQ(dt_coll_timeout_ms(c, IN_TIME), 0);
    ++*there;
    while (*there < me->size)
        sched_yield();
    if (me->rank != 2) {
        float v[4] = {0};
        CHECK_FAIL(dt_coll_all_reduce(c, v, 4, DT_F32, DT_SUM, &err), err, "rank 2 (pid ");
        CHECK(strstr(err.text, "all-reduce number 1 of group world"));
        ++*told;
    }
    while (*told < me->size - 1)
        sched_yield();
    dt_coll_destroy(c);
}

TEST(a_rank_that_is_late_is_named)
{
    ranks_run(4, be_late, NULL);
}

static void be_told_of_a_stopped_one(struct rank_self *me)
{
    _Atomic int *told = me->shared;
    struct dt_coll *c = rank_open(me);
    struct dt_err err = {0};
    CHECK_OK(dt_coll_barrier(c, &err), err);
    dt_coll_timeout_ms(c, IN_TIME);
    if (me->rank == 0)
        raise(SIGSTOP);
    float v[4] = {0};
    CHECK_FAIL(dt_coll_all_reduce(c, v, 4, DT_F32, DT_SUM, &err), err, "rank 0 (pid ");
    CHECK(strstr(err.text, "did not come in time") || strstr(err.text, "because of rank 0"));
    dt_coll_destroy(c);
    ++*told;
}

TEST(a_stopped_rank_is_named)
{
    struct ranks *r = ranks_start(3, be_told_of_a_stopped_one, NULL);
    _Atomic int *told = r->proto.shared;
    while (*told < 2)
        sched_yield();
    ranks_kill(r, 0, SIGKILL);
    ranks_end(r);
}

static void call_differently(struct rank_self *me)
{
    struct dt_coll *c = rank_open(me);
    struct dt_err err = {0};
    static float v[100000];
    size_t count = me->arg ? 60000 : 10;
    int rc = me->rank == 1 ? dt_coll_broadcast(c, v, count, DT_F32, 0, &err)
                           : dt_coll_all_reduce(c, v, count, DT_F32, DT_SUM, &err);
    CHECK_FAIL(rc, err, "calls another collective");
    dt_coll_destroy(c);
}

TEST(ranks_that_call_different_collectives_are_told)
{
    ranks_run(2, call_differently, NULL);
    int large = 1;
    ranks_run(2, call_differently, &large);
}

/* What is little travels by another way than what is much, so nobody sees the other's call. */
static void call_with_little(struct rank_self *me)
{
    struct dt_coll *c = rank_open(me);
    struct dt_err err = {0};
    static float v[60000];
    enum dt_coll_kind little = me->arg ? DT_BARRIER : DT_ALL_REDUCE;
    int rc = 0;
    for (int i = 0; rc == 0 && i < 4; i++) { /* the third time they do not agree */
        bool large = i < 2 ? i == 1 : me->rank != 1;
        rc = call_kind(c, large ? DT_ALL_REDUCE : little, (char *)v, large ? 60000 : 10, &err);
        CHECK_EQ(rc < 0, i >= 2);
    }
    CHECK(strstr(err.text, me->rank == 1 ? "because of rank 1" : "rank 1 (pid ") ||
          strstr(err.text, "because of rank 1"));
    CHECK(err.code != DT_E_TIMEOUT);
    dt_coll_destroy(c);
}

TEST(ranks_that_call_with_little_and_with_much_are_told)
{
    static int barrier;
    ranks_run(3, call_with_little, NULL);
    ranks_run(3, call_with_little, &barrier);
}

static void leave(struct rank_self *me)
{
    struct dt_coll *c = rank_open(me);
    struct dt_err err = {0};
    if (me->rank == 1) {
        dt_coll_destroy(c);
        _Atomic int *told = me->shared;
        while (!*told)
            sched_yield();
        return;
    }
    CHECK_FAIL(dt_coll_barrier(c, &err), err, "rank 1 (pid ");
    CHECK(strstr(err.text, "has left the group"));
    _Atomic int *told = me->shared;
    *told = 1;
    dt_coll_destroy(c);
}

TEST(a_rank_that_leaves_is_named)
{
    ranks_run(2, leave, NULL);
}

struct aborter {
    struct dt_coll *c;
    _Atomic int *waiting;
};

static void *call_off(void *arg)
{
    struct aborter *a = arg;
    while (!*a->waiting)
        sched_yield();
    dt_coll_abort(a->c, "the world has changed");
    dt_coll_abort(a->c, "and again");
    return NULL;
}

/* Rank 0's wait is called off by another thread; rank 1, which waits too by then or later, hears
 * that rank 0 left. Rank 2 keeps away so that nobody's barrier is complete. */
static void abort_threads(struct rank_self *me)
{
    _Atomic int *words = me->shared;
    struct dt_coll *c = rank_open(me);
    struct dt_err err = {0};
    struct aborter a = {c, &words[0]};
    pthread_t t;
    if (me->rank == 0) {
        CHECK_EQ(pthread_create(&t, NULL, call_off, &a), 0);
        words[0] = 1;
        CHECK_FAIL(dt_coll_barrier(c, &err), err, "aborted: the world has changed");
        CHECK_FAIL(dt_coll_barrier(c, &err), err, "the world has changed");
        CHECK_EQ(pthread_join(t, NULL), 0);
        ++words[1];
    } else if (me->rank == 1) {
        CHECK_FAIL(dt_coll_barrier(c, &err), err, "rank 0 (pid ");
        ++words[1];
    }
    while (words[1] < 2)
        sched_yield();
    dt_coll_destroy(c);
}

TEST(an_abort_from_another_thread_ends_a_wait)
{
    ranks_run(3, abort_threads, NULL);
}

/* How many mappings of that process are of files whose names have WORDS and, unless GONE, exist. */
static int mappings(pid_t pid, const char *words, bool gone)
{
    char path[64], line[PATH_MAX + 100];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f))
        n += strstr(line, words) && (gone || !strstr(line, "(deleted)"));
    fclose(f);
    return n;
}

/* What they hold has no name, so nothing is left when all who use it are gone. */
static void hold_memory(struct rank_self *me)
{
    _Atomic int *words = me->shared;
    struct dt_coll *c = rank_open(me);
    struct dt_err err;
    void *a = dt_coll_alloc(c, 1 << 20, DT_OWN, &err), *b = dt_coll_alloc(c, 9, DT_SHARED, &err);
    CHECK(a && b);
    ++*words;
    for (;;)
        pause();
}

TEST(nothing_is_left_behind_by_ranks_that_are_killed)
{
    struct ranks *r = ranks_start(3, hold_memory, NULL);
    _Atomic int *words = r->proto.shared;
    while (*words < 3)
        sched_yield();
    for (int i = 0; i < 3; i++) {
        CHECK(mappings(r->pid[i], "/memfd:", true) > 0);
        CHECK_EQ(mappings(r->pid[i], "/SYSV", true), 0);
        CHECK_EQ(mappings(r->pid[i], "/dev/shm/", false), 0);
        ranks_kill(r, i, SIGKILL);
    }
    ranks_end(r);
}
