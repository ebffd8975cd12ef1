/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between hosts that vanish without a word. Each host is a network namespace with a
 * cable to a switch; all of them, and the switch, are of this process and its children and gone
 * with them. Ranks work in a loop; then something happens to a cable, and those who are left must
 * say which rank is missing, without waiting for the time of a collective. */
#include "tests/runtime/ranks.h"

#include <dtrun/coll.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>

#define RANKS 4
#define HOSTS 3
#define TIMEOUT (300 * DT_SECOND) /* of a collective: who reaches it has failed */

static const int host_of[RANKS] = {0, 0, 1, 2};

struct shared {
    _Atomic int out;   /* ranks that are in a namespace of their own */
    _Atomic int wired; /* there are cables */
    _Atomic int first; /* process of rank 0 */
    _Atomic int turns[RANKS];
    _Atomic int trouble;
    int number; /* of the story, and of its networks: others are there at the same time */
};

struct story {
    const char *family; /* of addresses: "4", "6" */
    size_t count;       /* floats of each all-reduce */
    bool idle;          /* nothing moves when it happens: rank 3 is late */
    const char *cut;    /* what is done to host 2 */
};

static void sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void sh(const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (system(line) != 0) {
        fprintf(stderr, "# failed: %s\n", line);
        exit(1);
    }
}

BEFORE_ALL
{
    if (geteuid() != 0)
        SKIP("network namespaces need root");
    if (system("ip -V >/dev/null 2>&1 && nft --version >/dev/null 2>&1") != 0)
        SKIP("ip or nft is missing (packages iproute2, nftables)");
    if (unshare(CLONE_NEWNET) < 0)
        SKIP("no network namespaces here");
    sh("ip link set lo up && ip link add switch type bridge && ip link set switch up");
}

static void await(_Atomic int *word, int wanted)
{
    while (atomic_load(word) < wanted)
        usleep(1000);
}

static void move_out(const struct rank_self *me, struct shared *s)
{
    if (unshare(CLONE_NEWNET) < 0)
        exit(1);
    sh("ip link set lo up");
    (void)me;
    atomic_fetch_add(&s->out, 1);
    await(&s->wired, 1);
}

/* The second rank of host 0 goes where the first is. */
static void move_in_with_first(struct shared *s)
{
    char path[64];
    await(&s->wired, 1);
    snprintf(path, sizeof path, "/proc/%d/ns/net", atomic_load(&s->first));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
        exit(1);
    close(fd);
}

static void lay_cables(const struct ranks *r, int story)
{
    static const int first[HOSTS] = {0, 2, 3};
    for (int h = 0; h < HOSTS; h++) {
        int pid = (int)r->pid[first[h]], n = story * 10 + h;
        sh("ip link add port%d type veth peer name eth0 netns %d && "
           "ip link set port%d master switch up",
           n, pid, n);
        sh("nsenter -t %d -n sh -c 'ip addr add 10.98.%d.%d/24 dev eth0 && "
           "ip addr add fd98:%d::%d/64 dev eth0 nodad && ip link set eth0 up'",
           pid, story, h + 1, story, h + 1);
    }
}

static struct dt_coll *join(struct rank_self *me)
{
    struct dt_coll_member members[RANKS];
    struct dt_err err = {0};
    for (int i = 0; i < RANKS; i++)
        members[i] = (struct dt_coll_member){.world_rank = i, .host = host_of[i]};
    struct dt_coll_group g = {.members = members,
                              .size = RANKS,
                              .rank = me->rank,
                              .epoch = 1,
                              .name = "world",
                              .timeout = TIMEOUT};
    struct dt_coll *c = dt_coll_open(&g, &me->meeting->table, &err);
    CHECK_OK(c ? 0 : -1, err);
    return c;
}

static void settle(struct rank_self *me, struct shared *s, const struct story *t)
{
    char master[32];
    if (me->rank == 1)
        move_in_with_first(s);
    else
        move_out(me, s);
    snprintf(master, sizeof master, *t->family == '6' ? "fd98:%d::1" : "10.98.%d.1", s->number);
    setenv("MASTER_ADDR", master, 1);
}

