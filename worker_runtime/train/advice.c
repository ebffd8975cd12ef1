/* SPDX-License-Identifier: Apache-2.0 */
/* Each change is tried on a copy of the configuration, which owns nothing, and the estimate says
 * what comes of it. */
#include "worker_runtime/train/advice.h"

#include "base/str.h"
#include "worker_runtime/train/stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAGES 4
#define LORA_R 8 /* of a block "lora" that is empty */
#define LEAST_POSITIONS 32
#define LEAST_SHARE 50 /* of the total: what saves less is no advice */

/* What is advised, and of what. */
struct asking {
    const struct dt_config *c;
    const struct dt_estimate_place *at;
    size_t total;
    struct dt_advice *out;
    size_t count;
};

static size_t total_of(const struct asking *a, const struct dt_config *trial, int stage)
{
    struct dt_estimate e;
    return dt_estimate(trial, a->at, stage, &e, NULL) < 0 ? SIZE_MAX : e.total;
}

/* The advice that was added, whose change is still to be written; NULL: it is none. */
static struct dt_advice *add(struct asking *a, const struct dt_config *trial, int stage, bool same)
{
    size_t total = total_of(a, trial, stage);
    if (total >= a->total || a->total - total < a->total / LEAST_SHARE ||
        a->count == DT_ADVICE_MOST)
        return NULL;
    struct dt_advice *one = &a->out[a->count++];
    *one = (struct dt_advice){.saves = a->total - total, .same = same};
    return one;
}

/* The largest half, quarter, ... of the micro batch that fits, or where none does or nobody knows
 * what would, the half; the batch stays. */
static void try_micro(struct asking *a)
{
    struct dt_batch b, half = {0};
    struct dt_config trial = *a->c;
    if (dt_batch_resolve(&b, &a->c->batch, dt_estimate_data(a->c, a->at), NULL) < 0)
        return;
    for (int64_t micro = b.micro / 2; micro > 0; micro /= 2) {
        struct dt_batch smaller;
        trial.batch = (struct dt_config_batch){.train_batch = b.train, .micro_batch = micro};
        if (dt_batch_resolve(&smaller, &trial.batch, dt_estimate_data(a->c, a->at), NULL) < 0)
            continue;
        half = half.micro > 0 ? half : smaller;
        if (total_of(a, &trial, a->c->zero.stage) <= dt_estimate_room(a->at)) {
            half = smaller;
            break;
        }
    }
    trial.batch = (struct dt_config_batch){.train_batch = b.train, .micro_batch = half.micro};
    struct dt_advice *one = half.micro > 0 ? add(a, &trial, a->c->zero.stage, true) : NULL;
    if (one)
        snprintf(one->change, sizeof one->change,
                 "train_micro_batch_size_per_gpu %lld with gradient_accumulation_steps %lld",
                 (long long)half.micro, (long long)half.accumulation);
}

static void try_recompute(struct asking *a)
{
    struct dt_config trial = *a->c;
    trial.model.recompute = true;
    trial.model.recompute_every = 1;
    bool may = !a->c->model.recompute && !dt_stages_halves(a->c);
    struct dt_advice *one = may ? add(a, &trial, a->c->zero.stage, true) : NULL;
    if (one)
        snprintf(one->change, sizeof one->change, "model.activation_checkpointing true");
}

/* Which holds no gradients until those of weights are due, and fewer micro-batches. */
static void try_schedule(struct asking *a)
{
    struct dt_config trial = *a->c;
    trial.parallel.schedule = DT_PIPE_1F1B;
    struct dt_advice *one = dt_stages_halves(a->c) ? add(a, &trial, a->c->zero.stage, true) : NULL;
    if (one)
        snprintf(one->change, sizeof one->change, "parallel.schedule \"1f1b\"");
}

static void try_sequence(struct asking *a)
{
    struct dt_config trial = *a->c;
    const struct dt_config_parallel *p = &a->c->parallel;
    bool may = p->tensor > 1 && !p->sequence && dt_config_shares_rows(p, a->c->data.positions);
    trial.parallel.sequence = true;
    struct dt_advice *one = may ? add(a, &trial, a->c->zero.stage, true) : NULL;
    if (one)
        snprintf(one->change, sizeof one->change, "parallel.sequence true");
}

/* The lowest that fits; where none does, the one that saves most. */
static void try_stage(struct asking *a)
{
    int best = 0;
    size_t least = a->total;
    for (int stage = a->c->zero.stage + 1; stage < STAGES; stage++) {
        size_t total = total_of(a, a->c, stage);
        if (total < least && least > dt_estimate_room(a->at)) {
            best = stage;
            least = total;
        }
    }
    struct dt_advice *one = best > 0 ? add(a, a->c, best, true) : NULL;
    if (one)
        snprintf(one->change, sizeof one->change, "zero_optimization.stage %d", best);
}

