/* SPDX-License-Identifier: Apache-2.0 */
/* What each stage of a pipeline has, and how long it waits for others. Times are counted in
 * operations of products, and sending takes none: what a run takes beside these is not known here.
 */
#include "worker_runtime/pipeline/simulate.h"
#include "worker_runtime/pipeline/split.h"
#include "worker_runtime/train/estimate.h"
#include "worker_runtime/train/stages.h"

#include <stdio.h>
#include <stdlib.h>

/* Stages are called uneven from here on: the slowest, to the mean. */
#define UNEVEN 1.05

/* More are not simulated. */
#define OPS_MOST ((size_t)1 << 23)

struct stages {
    struct dt_pipe_plan plan;
    struct dt_pipe_unit *units;
    const struct dt_shape *shape;
    struct dt_stage *blocks;
    struct dt_pipe_times *times; /* by section */
    struct dt_pipe_use *use;
    double makespan; /* 0: not simulated */
};

static void add_times(struct stages *s, int stage)
{
    for (int i = 0; i < s->plan.chunks; i++) {
        struct dt_chunk own = dt_chunk_units(s->shape, &s->blocks[stage].chunk[i]);
        struct dt_pipe_times *times = &s->times[i * s->plan.stages + stage];
        for (const struct dt_pipe_unit *u = s->units + own.first; u < s->units + own.end; u++) {
            times->forward += u->forward;
            times->input += u->input;
            times->weight += u->weight;
        }
    }
}

static double params_of(const struct stages *s, const struct dt_stage *stage)
{
    double params = 0;
    for (size_t i = 0; i < stage->chunks; i++) {
        struct dt_chunk own = dt_chunk_units(s->shape, &stage->chunk[i]);
        for (size_t u = own.first; u < own.end; u++)
            params += s->units[u].params;
    }
    return params;
}

static int simulate(struct stages *s, struct dt_err *err)
{
    size_t count = dt_pipe_op_count(&s->plan), all = count * (size_t)s->plan.stages;
    struct dt_pipe_op *ops = all > OPS_MOST ? NULL : calloc(all, sizeof *ops);
    struct dt_pipe_trial t = {
        .plan = s->plan, .ops = ops, .times = s->times, .room = DT_PIPE_ROOM_MOST};
    int rc = 0;
    if (all <= OPS_MOST && !ops)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu ops of a pipeline", all);
    for (int stage = 0; stage < s->plan.stages; stage++) {
        add_times(s, stage);
        if (ops)
            dt_pipe_list(&s->plan, stage, ops + (size_t)stage * count);
    }
    if (ops)
        rc = dt_pipe_simulate(&t, s->use, &s->makespan, err);
    free(ops);
    return rc;
}

static void put_blocks(const struct dt_stage *own, struct dt_buf *out)
{
    bool several = own->chunks > 1, one = !several && own->chunk->end == own->chunk->first + 1;
    dt_buf_printf(out, "%s", one ? "block" : "blocks");
    for (const struct dt_chunk *c = own->chunk; c < own->chunk + own->chunks; c++) {
        dt_buf_printf(out, "%s %zu", c > own->chunk ? "," : "", c->first);
        if (c->end > c->first + 1)
            dt_buf_printf(out, "%s%zu", several ? "-" : " to ", c->end - 1);
    }
}

static void print_stage(const struct stages *s, int stage, struct dt_buf *out)
{
    const struct dt_stage *own = &s->blocks[stage];
    struct dt_buf layers = {0};
    dt_buf_printf(&layers, "%s", stage == 0 ? "embedding, " : "");
    put_blocks(own, &layers);
    dt_buf_printf(&layers, "%s", dt_stage_is_last(s->shape, own) ? ", head" : "");
    dt_buf_printf(out, "  %-7d%-31s %10.1f M%15d", stage, dt_buf_cstr(&layers),
                  params_of(s, own) * 1e-6, dt_pipe_slots(&s->plan, stage));
    dt_buf_finish(&layers);
    if (s->makespan > 0)
        dt_buf_printf(out, "%8.1f %%", 100 * (1 - s->use[stage].busy / s->makespan));
    dt_buf_printf(out, "\n");
}

/* Stages wait because there are few micro-batches, and because one of them is slower. */
static void print_idle(const struct stages *s, struct dt_buf *out)
{
    double mean = 0, most = 0;
    int slowest = 0;
    for (int stage = 0; stage < s->plan.stages; stage++) {
        double own = s->use[stage].busy;
        slowest = own > most ? stage : slowest;
        most = own > most ? own : most;
        mean += own / s->plan.stages;
    }
    dt_buf_printf(out, "\non average they are idle for %.1f %% of a step, products alone counted\n",
                  100 * (1 - mean / s->makespan));
    if (most > UNEVEN * mean)
        dt_buf_printf(out,
                      "stage %d takes %.2f times as long as the mean: with any number of "
                      "micro-batches\nthe others wait for it\n",
                      slowest, most / mean);
}

static int fill(struct stages *s, const struct dt_config *c, struct dt_err *err)
{
    size_t stages = (size_t)s->plan.stages;
    s->shape = &c->model.shape;
    s->times = calloc(stages * (size_t)s->plan.chunks, sizeof *s->times);
    s->use = calloc(stages, sizeof *s->use);
    if (!s->times || !s->use)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu stages of a pipeline", stages);
    s->units = dt_pipe_units(&c->model.shape, c->data.positions, c->model.recompute, err);
    if (!s->units || dt_stages_split(c, &s->blocks, err) < 0)
        return -1;
    return simulate(s, err);
}

int dt_estimate_print_pipeline(const struct dt_config *c, int64_t micros, struct dt_buf *out,
                               struct dt_err *err)
{
    if (micros > DT_PIPE_MICROS_MOST)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.pipeline: a step has %d micro-batches at most, not %lld",
                          DT_PIPE_MICROS_MOST, (long long)micros);
    struct stages s = {.plan = dt_stages_plan(c, micros)};
    const struct dt_pipe_plan *p = &s.plan;
    int rc = dt_pipe_check(p, err) < 0 || fill(&s, c, err) < 0 ? -1 : 0;
    if (rc == 0) {
        dt_buf_printf(out, "\na pipeline of %d stages by %s, %d micro-batch%s in a step:\n\n",
                      p->stages, dt_pipe_schedule_name(p->schedule), p->micros,
                      p->micros == 1 ? "" : "es");
        dt_buf_printf(out, "  %-7s%-32s%12s%15s%10s\n", "stage", "layers", "parameters",
                      p->chunks > 1 ? "held chunks" : "micro-batches", "idle");
        for (int stage = 0; stage < p->stages; stage++)
            print_stage(&s, stage, out);
    }
    if (rc == 0 && s.makespan > 0)
        print_idle(&s, out);
    free(s.units);
    free(s.blocks);
    free(s.times);
    free(s.use);
    return rc;
}