static void works_until_it_fails(struct rank_self *me)
{
    const struct story *t = me->arg;
    struct shared *s = me->shared;
    struct dt_err err = {0};
    settle(me, s, t);
    struct dt_coll *c = join(me);
    float *v = calloc(t->count, sizeof *v);
    int rc = 0;
    for (int i = 0; rc == 0; i++) {
        if (i == 3 && t->idle && me->rank == 3)
            await(&s->trouble, 1);
        rc = dt_coll_all_reduce(c, v, t->count, DT_F32, DT_SUM, &err);
        atomic_fetch_add(&s->turns[me->rank], 1);
    }
    CHECK_EQ(err.code, DT_E_DISCONNECTED);
    if (me->rank != 3)
        CHECK(strstr(err.text, "rank 3 on host 2") != NULL);
    free(v);
    dt_coll_destroy(c);
}

/* None of its processes has ended; those that have are left for ranks_end(). */
static bool all_run(const struct ranks *r)
{
    for (int i = 0; i < r->proto.size; i++) {
        siginfo_t ended = {0};
        if (waitid(P_PID, (id_t)r->pid[i], &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            ended.si_pid > 0)
            return false;
    }
    return true;
}

/* Ranks that work until the cable of host 2 is cut, which is done when this returns. */
static struct ranks *begin(const struct story *t, int number)
{
    struct ranks *r = ranks_start(RANKS, works_until_it_fails, (void *)(uintptr_t)t);
    struct shared *s = r->proto.shared;
    await(&s->out, HOSTS);
    s->number = number;
    atomic_store(&s->first, (int)r->pid[0]);
    lay_cables(r, number);
    atomic_store(&s->wired, 1);
    while (atomic_load(&s->turns[3]) < 3 && all_run(r))
        usleep(1000);
    sh("PORT=port%d PID=%d; %s", number * 10 + 2, (int)r->pid[3], t->cut);
    atomic_store(&s->trouble, 1);
    for (int i = 0; atomic_load(&s->turns[3]) < 3 && i < RANKS; i++)
        kill(r->pid[i], SIGKILL);
    return r;
}

static const struct story stories[] = {
    {"4", 300000, false, "ip link set $PORT nomaster"},
    {"6", 300000, false, "ip link set $PORT nomaster"},
    {"4", 1000, true, "ip link set $PORT nomaster"},
    {"4", 300000, true, "ip link set $PORT down"},
    {"4", 300000, false, "nsenter -t $PID -n ip link set eth0 down"},
    {"6", 300000, true,
     "nsenter -t $PID -n nft 'add table inet t; add chain inet t in { type filter hook "
     "input priority 0 ; policy drop ; }'"},
    {"4", 300000, false,
     "nsenter -t $PID -n nft 'add table inet t; add chain inet t out { type filter hook "
     "output priority 0 ; policy drop ; }'"},
};

#define STORIES (sizeof stories / sizeof *stories)

/* Each takes as long as a host may be silent. So the next one begins as soon as a cable is cut. */
TEST(a_host_that_vanishes_is_named_by_all_others)
{
    struct ranks *begun[STORIES];
    for (size_t i = 0; i < STORIES; i++)
        begun[i] = begin(&stories[i], (int)i);
    for (size_t i = 0; i < STORIES; i++) {
        const struct story *t = &stories[i];
        CHECK_ROW("IPv%s, %zu floats, %s: %s", t->family, t->count, t->idle ? "idle" : "busy",
                  t->cut);
        ranks_end(begun[i]);
    }
}

#define COMPUTES 15 /* s, longer than a host may be silent */

/* It reads nothing meanwhile, so what is sent to it fills all that lies between and waits. */
static void computes_for_long(struct rank_self *me)
{
    size_t len = (size_t)32 << 20;
    char *bytes = calloc(1, len);
    struct dt_err err = {0};
    struct dt_coll *c = rank_open_within(me, TIMEOUT);
    CHECK_OK(dt_coll_barrier(c, &err), err);
    if (me->rank == 1) {
        sleep(COMPUTES);
        CHECK_OK(dt_coll_recv(c, bytes, len, DT_U8, 0, &err), err);
        CHECK_EQ(bytes[len - 1], 77);
    } else {
        bytes[len - 1] = 77;
        CHECK_OK(dt_coll_send(c, bytes, len, DT_U8, 1, &err), err);
    }
    CHECK_OK(dt_coll_barrier(c, &err), err);
    dt_coll_destroy(c);
    free(bytes);
}

TEST(a_rank_that_computes_for_long_is_not_taken_for_gone)
{
    ranks_run_on(2, 1, computes_for_long, NULL);
}
