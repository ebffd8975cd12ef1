/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/runs.h"

#include "rendezvous/runs/drain.h"
#include "rendezvous/runs/looks.h"
#include "rendezvous/runs/records.h"
#include "rendezvous/runs/tails.h"
#include "rendezvous/runs/tell.h"
#include "rendezvous/runs/twins.h"

#include <stdio.h>
#include <stdlib.h>

static dt_ms now_of(const struct dt_rdzv_runs *runs)
{
    return (dt_ms)uv_now(runs->loop);
}

static struct dt_bytes incarnation_key(const uint64_t *incarnation)
{
    return (struct dt_bytes){(const uint8_t *)incarnation, sizeof *incarnation};
}

void dt_rdzv_runs_look_again(struct dt_rdzv_runs *runs, dt_ms when)
{
    if (when < runs->next)
        runs->next = when;
}

/* -- runs ------------------------------------------------------------------------------------- */

struct dt_rdzv_run *dt_rdzv_runs_find(const struct dt_rdzv_runs *runs, const char *id)
{
    return dt_map_find(&runs->by_id, dt_bytes_of(id));
}

static void run_free(struct dt_rdzv_run *run)
{
    dt_map_finish(&run->conns, NULL);
    dt_rdzv_destroy(run->rdzv);
    free(run);
}

/* Whether jobs of several people meet under ID, and not on purpose. */
static bool is_shared(const struct dt_rdzv_runs *runs, const char *id)
{
    bool meant = runs->share_default_id && strcmp(id, DT_RUN_ID_OF_NOBODY) == 0;
    return !runs->hosted && !meant;
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
    dt_rdzv_set_shared(rdzv, is_shared(runs, id));
    run->rdzv = rdzv;
    dt_map_init(&run->conns, offsetof(struct dt_rdzv_conn, incarnation), dt_map_random_seed());
    dt_node_init(&run->in_unsaved);
    dt_list_init(&run->lookers);
    dt_list_init(&run->tails);
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
    dt_rdzv_looks_end(run);
    dt_rdzv_tails_end(run);
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
        dt_rdzv_records_forget(runs, run);
        run_destroy(runs, run);
        return true;
    }
    return false;
}

/* -- what a step asks for --------------------------------------------------------------------- */

static void tell(struct dt_rdzv_runs *runs, const struct dt_rdzv_run *run,
                 const struct dt_rdzv_action *a)
{
    dt_rdzv_tell(runs,
                 &(struct dt_event){.kind = a->tell.kind,
                                    .run = run->id,
                                    .round = a->round,
                                    .node = dt_rdzv_text(&runs->actions, a->tell.node),
                                    .rank = a->tell.rank,
                                    .words = dt_rdzv_text(&runs->actions, a->text)},
                 a->tell.silent);
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
        dt_rdzv_records_send(runs, c, &m, run->after);
        break;
    case DT_DO_JOURNAL:
        dt_rdzv_records_mark(runs, run);
        break;
    case DT_DO_NODE:
        dt_rdzv_records_node(runs, dt_rdzv_text(&runs->actions, a->text));
        run->after = runs->marked;
        break;
    case DT_DO_SAY:
        dt_rdzv_say(runs, run->id, a->weight, dt_rdzv_text(&runs->actions, a->text));
        break;
    case DT_DO_TELL:
        tell(runs, run, a);
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

/* A beat that was answered, and no more: most of what is heard of a large run. */
static bool is_mere_beat(const struct dt_rdzv_event *event, const struct dt_rdzv_actions *actions)
{
    bool echoed = actions->len == 1 && actions->at[0].type == DT_DO_SEND &&
                  actions->at[0].message == DT_MSG_BEAT;
    return event->type == DT_EV_FRAME && event->frame->type == DT_MSG_BEAT && echoed;
}

void dt_rdzv_runs_step(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run,
                       const struct dt_rdzv_event *event)
{
    const struct dt_rdzv_actions *actions = &runs->actions;
    size_t nodes = run->rdzv->members.count;
    struct dt_rdzv_event whole = *event;
    whole.twin = dt_rdzv_twins_find(runs, run, now_of(runs));
    whole.wall_us = dt_clock_wall_us();
    dt_rdzv_step(run->rdzv, &whole, now_of(runs), &runs->actions);
    runs->counters->nodes += run->rdzv->members.count - nodes;
    if (actions->bad) {
        give_up(runs, run);
        return;
    }
    for (size_t i = 0; i < actions->len; i++)
        carry_out(runs, run, &actions->at[i]);
    dt_rdzv_looks_settle(run);
    if (!is_mere_beat(event, actions))
        dt_rdzv_tails_settle(run, now_of(runs));
    if (dt_rdzv_looks_lack_native(run)) {
        dt_rdzv_runs_step(runs, run, &(struct dt_rdzv_event){.type = DT_EV_LOOK, .native = true});
        return;
    }
    if (dt_rdzv_is_idle(run->rdzv, now_of(runs))) {
        dt_rdzv_records_forget(runs, run);
        run_destroy(runs, run);
    } else {
        dt_rdzv_runs_look_again(runs, dt_rdzv_next(run->rdzv));
        dt_rdzv_runs_look_again(runs, dt_rdzv_tails_next(run));
    }
    dt_rdzv_records_sync(runs);
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
                           .close = {.kind = DT_CLOSE_REFUSED},
                           .why = why};
    snprintf(text, sizeof text, "%s is refused: %s", join->join.node.name, why);
    dt_rdzv_tell(runs,
                 &(struct dt_event){.kind = DT_EVENT_NODE_REFUSED,
                                    .run = join->run,
                                    .round = -1,
                                    .node = join->join.node.name,
                                    .rank = -1,
                                    .words = text},
                 false);
    dt_rdzv_records_send(runs, c, &m, 0);
}

