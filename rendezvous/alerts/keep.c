/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/alerts/keep.h"

#include "base/log.h"
#include "base/str.h"
#include "rendezvous/alerts/saved.h"
#include "rendezvous/journal/journal.h"

#include <stdio.h>
#include <stdlib.h>

struct dt_alert_keep {
    struct dt_journal *journal;
    struct dt_alert_book *book;
    struct dt_buf record;
    struct dt_log_limit complaints;
    void (*on_closed)(void *arg);
    void *arg;
};

static void complain(struct dt_alert_keep *k, const struct dt_err *err)
{
    uint64_t held_back;
    if (dt_log_limit_pass(&k->complaints, dt_clock_monotonic(), &held_back))
        dt_warn("after a restart, this server would not know which alerts are open: %s", err->text);
}

/* -- what is there ---------------------------------------------------------------------------- */

/* A key is the number of a place. */
static void on_replay(void *arg, struct dt_bytes key, struct dt_bytes value)
{
    struct dt_alert_keep *k = arg;
    struct dt_alert a;
    char place[8];
    int64_t at;
    snprintf(place, sizeof place, "%.*s", (int)(key.len < sizeof place ? key.len : 0), key.at);
    if (dt_str_to_int(place, 0, DT_ALERTS_MOST - 1, &at, NULL) < 0 ||
        !dt_alert_restore(&a, value, dt_clock_monotonic(), dt_clock_wall_us()))
        dt_warn("an alert that was open cannot be read and is forgotten");
    else if (a.rule->weight >= k->book->least)
        k->book->at[at] = a;
}

struct dt_alert_keep *dt_alert_keep_open(uv_loop_t *loop, const char *state_dir,
                                         struct dt_alert_book *book, struct dt_err *err)
{
    struct dt_alert_keep *k = calloc(1, sizeof *k);
    char *dir = NULL;
    if (!k || asprintf(&dir, "%s/alerts", state_dir) < 0) {
        free(k);
        dt_err_set(err, DT_E_MEMORY, "no memory for alerts");
        return NULL;
    }
    k->book = book;
    k->complaints = (struct dt_log_limit){.burst = 1, .every = 60 * DT_SECOND};
    k->journal = dt_journal_open(loop, dir, on_replay, k, err);
    free(dir);
    if (k->journal)
        return k;
    free(k);
    return NULL;
}

/* -- what changes ----------------------------------------------------------------------------- */

static void on_synced(void *arg, const struct dt_err *err)
{
    if (err)
        complain(arg, err);
}

void dt_alert_keep_note(struct dt_alert_keep *k, size_t place, const struct dt_alert *a, dt_ms now)
{
    struct dt_err err;
    char key[24];
    snprintf(key, sizeof key, "%zu", place);
    dt_buf_clear(&k->record);
    if (a->open)
        dt_alert_save(a, now, dt_clock_wall_us(), &k->record);
    if (k->record.bad)
        dt_err_set(&err, DT_E_MEMORY, "no memory");
    if (k->record.bad ||
        dt_journal_put(k->journal, dt_bytes_of(key), (struct dt_bytes){k->record.at, k->record.len},
                       &err) < 0 ||
        dt_journal_sync(k->journal, on_synced, k, &err) < 0)
        complain(k, &err);
}

static void on_journal_closed(void *arg)
{
    struct dt_alert_keep *k = arg;
    k->on_closed(k->arg);
    dt_buf_finish(&k->record);
    free(k);
}

void dt_alert_keep_close(struct dt_alert_keep *k, void (*on_closed)(void *arg), void *arg)
{
    k->on_closed = on_closed;
    k->arg = arg;
    dt_journal_close(k->journal, on_journal_closed, k);
}
