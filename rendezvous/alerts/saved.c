/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/alerts/saved.h"

#include <limits.h>
#include <string.h>

/* A rule goes by its name, as its place in the table is another in the next version. */
void dt_alert_save(const struct dt_alert *a, dt_ms now, int64_t wall_us, struct dt_buf *out)
{
    dt_buf_put_i64(out, wall_us);
    dt_buf_put_text(out, a->rule->name);
    dt_buf_put_text(out, a->run);
    dt_buf_put_text(out, a->node);
    dt_buf_put_text(out, a->words);
    dt_buf_put_i64(out, a->round);
    dt_buf_put_i64(out, a->rank);
    dt_buf_put_i64(out, a->told);
    dt_buf_put_i64(out, a->times);
    dt_buf_put_i64(out, a->raised_us);
    dt_buf_put_i64(out, now - a->opened);
    dt_buf_put_i64(out, a->told_at < 0 ? -1 : now - a->told_at);
}

static const struct dt_alert_rule *find_rule(const char *name)
{
    for (size_t i = 0; i < dt_alert_rules_len; i++)
        if (strcmp(dt_alert_rules[i].name, name) == 0)
            return &dt_alert_rules[i];
    return NULL;
}

static int64_t read_between(struct dt_reader *r, int64_t least, int64_t most)
{
    int64_t n = dt_read_i64(r);
    r->bad = r->bad || n < least || n > most;
    return r->bad ? least : n; /* with which may be counted */
}

/* When something was that is AGE old, on a clock that may have begun later. */
static dt_ms time_of(dt_ms now, int64_t age, int64_t away)
{
    return age < now && away < now - age ? now - age - away : 0;
}

bool dt_alert_restore(struct dt_alert *a, struct dt_bytes in, dt_ms now, int64_t wall_us)
{
    struct dt_reader r = dt_reader_over(in.at, in.len);
    char rule[64];
    *a = (struct dt_alert){.open = true, .touched = now};
    int64_t saved_us = read_between(&r, 0, INT64_MAX);
    dt_read_text(&r, rule, sizeof rule);
    dt_read_text(&r, a->run, sizeof a->run);
    dt_read_text(&r, a->node, sizeof a->node);
    dt_read_text(&r, a->words, sizeof a->words);
    a->round = (int)read_between(&r, -1, INT_MAX);
    a->rank = (int)read_between(&r, -1, INT_MAX);
    a->told = read_between(&r, 0, 1);
    a->times = (int)read_between(&r, 0, INT_MAX);
    a->raised_us = read_between(&r, 0, INT64_MAX);
    int64_t open_for = read_between(&r, 0, INT64_MAX), told_for = read_between(&r, -1, INT64_MAX);
    /* The clock of the wall may have been set back. */
    int64_t away = wall_us > saved_us ? (wall_us - saved_us) / 1000 : 0;
    a->rule = r.bad || dt_reader_left(&r) > 0 ? NULL : find_rule(rule);
    a->opened = time_of(now, open_for, away);
    a->told_at = told_for < 0 ? -1 : time_of(now, told_for, away);
    return a->rule != NULL;
}
