/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/status.h"

#include "base/str.h"

#include <stdio.h>

/* A page fits its frame even where each of its bytes has to be escaped there. Bytes of the two
 * lists that have no pages of their own, some 500 rows each: what is beyond is left out. Nodes that
 * find no room between the two are on the next page. */
#define ROWS_MOST (32u << 10) /* of what is put before somebody looks whether there is room */
#define PAGE_MOST (DT_STATUS_FRAME_MAX / 2 - ROWS_MOST)
#define LIST_MOST (192u << 10)
#define NODES_END (PAGE_MOST - LIST_MOST)

static int64_t seconds(dt_ms duration)
{
    return duration > 0 ? duration / DT_SECOND : 0;
}

static void put_object(struct dt_buf *out, const void *from, const struct dt_field *fields)
{
    if (out->len > 0 && out->at[out->len - 1] == '}')
        dt_buf_put_str(out, ",");
    dt_buf_put_str(out, "{");
    dt_fields_put(out, from, fields);
    dt_buf_put_str(out, "}");
}

/* -- runs ------------------------------------------------------------------------------------- */

static size_t doing(const struct dt_rdzv *r, enum dt_member_doing what)
{
    return r->members.counts[what][DT_LINK_ONLINE] + r->members.counts[what][DT_LINK_SUSPECT];
}

static void put_straggler(const struct dt_rdzv *r, char *out, size_t size)
{
    const struct dt_lag *l = dt_rdzv_straggler(r);
    char time[32];
    dt_ms whole = (r->now - l->since) / DT_SECOND * DT_SECOND;
    snprintf(out, size, "for %s %s", dt_str_from_duration(whole, time, sizeof time), l->sentence);
}

/* Whom it waits for, or how it ended. */
static const char *run_why(const struct dt_rdzv *r, char *out, size_t size)
{
    size_t ready = dt_rdzv_count_ready(r), stopping = doing(r, DT_MEMBER_STOPPING);
    size_t needed = (size_t)r->spec.min_nodes;
    *out = '\0';
    switch (r->state) {
    case DT_RUN_CLOSED:
        return r->closed.why;
    case DT_RUN_RUNNING:
        if (r->running.recovery.until)
            snprintf(out, size, "nodes of the round that did not come back yet are waited for");
        else if (dt_rdzv_standstill(r))
            snprintf(out, size, "%s", dt_rdzv_standstill(r));
        else if (dt_rdzv_straggler(r))
            put_straggler(r, out, size);
        return out;
    case DT_RUN_GATHERING:
        break;
    }
    if (stopping)
        snprintf(out, size, "%zu node%s stopping workers%s%.300s", stopping,
                 stopping == 1 ? " is" : "s are", dt_rdzv_is_stopping(r) ? "; " : "",
                 r->gathering.stopped);
    else if (dt_rdzv_is_paused(r))
        snprintf(out, size, "paused (%.300s) until dtrun-ctl run resume", r->gathering.paused);
    else if (ready < needed)
        snprintf(out, size, "%zu more node%s needed", needed - ready,
                 needed - ready == 1 ? " is" : "s are");
    else if (r->gathering.pause_until > r->now)
        snprintf(out, size, "the last rounds failed at once, so the next one waits a moment");
    else
        snprintf(out, size, "more nodes may come before it starts");
    if (ready < needed && !dt_rdzv_is_paused(r))
        dt_rdzv_name_drained(r, out, size);
    return out;
}

static void put_run(struct dt_buf *out, const struct dt_rdzv *r, dt_ms now)
{
    char master[DT_NODE_ADDR_MAX + 16] = "", why[DT_WHY_MAX];
    if (r->state == DT_RUN_RUNNING && *r->master_addr) /* nodes do not tell it to a new server */
        snprintf(master, sizeof master, "%s:%d", r->master_addr, r->master_port);
    struct dt_training training;
    dt_rdzv_training(r, &training);
    struct dt_status_run row = {
        .id = r->id,
        .state = dt_run_state_name(r->state),
        .round = r->round,
        .world = r->size,
        .nodes = (int)(r->state == DT_RUN_GATHERING ? dt_rdzv_count_ready(r) : r->seats_len),
        .spec = r->spec,
        .restarts = r->budget.restarts,
        .losses = r->budget.losses,
        .since_s = seconds(now - r->since),
        .master = master,
        .why = run_why(r, why, sizeof why),
        .paused = dt_rdzv_is_paused(r),
        .ended = r->state == DT_RUN_CLOSED ? dt_close_kind_name(r->closed.kind) : "",
        .begun_s = r->beginning.wall_us / 1000000,
        .begun_on = r->beginning.node,
        .own_token = *r->key != '\0',
        .step = training.step > 0 ? training.step : 0,
        .steps = training.steps,
        .loss = training.loss,
        .tokens_per_s = training.tokens_per_s,
        .mfu = training.mfu,
        .compute = training.compute,
        .comm = training.comm,
        .data = training.data,
        .idle = training.idle,
    };
    put_object(out, &row, dt_status_run_fields);
}

/* -- nodes ------------------------------------------------------------------------------------ */

