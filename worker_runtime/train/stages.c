/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/stages.h"

#include "base/clock.h"
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/coll/backend.h"
#include "worker_runtime/mesh/rows.h"
#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/ops/ops.h"
#include "worker_runtime/pipeline/split.h"
#include "worker_runtime/train/inside.h"

#include <stdlib.h>

struct dt_stages {
    struct dt_pipe_plan plan;
    struct dt_pipe_op *ops;
    size_t *slot; /* of each op */
    size_t count, slots;
    int ahead;
    size_t asked; /* passes of this step whose messages are expected, or were */
    struct dt_stage_even even;
    bool halts; /* in the midst of passes, for ranks that share blocks, samples or experts */
    struct dt_coll *there; /* of all stages, in the memory of their devices; NULL: the host's */
    struct dt_border *border;
};

struct dt_pipe_plan dt_stages_plan(const struct dt_config *c, int64_t micros)
{
    return (struct dt_pipe_plan){
        .schedule = c->parallel.schedule,
        .stages = c->parallel.pipeline,
        .chunks = c->parallel.schedule == DT_PIPE_INTERLEAVED ? c->parallel.chunks : 1,
        .micros = (int)micros};
}

/* Where ranks wait in passes, what they gave between hosts is taken before (dt_border_halt()). With
 * several chunks a neighbour may want it only behind its next pass. Devices hand over by rounds. */
int dt_stages_ahead(const struct dt_pipe_plan *p, bool teams, bool hosts, bool there)
{
    return p->chunks > 1 && teams && hosts && !there ? 2 : 1;
}

/* What is asked for so early needs a place of its own. */
int dt_stages_hold(const struct dt_pipe_plan *p, int stage, int ahead)
{
    int all = p->micros * p->chunks, hold = dt_pipe_slots(p, stage) + ahead - 1;
    return hold < all ? hold : all;
}

int dt_stages_split(const struct dt_config *c, struct dt_stage **out, struct dt_err *err)
{
    const struct dt_shape *s = &c->model.shape;
    struct dt_pipe_plan plan = dt_stages_plan(c, c->parallel.pipeline);
    size_t stages = (size_t)plan.stages, chunks = (size_t)plan.chunks;
    size_t *first = calloc(stages * chunks + 1, sizeof *first);
    struct dt_pipe_unit *units = dt_pipe_units(s, c->data.positions, c->model.recompute, err);
    int rc = units ? 0 : -1;
    *out = calloc(stages, sizeof **out);
    if (rc == 0 && (!first || !*out))
        rc = dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu stages", stages);
    if (rc == 0)
        rc = dt_pipe_split(&plan, units, s->layers, 1, first, err);
    for (size_t i = 0; rc == 0 && i < stages * chunks; i++)
        (*out)[i % stages].chunk[(*out)[i % stages].chunks++] =
            (struct dt_chunk){first[i], first[i + 1]};
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
        for (size_t k = 0; k < stages[i].chunks; k++)
            mark = dt_mix(mark ^ stages[i].chunk[k].end);
    free(stages);
    return mark;
}

#define SECTIONS_TOLD 12

void dt_stages_describe(const struct dt_config *c, struct dt_buf *out)
{
    struct dt_pipe_plan plan = dt_stages_plan(c, c->parallel.pipeline);
    int sections = plan.stages * plan.chunks;
    struct dt_stage *all;
    dt_buf_printf(out, "a pipeline of %d stages", plan.stages);
    if (plan.chunks > 1)
        dt_buf_printf(out, " x %d chunks", plan.chunks);
    if (dt_stages_split(c, &all, NULL) == 0) {
        for (int i = 0; i < sections && i < SECTIONS_TOLD; i++) {
            const struct dt_chunk *one = &all[i % plan.stages].chunk[i / plan.stages];
            dt_buf_printf(out, "%s%zu", i ? " + " : ", with ", one->end - one->first);
        }
        dt_buf_printf(out, "%s blocks", sections > SECTIONS_TOLD ? " + ..." : "");
        free(all);
    }
    dt_buf_printf(out, ", by %s", dt_pipe_schedule_name(plan.schedule));
}

/* A backward takes as long as two forwards, and each half of one as one. Where those are apart,
 * weights' gradients fill a part of what stages wait, as many as there are. */
