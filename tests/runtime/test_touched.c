/* SPDX-License-Identifier: Apache-2.0 */
/* What two processes have touched of memory that they share: together never more than there is, and
 * never less. */
#include "base/fs.h"
#include "tests/runtime/ranks.h"
#include "worker_runtime/train/touched.h"

#define SHARED ((size_t)32 << 20)
#define ABOUT ((int64_t)2 << 20) /* beside it: what a rank's own program takes meanwhile */

struct row {
    size_t from[2], to[2]; /* which part of it each of the two touches, in halves */
    int64_t apart;         /* of a rank's, in halves */
    double each;           /* halves that count for each of them */
};

static const struct row rows[] = {
    {{0, 1}, {1, 2}, 0, 1},   /* each its own half */
    {{0, 0}, {2, 2}, 0, 1},   /* each all of it */
    {{0, 0}, {1, 1}, 0, 0.5}, /* both the same half */
    {{0, 1}, {1, 2}, 1, 0},   /* which is counted elsewhere */
};

static char *memory;

static void meet(struct dt_coll *c)
{
    struct dt_err err = {0};
    CHECK_OK(dt_coll_barrier(c, &err), err);
}

static void touch(struct rank_self *me)
{
    const struct row *r = me->arg;
    size_t half = SHARED / 2, from = r->from[me->rank] * half, to = r->to[me->rank] * half;
    struct dt_coll *c = rank_open(me);
    meet(c);
    int64_t before = dt_touched_bytes(0, 2);
    meet(c);
    memset(memory + from, 1, to - from);
    meet(c);
    int64_t touched = dt_touched_bytes(r->apart * (int64_t)half, 2) - before;
    int64_t wanted = (int64_t)(r->each * (double)half);
    meet(c);
    dt_coll_destroy(c);
    CHECK_ROW("row %td, rank %d: %lld KiB, where %lld are right", r - rows, me->rank,
              (long long)touched >> 10, (long long)wanted >> 10);
    CHECK(llabs(touched - wanted) < ABOUT);
}

static bool tells_of_shares(void)
{
    struct dt_buf text = {0};
    bool tells = dt_fs_read("/proc/self/smaps_rollup", 1 << 16, &text, NULL) == 0 &&
                 strstr(dt_buf_cstr(&text), "\nPss_Shmem:");
    dt_buf_finish(&text);
    return tells;
}

TEST(shared_memory_counts_once_however_many_have_touched_it)
{
    if (!tells_of_shares())
        SKIP("this kernel does not tell how many processes share a page");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memory = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(memory != MAP_FAILED);
        ranks_run(2, touch, (void *)(uintptr_t)&rows[i]);
        munmap(memory, SHARED);
    }
}
