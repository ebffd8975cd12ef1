/* SPDX-License-Identifier: Apache-2.0 */
/* The block "scheduler": from its words and numbers to a schedule, as far as it does not hang on
 * how many steps the data come to. */
#include "worker_runtime/config/keys.h"

#include <cjson/cJSON.h>
#include <string.h>
#include <strings.h>

#define WARMUP_STEPS 1000

static bool is_auto(const struct cJSON *v)
{
    return cJSON_IsString(v) && strcmp(v->valuestring, "auto") == 0;
}

int dt_take_scheduler_type(const struct dt_reading *r, const struct cJSON *v)
{
    static const char *const known[] = {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};
    const char *type = dt_config_text_of(r, v);
    if (!type)
        return -1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcasecmp(type, known[i]) != 0)
            continue;
        r->draft->scheduler = (int)i;
        return 0;
    }
    return dt_config_refuse(r, v,
                            "the scheduler \"%.40s\" is not implemented; WarmupLR, WarmupDecayLR "
                            "and WarmupCosineLR are",
                            type);
}

int dt_take_warmup_type(const struct dt_reading *r, const struct cJSON *v)
{
    const char *type = dt_config_text_of(r, v);
    char path[200];
    r->draft->warmup_type = DT_WARMUP_LOG;
    if (!type)
        return -1;
    if (is_auto(v))
        return 0;
    if (strcmp(type, "linear") == 0)
        r->draft->warmup_type = DT_WARMUP_LINEAR;
    else if (strcmp(type, "log") != 0)
        dt_config_warn(r, "%s: \"%.40s\" is neither log nor linear, and means log",
                       dt_json_path(r->doc, v, path, sizeof path), type);
    return 0;
}

/* A tenth of the run, and not more than where DeepSpeed begins. */
static int64_t warmup_of(int64_t total)
{
    int64_t n = total > 0 && total / 10 < WARMUP_STEPS ? total / 10 : WARMUP_STEPS;
    return n < 2 ? 2 : n;
}

void dt_config_schedule(const struct dt_config *c, int64_t steps, struct dt_schedule *out)
{
    *out = c->schedule;
    if (c->total_follows)
        out->total_steps = steps;
    if (c->warmup_follows)
        out->warmup_steps = warmup_of(out->total_steps ? out->total_steps : steps);
}

static int64_t automatic_warmup(const struct dt_reading *r, int64_t total)
{
    int64_t n = warmup_of(total);
    dt_config_warn(r, "scheduler.params.warmup_num_steps: \"auto\" is %lld here", (long long)n);
    return n;
}

static int settle_total(const struct dt_reading *r)
{
    struct dt_draft *d = r->draft;
    if (d->total_steps == DT_AUTO && d->c.train.epochs > 0) {
        d->c.total_follows = true;
        return 0;
    }
    if (d->total_steps == DT_AUTO) {
        if (d->c.train.steps <= 0)
            return dt_err_set(r->err, DT_E_USAGE,
                              "scheduler.params.total_num_steps: \"auto\" is train.steps, "
                              "which is not written");
        d->total_steps = d->c.train.steps;
    }
    if (d->total_steps == DT_UNSET && d->scheduler != DT_SCHEDULER_WARMUP)
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.params.total_num_steps is missing; \"auto\" means "
                          "train.steps");
    return 0;
}

/* DeepSpeed takes a parameter of another scheduler for a mistake, and so it is. */
static int settle_strangers(const struct dt_reading *r)
{
    const struct dt_draft *d = r->draft;
    bool cosine = d->scheduler == DT_SCHEDULER_COSINE;
    if (d->scheduler == DT_SCHEDULER_WARMUP && d->total_steps != DT_UNSET)
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.params.total_num_steps: WarmupLR has no end; drop it, "
                          "or take WarmupDecayLR or WarmupCosineLR");
    if (!cosine && (d->warmup_min_ratio >= 0 || d->cos_min_ratio >= 0))
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.params: warmup_min_ratio and cos_min_ratio belong to "
                          "WarmupCosineLR");
    if (cosine && (d->min_lr > 0 || d->max_lr >= 0))
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.params: WarmupCosineLR scales optimizer.params.lr; "
                          "warmup_min_lr and warmup_max_lr are not its parameters");
    return 0;
}

/* Where WarmupLR and WarmupDecayLR end up. */
static double settle_max_lr(const struct dt_draft *d)
{
    if (d->max_lr >= 0)
        return d->max_lr;
    if (d->max_lr == DT_AUTO || d->scheduler != DT_SCHEDULER_DECAY)
        return d->lr;
    return 0.001;
}

int dt_config_settle_schedule(const struct dt_reading *r)
{
    static const enum dt_schedule_kind kinds[] = {DT_WARMUP, DT_WARMUP_DECAY, DT_WARMUP_COSINE};
    struct dt_draft *d = r->draft;
    struct dt_schedule *s = &d->c.schedule;
    s->lr = d->lr;
    if (d->c.train.steps > 0 && d->c.train.epochs > 0)
        return dt_err_set(r->err, DT_E_USAGE,
                          "train.steps and train.epochs are both written; drop one");
    if (d->scheduler_block && d->scheduler == DT_UNSET)
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.type is missing; WarmupLR, WarmupDecayLR and "
                          "WarmupCosineLR are implemented");
    if (d->scheduler == DT_UNSET) {
        s->kind = DT_SCHEDULE_CONSTANT;
        return 0;
    }
    if (settle_strangers(r) < 0 || settle_total(r) < 0)
        return -1;
    s->kind = kinds[d->scheduler];
    s->warmup_type = (enum dt_warmup_type)d->warmup_type;
    s->min_lr = d->min_lr;
    s->max_lr = settle_max_lr(d);
    s->total_steps = d->total_steps < 0 ? 0 : d->total_steps;
    d->c.warmup_follows = d->warmup_steps == DT_AUTO && d->c.train.epochs > 0 && !s->total_steps;
    s->warmup_steps = d->c.warmup_follows ? 0
                      : d->warmup_steps == DT_AUTO
                          ? automatic_warmup(r, s->total_steps ? s->total_steps : d->c.train.steps)
                      : d->warmup_steps < 0 ? WARMUP_STEPS
                                            : d->warmup_steps;
    s->warmup_min_ratio = d->warmup_min_ratio < 0 ? 0 : d->warmup_min_ratio;
    s->cos_min_ratio = d->cos_min_ratio < 0 ? 0.0001 : d->cos_min_ratio;
    if (s->total_steps && s->total_steps < s->warmup_steps)
        dt_config_warn(r,
                       "scheduler.params: total_num_steps %lld ends within the %lld steps of "
                       "warmup_num_steps",
                       (long long)s->total_steps, (long long)s->warmup_steps);
    return 0;
}
