/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv_runs.h"

#include "rendezvous/rdzv_drain.h"
#include "rendezvous/rdzv_twins.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RUN_KEY "run/"
#define NODE_KEY "node/"
#define DISK_PATIENCE (2 * DT_SECOND) /* less than a beat: nodes would take us for silent */

static dt_ms now_of(const struct dt_rdzv_runs *runs)
{
    return (dt_ms)uv_now(runs->loop);
}

static struct dt_bytes incarnation_key(const uint64_t *incarnation)
{
    return (struct dt_bytes){(const uint8_t *)incarnation, sizeof *incarnation};
}

/* -- the journal ------------------------------------------------------------------------------ */

static void start_sync(struct dt_rdzv_runs *runs);

static void complain(struct dt_rdzv_runs *runs, const struct dt_err *err)
{
    uint64_t held_back;
    if (dt_log_limit_pass(&runs->complaints, now_of(runs), &held_back))
        dt_error("what is decided now would not survive a restart of this server: %s", err->text);
}

static void put(struct dt_rdzv_runs *runs, const char *kind, const char *name,
                struct dt_bytes value)
{
    char key[sizeof NODE_KEY + DT_RUN_ID_MAX];
    struct dt_err err;
    snprintf(key, sizeof key, "%s%s", kind, name);
    if (dt_journal_put(runs->journal, dt_bytes_of(key), value, &err) < 0)
        complain(runs, &err);
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
    start_sync(runs);
    if (!runs->syncing)
        runs->on_durable(runs);
}

static void look_again_at(struct dt_rdzv_runs *runs, dt_ms when)
{
    if (when < runs->next)
        runs->next = when;
}

/* A disk that hangs must not make us a server that says nothing. */
static void mind_slow_disk(struct dt_rdzv_runs *runs)
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
    look_again_at(runs, now_of(runs) + DISK_PATIENCE);
}

static void save_marked(struct dt_rdzv_runs *runs)
{
    for (struct dt_node *n; (n = dt_list_pop(&runs->unsaved));) {
        struct dt_rdzv_run *run = dt_container_of(n, struct dt_rdzv_run, in_unsaved);
        dt_buf_clear(&runs->record);
        dt_rdzv_save(run->rdzv, &runs->record);
        if (!runs->record.bad)
            put(runs, RUN_KEY, run->id, (struct dt_bytes){runs->record.at, runs->record.len});
    }
}

/* Does nothing while the disk is busy: on_synced() comes here again. */
static void start_sync(struct dt_rdzv_runs *runs)
{
    struct dt_err err;
    if (runs->syncing || runs->asked == runs->marked)
        return;
    save_marked(runs);
    runs->asked = runs->marked;
    runs->asked_at = now_of(runs);
    runs->syncing = true;
    look_again_at(runs, runs->asked_at + DISK_PATIENCE);
    if (dt_journal_sync(runs->journal, on_synced, runs, &err) < 0)
        on_synced(runs, &err);
}

static void mark_run(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run)
{
    if (!runs->journal)
        return;
    if (!dt_node_linked(&run->in_unsaved))
        dt_list_append(&runs->unsaved, &run->in_unsaved);
    run->after = ++runs->marked;
}

/* Its times are told from now on, so the record says when that was. */
void dt_rdzv_runs_record_node(struct dt_rdzv_runs *runs, const char *name)
{
    const struct dt_excluded *e = dt_exclude_find(&runs->exclude, name);
    if (!runs->journal)
        return;
    dt_buf_clear(&runs->record);
    if (e) {
        dt_buf_put_i64(&runs->record, dt_clock_wall_us());
        dt_exclude_save(e, &runs->record, now_of(runs));
    }
    if (!runs->record.bad)
        put(runs, NODE_KEY, name, (struct dt_bytes){runs->record.at, runs->record.len});
    runs->marked++;
}

static void forget_run(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run)
{
    dt_list_remove(&run->in_unsaved);
    if (!runs->journal)
        return;
    put(runs, RUN_KEY, run->id, (struct dt_bytes){0});
    runs->marked++;
}

/* -- runs ------------------------------------------------------------------------------------- */

static struct dt_rdzv_run *find_run(const struct dt_rdzv_runs *runs, const char *id)
{
    return dt_map_find(&runs->by_id, dt_bytes_of(id));
}

