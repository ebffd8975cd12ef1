/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/stages.h"

#include "base/clock.h"
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/mesh/rows.h"
#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/ops/ops.h"
#include "worker_runtime/pipeline/split.h"
#include "worker_runtime/train/inside.h"

#include <stdlib.h>

struct dt_stages {
    struct dt_pipe_plan plan;
    struct dt_pipe_op *ops;
    size_t count, slots;
    struct dt_stage_even even;
    bool halts; /* in the midst of passes, for ranks that share blocks, samples or experts */
    struct dt_border *border;
};

struct dt_pipe_plan dt_stages_plan(const struct dt_config *c, int64_t micros)
{
    return (struct dt_pipe_plan){.schedule = c->parallel.schedule,
                                 .stages = c->parallel.pipeline,
                                 .chunks = 1,
                                 .micros = (int)micros};
}

int dt_stages_split(const struct dt_config *c, struct dt_stage **out, struct dt_err *err)
{
    const struct dt_shape *s = &c->model.shape;
    size_t stages = (size_t)c->parallel.pipeline, *first = calloc(stages + 1, sizeof *first);
    struct dt_pipe_plan plan = dt_stages_plan(c, c->parallel.pipeline);
    struct dt_pipe_unit *units = dt_pipe_units(s, c->data.positions, c->model.recompute, err);
    int rc = units ? 0 : -1;
    *out = calloc(stages, sizeof **out);
    if (rc == 0 && (!first || !*out))
        rc = dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu stages", stages);
    if (rc == 0)
        rc = dt_pipe_split(&plan, units, s->layers, 1, first, err);
    for (size_t i = 0; rc == 0 && i < stages; i++)
        (*out)[i] = (struct dt_stage){.chunks = 1, .chunk = {{first[i], first[i + 1]}}};
    free(first);
    free(units);
    if (rc < 0) {
        free(*out);
        *out = NULL;
    }
    return rc;
}

uint64_t dt_stages_mark(const struct dt_config *c)
{
    struct dt_stage *stages;
    uint64_t mark = 1;
    if (dt_stages_split(c, &stages, NULL) < 0)
        return 0;
    for (int i = 0; i < c->parallel.pipeline; i++)
        mark = dt_mix(mark ^ stages[i].chunk->end);
    free(stages);
    return mark;
}

#define STAGES_TOLD 12

void dt_stages_describe(const struct dt_config *c, struct dt_buf *out)
{
    int stages = c->parallel.pipeline;
    struct dt_stage *all;
    dt_buf_printf(out, "a pipeline of %d stages", stages);
    if (dt_stages_split(c, &all, NULL) == 0) {
        for (int i = 0; i < stages && i < STAGES_TOLD; i++)
            dt_buf_printf(out, "%s%zu", i ? " + " : ", with ",
                          all[i].chunk->end - all[i].chunk->first);
        dt_buf_printf(out, "%s blocks", stages > STAGES_TOLD ? " + ..." : "");
        free(all);
    }
    dt_buf_printf(out, ", by %s", dt_pipe_schedule_name(c->parallel.schedule));
}

int dt_stages_idle(const struct dt_config *c, int64_t micros)
{
    int64_t idle = c->parallel.pipeline - 1;
    return (int)(100 * idle / (idle + micros));
}

/* -- a rank's part ---------------------------------------------------------------------------- */

/* What a stage computes for a sample, and what it updates, words and head included. */
static struct dt_stage_even cost_of(const struct dt_pipe_unit *units, const struct dt_shape *s,
                                    const struct dt_stage *stage)
{
    struct dt_stage_even cost = {0};
    for (size_t i = 0; i < stage->chunks; i++) {
        struct dt_chunk own = dt_chunk_units(s, &stage->chunk[i]);
        for (size_t u = own.first; u < own.end; u++) {
            cost.computing += units[u].forward + units[u].input + units[u].weight;
            cost.update += units[u].params;
        }
    }
    return cost;
}

static int compare_costs(const struct dt_trainer *t, struct dt_stage_even *even, struct dt_err *err)
{
    const struct dt_shape *s = &t->config->model.shape;
    double stages = dt_trainer_pipeline(t)->size;
    struct dt_pipe_unit *units =
        dt_pipe_units(s, t->config->data.positions, t->config->model.recompute, err);
    if (!units)
        return -1;
    struct dt_stage whole = dt_stage_of(s, &(struct dt_stage){0});
    struct dt_stage_even own = cost_of(units, s, &t->stage), all = cost_of(units, s, &whole);
    *even = (struct dt_stage_even){.computing = all.computing / stages / own.computing,
                                   .update = all.update / stages / own.update};
    free(units);
    return 0;
}

