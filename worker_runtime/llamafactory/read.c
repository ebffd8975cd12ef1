/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through the file and does with each member what its row says. */
#include "base/str.h"
#include "worker_runtime/llamafactory/keys.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void factory_draft_init(struct factory_draft *d)
{
    *d = (struct factory_draft){0};
}

void factory_draft_finish(struct factory_draft *d)
{
    char *texts[] = {d->stage,     d->ref_model,   d->finetuning,    d->adapter,
                     d->targets,   d->saved,       d->schedule,      d->optimizer,
                     d->deepspeed, d->resume_from, d->save_strategy, d->eval_strategy};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    dt_factory_finish(&d->f);
    *d = (struct factory_draft){0};
}

int factory_refuse(const struct factory_reading *r, const char *key, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return dt_err_set(r->err, DT_E_USAGE, "%s: %s", key, text);
}

static int no_memory(const struct factory_reading *r)
{
    return dt_err_set(r->err, DT_E_MEMORY, "no memory to read the configuration");
}

/* -- keys of the run -------------------------------------------------------------------------- */

/* The block NAME of IN, made where it is not there. */
static struct cJSON *block_of(struct cJSON *in, const char *name)
{
    struct cJSON *v = cJSON_GetObjectItemCaseSensitive(in, name);
    return v ? v : cJSON_AddObjectToObject(in, name);
}

int factory_put(const struct factory_reading *r, const char *path, struct cJSON *v)
{
    struct cJSON *in = r->run->root;
    char name[64];
    for (const char *dot; in && (dot = strchr(path, '.')); path = dot + 1) {
        snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
        in = block_of(in, name);
    }
    if (v && in && cJSON_AddItemToObject(in, path, v))
        return 0;
    cJSON_Delete(v);
    return no_memory(r);
}

/* -- values ----------------------------------------------------------------------------------- */

/* What turns nothing on. */
static bool is_off(const struct cJSON *v)
{
    if (cJSON_IsNumber(v))
        return v->valuedouble == 0;
    if (cJSON_IsString(v))
        return !v->valuestring[0] || strcmp(v->valuestring, "none") == 0;
    if (cJSON_IsArray(v) || cJSON_IsObject(v))
        return !v->child;
    return !cJSON_IsTrue(v);
}

/* Whether V is what is done here: one of the words of the fallback. */
static bool is_fallback(const struct factory_key *k, const struct cJSON *v)
{
    const char *text = cJSON_IsTrue(v)     ? "true"
                       : cJSON_IsFalse(v)  ? "false"
                       : cJSON_IsString(v) ? v->valuestring
                                           : NULL;
    if (!text)
        return cJSON_IsNull(v);
    for (const char *word = k->fallback; *word;) {
        size_t n = strcspn(word, "|");
        if (strlen(text) == n && strncmp(text, word, n) == 0)
            return true;
        word += n + (word[n] == '|');
    }
    return false;
}

bool factory_number(const struct cJSON *v, double *out)
{
    char *end = NULL;
    if (!cJSON_IsNumber(v) && !cJSON_IsString(v))
        return false;
    *out = cJSON_IsNumber(v) ? v->valuedouble : strtod(v->valuestring, &end);
    return cJSON_IsNumber(v) || (end != v->valuestring && !*end);
}

static int take_number(const struct factory_reading *r, const struct factory_key *k,
                       const struct cJSON *v, double *out)
{
    double x = 0;
    if (!factory_number(v, &x) || !(x >= k->min && x <= k->max))
        return factory_refuse(r, k->name, "expected a number from %g to %g", k->min, k->max);
    *out = x;
    return 0;
}

static int take_count(const struct factory_reading *r, const struct factory_key *k,
                      const struct cJSON *v, int64_t *out)
{
    double x = 0;
    if (take_number(r, k, v, &x) < 0)
        return -1;
    if (x != floor(x))
        return factory_refuse(r, k->name, "expected a whole number, found %g", x);
    *out = (int64_t)x;
    return 0;
}

/* OUT is replaced. */
static int keep_text(const struct factory_reading *r, const char *text, char **out)
{
    char *copy = strdup(text);
    free(*out);
    *out = copy;
    return copy ? 0 : no_memory(r);
}

/* YAML makes flags of the words yes and no, which are words here. */
static int take_text(const struct factory_reading *r, const struct factory_key *k,
                     const struct cJSON *v, char **out)
{
    if (cJSON_IsString(v))
        return keep_text(r, v->valuestring, out);
    if (cJSON_IsBool(v))
        return keep_text(r, cJSON_IsTrue(v) ? "yes" : "no", out);
    return factory_refuse(r, k->name, "expected a text");
}

static int take_names(const struct factory_reading *r, const struct factory_key *k,
                      const struct cJSON *v, char **out)
{
    struct dt_buf all = {0};
    int rc = 0;
    if (!cJSON_IsArray(v))
        return take_text(r, k, v, out);
    for (const struct cJSON *one = v->child; one && rc == 0; one = one->next) {
        if (!cJSON_IsString(one) || strchr(one->valuestring, ','))
            rc = factory_refuse(r, k->name, "expected a list of names");
        else
            dt_buf_printf(&all, "%s%s", all.len ? "," : "", one->valuestring);
    }
    if (rc == 0)
        rc = all.bad ? no_memory(r) : keep_text(r, dt_buf_cstr(&all), out);
    dt_buf_finish(&all);
    return rc;
}

