/* SPDX-License-Identifier: Apache-2.0 */
/* The estimate as a person reads it: a table of the stages, and what to change where the one that
 * is configured does not fit. */
#include "base/str.h"
#include "worker_runtime/train/advice.h"
#include "worker_runtime/train/estimate.h"
#include "worker_runtime/train/stages.h"

#include <stdio.h>

#define STAGES 4

static size_t times(size_t bytes, int n)
{
    size_t all;
    return __builtin_mul_overflow(bytes, (size_t)n, &all) ? SIZE_MAX : all;
}

static bool host_has_room(const struct dt_estimate *e, const struct dt_estimate_place *at)
{
    return times(e->offloaded, at->local) <= at->memory;
}

/* Where it is, and what is offloaded in the host's memory. */
static bool fits(const struct dt_config *c, const struct dt_estimate_place *at, int stage)
{
    struct dt_estimate e;
    return dt_estimate(c, at, stage, &e, NULL) == 0 && e.total <= dt_estimate_room(at) &&
           host_has_room(&e, at);
}

static const char *size_text(size_t bytes, char out[24])
{
    return dt_str_from_size(bytes, out, 24);
}

static bool offloads(const struct dt_config *c, const struct dt_estimate_place *at)
{
    return at->on_gpu && c->zero.offload;
}

static void print_row(const struct dt_config *c, const struct dt_estimate_place *at,
                      const struct dt_estimate *e, int stage, struct dt_buf *out)
{
    bool gpu = at->gpus > 0;
    const size_t columns[] = {
        e->params, e->grads, e->optimizer, e->activations, gpu ? e->scratch : e->snapshot,
        e->total};
    char text[24];
    dt_buf_printf(out, "%s%-6d", stage == c->zero.stage ? "* " : "  ", stage);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        dt_buf_printf(out, "%13s", size_text(columns[i], text));
    if (offloads(c, at))
        dt_buf_printf(out, "%13s", size_text(e->offloaded, text));
    dt_buf_printf(out, "  %s\n", fits(c, at, stage) ? "yes" : "no");
}

static const char *owner(const struct dt_estimate_place *at)
{
    return at->limited ? "this control group's" : "this host's";
}

static const char *precision(const struct dt_config *c)
{
    return c->zero.model_type == DT_BF16 ? "bf16" : c->zero.model_type == DT_F16 ? "fp16" : "fp32";
}

/* Which memory it is. */
static void print_room(const struct dt_estimate_place *at, struct dt_buf *out)
{
    char memory[24], left[24];
    if (at->no_gpu)
        dt_buf_printf(out, "no GPU: %s\n", at->no_gpu);
    if (at->gpus > 0 && at->gpus < at->local)
        dt_buf_printf(out,
                      "this host has %d GPU%s; %d ranks on it would be refused, and are taken to "
                      "have one like it each\n",
                      at->gpus, at->gpus == 1 ? "" : "s", at->local);
    if (at->gpus > 0)
        dt_buf_printf(out, "memory of one rank, and whether it fits in %s, %s, %s free:\n\n",
                      at->gpu.name, size_text(at->gpu.total, memory),
                      size_text(at->gpu.free, left));
    else
        dt_buf_printf(out, "memory of one rank, and whether %d of them fit in %s %s:\n\n",
                      at->local, owner(at), size_text(at->memory, memory));
}

