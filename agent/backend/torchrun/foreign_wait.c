/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/torchrun/foreign_wait.h"

#include "agent/backend/backend.h"
#include "agent/backend/fixed/exchange.h"
#include "base/log.h"

static dt_ms now(const struct dt_foreign_wait *w)
{
    return (dt_ms)uv_now(w->loop);
}

void dt_foreign_wait_begin(struct dt_foreign_wait *w)
{
    w->since = now(w);
    w->next_note = w->since + DT_FIRST_NOTE;
}

void dt_foreign_wait_end(struct dt_foreign_wait *w)
{
    w->ended = true;
}

static int seconds_left(const struct dt_foreign_wait *w)
{
    return dt_clock_seconds(w->self->deadline - now(w));
}

static void on_looked_for_static(void *arg, const struct dt_c10d_reply *reply,
                                 const struct dt_err *err)
{
    struct dt_foreign_wait *w = arg;
    if (err || w->ended)
        return;
    if (reply->number == DT_C10D_READY)
        dt_warn("job \"%s\" at %s is a static one; give all its nodes the same --rdzv-backend, or "
                "this job a port of its own; waiting for %d s more",
                w->run_id, w->store, seconds_left(w));
    else
        dt_warn("no torchrun has begun job \"%s\" at %s yet; waiting for %d s more", w->run_id,
                w->store, seconds_left(w));
}

/* Node 0 of a static job says its role before anything else. */
static void look_for_static(struct dt_foreign_wait *w)
{
    struct dt_buf key = {0}, items = {0};
    dt_c10d_put_item(&items, dt_exchange_key(&key, w->run_id, "torchelastic/role_info/%d", 0),
                     NULL);
    struct dt_c10d_request check = {
        .op = DT_C10D_CHECK, .count = 1, .items = {items.at, items.len}};
    if (!items.bad && !key.bad)
        dt_store_client_request(w->client, &check, DT_NEXT_NOTE, on_looked_for_static, w, NULL);
    dt_buf_finish(&items);
    dt_buf_finish(&key);
}

void dt_foreign_wait_note(struct dt_foreign_wait *w, const struct dt_dynamic_store *shared)
{
    const struct dt_dynamic_state *s = &shared->state;
    int left = seconds_left(w);
    if (now(w) < w->next_note)
        return;
    w->next_note = now(w) + DT_NEXT_NOTE;
    if (!shared->begun)
        look_for_static(w);
    else if (s->complete)
        dt_warn("round %lld of job \"%s\" is under way with %zu nodes; waiting for the next",
                (long long)s->round, w->run_id, dt_dynamic_participants(s));
    else
        dt_warn("%zu of at least %zu nodes are at %s; waiting for %d s more",
                dt_dynamic_participants(s), w->self->min_nodes, w->store, left);
}

void dt_foreign_wait_refused(const struct dt_foreign_wait *w, enum dt_dynamic_act act,
                             struct dt_err *err)
{
    const char *id = w->run_id;
    if (act == DT_DYNAMIC_CLOSED)
        dt_err_set(
            err, DT_E_RUNTIME,
            "job \"%s\" at %s was closed by one of its nodes; to begin again give all of them "
            "another --rdzv-id",
            id, w->store);
    else if (act == DT_DYNAMIC_TIMEOUT)
        dt_err_set(err, DT_E_TIMEOUT,
                   "waited %d s at %s for job \"%s\" to have %zu nodes; start them, or wait longer "
                   "with --rdzv-conf join_timeout=SECONDS",
                   dt_clock_seconds(now(w) - w->since), w->store, id, w->self->min_nodes);
    else
        dt_err_set(err, DT_E_LIMIT, "job \"%s\" has no room for one more node", id);
}