static void run_free(struct dt_rdzv_run *run)
{
    dt_map_finish(&run->conns, NULL);
    dt_rdzv_destroy(run->rdzv);
    free(run);
}

/* Takes over RDZV, which may be NULL: then there was no memory for it. */
static struct dt_rdzv_run *run_create(struct dt_rdzv_runs *runs, const char *id,
                                      struct dt_rdzv *rdzv)
{
    struct dt_rdzv_run *run = rdzv ? calloc(1, sizeof *run) : NULL;
    if (!run) {
        dt_rdzv_destroy(rdzv);
        return NULL;
    }
    snprintf(run->id, sizeof run->id, "%s", id);
    dt_rdzv_set_shared(rdzv, !runs->hosted);
    run->rdzv = rdzv;
    dt_map_init(&run->conns, offsetof(struct dt_rdzv_conn, incarnation), dt_map_random_seed());
    dt_node_init(&run->in_unsaved);
    if (dt_map_insert(&runs->by_id, run, (uint32_t)strlen(run->id)) < 0) {
        run_free(run);
        return NULL;
    }
    dt_list_append(&runs->all, &run->in_all);
    runs->counters->runs++;
    runs->counters->nodes += rdzv->members.count;
    return run;
}

static void unbind(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c)
{
    dt_map_remove(&c->run->conns, incarnation_key(&c->incarnation));
    c->run = NULL;
    runs->on_stranger(runs, c);
}

static void run_destroy(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run)
{
    size_t cursor = 0;
    for (struct dt_rdzv_conn *c; (c = dt_map_next(&run->conns, &cursor));) {
        c->run = NULL;
        runs->on_stranger(runs, c);
    }
    dt_map_remove(&runs->by_id, dt_bytes_of(run->id));
    dt_list_remove(&run->in_all);
    dt_list_remove(&run->in_unsaved);
    runs->counters->runs--;
    runs->counters->nodes -= run->rdzv->members.count;
    run_free(run);
}

/* Runs that are kept only to say how they ended give way. */
static bool make_room(struct dt_rdzv_runs *runs)
{
    if (runs->counters->runs < runs->most_runs)
        return true;
    dt_list_each(&runs->all, n)
    {
        struct dt_rdzv_run *run = dt_container_of(n, struct dt_rdzv_run, in_all);
        if (!dt_rdzv_is_empty(run->rdzv))
            continue;
        forget_run(runs, run);
        run_destroy(runs, run);
        return true;
    }
    return false;
}

/* -- what a step asks for --------------------------------------------------------------------- */

static void send_to(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c, const struct dt_message *m,
                    uint64_t after)
{
    if (after <= runs->durable && dt_list_empty(&c->held)) {
        dt_rdzv_conn_send(c, m);
        return;
    }
    dt_rdzv_conn_hold(c, m, after);
    if (!dt_node_linked(&c->in_holding) && !dt_list_empty(&c->held))
        dt_list_append(&runs->holding, &c->in_holding);
}

/* Where an agent of the run hosts it, one console shows both. */
static enum dt_rdzv_level level_here(const struct dt_rdzv_runs *runs, enum dt_rdzv_level level)
{
    if (level == DT_SAY_WARN_TOLD)
        return runs->hosted ? DT_SAY_INFO : DT_SAY_WARN;
    if (level == DT_SAY_ERROR_TOLD)
        return runs->hosted ? DT_SAY_INFO : DT_SAY_ERROR;
    return level;
}

/* Of ten thousand nodes that are lost at once, or one that comes and goes without end, not each is
 * worth a line: a stranger could fill the disk with them. */
static void say(struct dt_rdzv_runs *runs, const char *run, enum dt_rdzv_level level,
                const char *text)
{
    uint64_t held_back;
    char more[80] = "";
    if (!dt_log_limit_pass(&runs->lines, now_of(runs), &held_back))
        return;
    if (held_back)
        snprintf(more, sizeof more, " (and %" PRIu64 " lines about runs that were left out)",
                 held_back);
    switch (level_here(runs, level)) {
    case DT_SAY_INFO:
        dt_info("run %s: %s%s", run, text, more);
        break;
    case DT_SAY_WARN:
    case DT_SAY_WARN_TOLD:
        dt_warn("run %s: %s%s", run, text, more);
        break;
    case DT_SAY_ERROR:
    case DT_SAY_ERROR_TOLD:
        dt_error("run %s: %s%s", run, text, more);
        break;
    }
}

