/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX ((int64_t)1 << 53)

static void finish_some(struct dt_top_event *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        free(at[i].run);
        free(at[i].words);
    }
}

void dt_top_events_finish(struct dt_top_events *e)
{
    finish_some(e->at, e->len);
    free(e->at);
    *e = (struct dt_top_events){0};
}

static int no_memory(struct dt_err *err)
{
    return dt_err_set(err, DT_E_MEMORY, "no memory for so many events");
}

static const char *text_of(const struct dt_json *doc, const struct cJSON *event, const char *name)
{
    const char *text = "";
    if (dt_json_has(event, name))
        dt_json_string(doc, event, name, &text, NULL);
    return text;
}

/* Of "2026-11-23T07:00:00.123456Z". */
static void cut_time(const char *whole, char *out, size_t size)
{
    size_t date = strcspn(whole, "T");
    snprintf(out, size, "%.8sZ", whole[date] ? whole + date + 1 : "");
}

static int add(struct dt_top_events *e, const struct dt_json *doc, const struct cJSON *event,
               struct dt_err *err)
{
    struct dt_top_event *grown = reallocarray(e->at, e->len + 1, sizeof *grown);
    if (!grown)
        return no_memory(err);
    e->at = grown;
    struct dt_top_event *to = &e->at[e->len++];
    *to = (struct dt_top_event){.run = strdup(text_of(doc, event, "run")),
                                .words = strdup(text_of(doc, event, "words"))};
    snprintf(to->weight, sizeof to->weight, "%s", text_of(doc, event, "weight"));
    cut_time(text_of(doc, event, "time"), to->time, sizeof to->time);
    return to->run && to->words ? 0 : no_memory(err);
}

int dt_top_events_read(struct dt_top_events *e, const struct dt_json *doc, int64_t *after,
                       bool *more, struct dt_err *err)
{
    const struct cJSON *page, *events;
    int64_t last, newest;
    if (dt_json_object(doc, NULL, "page", &page, err) < 0 ||
        dt_json_array(doc, page, "events", &events, err) < 0 ||
        dt_json_int(doc, page, "last", *after, NUMBER_MAX, &last, err) < 0 ||
        dt_json_int(doc, page, "newest", 0, NUMBER_MAX, &newest, err) < 0)
        return -1;
    for (const struct cJSON *one = dt_json_first(events); one; one = dt_json_next(one))
        if (add(e, doc, one, err) < 0)
            return -1;
    *more = last < newest && last > *after;
    *after = last;
    return 0;
}

void dt_top_events_append(struct dt_top_events *e, struct dt_top_events *more)
{
    size_t len = e->len + more->len;
    struct dt_top_event *grown = reallocarray(e->at, len ? len : 1, sizeof *grown);
    if (!grown) { /* what is shown stays */
        dt_top_events_finish(more);
        return;
    }
    if (more->len)
        memcpy(grown + e->len, more->at, more->len * sizeof *grown);
    free(more->at);
    *more = (struct dt_top_events){0};
    size_t over = len > DT_TOP_EVENTS_MAX ? len - DT_TOP_EVENTS_MAX : 0;
    finish_some(grown, over);
    memmove(grown, grown + over, (len - over) * sizeof *grown);
    *e = (struct dt_top_events){grown, len - over};
}
