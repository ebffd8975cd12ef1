/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/notes.h"

#include "base/json.h"
#include "ctl/report/grow.h"
#include "ctl/report/metrics.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096 /* of a cause or a sentence */

static int parse(struct dt_json *doc, struct dt_bytes text)
{
    if (text.len == 0)
        return -1;
    return dt_json_parse(doc, (const char *)text.at, text.len, DT_REPORT_NOTE_MAX, NULL);
}

/* -- members that may be missing -------------------------------------------------------------- */

/* Allocated; NULL: it is not there. */
static char *text_in(const struct dt_json *doc, const struct cJSON *object, const char *name)
{
    const char *text;
    if (!dt_json_has(object ? object : doc->root, name) ||
        dt_json_string(doc, object, name, &text, NULL) < 0)
        return NULL;
    return strndup(text, TEXT_MAX);
}

static int64_t number_in(const struct dt_json *doc, const struct cJSON *object, const char *name,
                         int64_t fallback)
{
    int64_t v;
    if (!dt_json_has(object ? object : doc->root, name) ||
        dt_json_int(doc, object, name, INT32_MIN, INT64_MAX / 2, &v, NULL) < 0)
        return fallback;
    return v;
}

static int64_t time_in(const struct dt_json *doc, const char *name)
{
    const char *text;
    if (!dt_json_has(doc->root, name) || dt_json_string(doc, NULL, name, &text, NULL) < 0)
        return DT_REPORT_UNKNOWN;
    return dt_report_time(text);
}

/* -- rounds ----------------------------------------------------------------------------------- */

static int add_failures(struct dt_report_round *round, const struct dt_json *doc,
                        struct dt_err *err)
{
    const struct cJSON *array;
    if (dt_json_array(doc, NULL, "failed_here", &array, NULL) < 0)
        return 0;
    for (const struct cJSON *f = dt_json_first(array);
         f && round->failure_count < DT_REPORT_FAILURES_MAX; f = dt_json_next(f)) {
        struct dt_report_failure *more =
            dt_report_grow(round->failures, round->failure_count, sizeof *more, err);
        if (!more)
            return -1;
        round->failures = more;
        round->failures[round->failure_count++] =
            (struct dt_report_failure){.rank = number_in(doc, f, "rank", -1),
                                       .pid = number_in(doc, f, "pid", -1),
                                       .exit_code = number_in(doc, f, "exit_code", 0),
                                       .kind = text_in(doc, f, "class"),
                                       .text = text_in(doc, f, "text"),
                                       .place = text_in(doc, f, "place")};
    }
    return 0;
}

/* The one of that number; another node may have told of it. */
static struct dt_report_round *find_round(struct dt_report *r, int number, struct dt_err *err)
{
    for (size_t i = 0; i < r->round_count; i++)
        if (r->rounds[i].round == number)
            return &r->rounds[i];
    struct dt_report_round *more = dt_report_grow(r->rounds, r->round_count, sizeof *more, err);
    if (!more)
        return NULL;
    r->rounds = more;
    r->rounds[r->round_count] = (struct dt_report_round){.round = number,
                                                         .began_us = DT_REPORT_UNKNOWN,
                                                         .ended_us = DT_REPORT_UNKNOWN,
                                                         .told_step = -1};
    return &r->rounds[r->round_count++];
}

static void keep_text(char **kept, char *text)
{
    if (*kept)
        free(text);
    else
        *kept = text;
}

/* It begins with the first of its nodes and ends with the last one. */
static int take_round(struct dt_report *r, const struct dt_json *doc, int number,
                      struct dt_err *err)
{
    struct dt_report_round *round = find_round(r, number, err);
    if (!round)
        return -1;
    int64_t began = time_in(doc, "began"), ended = time_in(doc, "ended");
    int64_t step = number_in(doc, NULL, "step", -1);
    if (began != DT_REPORT_UNKNOWN &&
        (round->began_us == DT_REPORT_UNKNOWN || began < round->began_us))
        round->began_us = began;
    if (ended > round->ended_us)
        round->ended_us = ended;
    if (step > round->told_step)
        round->told_step = step;
    round->nodes = number_in(doc, NULL, "nodes", -1);
    round->ranks = number_in(doc, NULL, "ranks", -1);
    keep_text(&round->cause, text_in(doc, NULL, "cause"));
    keep_text(&round->decided, text_in(doc, NULL, "decided"));
    return add_failures(round, doc, err);
}

int dt_report_note_round(struct dt_report *r, int number, struct dt_bytes text, struct dt_err *err)
{
    struct dt_json doc;
    if (r->round_count == DT_REPORT_ROUNDS_MAX) {
        r->too_many = true;
        return 0;
    }
    if (parse(&doc, text) < 0)
        return 0;
    int rc = take_round(r, &doc, number, err);
    dt_json_finish(&doc);
    return rc;
}

/* -- standstills, and what is trained --------------------------------------------------------- */

int dt_report_note_hang(struct dt_report *r, struct dt_bytes text, struct dt_err *err)
{
    struct dt_json doc;
    if (r->hang_count == DT_REPORT_HANGS_MAX || parse(&doc, text) < 0)
        return 0;
    struct dt_report_hang *more = dt_report_grow(r->hangs, r->hang_count, sizeof *more, err);
    if (more) {
        r->hangs = more;
        r->hangs[r->hang_count++] =
            (struct dt_report_hang){.at_us = time_in(&doc, "time"),
                                    .kind = text_in(&doc, NULL, "class"),
                                    .sentence = text_in(&doc, NULL, "sentence"),
                                    .advice = text_in(&doc, NULL, "advice")};
    }
    dt_json_finish(&doc);
    return more ? 0 : -1;
}

void dt_report_note_facts(struct dt_report *r, struct dt_bytes text, struct dt_report_places *p)
{
    struct dt_json doc;
    if (parse(&doc, text) < 0)
        return;
    p->metrics = text_in(&doc, NULL, "metrics");
    p->save_dir = text_in(&doc, NULL, "save_dir");
    keep_text(&r->model, text_in(&doc, NULL, "model"));
    keep_text(&r->device, text_in(&doc, NULL, "device"));
    r->steps_wanted = number_in(&doc, NULL, "steps", 0);
    dt_json_finish(&doc);
}

void dt_report_places_finish(struct dt_report_places *p)
{
    free(p->metrics);
    free(p->save_dir);
    *p = (struct dt_report_places){0};
}