/* How old its last step is; the beat that told it is old itself by now. 0: unknown. */
static int64_t step_age(const struct dt_member *m, dt_ms now)
{
    if (m->step < 0 || m->beat.step_age_ms == 0)
        return 0;
    int64_t age = seconds(dt_clock_after(m->beat.step_age_ms, now - m->heard));
    return age > 0 ? age : 1;
}

struct dt_status_node dt_rdzv_status_node(const struct dt_rdzv *r, const struct dt_member *m,
                                          dt_ms now)
{
    bool parked = m->doing == DT_MEMBER_WAITING && m->parked, fresh = dt_rdzv_is_fresh(m);
    const struct dt_telemetry *t = &m->telemetry.is;
    return (struct dt_status_node){
        .name = m->name.text,
        .run = r->id,
        .state = dt_link_name(m->link),
        .doing = parked ? "parked" : dt_member_doing_name(m->doing),
        .seat = m->seat,
        .workers = m->workers,
        .beat_age_s = seconds(now - m->heard),
        .round = m->round,
        .step = m->step,
        .step_age_s = step_age(m, now),
        .tokens_per_s = fresh ? m->beat.tokens_per_s : 0,
        .step_ms = fresh ? t->step_ms : 0,
        .gpus = t->gpus,
        .gpu_busy = t->gpu_busy,
        .gpu_mem_mib = t->gpu_mem_mib,
        .gpu_mem_total_mib = t->gpu_mem_total_mib,
        .disk = t->disk,
        .disk_free_mib = t->disk_free_mib,
        .disk_total_mib = t->disk_total_mib,
        .upload_behind_s = t->upload_behind_s,
        .worker_ms = fresh ? t->worker_ms : "",
    };
}

/* Of each worker there is something only where one run is asked for. */
static void put_node(struct dt_buf *out, const struct dt_rdzv *r, const struct dt_member *m,
                     bool workers, dt_ms now)
{
    struct dt_status_node row = dt_rdzv_status_node(r, m, now);
    if (!workers)
        row.worker_ms = "";
    put_object(out, &row, dt_status_node_fields);
}

/* Puts those of R from *SKIP on, as many as *ROOM says and fit into a page, and takes both down by
 * what it passed. */
static void put_nodes(struct dt_buf *out, const struct dt_rdzv *r, bool workers, size_t *skip,
                      size_t *room, dt_ms now)
{
    if (*skip >= r->members.count) {
        *skip -= r->members.count;
        return;
    }
    dt_list_each(&r->members.all, n)
    {
        if (*skip > 0) {
            --*skip;
            continue;
        }
        if (*room == 0 || out->len >= NODES_END)
            return;
        --*room;
        put_node(out, r, dt_container_of(n, struct dt_member, in_all), workers, now);
    }
}

/* -- who is kept out -------------------------------------------------------------------------- */

/* Others are only remembered, in case they fail again. */
static bool is_in_force(const struct dt_excluded *e, dt_ms now)
{
    return e->drained || e->strikes > 0 || e->until > now || e->probation > now;
}

static void put_excluded(struct dt_buf *out, const struct dt_excluded *e, dt_ms now)
{
    struct dt_status_excluded row = {
        .name = e->name,
        .why = e->drained ? e->drained_why : e->why,
        .until_s = seconds(e->until - now),
        .strikes = e->strikes,
        .drained = e->drained,
        .probation_s = seconds(e->probation - now),
    };
    put_object(out, &row, dt_status_excluded_fields);
}

/* -- the page --------------------------------------------------------------------------------- */

static bool is_wanted(const struct dt_rdzv_run *run, const char *id)
{
    return !*id || strcmp(run->id, id) == 0;
}

static void put_runs(const struct dt_rdzv_runs *runs, const char *id, dt_ms now, struct dt_buf *out)
{
    size_t most = out->len + LIST_MOST;
    dt_list_each(&runs->all, n)
    {
        struct dt_rdzv_run *run = dt_container_of(n, struct dt_rdzv_run, in_all);
        if (run->rdzv->begun && is_wanted(run, id) && out->len < most)
            put_run(out, run->rdzv, now);
    }
}

/* The MOST nodes that come behind *SKIP others, or those that fit into a page; *SKIP then counts
 * them too. Returns how many nodes there are in all. */
static size_t put_some_nodes(const struct dt_rdzv_runs *runs, const char *id, size_t *skip,
                             size_t most, struct dt_buf *out)
{
    size_t nodes = 0, left = *skip, room = most;
    dt_list_each(&runs->all, n)
    {
        struct dt_rdzv_run *r = dt_container_of(n, struct dt_rdzv_run, in_all);
        if (!is_wanted(r, id))
            continue;
        nodes += r->rdzv->members.count;
        put_nodes(out, r->rdzv, *id != '\0', &left, &room, (dt_ms)uv_now(runs->loop));
    }
    *skip += most - room;
    return nodes;
}

static void put_all_excluded(const struct dt_rdzv_runs *runs, dt_ms now, struct dt_buf *out)
{
    size_t most = out->len + LIST_MOST, cursor = 0;
    for (struct dt_excluded *e; (e = dt_map_next(&runs->exclude.nodes, &cursor));)
        if (is_in_force(e, now) && out->len < most)
            put_excluded(out, e, now);
}

