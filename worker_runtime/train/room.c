/* SPDX-License-Identifier: Apache-2.0 */
/* What this host's memory has room for, and what is said where it has too little. Most of what a
 * run takes is not there before its first step: memory counts when it is touched. */
#include "base/cgroup.h"
#include "base/say.h"
#include "base/str.h"
#include "worker_runtime/train/advice.h"
#include "worker_runtime/train/estimate.h"
#include "worker_runtime/train/inside.h"
#include "worker_runtime/train/touched.h"

#include <stdio.h>
#include <string.h>

/* Of a GPU nobody looks how much was free: another rank may be taking it. That it is there says
 * that snapshots take nothing of it. */
static struct dt_estimate_place place_of(const struct dt_trainer *t)
{
    bool on_gpu = strcmp(t->device->name, "cpu") != 0;
    return (struct dt_estimate_place){.world = t->ranks,
                                      .local = dt_context_local_world(t->context),
                                      .memory = t->memory_left,
                                      .on_gpu = on_gpu,
                                      .gpus = on_gpu ? 1 : 0};
}

/* What this rank will take of the host's memory. */
static int64_t wanted(const struct dt_trainer *t)
{
    struct dt_estimate_place at = place_of(t);
    struct dt_estimate e;
    if (dt_estimate(t->config, &at, t->config->zero.stage, &e, NULL) < 0)
        return 0;
    return (int64_t)(at.on_gpu ? e.snapshot + e.offloaded : e.total);
}

int64_t dt_trainer_memory_left(const struct dt_trainer *t)
{
    int local = dt_context_local_world(t->context);
    struct dt_cgroup memory;
    dt_cgroup_find(&memory, "memory", "");
    int64_t touched = dt_touched_bytes((int64_t)dt_vault_mapped(t->keeper.vault), local);
    int64_t left = dt_cgroup_memory_left(&memory), more = wanted(t) - touched;
    if (left < 0 || more <= 0)
        return left;
    return left > more * local ? left - more * local : 0;
}

static size_t held_by(const struct dt_zero *z)
{
    struct dt_zero_memory m = {0};
    if (z)
        dt_zero_memory(z, &m);
    return m.params + m.grads + m.optimizer + m.scratch;
}

static size_t offloaded_by(const struct dt_zero *z)
{
    struct dt_zero_memory m = {0};
    if (z)
        dt_zero_memory(z, &m);
    return m.offloaded;
}

void dt_trainer_say_memory(const struct dt_trainer *t)
{
    char all[24], activations[24];
    size_t held = dt_transformer_held(t->model);
    size_t offloaded = offloaded_by(t->zero) + offloaded_by(t->base);
    dt_metrics_say(t->metrics, "%s of memory in each rank%s; %s of that are for activations",
                   dt_str_from_size(held_by(t->zero) + held_by(t->base) + held, all, sizeof all),
                   t->stages ? " of the first stage" : "",
                   dt_str_from_size(held, activations, sizeof activations));
    if (offloaded > 0)
        dt_metrics_say(t->metrics, "%s of the host's memory in each rank for what is offloaded",
                       dt_str_from_size(offloaded, all, sizeof all));
}

/* "; try ..." into OUT. */
static void write_advice(const struct dt_trainer *t, char *out, size_t size)
{
    static const char try[] = "; try ";
    struct dt_advice all[DT_ADVICE_MOST];
    struct dt_estimate_place at = place_of(t);
    size_t count = dt_advice_find(t->config, &at, all), used = sizeof try - 1;
    if (size > 0)
        *out = '\0';
    if (size > used && *dt_advice_write(all, count, t->ranks == 1, out + used, size - used))
        memcpy(out, try, used);
}

void dt_trainer_look_at_room(struct dt_trainer *t)
{
    struct dt_estimate_place at = place_of(t);
    struct dt_cgroup memory;
    struct dt_estimate e;
    char line[900], advice[700], needed[24], there[24];
    dt_cgroup_find(&memory, "memory", "");
    int64_t left = dt_cgroup_memory_left(&memory);
    at.memory = t->memory_left = left > 0 ? (size_t)left : 0;
    if (left < 0 || dt_context_local_rank(t->context) != 0 ||
        dt_estimate(t->config, &at, t->config->zero.stage, &e, NULL) < 0)
        return;
    size_t wants = at.on_gpu ? e.offloaded : e.total;
    if (wants <= at.memory / (size_t)at.local)
        return;
    if (at.on_gpu)
        *advice = '\0';
    else
        write_advice(t, advice, sizeof advice);
    snprintf(line, sizeof line,
             "this run wants about %s%s, and %s of this host's memory are left, so the kernel may "
             "kill it%s",
             dt_str_from_size(wants, needed, sizeof needed),
             at.local == 1 ? "" : " in each of its ranks",
             dt_str_from_size((uint64_t)left, there, sizeof there), advice);
    dt_say(DT_TRAIN_PROGRAM, line);
}

void dt_trainer_advise(const struct dt_trainer *t, struct dt_err *err)
{
    size_t used = strlen(err->text);
    write_advice(t, err->text + used, sizeof err->text - used);
}