static void say_idle(struct dt_trainer *t, const struct dt_pipe_plan *plan)
{
    if (t->rank == 0 && plan->micros < plan->stages)
        dt_buf_printf(
            &t->warnings,
            "parallel.pipeline: with %d micro-batch%s in a step each of the %d stages is "
            "idle for about %d %% of it; more gradient_accumulation_steps make that less\n",
            plan->micros, plan->micros == 1 ? "" : "es", plan->stages,
            dt_stages_idle(t->config, plan->micros));
}

/* What of so many samples goes over a border: of ranks that share them, or their rows, each sends
 * its own to the one of the next stage that has the same. */
static size_t stream_of(const struct dt_trainer *t, size_t batch)
{
    return dt_rows_own(&t->team, batch * dt_pieces_own(&t->pieces)) * t->config->model.shape.width;
}

static int list_passes(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_mesh_axis *axis = dt_trainer_pipeline(t);
    struct dt_pipe_plan plan = dt_stages_plan(t->config, t->batch.accumulation);
    if (t->batch.accumulation > DT_PIPE_MICROS_MOST)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.pipeline: a step has %d micro-batches at most, and "
                          "gradient_accumulation_steps is %lld",
                          DT_PIPE_MICROS_MOST, (long long)t->batch.accumulation);
    struct dt_stages *s = t->stages = calloc(1, sizeof *s);
    if (!s)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a stage");
    s->plan = plan;
    if (dt_pipe_check(&plan, err) < 0 || compare_costs(t, &s->even, err) < 0)
        return -1;
    s->count = dt_pipe_op_count(&plan);
    s->slots = (size_t)dt_pipe_slots(&plan, axis->index);
    s->halts = dt_trainer_tensor(t)->size > 1 || dt_trainer_context(t)->size > 1 ||
               dt_trainer_experts(t)->size > 1;
    s->ops = calloc(s->count, sizeof *s->ops);
    if (!s->ops)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu passes", s->count);
    dt_pipe_list(&plan, axis->index, s->ops);
    say_idle(t, &plan);
    return 0;
}

int dt_stages_open(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_mesh_axis *axis = dt_trainer_pipeline(t);
    size_t stream = stream_of(t, (size_t)t->batch.micro);
    if (axis->size == 1)
        return 0;
    if (dt_agree(t->world, list_passes(t, err), err) < 0)
        return -1;
    struct dt_stages *s = t->stages;
    s->border = dt_border_open(axis->group, stream, t->device->ops->elem, err);
    return s->border ? 0 : -1;
}

void dt_stages_close(struct dt_stages *s)
{
    if (!s)
        return;
    dt_border_close(s->border);
    free(s->ops);
    free(s);
}

size_t dt_stages_slots(const struct dt_stages *s)
{
    return s ? s->slots : 1;
}

struct dt_stage_even dt_stages_even(const struct dt_stages *s)
{
    return s ? s->even : (struct dt_stage_even){1, 1};
}

uint64_t dt_stages_ns(const struct dt_stages *s)
{
    return s ? dt_border_ns(s->border) : 0;
}

/* -- a step ----------------------------------------------------------------------------------- */

static enum dt_way way_of(const struct dt_pipe_op *op)
{
    return op->kind == DT_PIPE_FORWARD ? DT_ONWARD : DT_BACK;
}

/* Micro-batches that are under way at a time have numbers one behind the other. */
static size_t slot_of(const struct dt_stages *s, const struct dt_pipe_op *op)
{
    return (size_t)op->micro % s->slots;
}

static bool takes(const struct dt_trainer *t, const struct dt_pipe_op *op)
{
    return dt_pipe_takes(&t->stages->plan, dt_trainer_pipeline(t)->index, op);
}

static bool gives(const struct dt_trainer *t, const struct dt_pipe_op *op)
{
    return dt_pipe_gives(&t->stages->plan, dt_trainer_pipeline(t)->index, op);
}

static int expect(struct dt_trainer *t, const struct dt_pipe_op *op, struct dt_err *err)
{
    struct dt_stages *s = t->stages;
    enum dt_way way = way_of(op);
    if (!takes(t, op))
        return 0;
    void *to = way == DT_ONWARD ? dt_transformer_input(t->model, slot_of(s, op))
                                : dt_transformer_border(t->model, slot_of(s, op));
    return dt_border_expect(s->border, way, to, stream_of(t, (size_t)t->batch.micro), err);
}

