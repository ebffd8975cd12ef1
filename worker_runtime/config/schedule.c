/* SPDX-License-Identifier: Apache-2.0 */
/* The block "scheduler": from its words and numbers to a schedule, as far as it does not hang on
 * how many steps the data come to. */
#include "worker_runtime/config/keys.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define WARMUP_STEPS 1000
#define LR_END 1e-7 /* of "polynomial" */

/* Schedulers, a bit each. */
#define SET(name) (1u << DT_SCHEDULER_##name)
#define ALL ((1u << DT_SCHEDULERS) - 1)
#define DEEPSPEEDS (SET(WARMUP) | SET(DECAY) | SET(COSINE))
#define ENDLESS (SET(WARMUP) | SET(HF_CONSTANT) | SET(HF_WARMUP) | SET(HF_INVERSE_SQRT))

static bool is_auto(const struct cJSON *v)
{
    return cJSON_IsString(v) && strcmp(v->valuestring, "auto") == 0;
}

static const struct {
    const char *name;
    enum dt_schedule_kind kind;
} known[DT_SCHEDULERS] = {
    [DT_SCHEDULER_WARMUP] = {"WarmupLR", DT_WARMUP},
    [DT_SCHEDULER_DECAY] = {"WarmupDecayLR", DT_WARMUP_DECAY},
    [DT_SCHEDULER_COSINE] = {"WarmupCosineLR", DT_WARMUP_COSINE},
    [DT_SCHEDULER_HF_LINEAR] = {"linear", DT_RULE_LINEAR},
    [DT_SCHEDULER_HF_COSINE] = {"cosine", DT_RULE_COSINE},
    [DT_SCHEDULER_HF_RESTARTS] = {"cosine_with_restarts", DT_RULE_RESTARTS},
    [DT_SCHEDULER_HF_MIN_LR] = {"cosine_with_min_lr", DT_RULE_COSINE},
    [DT_SCHEDULER_HF_POLYNOMIAL] = {"polynomial", DT_RULE_POLYNOMIAL},
    [DT_SCHEDULER_HF_CONSTANT] = {"constant", DT_SCHEDULE_CONSTANT},
    [DT_SCHEDULER_HF_WARMUP] = {"constant_with_warmup", DT_RULE_WARMUP},
    [DT_SCHEDULER_HF_INVERSE_SQRT] = {"inverse_sqrt", DT_RULE_INVERSE_SQRT},
    [DT_SCHEDULER_HF_STABLE] = {"warmup_stable_decay", DT_RULE_STABLE},
};

#define NAMES_MAX 240

/* The schedulers in SET, a bit each: "a, b, c". */
static const char *names_of(unsigned set, char out[NAMES_MAX])
{
    size_t n = 0;
    *out = '\0';
    for (int i = 0; i < DT_SCHEDULERS && n < NAMES_MAX; i++)
        if (set & 1u << i)
            n += (size_t)snprintf(out + n, NAMES_MAX - n, "%s%s", n ? ", " : "", known[i].name);
    return out;
}

int dt_take_scheduler_type(const struct dt_reading *r, const struct cJSON *v)
{
    const char *type = dt_config_text_of(r, v);
    char names[NAMES_MAX];
    if (!type)
        return -1;
    for (int i = 0; i < DT_SCHEDULERS; i++) {
        if (strcasecmp(type, known[i].name) != 0)
            continue;
        r->draft->scheduler = i;
        return 0;
    }
    return dt_config_refuse(r, v, "the scheduler \"%.40s\" is not implemented; these are: %s", type,
                            names_of(ALL, names));
}

/* DeepSpeed's words for how a rate rises, and then Hugging Face's. */
enum warmup_word { WORD_LOG, WORD_LINEAR, WORD_COSINE, WORD_SQRT, WORDS };

static const char *const warmup_words[WORDS] = {"log", "linear", "cosine", "1-sqrt"};

int dt_take_warmup_type(const struct dt_reading *r, const struct cJSON *v)
{
    const char *type = dt_config_text_of(r, v);
    char path[200];
    if (!type)
        return -1;
    if (is_auto(v))
        return 0;
    for (int i = 0; i < WORDS; i++)
        if (strcmp(type, warmup_words[i]) == 0)
            r->draft->warmup_type = i;
    if (r->draft->warmup_type == DT_UNSET)
        dt_config_warn(r, "%s: \"%.40s\" is neither log nor linear, and means log",
                       dt_json_path(r->doc, v, path, sizeof path), type);
    return 0;
}