static bool host_has_room(const struct asking *a, const struct dt_config *trial)
{
    struct dt_estimate e;
    size_t host = a->at->memory, one = host / (size_t)a->at->local;
    return host == 0 ||
           (dt_estimate(trial, a->at, trial->zero.stage, &e, NULL) == 0 && e.offloaded <= one);
}

/* Of a GPU, to a host that has room, as far as is known. It trains the same but for last bits.
 * Stage 0 has nothing to offload. */
static void try_offload(struct asking *a)
{
    struct dt_config trial = *a->c;
    trial.zero.offload = true;
    bool may = a->at->on_gpu && !a->c->zero.offload && a->c->zero.stage > 0;
    struct dt_advice *one =
        may && host_has_room(a, &trial) ? add(a, &trial, a->c->zero.stage, true) : NULL;
    if (one)
        snprintf(one->change, sizeof one->change,
                 "zero_optimization.offload_optimizer {\"device\": \"cpu\"}");
}

/* What several micro-batches are added up in. */
static void try_sums(struct asking *a)
{
    struct dt_config trial = *a->c;
    trial.zero.float_sums = false;
    struct dt_advice *one = a->c->zero.float_sums ? add(a, &trial, a->c->zero.stage, false) : NULL;
    if (one)
        snprintf(one->change, sizeof one->change, "data_types.grad_accum_dtype \"bf16\"");
}

static void try_nf4(struct asking *a)
{
    struct dt_config trial = *a->c;
    trial.lora_nf4 = true;
    bool may = a->c->lora.r > 0 && !a->c->lora_nf4;
    struct dt_advice *one = may ? add(a, &trial, a->c->zero.stage, false) : NULL;
    if (one)
        snprintf(one->change, sizeof one->change, "lora.base \"nf4\"");
}

/* Of a model that begins with weights: beside those of chance there is nothing to adapt. */
static void try_lora(struct asking *a)
{
    struct dt_config trial = *a->c;
    trial.lora = (struct dt_lora){.r = LORA_R, .alpha = 2 * LORA_R};
    if (a->c->lora.r > 0 || a->c->model.shape.experts > 0 || !a->c->model.weights ||
        a->c->parallel.tensor > 1 || a->c->parallel.pipeline > 1 ||
        dt_lora_target_all(&trial.lora, &trial.model.shape, NULL) < 0)
        return;
    struct dt_advice *one = add(a, &trial, a->c->zero.stage, false);
    if (one)
        snprintf(one->change, sizeof one->change, "adapters in place of all weights (lora {})");
}

static void try_positions(struct asking *a)
{
    struct dt_config trial = *a->c;
    trial.data.positions /= 2;
    if (trial.data.positions < LEAST_POSITIONS ||
        trial.data.positions % (2 * (size_t)a->c->parallel.context) ||
        (a->c->parallel.sequence && !dt_config_shares_rows(&a->c->parallel, trial.data.positions)))
        return;
    struct dt_advice *one = add(a, &trial, a->c->zero.stage, false);
    if (one)
        snprintf(one->change, sizeof one->change, "data.sequence_length %zu", trial.data.positions);
}

static int compare(const void *one, const void *other)
{
    const struct dt_advice *a = one, *b = other;
    if (a->same != b->same)
        return a->same ? -1 : 1;
    if (a->saves != b->saves)
        return a->saves > b->saves ? -1 : 1;
    return strcmp(a->change, b->change);
}

size_t dt_advice_find(const struct dt_config *c, const struct dt_estimate_place *at,
                      struct dt_advice out[DT_ADVICE_MOST])
{
    struct asking a = {.c = c, .at = at, .out = out};
    a.total = total_of(&a, c, c->zero.stage);
    if (!c->has_model)
        return 0;
    try_micro(&a);
    try_recompute(&a);
    try_schedule(&a);
    try_sequence(&a);
    try_stage(&a);
    try_offload(&a);
    try_sums(&a);
    try_nf4(&a);
    try_lora(&a);
    try_positions(&a);
    qsort(out, a.count, sizeof *out, compare);
    return a.count;
}

const char *dt_advice_write(const struct dt_advice *a, size_t count, bool alone, char *out,
                            size_t size)
{
    size_t used = 0;
    char saves[24], one[192];
    if (size > 0)
        *out = '\0';
    for (size_t i = 0; i < count; i++) {
        dt_str_from_size(a[i].saves, saves, sizeof saves);
        int n = i > 0 ? snprintf(one, sizeof one, ", %s (%s)", a[i].change, saves)
                      : snprintf(one, sizeof one, "%s (saves %s%s)", a[i].change, saves,
                                 alone ? "" : " in each rank");
        if (n < 0 || used + (size_t)n >= size)
            break;
        memcpy(out + used, one, (size_t)n + 1);
        used += (size_t)n;
    }
    return out;
}