static void carry_out(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run,
                      const struct dt_rdzv_action *a)
{
    struct dt_rdzv_conn *c;
    struct dt_message m;
    switch (a->type) {
    case DT_DO_SEND:
        c = dt_map_find(&run->conns, incarnation_key(&a->to));
        if (!c)
            return;
        dt_rdzv_message(&runs->actions, a, run->id, &m);
        send_to(runs, c, &m, run->after);
        break;
    case DT_DO_JOURNAL:
        mark_run(runs, run);
        break;
    case DT_DO_NODE:
        dt_rdzv_runs_record_node(runs, dt_rdzv_text(&runs->actions, a->text));
        run->after = runs->marked;
        break;
    case DT_DO_SAY:
        say(runs, run->id, a->level, dt_rdzv_text(&runs->actions, a->text));
        break;
    }
}

/* Half of what it decided is lost: its agents tell the next of its name what they have. */
static void give_up(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run)
{
    size_t cursor = 0;
    dt_error("run %s: no memory; its nodes have to come again", run->id);
    for (struct dt_rdzv_conn *c; (c = dt_map_next(&run->conns, &cursor));)
        dt_rdzv_conn_end(c);
    run_destroy(runs, run);
}

static void run_step(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run,
                     const struct dt_rdzv_event *event)
{
    const struct dt_rdzv_actions *actions = &runs->actions;
    size_t nodes = run->rdzv->members.count;
    struct dt_rdzv_event with_twin = *event;
    with_twin.twin = dt_rdzv_twins_find(runs, run, now_of(runs));
    dt_rdzv_step(run->rdzv, &with_twin, now_of(runs), &runs->actions);
    runs->counters->nodes += run->rdzv->members.count - nodes;
    if (actions->bad) {
        give_up(runs, run);
        return;
    }
    for (size_t i = 0; i < actions->len; i++)
        carry_out(runs, run, &actions->at[i]);
    if (dt_rdzv_is_idle(run->rdzv, now_of(runs))) {
        forget_run(runs, run);
        run_destroy(runs, run);
    } else {
        look_again_at(runs, dt_rdzv_next(run->rdzv));
    }
    start_sync(runs);
}

/* -- what agents say -------------------------------------------------------------------------- */

static void refuse_node(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                        const struct dt_message *join, const char *why)
{
    char text[DT_WHY_MAX];
    struct dt_message m = {.type = DT_MSG_CLOSE,
                           .run = join->run,
                           .round = join->round,
                           .incarnation = join->incarnation,
                           .close = {DT_CLOSE_REFUSED},
                           .why = why};
    snprintf(text, sizeof text, "%s is refused: %s", join->join.node.name, why);
    say(runs, join->run, DT_SAY_WARN, text);
    send_to(runs, c, &m, 0);
}

/* The run of a JOIN, made where it is new. NULL, and *WHY: there is no room for it, or the node. */
static struct dt_rdzv_run *run_for(struct dt_rdzv_runs *runs, const struct dt_message *join,
                                   const char **why)
{
    struct dt_rdzv_run *run = find_run(runs, join->run);
    bool known = run && dt_members_find(&run->rdzv->members, join->incarnation);
    if (!known && runs->counters->nodes >= runs->most_nodes) {
        *why = "the rendezvous serves as many nodes as it may already; raise its --max-nodes";
        return NULL;
    }
    if (run)
        return run;
    if (!make_room(runs)) {
        *why = "the rendezvous serves as many runs as it may already; raise its --max-runs";
        return NULL;
    }
    *why = "the rendezvous has no memory for one more run";
    return run_create(runs, join->run,
                      dt_rdzv_create(join->run, &runs->exclude, dt_map_random_seed()));
}

