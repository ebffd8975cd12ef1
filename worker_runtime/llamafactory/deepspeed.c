/* SPDX-License-Identifier: Apache-2.0 */
/* A scheduler and an optimizer in the DeepSpeed file that a file of LLaMA-Factory's names. As in
 * the trainer below LLaMA-Factory, they count in place of lr_scheduler_type and optim; "auto" in
 * them is what the other file says, and a number is to be what the other file says. */
#include "worker_runtime/llamafactory/keys.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_WARMUP 2 /* what DeepSpeed makes of none */

static const struct cJSON *member(const struct cJSON *in, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(in, name);
}

/* What is at PATH, names with dots between them. */
static const struct cJSON *find(const struct cJSON *in, const char *path)
{
    char name[64];
    for (size_t n; in && *path; path += n + (path[n] == '.')) {
        n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        in = member(in, name);
    }
    return in;
}

static bool is_auto(const struct cJSON *v)
{
    return cJSON_IsString(v) && strcmp(v->valuestring, "auto") == 0;
}

/* What the file says of the warm-up: a number of steps, or else a share of them. */
static double warmup_steps(const struct factory_draft *d)
{
    return d->warmup_steps >= 1 ? d->warmup_steps : 0;
}

static double warmup_ratio(const struct factory_draft *d)
{
    return d->warmup_steps >= 1 ? 0 : d->warmup_steps > 0 ? d->warmup_steps : d->warmup_ratio;
}

static void warn_of_unused(const struct factory_reading *r, const struct cJSON *params,
                           const char *name)
{
    bool warms = dt_json_has(params, "warmup_num_steps");
    const struct {
        const char *key;
        bool unused;
    } rows[] = {{"lr_scheduler_type", true},
                {"lr_scheduler_kwargs", true},
                {"warmup_steps", !warms},
                {"warmup_ratio", !warms}};
    for (size_t i = 0; r->warnings && i < sizeof rows / sizeof *rows; i++)
        if (rows[i].unused && dt_json_has(r->file->root, rows[i].key))
            dt_buf_printf(r->warnings, "%s: the scheduler in %s counts, and it is ignored\n",
                          rows[i].key, name);
}

/* BLOCK.params.PARAM of the DeepSpeed file, and what KEY says of the same. */
struct twice {
    const char *param, *key;
    bool known;
    double is;
};

static int check_numbers(const struct factory_reading *r, const struct cJSON *block,
                         const char *name, const struct twice *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double x = 0;
        if (rows[i].known && factory_number(member(member(block, "params"), rows[i].param), &x) &&
            x != rows[i].is)
            return dt_err_set(r->err, DT_E_USAGE,
                              "%s: %s.params.%s is %g, and %s is %g; write \"auto\" there, or the "
                              "same number in both",
                              name, block->string, rows[i].param, x, rows[i].key, rows[i].is);
    }
    return 0;
}

static struct twice of_optimizer(const struct factory_reading *r, const char *param,
                                 const char *key)
{
    const struct cJSON *mine = member(r->run->root, "optimizer");
    struct twice t = {.param = param, .key = key};
    t.known = factory_number(member(member(mine, "params"), param), &t.is);
    return t;
}

static int join_optimizer(const struct factory_reading *r, const struct cJSON *theirs,
                          const char *name)
{
    const struct twice rows[] = {of_optimizer(r, "lr", "learning_rate"),
                                 of_optimizer(r, "weight_decay", "weight_decay"),
                                 of_optimizer(r, "eps", "adam_epsilon")};
    struct cJSON *mine = cJSON_GetObjectItemCaseSensitive(r->run->root, "optimizer");
    struct cJSON *params = cJSON_GetObjectItemCaseSensitive(mine, "params");
    double x;
    if (dt_json_has(theirs, "type"))
        cJSON_DeleteItemFromObjectCaseSensitive(mine, "type");
    if (check_numbers(r, theirs, name, rows, sizeof rows / sizeof *rows) < 0)
        return -1;
    /* 1e-4 and "1e-4" are the same number, and not the same JSON. */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].known && factory_number(member(member(theirs, "params"), rows[i].param), &x))
            cJSON_DeleteItemFromObjectCaseSensitive(params, rows[i].param);
    return 0;
}

/* In place of "auto". */
static int put_warmup(const struct factory_reading *r)
{
    const struct factory_draft *d = r->draft;
    double steps = warmup_steps(d), ratio = warmup_ratio(d);
    if (ratio > 0)
        return factory_put(r, "scheduler.params.warmup_ratio", cJSON_CreateNumber(ratio));
    return factory_put(r, "scheduler.params.warmup_num_steps",
                       cJSON_CreateNumber(steps > 0 ? steps : LEAST_WARMUP));
}

/* Where the number of steps follows from the data, numbers that hang on it are taken as they are.
 */
static int join_scheduler(const struct factory_reading *r, const struct cJSON *theirs,
                          const char *name)
{
    const struct factory_draft *d = r->draft;
    const struct cJSON *params = member(theirs, "params");
    bool by_ratio = warmup_ratio(d) > 0, counted = d->max_steps > 0;
    double steps = counted ? (double)d->max_steps : 0;
    struct twice rate = of_optimizer(r, "lr", "learning_rate");
    rate.param = "warmup_max_lr";
    const struct twice rows[] = {rate,
                                 {"total_num_steps", "max_steps", counted, steps},
                                 {"warmup_num_steps", "warmup_steps", !by_ratio, warmup_steps(d)},
                                 {"warmup_num_steps", "warmup_ratio of max_steps",
                                  by_ratio && counted, ceil(steps * warmup_ratio(d))}};
    cJSON_DeleteItemFromObjectCaseSensitive(r->run->root, "scheduler");
    warn_of_unused(r, params, name);
    if (check_numbers(r, theirs, name, rows, sizeof rows / sizeof *rows) < 0)
        return -1;
    return is_auto(member(params, "warmup_num_steps")) ? put_warmup(r) : 0;
}

int factory_settle_deepspeed(const struct factory_reading *r, const struct dt_json *deepspeed,
                             const char *name)
{
    const struct cJSON *scheduler = member(deepspeed->root, "scheduler");
    const struct cJSON *optimizer = member(deepspeed->root, "optimizer");
    if (cJSON_IsObject(scheduler) && join_scheduler(r, scheduler, name) < 0)
        return -1;
    return cJSON_IsObject(optimizer) ? join_optimizer(r, optimizer, name) : 0;
}

/* Those of the file that stand for PATH. */
static void name_keys(struct dt_buf *out, const char *path)
{
    for (const struct factory_key *k = factory_keys; k->name; k++)
        if (k->to && strcmp(k->to, path) == 0)
            dt_buf_printf(out, "%s%s", out->len ? ", " : "", k->name);
}

int factory_blame_both(const struct factory_reading *r, const struct dt_json *deepspeed,
                       const char *name)
{
    char path[100] = "";
    struct dt_buf keys = {0};
    if (r->err)
        snprintf(path, sizeof path, "%.*s", (int)strcspn(r->err->text, ":"), r->err->text);
    name_keys(&keys, path);
    char *mine = dt_json_text(find(r->run->root, path));
    char *theirs = dt_json_text(find(deepspeed->root, path));
    if (keys.len && mine && theirs)
        dt_err_set(r->err, DT_E_USAGE,
                   "%s: %s is %.60s, and %s is %.60s; write \"auto\" there, or the same in both",
                   name, path, theirs, dt_buf_cstr(&keys), mine);
    dt_buf_finish(&keys);
    free(theirs);
    free(mine);
    return -1;
}
