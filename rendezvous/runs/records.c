/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/records.h"

#include <inttypes.h>
#include <stdio.h>

#define DISK_PATIENCE (2 * DT_SECOND) /* less than a beat: nodes would take us for silent */

static dt_ms now_of(const struct dt_rdzv_runs *runs)
{
    return (dt_ms)uv_now(runs->loop);
}

static void complain(struct dt_rdzv_runs *runs, const struct dt_err *err)
{
    uint64_t held_back;
    if (dt_log_limit_pass(&runs->complaints, now_of(runs), &held_back))
        dt_error("what is decided now would not survive a restart of this server: %s", err->text);
}

static bool put(struct dt_rdzv_runs *runs, const char *kind, const char *name,
                struct dt_bytes value)
{
    char key[sizeof DT_RECORD_OF_NODE + DT_RUN_ID_MAX];
    struct dt_err err;
    snprintf(key, sizeof key, "%s%s", kind, name);
    if (dt_journal_put(runs->journal, dt_bytes_of(key), value, &err) == 0)
        return true;
    complain(runs, &err);
    return false;
}

/* What waited for so much to be on disk goes out. */
static void release(struct dt_rdzv_runs *runs, uint64_t durable)
{
    if (durable > runs->durable)
        runs->durable = durable;
    dt_list_each(&runs->holding, n)
    {
        struct dt_rdzv_conn *c = dt_container_of(n, struct dt_rdzv_conn, in_holding);
        dt_rdzv_conn_release(c, runs->durable);
        if (dt_list_empty(&c->held))
            dt_list_remove(&c->in_holding);
    }
}

static void on_synced(void *arg, const struct dt_err *err)
{
    struct dt_rdzv_runs *runs = arg;
    if (err)
        complain(runs, err);
    runs->syncing = false;
    release(runs, runs->asked);
    dt_rdzv_records_sync(runs);
    if (!runs->syncing)
        runs->on_durable(runs);
}

void dt_rdzv_records_mind_disk(struct dt_rdzv_runs *runs)
{
    struct dt_err err;
    if (!runs->syncing)
        return;
    if (now_of(runs) - runs->asked_at >= DISK_PATIENCE && runs->durable < runs->marked) {
        dt_err_set(&err, DT_E_RUNTIME, "the disk has taken longer than %d s to write",
                   (int)(DISK_PATIENCE / DT_SECOND));
        complain(runs, &err);
        release(runs, runs->marked);
    }
    dt_rdzv_runs_look_again(runs, now_of(runs) + DISK_PATIENCE);
}

void dt_rdzv_records_save(struct dt_rdzv_runs *runs)
{
    for (struct dt_node *n; (n = dt_list_pop(&runs->unsaved));) {
        struct dt_rdzv_run *run = dt_container_of(n, struct dt_rdzv_run, in_unsaved);
        dt_buf_clear(&runs->record);
        dt_rdzv_save(run->rdzv, &runs->record);
        if (!runs->record.bad)
            put(runs, DT_RECORD_OF_RUN, run->id,
                (struct dt_bytes){runs->record.at, runs->record.len});
    }
    runs->asked = runs->marked;
}

void dt_rdzv_records_sync(struct dt_rdzv_runs *runs)
{
    struct dt_err err;
    if (runs->syncing || runs->asked == runs->marked)
        return;
    dt_rdzv_records_save(runs);
    runs->asked_at = now_of(runs);
    runs->syncing = true;
    dt_rdzv_runs_look_again(runs, runs->asked_at + DISK_PATIENCE);
    if (dt_journal_sync(runs->journal, on_synced, runs, &err) < 0)
        on_synced(runs, &err);
}

void dt_rdzv_records_mark(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run)
{
    if (!runs->journal)
        return;
    if (!dt_node_linked(&run->in_unsaved))
        dt_list_append(&runs->unsaved, &run->in_unsaved);
    run->after = ++runs->marked;
}

/* Its times are told from now on, so the record says when that was. */
bool dt_rdzv_records_node(struct dt_rdzv_runs *runs, const char *name)
{
    const struct dt_excluded *e = dt_exclude_find(&runs->exclude, name);
    if (!runs->journal)
        return true;
    dt_buf_clear(&runs->record);
    if (e) {
        dt_buf_put_i64(&runs->record, dt_clock_wall_us());
        dt_exclude_save(e, &runs->record, now_of(runs));
    }
    runs->marked++;
    return !runs->record.bad &&
           put(runs, DT_RECORD_OF_NODE, name, (struct dt_bytes){runs->record.at, runs->record.len});
}

void dt_rdzv_records_forget(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run)
{
    dt_list_remove(&run->in_unsaved);
    if (!runs->journal)
        return;
    put(runs, DT_RECORD_OF_RUN, run->id, (struct dt_bytes){0});
    runs->marked++;
}

static void put_event(struct dt_rdzv_runs *runs, uint64_t number, struct dt_bytes value)
{
    char name[24];
    snprintf(name, sizeof name, "%" PRIu64, number);
    put(runs, DT_RECORD_OF_EVENT, name, value);
}

void dt_rdzv_records_event(struct dt_rdzv_runs *runs, const struct dt_event *e)
{
    const struct dt_event *oldest = dt_chronicle_after(&runs->chronicle, 0);
    if (!runs->journal)
        return;
    dt_buf_clear(&runs->record);
    dt_event_save(e, &runs->record);
    if (!runs->record.bad)
        put_event(runs, e->number, (struct dt_bytes){runs->record.at, runs->record.len});
    if (runs->oldest_event == 0)
        runs->oldest_event = e->number;
    for (; oldest && runs->oldest_event < oldest->number; runs->oldest_event++)
        put_event(runs, runs->oldest_event, (struct dt_bytes){0});
}

void dt_rdzv_records_send(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                          const struct dt_message *m, uint64_t after)
{
    if (after <= runs->durable && dt_list_empty(&c->held)) {
        dt_rdzv_conn_send(c, m);
        return;
    }
    dt_rdzv_conn_hold(c, m, after);
    if (!dt_node_linked(&c->in_holding) && !dt_list_empty(&c->held))
        dt_list_append(&runs->holding, &c->in_holding);
}
