/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/upload/shelf.h"

#include "worker_runtime/ckpt/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool dt_shelf_key(const char *key, int64_t *step, const char **name)
{
    char folder[40];
    const char *slash = strchr(key, '/');
    if (!slash || (size_t)(slash - key) >= sizeof folder || !slash[1])
        return false;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - key), key);
    *name = slash + 1;
    return dt_ckpt_step_of(folder, step);
}

static int64_t read_latest(struct dt_bytes text)
{
    char name[40];
    int64_t step;
    size_t len = text.len;
    if (len && text.at[len - 1] == '\n')
        len--;
    if (len == 0 || len >= sizeof name)
        return -1;
    memcpy(name, text.at, len);
    name[len] = '\0';
    return dt_ckpt_step_of(name, &step) ? step : -1;
}

static struct dt_shelved *find(struct dt_shelf *s, int64_t step)
{
    for (size_t i = s->count; i-- > 0;) /* keys come in order: it is most often the last one */
        if (s->at[i].step == step)
            return &s->at[i];
    struct dt_shelved *more = reallocarray(s->at, s->count + 1, sizeof *s->at);
    if (!more)
        return NULL;
    s->at = more;
    s->at[s->count] = (struct dt_shelved){.step = step};
    return &s->at[s->count++];
}

static int highest_first(const void *a, const void *b)
{
    const struct dt_shelved *x = a, *y = b;
    return x->step > y->step ? -1 : x->step < y->step;
}

int dt_shelf_read(struct dt_shelf *s, const struct dt_depot_list *files, struct dt_bytes latest,
                  struct dt_err *err)
{
    *s = (struct dt_shelf){.latest = read_latest(latest)};
    for (size_t i = 0; i < files->count; i++) {
        int64_t step;
        const char *name;
        if (!dt_shelf_key(files->at[i].key, &step, &name))
            continue;
        struct dt_shelved *c = find(s, step);
        if (!c) {
            dt_shelf_finish(s);
            return dt_err_set(err, DT_E_MEMORY, "no memory for the names of checkpoints");
        }
        c->bytes += files->at[i].bytes;
        c->files++;
        c->whole = c->whole || strcmp(name, DT_CKPT_STATE) == 0;
    }
    if (s->count)
        qsort(s->at, s->count, sizeof *s->at, highest_first);
    return 0;
}

void dt_shelf_finish(struct dt_shelf *s)
{
    free(s->at);
    *s = (struct dt_shelf){.latest = -1};
}

/* The place of STEP in the order of dt_shelf_next(): those up to `latest` come first. */
static bool comes_before(const struct dt_shelf *s, int64_t a, int64_t b)
{
    bool a_behind = s->latest >= 0 && a > s->latest, b_behind = s->latest >= 0 && b > s->latest;
    return a_behind == b_behind ? a > b : b_behind;
}

int64_t dt_shelf_next(const struct dt_shelf *s, int64_t after)
{
    int64_t best = -1;
    for (size_t i = 0; i < s->count; i++) {
        int64_t step = s->at[i].step;
        bool later = after < 0 || comes_before(s, after, step);
        if (s->at[i].whole && later && (best < 0 || comes_before(s, step, best)))
            best = step;
    }
    return best;
}

bool dt_shelf_is_outdated(const struct dt_shelf *s, const struct dt_shelved *c, int64_t step,
                          int keep_last)
{
    int newer = 0;
    if (c->step >= step || c->step == s->latest)
        return false;
    if (!c->whole)
        return true;
    for (size_t i = 0; i < s->count; i++)
        newer += s->at[i].whole && s->at[i].step > c->step && s->at[i].step <= step;
    return keep_last > 0 && newer >= keep_last;
}