static void put_server(const struct dt_status_server *server, struct dt_buf *out)
{
    dt_buf_put_str(out, "{\"server\":");
    put_object(out, server, dt_status_server_fields);
    dt_buf_put_str(out, ",\"runs\":[");
}

static const struct dt_rdzv_run *find_run(const struct dt_rdzv_runs *runs, const char *id)
{
    const struct dt_rdzv_run *found = dt_map_find(&runs->by_id, dt_bytes_of(id));
    return found && found->rdzv->begun ? found : NULL;
}

static void put_past_round(struct dt_buf *out, const struct dt_past_round *p)
{
    struct dt_status_past row = {
        .round = p->round,
        .ended_s = p->ended_us / 1000000,
        .lasted_ms = p->lasted,
        .lost_ms = p->lost,
        .first_step = p->first_step,
        .last_step = p->last_step,
        .cause = p->cause,
        .decided = p->decided,
    };
    put_object(out, &row, dt_status_past_fields);
}

static void put_past(struct dt_buf *out, const struct dt_rdzv_run *run)
{
    for (size_t i = 0; i < run->rdzv->history.len; i++)
        put_past_round(out, &run->rdzv->history.at[i]);
}

void dt_rdzv_status_history(const struct dt_rdzv_runs *runs, const struct dt_status_server *server,
                            const char *run, struct dt_buf *out)
{
    const struct dt_rdzv_run *found = find_run(runs, run);
    put_server(server, out);
    if (found)
        put_run(out, found->rdzv, (dt_ms)uv_now(runs->loop));
    dt_buf_put_str(out, "],\"nodes\":[],\"excluded\":[],\"history\":[");
    if (found)
        put_past(out, found);
    dt_buf_put_str(out, "],\"next\":0}");
}

void dt_rdzv_status_page(const struct dt_rdzv_runs *runs, const struct dt_status_server *server,
                         const char *run, int from, struct dt_buf *out)
{
    dt_ms now = (dt_ms)uv_now(runs->loop);
    put_server(server, out);
    if (from == 0)
        put_runs(runs, run, now, out);
    dt_buf_put_str(out, "],\"nodes\":[");
    size_t next = (size_t)from;
    size_t nodes = put_some_nodes(runs, run, &next, DT_STATUS_PAGE_NODES, out);
    dt_buf_put_str(out, "],\"excluded\":[");
    if (from == 0)
        put_all_excluded(runs, now, out);
    dt_buf_printf(out, "],\"next\":%zu}", next < nodes ? next : 0);
}

/* -- the same in slices ----------------------------------------------------------------------- */

#define SLICE_NODES 64

static void put_beginning(const struct dt_rdzv_runs *runs, const char *host,
                          const struct dt_rdzv_status_walk *walk, struct dt_buf *out)
{
    char now[DT_CLOCK_TEXT], started[DT_CLOCK_TEXT];
    struct dt_status_server server = {.host = host, .version = DT_VERSION};
    dt_clock_format(dt_clock_wall_us(), now);
    dt_clock_format(walk->started_us, started);
    dt_buf_put_str(out, "{\"server\":{");
    dt_fields_put(out, &server, dt_status_server_fields);
    dt_buf_printf(out, ",\"now\":\"%s\",\"started\":\"%s\"},\"runs\":[", now, started);
    put_runs(runs, walk->run, (dt_ms)uv_now(runs->loop), out);
    dt_buf_put_str(out, "],\"nodes\":[");
}

static void put_ending(const struct dt_rdzv_runs *runs, const struct dt_rdzv_status_walk *walk,
                       struct dt_buf *out)
{
    const struct dt_rdzv_run *run = find_run(runs, walk->run);
    dt_buf_put_str(out, "],\"excluded\":[");
    put_all_excluded(runs, (dt_ms)uv_now(runs->loop), out);
    dt_buf_put_str(out, "]");
    if (*walk->run)
        dt_buf_put_str(out, ",\"past\":[");
    if (run)
        put_past(out, run);
    if (*walk->run)
        dt_buf_put_str(out, "]");
}

bool dt_rdzv_status_next(const struct dt_rdzv_runs *runs, const char *host,
                         struct dt_rdzv_status_walk *walk, struct dt_buf *out)
{
    if (!walk->begun) {
        walk->begun = true;
        put_beginning(runs, host, walk, out);
        return true;
    }
    struct dt_buf nodes = {0};
    bool follows = walk->nodes > 0;
    size_t all = put_some_nodes(runs, walk->run, &walk->nodes, SLICE_NODES, &nodes);
    if (nodes.len > 0 && follows)
        dt_buf_put_str(out, ",");
    dt_buf_put(out, nodes.at, nodes.len);
    out->bad = out->bad || nodes.bad;
    dt_buf_finish(&nodes);
    if (walk->nodes < all)
        return true;
    put_ending(runs, walk, out);
    return false;
}

bool dt_rdzv_status_knows(const struct dt_rdzv_runs *runs, const char *run)
{
    return find_run(runs, run) != NULL;
}
