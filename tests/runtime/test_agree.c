/* SPDX-License-Identifier: Apache-2.0 */
/* Who says what when some of the ranks have failed. */
#include "worker_runtime/coll/agree.h"

#include "tests/runtime/ranks.h"

#define RANKS 4

static const struct row {
    const char *what;
    const char *own[RANKS];  /* NULL: the rank has not failed */
    const char *kept[RANKS]; /* NULL: another one says it */
    const char *elsewhere;   /* what those get that keep nothing; NULL: all are well */
} rows[] = {
    {"all are well", {NULL}, {NULL}, NULL},
    {"all failed alike",
     {"no file", "no file", "no file", "no file"},
     {"no file"},
     "rank 0: no file"},
    {"one failed", {NULL, NULL, "no file"}, {NULL, NULL, "no file"}, "rank 2: no file"},
    {"two failed, each in its own way",
     {NULL, "no file", NULL, "no memory"},
     {NULL, "no file", NULL, "no memory"},
     "rank 1: no file"},
};

static void agrees(struct rank_self *me)
{
    const struct row *row = me->arg;
    const char *own = row->own[me->rank], *kept = row->kept[me->rank];
    struct dt_coll *c = rank_open(me);
    struct dt_err err = {0};
    int rc = dt_agree(c, own ? dt_err_set(&err, DT_E_USAGE, "%s", own) : 0, &err);
    CHECK_EQ(rc, row->elsewhere ? -1 : 0);
    if (kept || !row->elsewhere) {
        CHECK_STR(err.text, kept ? kept : "");
        CHECK_EQ(err.code, kept ? DT_E_USAGE : DT_E_NONE);
    } else {
        CHECK_STR(err.text, row->elsewhere);
        CHECK_EQ(err.code, DT_E_ELSEWHERE);
    }
    CHECK_OK(dt_coll_barrier(c, &err), err); /* the group is of use */
    dt_coll_destroy(c);
}

TEST(one_error_is_said_once_and_heard_by_all)
{
    for (const struct row *r = rows; r < rows + sizeof rows / sizeof *rows; r++) {
        CHECK_ROW("%s", r->what);
        ranks_run(RANKS, agrees, (void *)(uintptr_t)r);
    }
}

static void loses_a_peer(struct rank_self *me)
{
    struct dt_coll *c = rank_open(me);
    struct dt_err err = {0};
    if (me->rank == 1)
        raise(SIGKILL);
    dt_err_set(&err, DT_E_USAGE, "no file");
    CHECK_EQ(dt_agree(c, -1, &err), -1);
    CHECK_STR(err.text, "no file");
    CHECK_EQ(dt_agree(c, 0, &err), -1);
    CHECK_EQ(err.code, DT_E_DISCONNECTED);
    CHECK_EQ(dt_agree(c, -1, &err), -1); /* and does not ask the group again */
    CHECK_EQ(err.code, DT_E_DISCONNECTED);
    dt_coll_destroy(c);
}

TEST(a_group_that_is_broken_keeps_nobody)
{
    struct ranks *r = ranks_start(2, loses_a_peer, NULL);
    r->wanted[1] = SIGKILL;
    ranks_end(r);
}