static void print_head(const struct dt_config *c, const struct dt_estimate_place *at,
                       const struct dt_estimate *e, struct dt_buf *out)
{
    struct dt_batch b;
    struct dt_err err;
    char shares[100];
    dt_lora_say(&c->lora, &c->model.shape, shares, sizeof shares);
    dt_buf_printf(out, "%.1f million parameters in %s; %d rank%s, %d on each host\n",
                  (double)dt_shape_params(&c->model.shape) * 1e-6, precision(c), at->world,
                  at->world == 1 ? "" : "s", at->local);
    if (c->lora.r > 0)
        dt_buf_printf(out, "they are frozen%s; %s of %s with %.2f million in fp32 are trained\n",
                      c->lora_nf4 ? ", in NF4 what is in linear layers of blocks" : "",
                      c->lora.dora ? "adapters and magnitudes" : "adapters", shares,
                      (double)e->trained * 1e-6);
    if (dt_batch_resolve(&b, &c->batch, dt_estimate_data(c, at), &err) < 0)
        dt_buf_printf(out, "no batch fits this world: %s\n", err.text);
    else
        dt_buf_printf(out,
                      "a step: %lld samples of %zu tokens, as %lld micro-batch%s of %lld on each "
                      "rank\n",
                      (long long)b.train, c->data.positions, (long long)b.accumulation,
                      b.accumulation == 1 ? "" : "es", (long long)b.micro);
    if (c->parallel.pipeline > 1)
        dt_buf_put_str(out, "of a pipeline's stages the one that takes most is told of\n");
    print_room(at, out);
    dt_buf_printf(out, "  %-6s%13s%13s%13s%13s%13s%13s", "stage", "params", "grads", "optimizer",
                  "activations", at->gpus > 0 ? "scratch" : "snapshot", "total");
    dt_buf_printf(out, "%s  fits\n", offloads(c, at) ? "  on the host" : "");
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
static int64_t smaller_micro(const struct dt_config *c, const struct dt_estimate_place *at,
                             int stage)
{
    for (int64_t micro = micro_of(c, dt_estimate_data(c, at)) / 2; micro > 0; micro /= 2) {
        struct dt_config trial = with_micro(c, micro);
        struct dt_batch b;
        if (dt_batch_resolve(&b, &trial.batch, dt_estimate_data(c, at), NULL) == 0 &&
            fits(&trial, at, stage))
            return micro;
    }
    return 0;
}

/* What changes the training is the last that is tried. */
static bool print_other(const struct dt_config *c, const struct dt_estimate_place *at,
                        struct dt_buf *out)
{
    struct dt_advice all[DT_ADVICE_MOST];
    struct dt_estimate e;
    size_t count = dt_advice_find(c, at, all);
    if (dt_estimate(c, at, c->zero.stage, &e, NULL) < 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (e.total - all[i].saves <= dt_estimate_room(at)) {
            dt_buf_printf(out, "it would fit with %s\n", all[i].change);
            return true;
        }
    return false;
}

static void print_hint(const struct dt_config *c, const struct dt_estimate_place *at,
                       const struct dt_estimate *own, struct dt_buf *out)
{
    struct dt_config recompute = with_recompute(c);
    if (!host_has_room(own, at)) {
        dt_buf_printf(out, "what is offloaded wants a host with more memory, more hosts, fewer "
                           "ranks on each, or a smaller model\n");
        return;
    }
    for (int stage = c->zero.stage + 1; stage < STAGES; stage++)
        if (fits(c, at, stage)) {
            dt_buf_printf(out, "it would fit with zero_optimization.stage %d\n", stage);
            return;
        }
    int64_t micro = smaller_micro(c, at, c->zero.stage);
    if (micro > 0) {
        dt_buf_printf(out, "it would fit with train_micro_batch_size_per_gpu %lld\n",
                      (long long)micro);
        return;
    }
    for (int stage = c->zero.stage; stage < STAGES && !dt_stages_halves(c); stage++) {
        micro = fits(&recompute, at, stage) ? micro_of(c, dt_estimate_data(c, at))
                                            : smaller_micro(&recompute, at, stage);
        if (micro == 0)
            continue;
        dt_buf_printf(out,
                      "it would fit with zero_optimization.stage %d, "
                      "train_micro_batch_size_per_gpu %lld and model.activation_checkpointing "
                      "true\n",
                      stage, (long long)micro);
        return;
    }
    if (print_other(c, at, out))
        return;
    dt_buf_printf(
        out,
        "no stage, micro batch or activation_checkpointing makes it fit: it wants %s, or a "
        "smaller model\n",
        at->gpus > 0 ? "more GPUs, or larger ones" : "more hosts, fewer ranks on each");
}

/* Each change alone, whether it is enough or not. */
static void print_advice(const struct dt_config *c, const struct dt_estimate_place *at,
                         struct dt_buf *out)
{
    struct dt_advice all[DT_ADVICE_MOST];
    char text[DT_ADVICE_MOST * 192];
    size_t count = dt_advice_find(c, at, all);
    if (count > 0)
        dt_buf_printf(out, "what takes less: %s\n",
                      dt_advice_write(all, count, at->world == 1, text, sizeof text));
}

static const char *verdict(bool fit)
{
    return fit ? "it fits" : "it does not fit";
}

/* What is the host's of an optimizer that is not in the GPU's memory. */
static void print_offloaded(const struct dt_estimate_place *at, const struct dt_estimate *e,
                            struct dt_buf *out)
{
    char needed[24], there[24];
    size_t all = times(e->offloaded, at->local);
    if (all > 0)
        dt_buf_printf(out, "what is offloaded takes %s of %s %s with %d rank%s on it: %s\n",
                      size_text(all, needed), owner(at), size_text(at->memory, there), at->local,
                      at->local == 1 ? "" : "s", verdict(host_has_room(e, at)));
}

/* What ranks on GPUs write checkpoints from is in the host's memory. */
static void print_gpu_end(const struct dt_config *c, const struct dt_estimate_place *at,
                          const struct dt_estimate *e, struct dt_buf *out)
{
    char needed[24], there[24];
    size_t copies = times(e->snapshot, at->local), all;
    bool fit =
        !__builtin_add_overflow(copies, times(e->offloaded, at->local), &all) && all <= at->memory;
    dt_buf_printf(out, "\nstage %d takes %s of the %s that are free there: %s\n", c->zero.stage,
                  size_text(e->total, needed), size_text(at->gpu.free, there),
                  verdict(e->total <= at->gpu.free));
    print_offloaded(at, e, out);
    if (copies > 0)
        dt_buf_printf(out, "checkpoints take %s%s of %s %s with %d rank%s on it: %s\n",
                      size_text(copies, needed), e->offloaded ? " besides" : "", owner(at),
                      size_text(at->memory, there), at->local, at->local == 1 ? "" : "s",
                      verdict(fit));
}

static void print_end(const struct dt_config *c, const struct dt_estimate_place *at,
                      const struct dt_estimate *e, struct dt_buf *out)
{
    char needed[24], there[24];
    dt_buf_printf(out, "\nstage %d takes %s of %s with %d rank%s on the host: %s\n", c->zero.stage,
                  size_text(times(e->total, at->local), needed), size_text(at->memory, there),
                  at->local, at->local == 1 ? "" : "s", verdict(fits(c, at, c->zero.stage)));
    print_offloaded(at, e, out);
}

/* On a host of the job that dtrun starts: what of its memory is not a GPU's. */
static void print_vault(const struct dt_config *c, const struct dt_estimate_place *at,
                        const struct dt_estimate *e, struct dt_buf *out)
{
    char vault[24], there[24];
    size_t vaults = times(e->vault, at->local), other = at->gpus > 0 ? e->snapshot : e->total, all;
    other = other > SIZE_MAX - e->offloaded ? SIZE_MAX : other + e->offloaded;
    if (e->vault == 0)
        return;
    bool fit = !__builtin_add_overflow(vaults, times(other, at->local), &all) && all <= at->memory;
    dt_buf_printf(out, "the vault%s takes %s besides of %s %s: %s\n",
                  dt_estimate_has_copies(c, at) ? ", with copies of other hosts'," : "",
                  size_text(vaults, vault), owner(at), size_text(at->memory, there), verdict(fit));
    if (!fit && fits(c, at, c->zero.stage))
        dt_buf_printf(out, c->train.vault == DT_VAULT_AUTO
                               ? "so the run goes without, as train.vault is \"auto\"\n"
                               : "the run would be refused, as train.vault is not \"auto\"\n");
}

static int print_pipeline(const struct dt_config *c, const struct dt_estimate_place *at,
                          struct dt_buf *out, struct dt_err *err)
{
    struct dt_batch b;
    if (c->parallel.pipeline == 1 ||
        dt_batch_resolve(&b, &c->batch, dt_estimate_data(c, at), NULL) < 0)
        return 0;
    return dt_estimate_print_pipeline(c, b.accumulation, out, err);
}

int dt_estimate_print(const struct dt_config *c, const struct dt_estimate_place *at,
                      struct dt_buf *out, struct dt_err *err)
{
    struct dt_estimate own, e;
    if (dt_estimate(c, at, c->zero.stage, &own, err) < 0)
        return -1;
    print_head(c, at, &own, out);
    for (int stage = 0; stage < STAGES; stage++)
        if (dt_estimate(c, at, stage, &e, NULL) == 0)
            print_row(c, at, &e, stage, out);
    (at->gpus > 0 ? print_gpu_end : print_end)(c, at, &own, out);
    print_vault(c, at, &own, out);
    if (print_pipeline(c, at, out, err) < 0)
        return -1;
    if (fits(c, at, c->zero.stage))
        return 0;
    print_hint(c, at, &own, out);
    print_advice(c, at, out);
    return 0;
}
