/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/round_file.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json_write.h"

#include <stdio.h>
#include <stdlib.h>

static const char *strength_name(enum dt_cause_strength s)
{
    static const char *const names[] = {
        [DT_CAUSE_STRONG] = "strong", [DT_CAUSE_PLAIN] = "plain", [DT_CAUSE_WEAK] = "weak"};
    return names[s];
}

static void put_failure(struct dt_json_writer *w, const struct dt_failure *f)
{
    dt_json_put_object(w, NULL);
    dt_json_put_int(w, "rank", f->rank);
    dt_json_put_int(w, "local_rank", f->local_rank);
    dt_json_put_int(w, "pid", f->pid);
    dt_json_put_int(w, "exit_code", f->exit_code);
    dt_json_put_text(w, "class", f->cause.class);
    dt_json_put_text(w, "strength", strength_name(f->cause.strength));
    dt_json_put_text(w, "retry", dt_retry_name(f->cause.retry));
    dt_json_put_text(w, "place", *f->cause.place ? f->cause.place : NULL);
    dt_json_put_text(w, "text", f->cause.text);
    dt_json_put_end(w);
}

static void put_time(struct dt_json_writer *w, const char *name, int64_t wall_us)
{
    char text[DT_CLOCK_TEXT];
    if (wall_us)
        dt_clock_format(wall_us, text);
    dt_json_put_text(w, name, wall_us ? text : NULL);
}

static void put_record(struct dt_json_writer *w, const struct dt_round_record *r)
{
    dt_json_put_int(w, "round", r->round);
    put_time(w, "began", r->began_us);
    put_time(w, "ended", r->ended_us);
    dt_json_put_int(w, "nodes", r->nodes);
    dt_json_put_int(w, "ranks", r->ranks);
    dt_json_put_int(w, "first_rank_here", r->first_rank);
    dt_json_put_int(w, "ranks_here", r->ranks_here);
    if (r->step >= 0)
        dt_json_put_int(w, "step", r->step);
    else
        dt_json_put_null(w, "step");
}

static int replace(const char *run, int round, const struct dt_buf *text, struct dt_err *err)
{
    DT_AUTO_FREE char *folder = NULL, *path = NULL;
    if (asprintf(&folder, "%s/rounds", run) < 0)
        folder = NULL;
    if (!folder || asprintf(&path, "%s/%d.json", folder, round) < 0)
        path = NULL;
    if (!path || text->bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory to note what came of round %d", round);
    if (dt_fs_mkdir_p(folder, 0777, err) < 0)
        return -1;
    return dt_fs_replace(path, text->at, text->len, 0644, err);
}

int dt_round_file_write(const struct dt_log_dir *logs, const struct dt_round_record *record,
                        const char *cause, const char *decided, const struct dt_verdict *verdict,
                        struct dt_err *err)
{
    struct dt_buf text = {0};
    struct dt_json_writer w = {.out = &text, .style = DT_JSON_SPACED, .lines = 2};
    if (!logs->run || logs->base_is_ours)
        return 0;
    dt_json_put_object(&w, NULL);
    put_record(&w, record);
    dt_json_put_text(&w, "cause", cause && *cause ? cause : NULL);
    dt_json_put_text(&w, "decided", decided);
    dt_json_put_array(&w, "failed_here");
    for (size_t i = 0; verdict && i < verdict->count; i++)
        put_failure(&w, &verdict->failures[i]);
    dt_json_put_end(&w);
    dt_json_put_end(&w);
    dt_buf_put_u8(&text, '\n');
    int rc = replace(logs->run, record->round, &text, err);
    dt_buf_finish(&text);
    return rc;
}