static int give(struct dt_trainer *t, const struct dt_pipe_op *op, struct dt_err *err)
{
    struct dt_stages *s = t->stages;
    if (!gives(t, op))
        return 0;
    return dt_border_give(s->border, way_of(op), dt_transformer_border(t->model, slot_of(s, op)),
                          stream_of(t, (size_t)t->batch.micro), err);
}

/* The words are read in the first section, their successors in the last, and where documents are
 * packed all have to know where these begin. */
static bool reads_samples(const struct dt_trainer *t, const struct dt_pipe_op *forward)
{
    return !takes(t, forward) || !gives(t, forward) || t->documents;
}

static int pass(struct dt_trainer *t, const struct dt_pipe_op *op, float scale, double *loss,
                double *data_s, struct dt_err *err)
{
    struct dt_stages *s = t->stages;
    size_t slot = slot_of(s, op);
    dt_trainer_begin(t, true, op->micro == s->plan.micros - 1);
    if (op->kind == DT_PIPE_BACKWARD)
        return dt_transformer_backward(t->model, dt_trainer_model(t), slot, loss, err);
    int64_t begun = dt_clock_monotonic_ns();
    if (reads_samples(t, op) && dt_feed_micro_batch(t, op->micro, err) < 0)
        return -1;
    *data_s += (double)(dt_clock_monotonic_ns() - begun) * 1e-9;
    return dt_transformer_forward(t->model, dt_trainer_model(t), slot, (size_t)t->batch.micro,
                                  t->ids, t->targets, scale, err);
}

/* What comes next is asked for first; but where that is to come to where this is given from. */
static int hand_over(struct dt_trainer *t, const struct dt_pipe_op *op,
                     const struct dt_pipe_op *next, struct dt_err *err)
{
    bool first = next && next->micro != op->micro;
    if (first && expect(t, next, err) < 0)
        return -1;
    if (give(t, op, err) < 0)
        return -1;
    return next && !first ? expect(t, next, err) : 0;
}

static int before_pass(struct dt_trainer *t, struct dt_err *err)
{
    return t->stages->halts ? dt_border_halt(t->stages->border, err) : 0;
}

static int go_through(struct dt_trainer *t, float scale, double *loss, double *data_s,
                      struct dt_err *err)
{
    struct dt_stages *s = t->stages;
    const struct dt_pipe_op *end = s->ops + s->count;
    if (expect(t, s->ops, err) < 0)
        return -1;
    for (const struct dt_pipe_op *op = s->ops; op < end; op++) {
        enum dt_way way = way_of(op);
        if (takes(t, op) && dt_border_take(s->border, way, err) < 0)
            return -1;
        if (before_pass(t, err) < 0 || pass(t, op, scale, loss, data_s, err) < 0 ||
            hand_over(t, op, op + 1 < end ? op + 1 : NULL, err) < 0)
            return -1;
    }
    return dt_stages_rest(t, err);
}

int dt_stages_train(struct dt_trainer *t, float scale, double *loss, double *data_s,
                    struct dt_err *err)
{
    int rc = go_through(t, scale, loss, data_s, err);
    /* Neighbours end now, rather than wait for what will not come. */
    if (rc < 0)
        dt_coll_abort(dt_trainer_pipeline(t)->group, "a stage could not go through a step");
    return rc;
}

int dt_stages_loss(struct dt_trainer *t, size_t batch, double *loss, struct dt_err *err)
{
    const struct dt_pipe_op op = {.kind = DT_PIPE_FORWARD};
    struct dt_border *b = t->stages->border;
    bool any = batch > 0; /* without samples nothing goes over a border */
    if (any && takes(t, &op) &&
        (dt_border_expect(b, DT_ONWARD, dt_transformer_input(t->model, 0), stream_of(t, batch),
                          err) < 0 ||
         dt_border_take(b, DT_ONWARD, err) < 0))
        return -1;
    if (before_pass(t, err) < 0)
        return -1;
    if (dt_transformer_loss(t->model, dt_trainer_model(t), batch, t->ids, t->targets, loss, err) <
        0)
        return -1;
    if (!any || !gives(t, &op))
        return 0;
    return dt_border_give(b, DT_ONWARD, dt_transformer_border(t->model, 0), stream_of(t, batch),
                          err);
}

int dt_stages_rest(struct dt_trainer *t, struct dt_err *err)
{
    return t->stages ? dt_border_finish(t->stages->border, err) : 0;
}
