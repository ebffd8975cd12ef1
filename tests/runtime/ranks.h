/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of a test: forked processes that each run one function and meet in memory. A check that
 * fails in a rank ends that rank with status 1; ranks_end() says which ranks did not end as wanted.
 *
 *     static void adds(struct rank_self *me) { struct dt_coll *c = rank_open(me); ... }
 *     ranks_run(4, adds, NULL);
 *
 * Or, where a rank is to be killed: ranks_start(), ranks_kill(), ranks_end(). */
#ifndef DT_TESTS_RUNTIME_RANKS_H
#define DT_TESTS_RUNTIME_RANKS_H

#include "tests/lib/check.h"
#include "tests/runtime/meeting.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define RANKS_MAX 64
#define RANKS_SHARED 4096 /* bytes that the test and its ranks share for their own use */

struct rank_self {
    int rank, size;
    int per_host; /* ranks of a host: rank / per_host is its number */
    void *arg;
    void *shared; /* RANKS_SHARED bytes, zeroed: for atomics */
    struct meeting *meeting;
};

typedef void (*rank_fn)(struct rank_self *me);

struct ranks {
    struct rank_self proto;
    pid_t pid[RANKS_MAX];
    int wanted[RANKS_MAX]; /* the wait status that is right: 0, or a signal */
};

/* Leak checkers look when the process exits in the ordinary way, so ranks do that. */
static inline struct ranks *ranks_start_on(int size, int per_host, rank_fn fn, void *arg)
{
    struct ranks *r = calloc(1, sizeof *r);
    r->proto = (struct rank_self){.size = size, .per_host = per_host, .arg = arg};
    r->proto.meeting = meeting_create();
    r->proto.shared =
        mmap(NULL, RANKS_SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid();
    fflush(NULL);
    for (int i = 0; i < size; i++) {
        r->pid[i] = fork();
        if (r->pid[i] != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        struct rank_self me = r->proto;
        me.rank = i;
        free(r);
        fn(&me);
        exit(0);
    }
    return r;
}

static inline struct ranks *ranks_start(int size, rank_fn fn, void *arg)
{
    return ranks_start_on(size, size, fn, arg);
}

static inline void ranks_kill(struct ranks *r, int rank, int signal)
{
    kill(r->pid[rank], signal);
    if (signal == SIGKILL)
        r->wanted[rank] = SIGKILL;
}

/* Reaps all; checks that each ended as wanted. */
static inline void ranks_end(struct ranks *r)
{
    char bad[512] = "";
    for (int i = 0; i < r->proto.size; i++) {
        int status = -1;
        waitpid(r->pid[i], &status, 0);
        size_t n = strlen(bad);
        if (status != r->wanted[i] && n + 60 < sizeof bad)
            snprintf(bad + n, sizeof bad - n, "%srank %d ended with %s %d", n ? ", " : "", i,
                     WIFSIGNALED(status) ? "signal" : "status",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    meeting_destroy(r->proto.meeting);
    munmap(r->proto.shared, RANKS_SHARED);
    free(r);
    CHECK_STR(bad, "");
}

static inline void ranks_run(int size, rank_fn fn, void *arg)
{
    ranks_end(ranks_start(size, fn, arg));
}

/* Hosts of PER_HOST ranks each, all of them on this machine. */
static inline void ranks_run_on(int size, int per_host, rank_fn fn, void *arg)
{
    ranks_end(ranks_start_on(size, per_host, fn, arg));
}

/* The group of all ranks, with a timeout that only a hang reaches unless the test sets one. */
static inline struct dt_coll *rank_open_within(struct rank_self *me, dt_ms timeout)
{
    struct dt_coll_member members[RANKS_MAX];
    struct dt_err err = {0};
    for (int i = 0; i < me->size; i++)
        members[i] = (struct dt_coll_member){.world_rank = i, .host = i / me->per_host};
    struct dt_coll_group g = {
        .members = members,
        .size = me->size,
        .rank = me->rank,
        .epoch = 1,
        .name = "world",
        .timeout = timeout,
    };
    struct dt_coll *c = dt_coll_open(&g, &me->meeting->table, &err);
    CHECK_OK(c ? 0 : -1, err);
    return c;
}

static inline struct dt_coll *rank_open(struct rank_self *me)
{
    return rank_open_within(me, 60 * DT_SECOND);
}

#endif