/* C speaks for that incarnation from here on, and who did so before does no more. */
static int bind_to(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c, struct dt_rdzv_run *run,
                   uint64_t incarnation)
{
    struct dt_rdzv_conn *old = dt_map_find(&run->conns, incarnation_key(&incarnation));
    if (old) {
        unbind(runs, old);
        dt_control_peer_close(old->peer);
    }
    c->incarnation = incarnation;
    if (dt_map_insert(&run->conns, c, sizeof c->incarnation) < 0)
        return -1;
    c->run = run;
    dt_list_remove(&c->in_strangers);
    return 0;
}

static bool speaks_for(const struct dt_rdzv_conn *c, const struct dt_message *m)
{
    return c->run && c->incarnation == m->incarnation && strcmp(c->run->id, m->run) == 0;
}

/* What an agent said before it came anew may be read after what it said then. */
static bool is_outdated(const struct dt_rdzv_run *run, const struct dt_rdzv_conn *c,
                        uint64_t incarnation)
{
    const struct dt_rdzv_conn *bound = dt_map_find(&run->conns, incarnation_key(&incarnation));
    return bound && bound->number > c->number;
}

static void take_join(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c, const struct dt_message *m)
{
    const char *why;
    if (!speaks_for(c, m)) {
        dt_rdzv_runs_lost(runs, c); /* as whom it spoke so far */
        struct dt_rdzv_run *run = run_for(runs, m, &why);
        if (run && is_outdated(run, c, m->incarnation)) {
            dt_rdzv_conn_end(c);
            return;
        }
        if (!run || bind_to(runs, c, run, m->incarnation) < 0) {
            refuse_node(runs, c, m, run ? "the rendezvous has no memory for one more node" : why);
            return;
        }
    }
    run_step(runs, c->run, &(struct dt_rdzv_event){.type = DT_EV_FRAME, .frame = m});
}

int dt_rdzv_runs_frame(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                       const struct dt_message *m, struct dt_err *err)
{
    if (m->type == DT_MSG_JOIN) {
        take_join(runs, c, m);
    } else if (speaks_for(c, m)) {
        run_step(runs, c->run, &(struct dt_rdzv_event){.type = DT_EV_FRAME, .frame = m});
    } else if (c->run) {
        return dt_err_set(err, DT_E_PROTOCOL, "a %s of a node that did not join here",
                          dt_message_name(m->type));
    } else if (m->type ==
               DT_MSG_MAY_COMMIT) { /* of a run that is over: the others have no answer */
        struct dt_message no = {.type = DT_MSG_MAY_COMMIT,
                                .run = m->run,
                                .round = m->round,
                                .incarnation = m->incarnation};
        send_to(runs, c, &no, 0);
    }
    return 0;
}

void dt_rdzv_runs_lost(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c)
{
    struct dt_rdzv_run *run = c->run;
    if (!run)
        return;
    unbind(runs, c);
    if (runs->frozen)
        return;
    run_step(runs, run, &(struct dt_rdzv_event){.type = DT_EV_LOST, .from = c->incarnation});
}

/* -- what people and time bring --------------------------------------------------------------- */

void dt_rdzv_runs_tell_of_node(struct dt_rdzv_runs *runs, const char *node)
{
    dt_list_each(&runs->all, n)
    {
        struct dt_rdzv_run *run = dt_container_of(n, struct dt_rdzv_run, in_all);
        run->after = runs->marked;
        run_step(runs, run, &(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = node});
    }
}

void dt_rdzv_runs_drain(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                        const struct dt_message *m)
{
    char text[DT_WHY_MAX];
    bool done = dt_rdzv_drain(runs, m, text, sizeof text);
    struct dt_message answer = {.type = DT_MSG_DRAIN,
                                .run = m->run,
                                .drain = {.node = m->drain.node, .done = done},
                                .why = text};
    send_to(runs, c, &answer, runs->marked);
    start_sync(runs);
}

void dt_rdzv_runs_tick(struct dt_rdzv_runs *runs)
{
    dt_ms now = now_of(runs);
    runs->next = DT_FOREVER;
    dt_list_each(&runs->all, n)
    {
        struct dt_rdzv_run *run = dt_container_of(n, struct dt_rdzv_run, in_all);
        dt_ms next = dt_rdzv_next(run->rdzv);
        if (next <= now)
            run_step(runs, run, &(struct dt_rdzv_event){.type = DT_EV_TICK});
        else
            look_again_at(runs, next);
    }
    mind_slow_disk(runs);
}

