/* SPDX-License-Identifier: Apache-2.0 */
/* A rank as far as the trainer's saver and uploader see it: a small model without a transformer, a
 * folder of checkpoints, and steps that are nothing but the sum in which ranks agree. */
#ifndef DT_TESTS_RUNTIME_ACTOR_H
#define DT_TESTS_RUNTIME_ACTOR_H

#include "tests/lib/folder.h"
#include "tests/runtime/ranks.h"
#include "worker_runtime/train/inside.h"
#include "worker_runtime/zero/create.h"

#include <dtrun/coll.h>
#include <fcntl.h>

static const struct dt_param params[] = {{"w", 300, true}};
static const struct dt_unit unit = {"u", params, 1};

struct actor {
    struct dt_trainer t;
    struct dt_ckpt_model model;
    char saves[600];        /* the folder */
    int warned, stderr_was; /* rank 0: what was said there, to be read, and where it went before */
};

static inline void open_zero(struct actor *a, struct rank_self *me)
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
static inline void hear_warnings(struct actor *a)
{
    int ends[2];
    CHECK_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    a->stderr_was = dup(STDERR_FILENO);
    CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
    a->warned = ends[0];
}

static inline void open_actor(struct actor *a, struct rank_self *me)
{
    struct dt_err err = {0};
    *a = (struct actor){.t = {.rank = me->rank, .ranks = me->size, .saving = {.saved = -1}}};
    struct dt_mesh_shape shape = {{1, me->size, 1, 1, 1}};
    a->t.world = rank_open(me);
    CHECK_OK(dt_mesh_open(&a->t.mesh, &shape, a->t.world, &err), err);
    open_zero(a, me);
    CHECK_OK(dt_ckpt_model_of(a->t.zero, &a->model, &err), err);
    snprintf(a->saves, sizeof a->saves, "%s", at("saves"));
    struct dt_ckpt_options o = {.dir = a->saves,
                                .keep_last = 2,
                                .model = a->model,
                                .rank = me->rank,
                                .world = me->size,
                                .block_bytes = 512};
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

static inline void close_actor(struct actor *a)
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

/* One step, as far as the saver and the uploader see it. */
static inline void step_actor(struct actor *a)
{
    struct dt_err err = {0};
    struct dt_agreement own = {.sums = {.loss = 1}}, all;
    a->t.state.step++;
    dt_saver_tell(&a->t, &own);
    all = own;
    CHECK_OK(
        dt_coll_all_reduce(a->t.world, &all, sizeof all / sizeof(double), DT_F64, DT_SUM, &err),
        err);
    CHECK(all.sums.loss >= a->t.ranks && all.sums.loss <= a->t.ranks);
    CHECK_OK(dt_saver_hear(&a->t, &own, &all, &err), err);
}

/* What rank 0 has warned of since the last call; "" on others. */
static inline const char *warnings_of(struct actor *a)
{
    static char said[2000];
    ssize_t n = a->t.rank == 0 ? read(a->warned, said, sizeof said - 1) : 0;
    said[n < 0 ? 0 : n] = '\0';
    return said;
}

#endif