/* The run of a JOIN, made where it is new. NULL, and *WHY: there is no room for it, or the node, or
 * people could not name the node to dtrun-ctl. */
static struct dt_rdzv_run *run_for(struct dt_rdzv_runs *runs, const struct dt_message *join,
                                   const char **why)
{
    if (join->join.node.name[0] == '-') {
        *why = "no name of a node begins with \"-\", as options do; give --node-name another one";
        return NULL;
    }
    struct dt_rdzv_run *run = dt_rdzv_runs_find(runs, join->run);
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
    bool anew = !speaks_for(c, m);
    if (anew) {
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
    dt_rdzv_runs_step(runs, c->run,
                      &(struct dt_rdzv_event){
                          .type = DT_EV_FRAME, .frame = m, .local = c->peer->local, .anew = anew});
}

static int no_member(const struct dt_message *m, struct dt_err *err)
{
    return dt_err_set(err, DT_E_PROTOCOL, "a %s of a node that did not join here",
                      dt_message_name(m->type));
}

int dt_rdzv_runs_frame(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                       const struct dt_message *m, struct dt_err *err)
{
    if (m->type == DT_MSG_JOIN) {
        take_join(runs, c, m);
    } else if (speaks_for(c, m)) {
        dt_rdzv_runs_step(runs, c->run, &(struct dt_rdzv_event){.type = DT_EV_FRAME, .frame = m});
    } else if (c->run) {
        return no_member(m, err);
    }
    return 0;
}

int dt_rdzv_runs_tailed(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                        const struct dt_message *m, struct dt_err *err)
{
    if (speaks_for(c, m))
        dt_rdzv_tails_hear(c->run, c, m, now_of(runs));
    else if (c->run)
        return no_member(m, err);
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
    dt_rdzv_runs_step(runs, run,
                      &(struct dt_rdzv_event){.type = DT_EV_LOST, .from = c->incarnation});
}

/* -- what people and time bring --------------------------------------------------------------- */

void dt_rdzv_runs_tell_of_node(struct dt_rdzv_runs *runs, const char *node)
{
    dt_list_each(&runs->all, n)
    {
        struct dt_rdzv_run *run = dt_container_of(n, struct dt_rdzv_run, in_all);
        run->after = runs->marked;
        dt_rdzv_runs_step(runs, run, &(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = node});
    }
}

void dt_rdzv_runs_look(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                       const struct dt_message *m)
{
    struct dt_rdzv_run *run = dt_rdzv_runs_find(runs, m->run);
    struct dt_rdzv_event look = {.type = DT_EV_LOOK, .native = m->stances.native};
    if (dt_rdzv_looks_take(run, c, m))
        dt_rdzv_runs_step(runs, run, &look);
}

void dt_rdzv_runs_drain(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                        const struct dt_message *m)
{
    char text[DT_WHY_MAX];
    struct dt_asker who = dt_rdzv_conn_asker(c, m);
    bool done = dt_rdzv_drain(runs, &who, m, text, sizeof text);
    struct dt_message answer = {.type = DT_MSG_DRAIN,
                                .run = m->run,
                                .drain = {.node = m->drain.node, .done = done},
                                .why = text};
    dt_rdzv_records_send(runs, c, &answer, runs->marked);
    dt_rdzv_records_sync(runs);
}

void dt_rdzv_runs_logs(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                       const struct dt_message *m)
{
    struct dt_rdzv_run *run = dt_rdzv_runs_find(runs, m->run);
    dt_rdzv_tails_take(runs, run, c, m);
    if (run)
        dt_rdzv_runs_look_again(runs, dt_rdzv_tails_next(run));
}

void dt_rdzv_runs_tick(struct dt_rdzv_runs *runs)
{
    dt_ms now = now_of(runs);
    runs->next = DT_FOREVER;
    dt_list_each(&runs->all, n)
    {
        struct dt_rdzv_run *run = dt_container_of(n, struct dt_rdzv_run, in_all);
        dt_ms next = dt_rdzv_next(run->rdzv);
        dt_rdzv_tails_settle(run, now);
        dt_rdzv_runs_look_again(runs, dt_rdzv_tails_next(run));
        if (next <= now)
            dt_rdzv_runs_step(runs, run, &(struct dt_rdzv_event){.type = DT_EV_TICK});
        else
            dt_rdzv_runs_look_again(runs, next);
    }
    dt_rdzv_records_mind_disk(runs);
}

void dt_rdzv_runs_end(struct dt_rdzv_runs *runs, const char *why)
{
    dt_list_each(&runs->all, n)
    {
        struct dt_rdzv_run *run = dt_container_of(n, struct dt_rdzv_run, in_all);
        dt_rdzv_runs_step(runs, run, &(struct dt_rdzv_event){.type = DT_EV_END, .text = why});
    }
    dt_list_each(&runs->all, n)
        dt_rdzv_records_forget(runs, dt_container_of(n, struct dt_rdzv_run, in_all));
    dt_rdzv_records_sync(runs);
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

static bool restore_event(struct dt_rdzv_runs *runs, struct dt_bytes value)
{
    struct dt_event e;
    if (!dt_event_restore(&e, value) || !dt_chronicle_restore(&runs->chronicle, &e))
        return false;
    if (runs->oldest_event == 0)
        runs->oldest_event = e.number;
    return true;
}

static void on_replay(void *arg, struct dt_bytes key, struct dt_bytes value)
{
    struct dt_rdzv_runs *runs = arg;
    char name[DT_RUN_ID_MAX + sizeof DT_RECORD_OF_NODE];
    bool good = key.len < sizeof name;
    snprintf(name, sizeof name, "%.*s", (int)(good ? key.len : sizeof name - 1), key.at);
    if (good && has_prefix(key, DT_RECORD_OF_RUN))
        good = restore_run(runs, name + strlen(DT_RECORD_OF_RUN), value);
    else if (good && has_prefix(key, DT_RECORD_OF_NODE))
        good = restore_node(runs, value);
    else if (good && has_prefix(key, DT_RECORD_OF_EVENT))
        good = restore_event(runs, value);
    if (!good)
        dt_warn("the journal's record of %s cannot be read and is not used", name);
}

/* Runs know again what people have been told of them. */
static void recall(struct dt_rdzv_runs *runs)
{
    const struct dt_event *e;
    for (uint64_t at = 0; (e = dt_chronicle_after(&runs->chronicle, at)); at = e->number) {
        struct dt_rdzv_run *run = e->run ? dt_rdzv_runs_find(runs, e->run) : NULL;
        if (run)
            dt_rdzv_recall(run->rdzv, e);
    }
}

static void finish(struct dt_rdzv_runs *runs)
{
    dt_list_each(&runs->all, n) run_destroy(runs, dt_container_of(n, struct dt_rdzv_run, in_all));
    dt_map_finish(&runs->by_id, NULL);
    dt_exclude_finish(&runs->exclude);
    dt_chronicle_finish(&runs->chronicle);
    dt_rdzv_actions_finish(&runs->actions);
    dt_buf_finish(&runs->record);
}

int dt_rdzv_runs_open(struct dt_rdzv_runs *runs, const char *state_dir, struct dt_err *err)
{
    dt_map_init(&runs->by_id, offsetof(struct dt_rdzv_run, id), dt_map_random_seed());
    dt_list_init(&runs->all);
    dt_list_init(&runs->unsaved);
    dt_list_init(&runs->holding);
    dt_list_init(&runs->followers);
    dt_exclude_init(&runs->exclude, dt_map_random_seed());
    runs->complaints = (struct dt_log_limit){.burst = 3, .every = 60 * DT_SECOND};
    runs->lines = (struct dt_log_limit){.burst = 500, .every = DT_SECOND / 5};
    runs->next = DT_FOREVER;
    if (dt_chronicle_init(&runs->chronicle) < 0)
        dt_err_set(err, DT_E_MEMORY, "no memory to keep events");
    else if (state_dir)
        runs->journal = dt_journal_open(runs->loop, state_dir, on_replay, runs, err);
    if (!runs->chronicle.ring || (state_dir && !runs->journal)) {
        finish(runs);
        return -1;
    }
    recall(runs);
    dt_rdzv_tell_of_server(runs, DT_EVENT_SERVER_STARTED, NULL,
                           runs->hosted ? "an agent began to serve the rendezvous"
                                        : "the rendezvous started");
    dt_rdzv_runs_tick(runs);
    if (runs->counters->runs)
        dt_info("runs of the journal that wait for their agents: %zu", runs->counters->runs);
    return 0;
}

/* What the disk did not get yet goes to the journal's last flush, which is its own affair. */
void dt_rdzv_runs_close(struct dt_rdzv_runs *runs, void (*on_closed)(void *arg), void *arg)
{
    dt_rdzv_records_save(runs);
    finish(runs);
    if (runs->journal)
        dt_journal_close(runs->journal, on_closed, arg);
    else
        on_closed(arg);
}