void dt_rdzv_runs_end(struct dt_rdzv_runs *runs, const char *why)
{
    dt_list_each(&runs->all, n)
    {
        struct dt_rdzv_run *run = dt_container_of(n, struct dt_rdzv_run, in_all);
        run_step(runs, run, &(struct dt_rdzv_event){.type = DT_EV_END, .text = why});
    }
    dt_list_each(&runs->all, n) forget_run(runs, dt_container_of(n, struct dt_rdzv_run, in_all));
    start_sync(runs);
}

/* -- beginning and end ------------------------------------------------------------------------ */

static bool has_prefix(struct dt_bytes key, const char *prefix)
{
    return key.len >= strlen(prefix) && memcmp(key.at, prefix, strlen(prefix)) == 0;
}

static bool restore_run(struct dt_rdzv_runs *runs, const char *id, struct dt_bytes value)
{
    return run_create(runs, id,
                      dt_rdzv_restore(id, &runs->exclude, dt_map_random_seed(), value,
                                      now_of(runs))) != NULL;
}

static bool restore_node(struct dt_rdzv_runs *runs, struct dt_bytes value)
{
    struct dt_reader r = dt_reader_over(value.at, value.len);
    int64_t saved = dt_read_i64(&r), wall = dt_clock_wall_us();
    dt_ms away = wall > saved ? (wall - saved) / 1000 : 0; /* the clock may have been set back */
    return !r.bad && dt_exclude_restore(&runs->exclude, (struct dt_bytes){r.at, dt_reader_left(&r)},
                                        now_of(runs), away);
}

static void on_replay(void *arg, struct dt_bytes key, struct dt_bytes value)
{
    struct dt_rdzv_runs *runs = arg;
    char name[DT_RUN_ID_MAX + sizeof NODE_KEY];
    bool good = key.len < sizeof name;
    snprintf(name, sizeof name, "%.*s", (int)(good ? key.len : sizeof name - 1), key.at);
    if (good && has_prefix(key, RUN_KEY))
        good = restore_run(runs, name + strlen(RUN_KEY), value);
    else if (good && has_prefix(key, NODE_KEY))
        good = restore_node(runs, value);
    if (!good)
        dt_warn("the journal's record of %s cannot be read and is not used", name);
}

static void finish(struct dt_rdzv_runs *runs)
{
    dt_list_each(&runs->all, n) run_destroy(runs, dt_container_of(n, struct dt_rdzv_run, in_all));
    dt_map_finish(&runs->by_id, NULL);
    dt_exclude_finish(&runs->exclude);
    dt_rdzv_actions_finish(&runs->actions);
    dt_buf_finish(&runs->record);
}

int dt_rdzv_runs_open(struct dt_rdzv_runs *runs, const char *state_dir, struct dt_err *err)
{
    dt_map_init(&runs->by_id, offsetof(struct dt_rdzv_run, id), dt_map_random_seed());
    dt_list_init(&runs->all);
    dt_list_init(&runs->unsaved);
    dt_list_init(&runs->holding);
    dt_exclude_init(&runs->exclude, dt_map_random_seed());
    runs->complaints = (struct dt_log_limit){.burst = 3, .every = 60 * DT_SECOND};
    runs->lines = (struct dt_log_limit){.burst = 500, .every = DT_SECOND / 5};
    runs->next = DT_FOREVER;
    if (!state_dir)
        return 0;
    runs->journal = dt_journal_open(runs->loop, state_dir, on_replay, runs, err);
    if (!runs->journal) {
        finish(runs);
        return -1;
    }
    dt_rdzv_runs_tick(runs);
    if (runs->counters->runs)
        dt_info("runs of the journal that wait for their agents: %zu", runs->counters->runs);
    return 0;
}

/* What the disk did not get yet goes to the journal's last flush, which is its own affair. */
void dt_rdzv_runs_close(struct dt_rdzv_runs *runs, void (*on_closed)(void *arg), void *arg)
{
    save_marked(runs);
    runs->asked = runs->marked;
    finish(runs);
    if (runs->journal)
        dt_journal_close(runs->journal, on_closed, arg);
    else
        on_closed(arg);
}