/* What is left to the number of steps: a share of them, or a tenth, and then not more than where
 * DeepSpeed begins. */
static int64_t warmup_of(double ratio, int64_t total)
{
    if (ratio >= 0)
        return (int64_t)ceil((double)total * ratio);
    int64_t n = total > 0 && total / 10 < WARMUP_STEPS ? total / 10 : WARMUP_STEPS;
    return n < 2 ? 2 : n;
}

void dt_config_schedule(const struct dt_config *c, int64_t steps, struct dt_schedule *out)
{
    *out = c->schedule;
    if (c->total_follows)
        out->total_steps = steps;
    if (c->warmup_follows)
        out->warmup_steps = warmup_of(c->warmup_ratio, out->total_steps ? out->total_steps : steps);
}

/* -- parameters ------------------------------------------------------------------------------- */

/* DeepSpeed takes a parameter of another scheduler for a mistake, as Hugging Face does, and so it
 * is. */
static int refuse_stranger(const struct dt_reading *r, const char *name, unsigned owners)
{
    char names[NAMES_MAX];
    return dt_err_set(r->err, DT_E_USAGE,
                      "scheduler.params.%s: %s has no such parameter; it belongs to %s", name,
                      known[r->draft->scheduler].name, names_of(owners, names));
}

static int settle_strangers(const struct dt_reading *r)
{
    const struct dt_config_draft *d = r->draft;
    const struct {
        const char *name;
        bool written;
        unsigned owners;
    } rows[] = {
        {"total_num_steps", d->total_steps != DT_UNSET, ALL & ~SET(WARMUP)},
        {"warmup_min_lr", d->min_lr > 0, SET(WARMUP) | SET(DECAY)},
        {"warmup_max_lr", d->max_lr >= 0, SET(WARMUP) | SET(DECAY)},
        {"warmup_min_ratio", d->warmup_min_ratio >= 0, SET(COSINE)},
        {"cos_min_ratio", d->cos_min_ratio >= 0, SET(COSINE)},
        {"warmup_type", d->warmup_type >= 0, DEEPSPEEDS | SET(HF_STABLE)},
        {"num_cycles", d->num_cycles >= 0,
         SET(HF_COSINE) | SET(HF_RESTARTS) | SET(HF_MIN_LR) | SET(HF_STABLE)},
        {"power", d->power >= 0, SET(HF_POLYNOMIAL)},
        {"lr_end", d->lr_end >= 0, SET(HF_POLYNOMIAL)},
        {"min_lr", d->hf_min_lr >= 0, SET(HF_MIN_LR)},
        {"min_lr_rate", d->min_lr_rate >= 0, SET(HF_MIN_LR)},
        {"min_lr_ratio", d->min_lr_ratio >= 0, SET(HF_STABLE)},
        {"timescale", d->timescale >= 0, SET(HF_INVERSE_SQRT)},
        {"num_decay_steps", d->num_decay_steps >= 0, SET(HF_STABLE)},
        {"num_stable_steps", d->num_stable_steps >= 0, SET(HF_STABLE)},
        {"decay_type", d->decay_type >= 0, SET(HF_STABLE)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].written && !(rows[i].owners & 1u << d->scheduler))
            return refuse_stranger(r, rows[i].name, rows[i].owners);
    return 0;
}

static bool is_deepspeeds(const struct dt_config_draft *d)
{
    return DEEPSPEEDS & 1u << d->scheduler;
}

/* Whether the rate hangs on where the run ends. */
static bool has_end(const struct dt_config_draft *d)
{
    bool stable = d->scheduler == DT_SCHEDULER_HF_STABLE && d->num_stable_steps >= 0;
    return !stable && !(ENDLESS & 1u << d->scheduler);
}

