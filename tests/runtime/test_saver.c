/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's saver, driven by steps as the loop does: what fails on one rank is given up on all,
 * and the steps go on. */
#include "tests/lib/folder.h"
#include "tests/runtime/ranks.h"
#include "worker_runtime/train/inside.h"
#include "worker_runtime/zero/create.h"

#include <dtrun/coll.h>
#include <fcntl.h>
#include <sys/resource.h>

BEFORE_ALL
{
    folder_make();
}

static const struct dt_param params[] = {{"w", 300, true}};
static const struct dt_unit unit = {"u", params, 1};

struct actor {
    struct dt_trainer t;
    struct dt_ckpt_model model;
    int warned, stderr_was; /* rank 0: what was said there, to be read, and where it went before */
};

static void open_zero(struct actor *a, struct rank_self *me)
{
    struct dt_err err = {0};
    struct dt_zero_options o;
    dt_zero_defaults(&o);
    o.stage = 2;
    a->t.device = dt_device_open_cpu(1, &err);
    CHECK_OK(a->t.device ? 0 : -1, err);
    struct dt_zero_place place = {
        .device = a->t.device, .group = a->t.world, .sharing = (size_t)me->size};
    a->t.zero = dt_zero_create_on(&place, &unit, 1, &o, &err);
    CHECK_OK(a->t.zero ? 0 : -1, err);
}

/* A pipe, as its bytes are under no RLIMIT_FSIZE. */
static void hear_warnings(struct actor *a)
{
    int ends[2];
    CHECK_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    a->stderr_was = dup(STDERR_FILENO);
    CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
    a->warned = ends[0];
}

static void open_actor(struct actor *a, struct rank_self *me)
{
    struct dt_err err = {0};
    *a = (struct actor){.t = {.rank = me->rank, .ranks = me->size, .saving = {.saved = -1}}};
    struct dt_mesh_shape shape = {{1, me->size, 1, 1, 1}};
    a->t.world = rank_open(me);
    CHECK_OK(dt_mesh_open(&a->t.mesh, &shape, a->t.world, &err), err);
    open_zero(a, me);
    CHECK_OK(dt_ckpt_model_of(a->t.zero, &a->model, &err), err);
    struct dt_ckpt_options o = {
        .dir = at("saves"), .model = a->model, .rank = me->rank, .world = me->size};
    a->t.saving.ckpt = dt_ckpt_open(&o, &err);
    a->t.balance = dt_balance_create(DT_BALANCE_OFF, me->size, me->size, &err);
    a->t.page = dt_page_open(&err);
    CHECK_OK(a->t.saving.ckpt && a->t.balance && a->t.page ? 0 : -1, err);
    if (me->rank == 0) {
        hear_warnings(a);
        struct dt_metrics_options m = {.program = "p"};
        a->t.metrics = dt_metrics_open(&m, 1, &err);
        CHECK_OK(a->t.metrics ? 0 : -1, err);
    }
    CHECK_OK(dt_coll_barrier(a->t.world, &err), err);
}

static void close_actor(struct actor *a)
{
    dt_metrics_close(a->t.metrics);
    if (a->t.rank == 0) {
        dup2(a->stderr_was, STDERR_FILENO);
        close(a->stderr_was);
        close(a->warned);
    }
    dt_ckpt_close(a->t.saving.ckpt);
    dt_balance_destroy(a->t.balance);
    dt_page_close(a->t.page);
    free(a->model.tensors);
    dt_zero_destroy(a->t.zero);
    dt_mesh_close(&a->t.mesh);
    dt_coll_destroy(a->t.world);
    dt_device_close(a->t.device);
}

static void room_for(rlim_t bytes)
{
    struct rlimit l = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &l), 0);
}

/* Steps, as far as the saver sees them, until the save is at its end: how many. */
static int steps(struct actor *a)
{
    struct dt_err err = {0};
    int n = 0;
    while (a->t.saving.phase != DT_SAVING_NONE) {
        struct dt_agreement own = {.loss_sum = 1}, all;
        a->t.state.step++;
        dt_saver_tell(&a->t, &own);
        all = own;
        CHECK_OK(
            dt_coll_all_reduce(a->t.world, &all, sizeof all / sizeof(double), DT_F64, DT_SUM, &err),
            err);
        CHECK(all.loss_sum >= a->t.ranks && all.loss_sum <= a->t.ranks);
        CHECK_OK(dt_saver_hear(&a->t, &own, &all, &err), err);
        n++;
    }
    return n;
}

static void one_cannot_write(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    open_actor(&a, me);
    a.t.state.step = 10;
    if (me->rank == *(int *)me->arg)
        room_for(64);
    CHECK_OK(dt_saver_begin(&a.t, &err), err);
    CHECK(steps(&a) >= 1);
    CHECK_EQ(a.t.saving.saved, -1);
    room_for(RLIM_INFINITY);
    if (me->rank == 0) {
        char who[64], said[600];
        ssize_t n = read(a.warned, said, sizeof said - 1);
        said[n < 0 ? 0 : n] = '\0';
        snprintf(who, sizeof who, "p: step 10 is not saved: rank %d: ", *(int *)me->arg);
        CHECK(strstr(said, who));
        CHECK(strstr(said, "; training goes on\n"));
    }
    int64_t step = a.t.state.step;
    CHECK(step > 10);
    CHECK_OK(dt_saver_begin(&a.t, &err), err); /* the next one, beside steps to its end */
    CHECK(steps(&a) >= 2);
    CHECK_EQ(a.t.saving.saved, step);
    step = a.t.state.step;
    CHECK_OK(dt_saver_begin(&a.t, &err), err);
    CHECK_OK(dt_saver_finish(&a.t, &err), err); /* and one at the end of a run */
    CHECK_EQ(a.t.saving.saved, step);
    close_actor(&a);
}

TEST(a_rank_that_cannot_write_costs_the_checkpoint_and_nothing_else)
{
    for (int who = 0; who < 3; who++) {
        CHECK_ROW("rank %d", who);
        ranks_run(3, one_cannot_write, &who);
        CHECK(access(at("saves/step-00000010"), F_OK) < 0);
    }
}
