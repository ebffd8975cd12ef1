/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim/journal.h"

#include "tests/lib/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim_record *find_record(struct sim_server *v, const char *key)
{
    for (size_t i = 0; i < v->records_len; i++)
        if (strcmp(v->records[i].key, key) == 0)
            return &v->records[i];
    v->records = realloc(v->records, (v->records_len + 1) * sizeof *v->records);
    if (!v->records)
        abort();
    struct sim_record *r = &v->records[v->records_len++];
    *r = (struct sim_record){0};
    snprintf(r->key, sizeof r->key, "%s", key);
    return r;
}

static void write_record(struct sim *s, struct sim_record *r)
{
    const struct sim_server *v = &s->server;
    dt_buf_clear(&r->syncing);
    r->dirty = false;
    r->is_syncing = true;
    if (*r->key) {
        const struct dt_excluded *e = dt_exclude_find(&v->exclude, r->key);
        if (e)
            dt_exclude_save(e, &r->syncing, sim_server_clock(s));
    } else if (v->run) {
        dt_rdzv_save(v->run, &r->syncing);
    }
}

static void make_safe(struct sim_record *r)
{
    struct dt_buf was = r->safe;
    if (!r->is_syncing)
        return;
    r->safe = r->syncing;
    r->syncing = was;
    r->is_syncing = false;
}

static void on_synced(struct sim *s, struct sim_event *ev)
{
    struct sim_server *v = &s->server;
    if (!v->up || ev->life != v->life)
        return;
    if (v->paused_until > s->now) {
        sim_queue_put_off(&s->queue, ev, v->paused_until);
        return;
    }
    v->syncing = false;
    v->safe = v->syncing_to;
    for (size_t i = 0; i < v->records_len; i++)
        make_safe(&v->records[i]);
    sim_journal_sync(s);
    sim_server_release(s);
}

/* What came while the disk was busy goes together. */
void sim_journal_sync(struct sim *s)
{
    struct sim_server *v = &s->server;
    if (v->syncing || v->safe == v->written)
        return;
    for (size_t i = 0; i < v->records_len; i++)
        if (v->records[i].dirty)
            write_record(s, &v->records[i]);
    v->syncing = true;
    v->syncing_to = v->written;
    dt_ms wait = sim_between(&s->random, v->disk_min, v->disk_max);
    sim_queue_put(&s->queue,
                  (struct sim_event){.at = s->now + wait, .run = on_synced, .life = v->life});
}

void sim_journal_note(struct sim *s, const char *key)
{
    find_record(&s->server, key)->dirty = true;
    s->server.written++;
}

void sim_journal_restore(struct sim *s)
{
    struct sim_server *v = &s->server;
    dt_ms now = sim_server_clock(s);
    for (size_t i = 0; i < v->records_len; i++) {
        const struct sim_record *r = &v->records[i];
        struct dt_bytes bytes = {r->safe.at, r->safe.len};
        if (!bytes.len)
            continue;
        if (*r->key) {
            if (!dt_exclude_restore(&v->exclude, bytes, now, s->now - v->went_down))
                sim_judge_fail(s, SIM_RULE_RECORD, "the record of %s cannot be read back", r->key);
            continue;
        }
        v->run = dt_rdzv_restore(s->story.run, &v->exclude, s->seed, bytes, now);
        if (!v->run)
            sim_judge_fail(s, SIM_RULE_RECORD, "the record of the run cannot be read back");
    }
}

/* What was given to the kernel survives us. */
void sim_journal_flush(struct sim *s)
{
    struct sim_server *v = &s->server;
    for (size_t i = 0; i < v->records_len; i++) {
        make_safe(&v->records[i]);
        if (v->records[i].dirty)
            write_record(s, &v->records[i]);
        make_safe(&v->records[i]);
    }
}

void sim_journal_drop(struct sim_server *v)
{
    for (size_t i = 0; i < v->records_len; i++) {
        dt_buf_clear(&v->records[i].syncing);
        v->records[i].dirty = v->records[i].is_syncing = false;
    }
}

void sim_journal_wipe(struct sim_server *v)
{
    for (size_t i = 0; i < v->records_len; i++) {
        dt_buf_finish(&v->records[i].safe);
        dt_buf_finish(&v->records[i].syncing);
    }
    v->records_len = 0;
}
