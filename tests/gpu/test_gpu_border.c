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
    float *made, *there[2]; /* of the host, and of the device: what is given next, by way */
    float **got;            /* of the device, by pass; NULL: nothing comes */
};

static enum dt_way way_of(const struct dt_pipe_op *op)
{
    return op->kind == DT_PIPE_FORWARD ? DT_ONWARD : DT_BACK;
}

/* Of what SECTION makes of a micro-batch. */
static float value(const struct dt_pipe_op *op, int section, size_t i)
{
    float number = (float)(1000 * op->micro + section + 1) + (float)(i % 100) / 128;
    return op->kind == DT_PIPE_FORWARD ? number : -number;
}

static int section_of(const struct walker *w, const struct dt_pipe_op *op)
{
    return op->chunk * w->p->plan.stages + w->stage;
}

static float *alloc(const struct walker *w)
{
    struct dt_err err = {0};
    float *at = dt_device_alloc(w->device, w->p->count * sizeof *at, "a test", &err);
    CHECK_OK(at ? 0 : -1, err);
    return at;
}

/* Into the place that the last one of this way was given from. */
static void give(struct walker *w, const struct dt_pipe_op *op)
{
    struct dt_err err = {0};
    size_t count = w->p->count;
    float *there = w->there[way_of(op)];
    if (!dt_pipe_gives(&w->p->plan, w->stage, op))
        return;
    for (size_t i = 0; i < count; i++)
        w->made[i] = value(op, section_of(w, op), i);
    w->device->table->from_host(w->device, there, w->made, count * sizeof *w->made);
    CHECK_OK(dt_border_give(w->border, way_of(op), there, count, &err), err);
}

static void expect(struct walker *w, const struct dt_pipe_op *op, size_t i)
{
    struct dt_err err = {0};
    if (!dt_pipe_takes(&w->p->plan, w->stage, op))
        return;
    w->got[i] = alloc(w);
    CHECK_OK(dt_border_expect(w->border, way_of(op), w->got[i], w->p->count, &err), err);
}

/* As train/stages.c goes through a list. */
static void walk(struct walker *w, const struct dt_pipe_op *list, size_t ops)
{
    struct dt_err err = {0};
    for (size_t begun = 0, i = 0, end; begun < ops; begun = i, i = end) {
        end = i < ops ? i + (size_t)dt_pipe_round(&w->p->plan, w->stage, i) : i;
        for (size_t next = i; next < end; next++)
            expect(w, list + next, next);
        for (size_t last = begun; last < i; last++)
            give(w, list + last);
        CHECK_OK(dt_border_send(w->border, &err), err);
        for (size_t next = i; next < end; next++)
            if (w->got[next])
                CHECK_OK(dt_border_take(w->border, way_of(list + next), &err), err);
    }
    CHECK_OK(dt_border_finish(w->border, &err), err);
}

static void check(struct walker *w, const struct dt_pipe_op *op, float *got)
{
    struct dt_err err = {0};
    int from = section_of(w, op) + (op->kind == DT_PIPE_FORWARD ? -1 : 1);
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
    for (int way = 0; way < 2; way++)
        w.there[way] = alloc(&w);
    w.got = calloc(ops, sizeof *w.got);
    dt_pipe_list(&p->plan, me->rank, list);
    walk(&w, list, ops);
    for (size_t i = 0; i < ops; i++)
        if (w.got[i])
            check(&w, list + i, w.got[i]);
    for (int way = 0; way < 2; way++)
        dt_device_free(w.device, w.there[way]);
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
        {{DT_PIPE_1F1B, 2, 1, 5}, 7},
        {{DT_PIPE_1F1B, 3, 1, 5}, 30000},
        {{DT_PIPE_1F1B, 4, 1, 6}, 10000},
        {{DT_PIPE_1F1B, 4, 1, 2}, 500},
        {{DT_PIPE_1F1B, 2, 1, 1}, 500},
        {{DT_PIPE_GPIPE, 3, 1, 7}, 10000},
        {{DT_PIPE_GPIPE, 4, 1, 4}, 3000},
        {{DT_PIPE_INTERLEAVED, 2, 2, 4}, 7},
        {{DT_PIPE_INTERLEAVED, 2, 3, 2}, 10000},
        {{DT_PIPE_INTERLEAVED, 3, 2, 6}, 3000},
        {{DT_PIPE_INTERLEAVED, 4, 2, 8}, 500},
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
