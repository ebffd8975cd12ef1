/* SPDX-License-Identifier: Apache-2.0 */
/* What stages on GPUs hand each other: all of it, in order, while nobody waits for the device until
 * the end, and nobody waits in a circle. CUDA does not survive a fork: this process never calls it.
 */
#include "tests/gpu/gpu_ranks.h"
#include "worker_runtime/coll/backend.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/pipeline/border.h"
#include "worker_runtime/pipeline/order.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

static int gpus;

BEFORE_ALL
{
    gpus = gpu_ranks_or_skip("4");
}

struct play {
    struct dt_pipe_plan plan;
    size_t count;
};

struct walker {
    const struct play *p;
    int stage;
    struct dt_device *device;
    struct dt_border *border;
    float *made, *there; /* of the host, and of the device: what is given next */
    float **got;         /* of the device, by pass; NULL: nothing comes */
};

static enum dt_way way_of(const struct dt_pipe_op *op)
{
    return op->kind == DT_PIPE_FORWARD ? DT_ONWARD : DT_BACK;
}

/* Of what STAGE makes of a micro-batch. */
static float value(const struct dt_pipe_op *op, int stage, size_t i)
{
    float number = (float)(1000 * op->micro + stage + 1) + (float)(i % 100) / 128;
    return op->kind == DT_PIPE_FORWARD ? number : -number;
}

static float *alloc(const struct walker *w)
{
    struct dt_err err = {0};
    float *at = dt_device_alloc(w->device, w->p->count * sizeof *at, "a test", &err);
    CHECK_OK(at ? 0 : -1, err);
    return at;
}

/* Into the place that the pass before was given from. */
static void give(struct walker *w, const struct dt_pipe_op *op)
{
    struct dt_err err = {0};
    size_t count = w->p->count;
    for (size_t i = 0; i < count; i++)
        w->made[i] = value(op, w->stage, i);
    w->device->table->from_host(w->device, w->there, w->made, count * sizeof *w->made);
    CHECK_OK(dt_border_give(w->border, way_of(op), w->there, count, &err), err);
}

/* As train/stages.c goes through a list. */
static void walk(struct walker *w, const struct dt_pipe_op *list, size_t ops)
{
    struct dt_err err = {0};
    for (size_t i = 0; i <= ops; i++) {
        const struct dt_pipe_op *next = list + i, *op = i > 0 ? next - 1 : NULL;
        bool comes = i < ops && dt_pipe_takes(&w->p->plan, w->stage, next);
        if (comes) {
            w->got[i] = alloc(w);
            CHECK_OK(dt_border_expect(w->border, way_of(next), w->got[i], w->p->count, &err), err);
        }
        if (op && dt_pipe_gives(&w->p->plan, w->stage, op))
            give(w, op);
        if (comes)
            CHECK_OK(dt_border_take(w->border, way_of(next), &err), err);
    }
    CHECK_OK(dt_border_finish(w->border, &err), err);
}

static void check(struct walker *w, const struct dt_pipe_op *op, float *got)
{
    struct dt_err err = {0};
    int from = op->kind == DT_PIPE_FORWARD ? w->stage - 1 : w->stage + 1;
    w->device->table->to_host(w->device, w->made, got, w->p->count * sizeof *got);
    CHECK_OK(dt_device_sync(w->device, &err), err);
    for (size_t i = 0; i < w->p->count; i++)
        CHECK(w->made[i] == value(op, from, i));
    dt_device_free(w->device, got);
}

static void walks(struct rank_self *me)
{
    const struct play *p = me->arg;
    size_t ops = dt_pipe_op_count(&p->plan);
    struct dt_pipe_op *list = calloc(ops, sizeof *list);
    struct dt_device_wish wish = {
        .kind = "cuda", .local_rank = me->rank, .local_world = me->size, .elem = DT_F32};
    struct dt_err err = {0};
    struct walker w = {.p = p, .stage = me->rank, .device = dt_device_open(&wish, &err)};
    CHECK_OK(w.device ? 0 : -1, err);
    struct dt_coll *host = rank_open(me);
    struct dt_coll *there = dt_coll_beside(host, w.device->coll, w.device, &err);
    CHECK_OK(there ? 0 : -1, err);
    w.border = dt_border_open(there, p->count, DT_F32, true, &err);
    CHECK_OK(w.border ? 0 : -1, err);
    w.made = calloc(p->count, sizeof *w.made);
    w.there = alloc(&w);
    w.got = calloc(ops, sizeof *w.got);
    dt_pipe_list(&p->plan, me->rank, list);
    walk(&w, list, ops);
    for (size_t i = 0; i < ops; i++)
        if (w.got[i])
            check(&w, list + i, w.got[i]);
    dt_device_free(w.device, w.there);
    dt_border_close(w.border);
    dt_coll_destroy(there);
    dt_coll_destroy(host);
    dt_device_close(w.device);
    free(w.made);
    free(w.got);
    free(list);
}

TEST(stages_on_gpus_get_what_their_neighbours_made)
{
    static const struct play rows[] = {
        {{DT_PIPE_1F1B, 2, 1, 5}, 7},     {{DT_PIPE_1F1B, 3, 1, 5}, 30000},
        {{DT_PIPE_1F1B, 4, 1, 6}, 10000}, {{DT_PIPE_1F1B, 4, 1, 2}, 500},
        {{DT_PIPE_1F1B, 2, 1, 1}, 500},   {{DT_PIPE_GPIPE, 3, 1, 7}, 10000},
        {{DT_PIPE_GPIPE, 4, 1, 4}, 3000},
    };
    if (gpus < 2)
        SKIP("2 GPUs are needed, and there is one");
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct play p = rows[i];
        CHECK_ROW("%s, %d stages, %d micro-batches of %zu numbers",
                  dt_pipe_schedule_name(p.plan.schedule), p.plan.stages, p.plan.micros, p.count);
        if (p.plan.stages <= gpus)
            ranks_run(p.plan.stages, walks, &p);
    }
}