static int take_flag(const struct factory_reading *r, const struct factory_key *k,
                     const struct cJSON *v, bool *out)
{
    if (!cJSON_IsBool(v))
        return factory_refuse(r, k->name, "expected true or false");
    *out = cJSON_IsTrue(v);
    return 0;
}

/* Before the draft has the stage: keys come in any order. */
static bool is_of_pairs(const struct factory_reading *r)
{
    const struct cJSON *stage = cJSON_GetObjectItemCaseSensitive(r->file->root, "stage");
    return cJSON_IsString(stage) && strcmp(stage->valuestring, "dpo") == 0;
}

/* What is said of pairs where there are none is ignored, and settle.c says so. */
static int take_refused(const struct factory_reading *r, const struct factory_key *k,
                        const struct cJSON *v)
{
    if ((k->of_pairs && !is_of_pairs(r)) || (k->fallback ? is_fallback(k, v) : is_off(v)))
        return 0;
    return factory_refuse(r, k->name, "%s", k->why);
}

static int take(const struct factory_reading *r, const struct factory_key *k, const struct cJSON *v)
{
    void *at = (char *)r->draft + k->at;
    switch (k->kind) {
    case FACTORY_FLAG:
        return take_flag(r, k, v, at);
    case FACTORY_COUNT:
        return take_count(r, k, v, at);
    case FACTORY_REAL:
        return take_number(r, k, v, at);
    case FACTORY_TEXT:
        return take_text(r, k, v, at);
    case FACTORY_NAMES:
        return take_names(r, k, v, at);
    case FACTORY_REFUSE:
        return take_refused(r, k, v);
    case FACTORY_TO: /* factory_settle() has them, once it is known which of them count */
    case FACTORY_SAME:
    case FACTORY_IDLE:
        return 0;
    }
    return 0;
}

/* -- the file --------------------------------------------------------------------------------- */

static const struct factory_key *find(const char *name)
{
    for (const struct factory_key *k = factory_keys; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

static const char *nearest(const char *name)
{
    size_t least = dt_str_guess(name) + 1;
    const char *best = NULL;
    for (const struct factory_key *k = factory_keys; k->name; k++) {
        size_t far = dt_str_distance(name, k->name);
        if (far < least) {
            least = far;
            best = k->name;
        }
    }
    return best;
}

static int pass_over(const struct factory_reading *r, const char *name)
{
    const char *meant = nearest(name);
    char key[100];
    snprintf(key, sizeof key, "%.80s", name);
    return factory_refuse(r, key, "no such key of LLaMA-Factory's is known here%s%s%s",
                          meant ? "; did you mean "
                                : ", and whether it matters is not known; "
                                  "remove it, or write what is meant by --set",
                          meant ? meant : "", meant ? "?" : "");
}

/* The members that mean nothing here, and are switched on, in one line. */
static void warn_of_idle(const struct factory_reading *r)
{
    struct dt_buf names = {0};
    int count = 0;
    for (const struct cJSON *v = r->file->root->child; v; v = v->next) {
        const struct factory_key *k = find(v->string);
        if (k && k->kind == FACTORY_IDLE && !is_off(v))
            dt_buf_printf(&names, "%s%s", count++ ? ", " : "", k->name);
    }
    if (count > 0 && r->warnings)
        dt_buf_printf(r->warnings, "%s ha%s no meaning here and %s ignored\n", dt_buf_cstr(&names),
                      count > 1 ? "ve" : "s", count > 1 ? "are" : "is");
    dt_buf_finish(&names);
}

static int take_fallbacks(const struct factory_reading *r)
{
    for (const struct factory_key *k = factory_keys; k->name; k++) {
        if (!k->fallback || k->kind == FACTORY_TO || k->kind == FACTORY_REFUSE ||
            dt_json_has(r->file->root, k->name))
            continue;
        void *at = (char *)r->draft + k->at;
        if (k->kind == FACTORY_COUNT)
            *(int64_t *)at = (int64_t)strtod(k->fallback, NULL);
        else if (k->kind == FACTORY_REAL)
            *(double *)at = strtod(k->fallback, NULL);
        else if (!*(char **)at && keep_text(r, k->fallback, at) < 0)
            return -1;
    }
    return 0;
}

/* A name that is empty is none, as an override says it of a file that has one. */
static void drop_empty(struct factory_draft *d)
{
    char **names[] = {&d->adapter,   &d->saved,       &d->f.data.eval_dataset,
                      &d->deepspeed, &d->resume_from, &d->ref_model};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (*names[i] && !**names[i]) {
            free(*names[i]);
            *names[i] = NULL;
        }
}

int factory_read(const struct factory_reading *r)
{
    for (const struct cJSON *v = r->file->root->child; v; v = v->next) {
        const struct factory_key *k = find(v->string);
        if (!k)
            return pass_over(r, v->string);
        if (!cJSON_IsNull(v) && take(r, k, v) < 0)
            return -1;
    }
    drop_empty(r->draft);
    warn_of_idle(r);
    return take_fallbacks(r);
}
