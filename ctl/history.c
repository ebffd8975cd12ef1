/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl history: the rounds of a run that are over. */
#include "base/clock.h"
#include "base/str.h"
#include "ctl/commands.h"
#include "ctl/table.h"

#include <inttypes.h>
#include <stdio.h>

static const char *time_text(dt_ms time, char out[32])
{
    if (time < 0)
        return "-";
    return dt_str_from_duration(time, out, 32);
}

/* "2026-11-23 00:06:45Z"; "-": unknown. */
static const char *moment_text(int64_t seconds, char out[DT_CLOCK_TEXT])
{
    if (seconds == 0)
        return "-";
    dt_clock_format_seconds(seconds, out);
    return out;
}

static void add_steps(struct dt_ctl_table *t, const struct dt_status_past *p)
{
    if (p->first_step < 0)
        dt_ctl_table_add(t, "-");
    else
        dt_ctl_table_printf(t, "%" PRId64 "-%" PRId64, p->first_step, p->last_step);
}

/* The time in which nothing ran, and the steps that NEXT (NULL: there is none) makes again. */
static void add_lost(struct dt_ctl_table *t, const struct dt_status_past *p,
                     const struct dt_status_past *next)
{
    char time[32], again[40] = "";
    int64_t steps = next && next->first_step >= 0 ? p->last_step - next->first_step : 0;
    if (steps > 0)
        snprintf(again, sizeof again, ", %" PRId64 " step%s", steps, steps == 1 ? "" : "s");
    dt_ctl_table_printf(t, "%s%s", time_text(p->lost_ms, time), again);
}

static void put_table(const struct dt_ctl_rows *rows, struct dt_buf *out)
{
    static const char *const headings[] = {"ROUND", "ENDED",   "LASTED", "STEPS",
                                           "LOST",  "DECIDED", "CAUSE"};
    const struct dt_status_past *past = rows->at;
    struct dt_ctl_table t = {.columns = sizeof headings / sizeof *headings};
    for (size_t i = 0; i < t.columns; i++)
        dt_ctl_table_add(&t, headings[i]);
    for (size_t i = 0; i < rows->len; i++) {
        char time[32], moment[DT_CLOCK_TEXT];
        const struct dt_status_past *p = &past[i];
        dt_ctl_table_printf(&t, "%d", p->round);
        dt_ctl_table_add(&t, moment_text(p->ended_s, moment));
        dt_ctl_table_add(&t, time_text(p->lasted_ms, time));
        add_steps(&t, p);
        add_lost(&t, p, i + 1 < rows->len ? p + 1 : NULL);
        dt_ctl_table_add(&t, *p->decided ? p->decided : "-");
        dt_ctl_table_add(&t, p->cause);
    }
    dt_ctl_table_put(&t, 0, out);
}

static void put_json(const struct dt_ctl_pages *p, struct dt_buf *out)
{
    dt_buf_put_u8(out, '{');
    dt_ctl_put_rows(out, "history", dt_status_past_fields, &p->history,
                    sizeof(struct dt_status_past));
    dt_buf_put_str(out, "}\n");
}

int dt_ctl_history(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                   struct dt_err *err)
{
    struct dt_ctl_pages pages;
    int rc = dt_ctl_pages_fetch_history(c, o->name, &pages, err);
    if (rc == 0 && pages.runs.len == 0)
        rc = dt_ctl_no_run(o, err);
    else if (rc == 0 && o->json)
        put_json(&pages, out);
    else if (rc == 0 && pages.history.len == 0)
        dt_buf_put_str(out, "no round of this run is over\n");
    else if (rc == 0)
        put_table(&pages.history, out);
    dt_ctl_pages_finish(&pages);
    return rc;
}