int dt_stages_idle(const struct dt_config *c, int64_t micros)
{
    int64_t idle = c->parallel.pipeline - 1, passes = micros * dt_stages_plan(c, micros).chunks;
    if (dt_stages_halves(c)) {
        int64_t filled = micros > idle ? idle : micros - 1;
        return (int)(100 * (2 * idle - filled) / (2 * idle - filled + 3 * passes));
    }
    return (int)(100 * idle / (idle + passes));
}

bool dt_stages_halves(const struct dt_config *c)
{
    return c->parallel.pipeline > 1 && c->parallel.schedule == DT_PIPE_ZB_H1;
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
 * its own to the one of the next stage that has the same. Behind it are counts of what experts were
 * picked, each as large as a number of a CPU, where these are. */
static size_t stream_of(const struct dt_trainer *t, size_t batch)
{
    const struct dt_shape *s = &t->config->model.shape;
    size_t rows = dt_rows_own(&t->team, batch * dt_pieces_own(&t->pieces));
    return rows * s->width + dt_shape_pick_counts(s);
}

/* Whether OP can be where LAST was, NULL: nothing. Behind a backward a slot is free, once the next
 * forward is asked for. */
static bool fits(const struct dt_stages *s, const struct dt_pipe_op *op,
                 const struct dt_pipe_op *last)
{
    bool ended = last && (last->kind == DT_PIPE_BACKWARD || last->kind == DT_PIPE_WEIGHT);
    if (op->kind == DT_PIPE_FORWARD)
        return !last || (ended && op - last >= s->ahead);
    return last && last->micro == op->micro && last->chunk == op->chunk;
}

/* LAST: the op of each slot, NULL at first. */
static void deal_slots(struct dt_stages *s, const struct dt_pipe_op **last)
{
    for (const struct dt_pipe_op *op = s->ops; op < s->ops + s->count; op++) {
        size_t k = (size_t)op->micro % s->slots;
        while (!fits(s, op, last[k]))
            k = (k + 1) % s->slots;
        last[k] = op;
        s->slot[op - s->ops] = k;
    }
}

static int list_ops(struct dt_stages *s, int stage, struct dt_err *err)
{
    const struct dt_pipe_op **last = calloc(s->slots, sizeof *last);
    s->ops = calloc(s->count, sizeof *s->ops);
    s->slot = calloc(s->count, sizeof *s->slot);
    bool room = last && s->ops && s->slot;
    if (room) {
        dt_pipe_list(&s->plan, stage, s->ops);
        deal_slots(s, last);
    }
    free(last);
    if (room)
        return 0;
    return dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu passes", s->count);
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
    if (dt_pipe_check(&plan, err) < 0)
        return dt_err_wrap(err, "gradient_accumulation_steps");
    if (compare_costs(t, &s->even, err) < 0)
        return -1;
    s->count = dt_pipe_op_count(&plan);
    s->halts = dt_trainer_tensor(t)->size > 1 || dt_trainer_context(t)->size > 1 ||
               dt_trainer_experts(t)->size > 1;
    s->ahead =
        dt_stages_ahead(&plan, s->halts, dt_context_hosts(t->context) > 1, t->device->coll != NULL);
    s->slots = (size_t)dt_stages_hold(&plan, axis->index, s->ahead);
    say_idle(t, &plan);
    return list_ops(s, axis->index, err);
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
    const struct dt_coll_backend *backend = t->device->coll;
    if (backend) {
        s->there = dt_coll_beside(axis->group, backend, t->device, err);
        if (!s->there)
            return dt_err_wrap(err, "parallel.pipeline");
    }
    s->border = dt_border_open(backend ? s->there : axis->group, stream, t->device->ops->elem,
                               backend, err);
    return s->border ? 0 : -1;
}

void dt_stages_close(struct dt_stages *s)
{
    if (!s)
        return;
    dt_border_close(s->border);
    dt_coll_destroy(s->there);
    free(s->ops);
    free(s->slot);
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

static size_t slot_of(const struct dt_stages *s, const struct dt_pipe_op *op)
{
    return s->slot[op - s->ops];
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
    dt_transformer_turn(t->model, slot_of(s, op), (size_t)op->chunk);
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

static int read_samples(struct dt_trainer *t, int micro, double *data_s, struct dt_err *err)
{
    int64_t begun = dt_clock_monotonic_ns();
    int rc = dt_feed_micro_batch(t, micro, err);
    *data_s += (double)(dt_clock_monotonic_ns() - begun) * 1e-9;
    return rc;
}

static int pass_pairs(struct dt_trainer *t, const struct dt_pipe_op *op, float scale,
                      struct dt_loss_sums *sums, struct dt_err *err)
{
    const struct dt_dpo_pass pass = {.slot = slot_of(t->stages, op),
                                     .batch = (size_t)t->batch.micro,
                                     .micro = op->micro,
                                     .train = true,
                                     .last = !gives(t, op)};
    if (dt_dpo_forward(t, &pass, err) < 0)
        return -1;
    return pass.last ? dt_dpo_weigh(t, &pass, scale, sums, err) : 0;
}

static int pass_forward(struct dt_trainer *t, const struct dt_pipe_op *op, float scale,
                        struct dt_loss_sums *sums, double *data_s, struct dt_err *err)
{
    if (reads_samples(t, op) && read_samples(t, op->micro, data_s, err) < 0)
        return -1;
    dt_transformer_count(t->model, dt_feed_first(t, op->micro));
    if (t->config->dpo.on)
        return pass_pairs(t, op, scale, sums, err);
    return dt_transformer_forward(t->model, dt_trainer_model(t), slot_of(t->stages, op),
                                  (size_t)t->batch.micro, t->ids, t->targets, scale, err);
}

/* Behind the inputs' half of the last micro-batch gradients of weights are still to come, those of
 * others among them. */
static bool is_last(const struct dt_trainer *t, const struct dt_pipe_op *op)
{
    return op->micro == t->stages->plan.micros - 1 && op->kind != DT_PIPE_INPUT;
}

static int pass(struct dt_trainer *t, const struct dt_pipe_op *op, float scale,
                struct dt_loss_sums *sums, double *data_s, struct dt_err *err)
{
    struct dt_zero *z = dt_trainer_model(t);
    size_t slot = slot_of(t->stages, op);
    double of_tokens = 0; /* of pairs the loss is another */
    double *loss = t->config->dpo.on ? &of_tokens : &sums->loss;
    dt_trainer_begin(t, true, is_last(t, op));
    switch (op->kind) {
    case DT_PIPE_FORWARD:
        break;
    case DT_PIPE_BACKWARD:
        return dt_transformer_backward(t->model, z, slot, loss, err);
    case DT_PIPE_INPUT:
        return dt_transformer_backward_inputs(t->model, z, slot, loss, err);
    case DT_PIPE_WEIGHT:
        return dt_transformer_backward_weights(t->model, z, slot, err);
    }
    return pass_forward(t, op, scale, sums, data_s, err);
}

static int ask_up_to(struct dt_trainer *t, const struct dt_pipe_op *end, struct dt_err *err)
{
    struct dt_stages *s = t->stages;
    for (; s->asked < s->count && s->ops + s->asked < end; s->asked++)
        if (expect(t, s->ops + s->asked, err) < 0)
            return -1;
    return 0;
}

/* How many ops, OP the first, hand over in one go. */
static int round_of(const struct dt_trainer *t, const struct dt_pipe_op *op)
{
    const struct dt_stages *s = t->stages;
    if (!s->there)
        return 1;
    return dt_pipe_round(&s->plan, dt_trainer_pipeline(t)->index, (size_t)(op - s->ops));
}

/* What is to be asked for before OP. */
static int ask_before(struct dt_trainer *t, const struct dt_pipe_op *op, struct dt_err *err)
{
    int round = round_of(t, op), ahead = t->stages->ahead;
    return ask_up_to(t, op + (round > ahead ? round : ahead), err);
}

/* What the ops from FIRST to behind NEXT made. What comes next is asked for first; but where that
 * is to come to where this is given from, and where giving waits for nobody, as all that was given
 * before has been taken. */
static int hand_over(struct dt_trainer *t, const struct dt_pipe_op *first,
                     const struct dt_pipe_op *next, struct dt_err *err)
{
    const struct dt_stages *s = t->stages;
    const struct dt_pipe_op *last = next - 1;
    bool end = next == s->ops + s->count;
    bool ask = s->ahead == 1 && !end && (next->micro != last->micro || next->chunk != last->chunk);
    if (ask && ask_before(t, next, err) < 0)
        return -1;
    for (const struct dt_pipe_op *op = first; op < next; op++)
        if (give(t, op, err) < 0)
            return -1;
    return dt_border_send(s->border, err) < 0 ? -1 : ask_before(t, next, err);
}

static int before_pass(struct dt_trainer *t, struct dt_err *err)
{
    return t->stages->halts ? dt_border_halt(t->stages->border, err) : 0;
}

/* What is trained has no micro-batch under way then, and each slot is free. */
static int refer(struct dt_trainer *t, double *data_s, struct dt_err *err)
{
    for (int micro = 0; micro < t->stages->plan.micros; micro++) {
        const struct dt_dpo_pass pass = {
            .batch = (size_t)t->batch.micro, .micro = micro, .reference = true};
        dt_zero_begin(t->base, false, false);
        if (read_samples(t, micro, data_s, err) < 0 || dt_stages_compare(t, &pass, err) < 0)
            return -1;
    }
    return dt_stages_rest(t, err);
}

static int go_through(struct dt_trainer *t, float scale, struct dt_loss_sums *sums, double *data_s,
                      struct dt_err *err)
{
    struct dt_stages *s = t->stages;
    const struct dt_pipe_op *op = s->ops, *end = s->ops + s->count;
    if (t->config->dpo.on && refer(t, data_s, err) < 0)
        return -1;
    s->asked = 0;
    if (ask_before(t, op, err) < 0)
        return -1;
    while (op < end) {
        const struct dt_pipe_op *first = op, *next = op + round_of(t, op);
        for (; op < next; op++) {
            if (takes(t, op) && dt_border_take(s->border, way_of(op), err) < 0)
                return -1;
            if (before_pass(t, err) < 0 || pass(t, op, scale, sums, data_s, err) < 0)
                return -1;
        }
        if (hand_over(t, first, next, err) < 0)
            return -1;
    }
    return dt_stages_rest(t, err);
}

int dt_stages_train(struct dt_trainer *t, float scale, struct dt_loss_sums *sums, double *data_s,
                    struct dt_err *err)
{
    int rc = go_through(t, scale, sums, data_s, err);
    /* Neighbours end now, rather than wait for what will not come. */
    if (rc < 0)
        dt_coll_abort(t->stages->there ? t->stages->there : dt_trainer_pipeline(t)->group,
                      "a stage could not go through a step");
    return rc;
}

/* *LOSS grows; or PASS, not NULL, is of pairs. */
static int lose(struct dt_trainer *t, const struct dt_pipe_op *op, size_t batch,
                const struct dt_dpo_pass *pass, double *loss, struct dt_err *err)
{
    if (!pass)
        return dt_transformer_loss(t->model, dt_trainer_model(t), batch, t->ids, t->targets, loss,
                                   err);
    struct dt_dpo_pass own = *pass;
    own.last = !gives(t, op);
    return dt_dpo_forward(t, &own, err);
}

static int section_loss(struct dt_trainer *t, const struct dt_pipe_op *op, size_t batch,
                        const struct dt_dpo_pass *pass, double *loss, struct dt_err *err)
{
    struct dt_border *b = t->stages->border;
    bool any = batch > 0; /* without samples nothing goes over a border */
    dt_transformer_turn(t->model, 0, (size_t)op->chunk);
    if (any && takes(t, op) &&
        (dt_border_expect(b, DT_ONWARD, dt_transformer_input(t->model, 0), stream_of(t, batch),
                          err) < 0 ||
         dt_border_take(b, DT_ONWARD, err) < 0))
        return -1;
    if (before_pass(t, err) < 0)
        return -1;
    if (lose(t, op, batch, pass, loss, err) < 0)
        return -1;
    if (!any || !gives(t, op))
        return 0;
    if (dt_border_give(b, DT_ONWARD, dt_transformer_border(t->model, 0), stream_of(t, batch), err) <
        0)
        return -1;
    return dt_border_send(b, err);
}

static int go_forward(struct dt_trainer *t, size_t batch, const struct dt_dpo_pass *pass,
                      double *loss, struct dt_err *err)
{
    struct dt_pipe_op op = {.kind = DT_PIPE_FORWARD};
    for (; op.chunk < t->stages->plan.chunks; op.chunk++)
        if (section_loss(t, &op, batch, pass, loss, err) < 0)
            return -1;
    return 0;
}

int dt_stages_loss(struct dt_trainer *t, size_t batch, double *loss, struct dt_err *err)
{
    return go_forward(t, batch, NULL, loss, err);
}

int dt_stages_compare(struct dt_trainer *t, const struct dt_dpo_pass *pass, struct dt_err *err)
{
    return go_forward(t, pass->batch, pass, NULL, err);
}

int dt_stages_rest(struct dt_trainer *t, struct dt_err *err)
{
    return t->stages ? dt_border_finish(t->stages->border, err) : 0;
}
