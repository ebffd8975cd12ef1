/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that die or fail while a group is opened: the others end soon, know of whom, and keep
 * nothing of it. */
#include "tests/runtime/ranks.h"

#include <dirent.h>
#include <sys/resource.h>

#include "worker_runtime/coll/host/memory.h"

static int entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* Mappings of shared memory without a name, as seats are. */
static int mappings(void)
{
    char line[600];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f))
        n += strstr(line, "/memfd:dtrun") != NULL;
    if (f)
        fclose(f);
    return n;
}

/* The meeting of all, but that this rank comes to some harm in it. */
struct harm {
    struct dt_meeting table;
    struct dt_meeting *real;
    bool before, after; /* dies before or after its card is there */
};

static int set_and_die(struct dt_meeting *t, const char *key, const void *value, size_t len,
                       struct dt_err *err)
{
    const struct harm *h = (const struct harm *)t;
    if (h->before)
        kill(getpid(), SIGKILL);
    int rc = h->real->set(h->real, key, value, len, err);
    if (h->after)
        kill(getpid(), SIGKILL);
    return rc;
}

static int get_real(struct dt_meeting *t, const char *key, void *value, size_t len, dt_ms timeout,
                    struct dt_err *err)
{
    const struct harm *h = (const struct harm *)t;
    return h->real->get(h->real, key, value, len, timeout, err);
}

static struct dt_coll *open_within(struct rank_self *me, struct dt_meeting *m, dt_ms timeout,
                                   const int *pids, struct dt_err *err)
{
    struct dt_coll_member members[8];
    for (int i = 0; i < me->size; i++)
        members[i] = (struct dt_coll_member){.world_rank = i, .pid = pids ? pids[i] : 0};
    struct dt_coll_group g = {.members = members,
                              .size = me->size,
                              .rank = me->rank,
                              .epoch = 1,
                              .name = "world",
                              .timeout = timeout};
    return dt_coll_open(&g, m, err);
}

#define VICTIM 2
#define FOREVER (600 * DT_SECOND) /* the test ends far earlier, or by its own timeout */

static void fail_to_open(struct rank_self *me, struct harm *h, dt_ms timeout, const char *wanted)
{
    struct dt_err err = {0};
    h->table = (struct dt_meeting){set_and_die, get_real};
    h->real = &me->meeting->table;
    int files = entries("/proc/self/fd"), maps = mappings();
    struct dt_coll *c = open_within(me, &h->table, timeout, NULL, &err);
    CHECK(!c);
    CHECK_FAIL(-1, err, wanted);
    CHECK_EQ(entries("/proc/self/fd"), files);
    CHECK_EQ(mappings(), maps);
}

static void wait_in_vain(struct rank_self *me)
{
    struct harm h = {.before = me->rank == VICTIM};
    fail_to_open(me, &h, 3 * DT_SECOND, "rank 2"); /* in which the others come */
}

TEST(a_rank_that_never_comes_is_named)
{
    struct ranks *r = ranks_start(4, wait_in_vain, NULL);
    r->wanted[VICTIM] = SIGKILL;
    ranks_end(r);
}

static void find_it_dead(struct rank_self *me)
{
    struct harm h = {.after = me->rank == VICTIM};
    fail_to_open(me, &h, FOREVER, "rank 2");
}

TEST(a_rank_that_dies_behind_its_card_is_named_by_all)
{
    for (int i = 0; i < 10; i++) {
        struct ranks *r = ranks_start(4, find_it_dead, NULL);
        r->wanted[VICTIM] = SIGKILL;
        ranks_end(r);
    }
}

static void be_out_of_files(struct rank_self *me)
{
    struct harm h = {.before = false};
    struct rlimit before, none;
    struct dt_err err = {0};
    if (me->rank != VICTIM) {
        fail_to_open(me, &h, FOREVER, "rank 2");
        return;
    }
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK(!open_within(me, &me->meeting->table, FOREVER, NULL, &err));
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK_FAIL(-1, err, "no shared memory could be made: Too many open files");
}

TEST(a_rank_without_a_seat_says_so)
{
    ranks_run(4, be_out_of_files, NULL);
}

/* As the job's store has told the process ids before. */
static void know_of_a_dead_one(struct rank_self *me)
{
    struct dt_err err = {0};
    const int *dead = me->arg;
    const int pids[3] = {0, *dead, 0};
    if (me->rank == 1)
        return;
    CHECK(!open_within(me, &me->meeting->table, FOREVER, pids, &err));
    CHECK_FAIL(-1, err, "rank 1"); /* "is gone", or that the other has left because of it */
}

TEST(nobody_waits_for_a_rank_that_is_known_to_be_dead)
{
    int status;
    pid_t dead = fork();
    if (dead == 0)
        _exit(0);
    waitpid(dead, &status, 0);
    ranks_run(3, know_of_a_dead_one, &dead);
}

/* Bytes of addresses that this process uses. */
static rlim_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    CHECK(f && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void be_refused_a_mapping(struct rank_self *me)
{
    struct dt_memories m = {.ranks = 1};
    struct rlimit before, small;
    struct dt_err err = {0};
    int fd = 99, files = entries("/proc/self/fd");
    (void)me;
    CHECK_EQ(dt_memories_make(&m, 1, false, &fd, &err), 0); /* the row is there already */
    close(fd);
    dt_memories_drop(&m, 0);
    CHECK_EQ(getrlimit(RLIMIT_AS, &before), 0);
    small = before;
    small.rlim_cur = address_space() + (32 << 20);
    CHECK_EQ(setrlimit(RLIMIT_AS, &small), 0);
    int row = dt_memories_make(&m, 64 << 20, false, &fd, &err);
    CHECK_EQ(setrlimit(RLIMIT_AS, &before), 0);
    CHECK_FAIL(row, err, "cannot be mapped");
    CHECK_EQ(fd, -1); /* it is closed, and the caller does not close it again */
    dt_memories_finish(&m);
    CHECK_EQ(entries("/proc/self/fd"), files);
}

TEST(memory_that_cannot_be_mapped_is_closed_once)
{
    ranks_run(1, be_refused_a_mapping, NULL);
}