/* Hugging Face's trainer writes none: it is the run's. */
static int settle_total(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    bool follows = d->total_steps == DT_UNSET && !is_deepspeeds(d) && has_end(d);
    if (follows)
        d->total_steps = DT_AUTO;
    if (d->total_steps == DT_AUTO && d->c.train.epochs > 0) {
        d->c.total_follows = true;
        return 0;
    }
    if (d->total_steps == DT_AUTO) {
        if (d->c.train.steps <= 0 && follows)
            return dt_err_set(r->err, DT_E_USAGE,
                              "scheduler.type: %s ends with the run, and neither train.steps nor "
                              "train.epochs is written",
                              known[d->scheduler].name);
        if (d->c.train.steps <= 0)
            return dt_err_set(r->err, DT_E_USAGE,
                              "scheduler.params.total_num_steps: \"auto\" is train.steps, which is "
                              "not written");
        d->total_steps = d->c.train.steps;
    }
    if (d->total_steps == DT_UNSET && has_end(d))
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.params.total_num_steps is missing; \"auto\" means "
                          "train.steps");
    return 0;
}

/* 0: it hangs on train.epochs. */
static int64_t warmup_by_steps(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    const struct dt_schedule *s = &d->c.schedule;
    int64_t total = s->total_steps ? s->total_steps : d->c.train.steps;
    d->c.warmup_follows = d->c.train.epochs > 0 && !s->total_steps;
    if (d->c.warmup_follows)
        return 0;
    int64_t n = warmup_of(d->warmup_ratio, total);
    if (d->warmup_ratio < 0)
        dt_config_warn(r, "scheduler.params.warmup_num_steps: \"auto\" is %lld here", (long long)n);
    return n;
}

static int settle_warmup(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_schedule *s = &d->c.schedule;
    bool by_ratio = d->warmup_ratio >= 0;
    d->c.warmup_ratio = d->warmup_ratio;
    if (d->warmup_ratio > 0 && d->warmup_steps > 0)
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.params: warmup_num_steps and warmup_ratio are both written; "
                          "drop one");
    if (d->warmup_ratio > 0 && !s->total_steps && d->c.train.steps <= 0 && d->c.train.epochs <= 0)
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.params.warmup_ratio: it is a share of train.steps, which is "
                          "not written");
    if (is_deepspeeds(d) && d->warmup_steps == 0)
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.params.warmup_num_steps: expected a whole number from 1 for "
                          "%s, found 0",
                          known[d->scheduler].name);
    if (d->warmup_steps > 0)
        s->warmup_steps = d->warmup_steps;
    else if (by_ratio || d->warmup_steps == DT_AUTO)
        s->warmup_steps = warmup_by_steps(r);
    else
        s->warmup_steps = is_deepspeeds(d) ? WARMUP_STEPS : 0;
    if (d->scheduler == DT_SCHEDULER_HF_CONSTANT && (d->warmup_ratio > 0 || d->warmup_steps > 0))
        dt_config_warn(r,
                       "scheduler.type: \"constant\" has no warm-up, and the one that is written "
                       "is ignored; constant_with_warmup has one");
    return 0;
}

/* Where WarmupLR and WarmupDecayLR end up. */
static double settle_max_lr(const struct dt_config_draft *d)
{
    if (d->max_lr >= 0)
        return d->max_lr;
    if (d->max_lr == DT_AUTO || d->scheduler != DT_SCHEDULER_DECAY)
        return d->lr;
    return 0.001;
}

static int settle_deepspeeds(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_schedule *s = &d->c.schedule;
    if (d->warmup_type == WORD_COSINE || d->warmup_type == WORD_SQRT)
        dt_config_warn(r,
                       "scheduler.params.warmup_type: \"%s\" is neither log nor linear, and means "
                       "log",
                       warmup_words[d->warmup_type]);
    s->warmup_type = d->warmup_type == WORD_LINEAR ? DT_WARMUP_LINEAR : DT_WARMUP_LOG;
    s->min_lr = d->min_lr;
    s->max_lr = settle_max_lr(d);
    s->warmup_min_ratio = d->warmup_min_ratio < 0 ? 0 : d->warmup_min_ratio;
    s->cos_min_ratio = d->cos_min_ratio < 0 ? 0.0001 : d->cos_min_ratio;
    return 0;
}

/* -- Hugging Face's --------------------------------------------------------------------------- */

static int settle_polynomial(const struct dt_reading *r)
{
    const struct dt_config_draft *d = r->draft;
    struct dt_schedule *s = &r->draft->c.schedule;
    s->min_lr = d->lr_end < 0 ? LR_END : d->lr_end;
    if (s->lr > s->min_lr)
        return 0;
    return dt_err_set(r->err, DT_E_USAGE,
                      "scheduler.params.lr_end: %g is not below optimizer.params.lr, which is %g",
                      s->min_lr, s->lr);
}

