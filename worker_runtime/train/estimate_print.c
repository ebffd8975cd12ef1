/* SPDX-License-Identifier: Apache-2.0 */
/* The estimate as a person reads it: a table of the stages, and what to change where the one that
 * is configured does not fit. */
#include "base/str.h"
#include "worker_runtime/train/estimate.h"

#include <stdio.h>

#define STAGES 4

struct room {
    int world, local;
    size_t memory;
};

static bool fits(const struct dt_config *c, const struct room *r, int stage)
{
    struct dt_estimate e;
    if (dt_estimate(c, r->world, r->local, stage, &e, NULL) < 0)
        return false;
    return e.total <= r->memory / (size_t)r->local;
}

static const char *size_text(size_t bytes, char out[24])
{
    return dt_str_from_size(bytes, out, 24);
}

static void print_row(const struct dt_estimate *e, int stage, bool configured, bool fit,
                      struct dt_buf *out)
{
    const size_t columns[] = {e->params,      e->grads,    e->optimizer,
                              e->activations, e->snapshot, e->total};
    char text[24];
    dt_buf_printf(out, "%s%-6d", configured ? "* " : "  ", stage);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        dt_buf_printf(out, "%13s", size_text(columns[i], text));
    dt_buf_printf(out, "  %s\n", fit ? "yes" : "no");
}

static const char *precision(const struct dt_config *c)
{
    return c->zero.model_type == DT_BF16 ? "bf16" : c->zero.model_type == DT_F16 ? "fp16" : "fp32";
}

static void print_head(const struct dt_config *c, const struct room *r, struct dt_buf *out)
{
    struct dt_batch b;
    struct dt_err err;
    char memory[24];
    dt_buf_printf(out, "%.1f million parameters in %s; %d rank%s, %d on each host\n",
                  (double)dt_shape_params(&c->model.shape) * 1e-6, precision(c), r->world,
                  r->world == 1 ? "" : "s", r->local);
    if (dt_batch_resolve(&b, &c->batch, r->world, &err) < 0)
        dt_buf_printf(out, "no batch fits this world: %s\n", err.text);
    else
        dt_buf_printf(out,
                      "a step: %lld samples of %zu tokens, as %lld micro-batch%s of %lld on each "
                      "rank\n",
                      (long long)b.train, c->data.positions, (long long)b.accumulation,
                      b.accumulation == 1 ? "" : "es", (long long)b.micro);
    dt_buf_printf(out, "memory of one rank, and whether %d of them fit in %s:\n\n", r->local,
                  size_text(r->memory, memory));
    dt_buf_printf(out, "  %-6s%13s%13s%13s%13s%13s%13s  %s\n", "stage", "params", "grads",
                  "optimizer", "activations", "snapshot", "total", "fits");
}

/* A trial is a copy of the configuration with other numbers; it owns nothing. */
static struct dt_config with_micro(const struct dt_config *c, int64_t micro)
{
    struct dt_config trial = *c;
    trial.batch.micro_batch = micro;
    trial.batch.accumulation = 0;
    return trial;
}

static struct dt_config with_recompute(const struct dt_config *c)
{
    struct dt_config trial = *c;
    trial.model.recompute = true;
    trial.model.recompute_every = 1;
    return trial;
}

static int64_t micro_of(const struct dt_config *c, int world)
{
    struct dt_batch b;
    return dt_batch_resolve(&b, &c->batch, world, NULL) < 0 ? 1 : b.micro;
}

/* The largest half, quarter, ... of the micro batch that fits; 0: none. */
static int64_t smaller_micro(const struct dt_config *c, const struct room *r, int stage)
{
    for (int64_t micro = micro_of(c, r->world) / 2; micro > 0; micro /= 2) {
        struct dt_config trial = with_micro(c, micro);
        struct dt_batch b;
        if (dt_batch_resolve(&b, &trial.batch, r->world, NULL) == 0 && fits(&trial, r, stage))
            return micro;
    }
    return 0;
}

static void print_hint(const struct dt_config *c, const struct room *r, struct dt_buf *out)
{
    struct dt_config recompute = with_recompute(c);
    for (int stage = c->zero.stage + 1; stage < STAGES; stage++)
        if (fits(c, r, stage)) {
            dt_buf_printf(out, "it would fit with zero_optimization.stage %d\n", stage);
            return;
        }
    int64_t micro = smaller_micro(c, r, c->zero.stage);
    if (micro > 0) {
        dt_buf_printf(out, "it would fit with train_micro_batch_size_per_gpu %lld\n",
                      (long long)micro);
        return;
    }
    for (int stage = c->zero.stage; stage < STAGES; stage++) {
        micro = fits(&recompute, r, stage) ? micro_of(c, r->world)
                                           : smaller_micro(&recompute, r, stage);
        if (micro == 0)
            continue;
        dt_buf_printf(out,
                      "it would fit with zero_optimization.stage %d, "
                      "train_micro_batch_size_per_gpu %lld and model.activation_checkpointing "
                      "true\n",
                      stage, (long long)micro);
        return;
    }
    dt_buf_put_str(out, "no stage, micro batch or activation_checkpointing makes it fit: it wants "
                        "more hosts, fewer ranks on each, or a smaller model\n");
}

void dt_estimate_print(const struct dt_config *c, int world, int local, size_t memory,
                       struct dt_buf *out)
{
    struct room r = {world, local, memory};
    struct dt_estimate e;
    struct dt_err err;
    char needed[24], there[24];
    if (dt_estimate(c, world, local, c->zero.stage, &e, &err) < 0) {
        dt_buf_printf(out, "%s\n", err.text);
        return;
    }
    size_t whole = e.total * (size_t)local;
    print_head(c, &r, out);
    for (int stage = 0; stage < STAGES; stage++)
        if (dt_estimate(c, world, local, stage, &e, NULL) == 0)
            print_row(&e, stage, stage == c->zero.stage, fits(c, &r, stage), out);
    bool fit = fits(c, &r, c->zero.stage);
    dt_buf_printf(out, "\nstage %d takes %s of %s with %d rank%s on the host: %s\n", c->zero.stage,
                  size_text(whole, needed), size_text(memory, there), local, local == 1 ? "" : "s",
                  fit ? "it fits" : "it does not fit");
    if (!fit)
        print_hint(c, &r, out);
}