static int settle_floor(const struct dt_reading *r)
{
    const struct dt_config_draft *d = r->draft;
    struct dt_schedule *s = &r->draft->c.schedule;
    if ((d->hf_min_lr >= 0) == (d->min_lr_rate >= 0))
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.params: cosine_with_min_lr wants min_lr, a rate, or "
                          "min_lr_rate, a share of optimizer.params.lr, and not both");
    if (d->hf_min_lr >= 0 && !(s->lr > 0))
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.params.min_lr: optimizer.params.lr is not above 0");
    s->min_ratio = d->min_lr_rate >= 0 ? d->min_lr_rate : d->hf_min_lr / s->lr;
    return 0;
}

static int settle_stable(const struct dt_reading *r)
{
    static const enum dt_ramp rises[WORDS] = {
        [WORD_LINEAR] = DT_RAMP_LINEAR, [WORD_COSINE] = DT_RAMP_COSINE, [WORD_SQRT] = DT_RAMP_SQRT};
    const struct dt_config_draft *d = r->draft;
    struct dt_schedule *s = &r->draft->c.schedule;
    if (d->warmup_type == WORD_LOG)
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.params.warmup_type: \"log\" is DeepSpeed's; "
                          "warmup_stable_decay has linear, cosine and 1-sqrt");
    if (d->num_decay_steps < 0)
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.params.num_decay_steps is missing; warmup_stable_decay falls "
                          "over as many steps");
    s->rise = d->warmup_type < 0 ? DT_RAMP_LINEAR : rises[d->warmup_type];
    s->fall = d->decay_type < 0 ? DT_RAMP_COSINE : (enum dt_ramp)d->decay_type;
    s->min_ratio = d->min_lr_ratio < 0 ? 0 : d->min_lr_ratio;
    s->decay_steps = d->num_decay_steps;
    s->stable_steps = d->num_stable_steps;
    return 0;
}

static int settle_rule(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_schedule *s = &d->c.schedule;
    double cycles = s->kind == DT_RULE_RESTARTS ? 1 : 0.5;
    s->cycles = d->num_cycles < 0 ? cycles : d->num_cycles;
    s->power = d->power < 0 ? 1 : d->power;
    s->timescale = d->timescale < 0 ? 0 : (double)d->timescale;
    if (d->scheduler == DT_SCHEDULER_HF_POLYNOMIAL)
        return settle_polynomial(r);
    if (d->scheduler == DT_SCHEDULER_HF_MIN_LR)
        return settle_floor(r);
    return d->scheduler == DT_SCHEDULER_HF_STABLE ? settle_stable(r) : 0;
}

/* -- all of it -------------------------------------------------------------------------------- */

static void say_short(const struct dt_reading *r)
{
    const struct dt_schedule *s = &r->draft->c.schedule;
    if (s->total_steps && s->total_steps < s->warmup_steps)
        dt_config_warn(r,
                       "scheduler.params: total_num_steps %lld ends within the %lld steps of "
                       "warmup_num_steps",
                       (long long)s->total_steps, (long long)s->warmup_steps);
}

int dt_config_settle_schedule(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_schedule *s = &d->c.schedule;
    char names[NAMES_MAX];
    s->lr = d->lr;
    if (d->c.train.steps > 0 && d->c.train.epochs > 0)
        return dt_err_set(r->err, DT_E_USAGE,
                          "train.steps and train.epochs are both written; drop one");
    if (d->scheduler_block && d->scheduler == DT_UNSET)
        return dt_err_set(r->err, DT_E_USAGE,
                          "scheduler.type is missing; these are implemented: %s",
                          names_of(ALL, names));
    if (d->scheduler == DT_UNSET) {
        s->kind = DT_SCHEDULE_CONSTANT;
        return 0;
    }
    if (settle_strangers(r) < 0 || settle_total(r) < 0)
        return -1;
    s->kind = known[d->scheduler].kind;
    s->total_steps = d->total_steps < 0 ? 0 : d->total_steps;
    if (settle_warmup(r) < 0 || (is_deepspeeds(d) ? settle_deepspeeds(r) : settle_rule(r)) < 0)
        return -1;
    say_short(r);
    return 0;
}
