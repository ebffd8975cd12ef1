/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim/server.h"

#include "tests/lib/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OLD_FRAMES 64

struct bound {
    struct dt_map_node in_map;
    uint64_t member;
    uint32_t conn;
};

dt_ms sim_server_clock(const struct sim *s)
{
    return s->now + s->server.skew;
}

/* -- who speaks over which connection --------------------------------------------------------- */

static struct dt_bytes key_of(const uint64_t *member)
{
    return (struct dt_bytes){(const uint8_t *)member, sizeof *member};
}

static void unbind(struct sim *s, uint32_t conn)
{
    struct sim_conn *c = &s->net.conns[conn];
    free(dt_map_remove(&s->server.bound, key_of(&c->member)));
    c->member = 0;
}

static void step(struct sim *s, struct dt_rdzv_event event);

static void lose(struct sim *s, uint32_t conn)
{
    uint64_t member = s->net.conns[conn].member;
    if (!member)
        return;
    unbind(s, conn);
    if (s->server.run)
        step(s, (struct dt_rdzv_event){.type = DT_EV_LOST, .from = member});
}

/* An agent that joins speaks here from now on. False: it has a later connection, so this is what
 * came late from a former one. */
static bool bind_member(struct sim *s, uint32_t conn, uint64_t member)
{
    struct sim_conn *c = &s->net.conns[conn];
    struct bound *b = dt_map_find(&s->server.bound, key_of(&member));
    if (b && b->conn > conn)
        return false;
    if (b && b->conn < conn) {
        s->net.conns[b->conn].member = 0;
        sim_net_close(s, b->conn, SIM_DOWN);
        b->conn = conn;
    }
    if (c->member && c->member != member)
        lose(s, conn);
    if (!b) {
        b = calloc(1, sizeof *b);
        if (!b)
            abort();
        *b = (struct bound){.member = member, .conn = conn};
        if (dt_map_insert(&s->server.bound, b, sizeof b->member) < 0)
            abort();
    }
    c->member = member;
    return true;
}

/* -- what goes out ---------------------------------------------------------------------------- */

static void hold(struct sim_server *v, struct sim_held held)
{
    if (v->held_len == v->held_size) {
        size_t size = v->held_size ? v->held_size * 2 : 64;
        struct sim_held *ring = calloc(size, sizeof *ring);
        if (!ring)
            abort();
        for (size_t i = 0; i < v->held_len; i++)
            ring[i] = v->held[(v->held_first + i) % v->held_size];
        free(v->held);
        v->held = ring;
        v->held_size = size;
        v->held_first = 0;
    }
    v->held[(v->held_first + v->held_len++) % v->held_size] = held;
}

static void hold_message(struct sim *s, uint64_t to, const struct dt_message *m)
{
    const struct bound *b = dt_map_find(&s->server.bound, key_of(&to));
    struct sim_letter *l = sim_make_letter(s, m);
    if (l)
        hold(&s->server, (struct sim_held){.to = to,
                                           .conn = b ? b->conn : SIM_NO_CONN,
                                           .behind = s->server.written,
                                           .memory = s->server.memory,
                                           .letter = l});
}

static void send_letter(struct sim *s, struct sim_held held)
{
    const struct sim_conn *c = sim_net_conn(s, held.conn);
    sim_say_message(s, "server", "sends", &held.letter->m);
    if (held.memory == s->server.memory)
        sim_judge_sent(s, &held.letter->m);
    if (c && c->open[SIM_DOWN] && c->member == held.to)
        sim_net_send(s, held.conn, SIM_DOWN, SIM_LETTER, held.letter);
    else
        sim_letter_free(held.letter);
}

void sim_server_release(struct sim *s)
{
    struct sim_server *v = &s->server;
    while (v->held_len &&
           (v->held[v->held_first].behind <= v->safe || sim_planted(s, SIM_PLANT_SENDS_EARLY))) {
        struct sim_held held = v->held[v->held_first];
        v->held_first = (v->held_first + 1) % v->held_size;
        v->held_len--;
        send_letter(s, held);
    }
}

static void carry_out(struct sim *s)
{
    struct sim_server *v = &s->server;
    for (size_t i = 0; i < v->actions.len; i++) {
        const struct dt_rdzv_action *a = &v->actions.at[i];
        struct dt_message m;
        switch (a->type) {
        case DT_DO_SEND:
            dt_rdzv_message(&v->actions, a, s->story.run, &m);
            if (sim_plant_in_message(s, &m))
                hold_message(s, a->to, &m);
            break;
        case DT_DO_JOURNAL:
            sim_journal_note(s, "");
            break;
        case DT_DO_NODE:
            sim_journal_note(s, dt_rdzv_text(&v->actions, a->text));
            break;
        case DT_DO_TELL:
            if (a->tell.silent)
                break;
            sim_say(s, "server", "%s", dt_rdzv_text(&v->actions, a->text));
            break;
        case DT_DO_SAY:
            sim_say(s, "server", "%s", dt_rdzv_text(&v->actions, a->text));
            break;
        }
    }
}

/* -- the machine ------------------------------------------------------------------------------ */

static void on_tick(struct sim *s, struct sim_event *ev);

static void arm(struct sim *s)
{
    struct sim_server *v = &s->server;
    dt_ms next = v->run ? dt_rdzv_next(v->run) : DT_FOREVER;
    if (next == DT_FOREVER)
        return;
    next -= v->skew;
    if (next < s->now + 1)
        next = s->now + 1;
    if (next >= v->tick_at)
        return;
    v->tick_at = next;
    sim_queue_put(&s->queue, (struct sim_event){.at = next, .run = on_tick, .life = v->life});
}

static void forget_idle_run(struct sim *s)
{
    struct sim_server *v = &s->server;
    if (!dt_rdzv_is_idle(v->run, sim_server_clock(s)))
        return;
    sim_say(s, "server", "forgets the run, as nobody is there");
    dt_rdzv_destroy(v->run);
    v->run = NULL;
    sim_journal_note(s, "");
    sim_judge_forgot(s);
}

static void step(struct sim *s, struct dt_rdzv_event event)
{
    struct sim_server *v = &s->server;
    struct dt_rdzv_event done = event;
    struct dt_message room;
    sim_judge_before(s, &event);
    sim_plant_in_event(s, &done, &room);
    dt_rdzv_step(v->run, &done, sim_server_clock(s), &v->actions);
    sim_plant_in_run(s, &event);
    sim_judge_after(s, &event);
    carry_out(s);
    forget_idle_run(s);
    sim_journal_sync(s);
    sim_server_release(s);
    arm(s);
}

static void on_tick(struct sim *s, struct sim_event *ev)
{
    struct sim_server *v = &s->server;
    if (!v->up || ev->life != v->life || v->tick_at > s->now)
        return;
    if (v->paused_until > s->now) {
        sim_queue_put_off(&s->queue, ev, v->paused_until);
        return;
    }
    v->tick_at = DT_FOREVER;
    if (v->run)
        step(s, (struct dt_rdzv_event){.type = DT_EV_TICK});
}

/* -- frames ----------------------------------------------------------------------------------- */

static void remember(struct sim_server *v, const struct dt_message *m)
{
    if (m->type == DT_MSG_JOIN || m->type == DT_MSG_LOOKED || /* whose stances are not kept */
        (m->type == DT_MSG_BEAT && v->old_next % 4))
        return;
    if (!v->old)
        v->old = calloc(OLD_FRAMES, sizeof *v->old);
    if (!v->old)
        abort();
    size_t at = v->old_next++ % OLD_FRAMES;
    sim_letter_free(v->old[at]);
    v->old[at] = sim_letter_copy(m);
    if (v->old_len < OLD_FRAMES)
        v->old_len++;
}

static void receive_message(struct sim *s, uint32_t conn, const struct dt_message *m)
{
    struct sim_server *v = &s->server;
    struct sim_conn *c = &s->net.conns[conn];
    bool anew = c->member != m->incarnation;
    sim_say_message(s, "server", "gets", m);
    if (m->type == DT_MSG_JOIN ? !bind_member(s, conn, m->incarnation)
                               : c->member != m->incarnation) {
        sim_say(s, "server", "does not listen to that connection");
        return;
    }
    if (!v->run && m->type == DT_MSG_JOIN)
        v->run = dt_rdzv_create(s->story.run, &v->exclude, s->seed);
    if (!v->run)
        return;
    sim_judge_heard(s, m);
    if (!sim_plant_in_frame(s, m))
        return;
    remember(v, m);
    step(s, (struct dt_rdzv_event){
                .type = DT_EV_FRAME, .frame = m, .local = s->nodes[c->node].local, .anew = anew});
}

void sim_server_receive(struct sim *s, uint32_t conn, enum sim_parcel what,
                        const struct sim_letter *letter)
{
    switch (what) {
    case SIM_HELLO:
        break;
    case SIM_FIN:
    case SIM_RESET:
        s->net.conns[conn].open[SIM_DOWN] = false;
        lose(s, conn);
        break;
    case SIM_LETTER:
        receive_message(s, conn, &letter->m);
        break;
    }
}

/* -- what happens to it ----------------------------------------------------------------------- */

void sim_server_start(struct sim *s)
{
    struct sim_server *v = &s->server;
    if (v->up)
        return;
    v->up = true;
    if (v->dark)
        v->skew = DT_SECOND - s->now; /* the clock of a host begins anew */
    v->dark = false;
    v->life++;
    v->tick_at = DT_FOREVER;
    v->ill_until = s->now;
    v->syncing = false;
    v->written = v->safe = 0;
    dt_exclude_init(&v->exclude, s->seed + v->life);
    dt_map_init(&v->bound, offsetof(struct bound, member), s->seed);
    sim_say(s, "server", "starts");
    sim_journal_restore(s);
    sim_judge_restarted(s);
    arm(s);
    sim_disturb(s, s->now);
}

static void stop(struct sim *s)
{
    struct sim_server *v = &s->server;
    if (!v->up)
        return;
    v->up = false;
    dt_rdzv_destroy(v->run);
    v->run = NULL;
    dt_exclude_finish(&v->exclude);
    dt_map_finish(&v->bound, free);
    for (; v->held_len; v->held_len--)
        sim_letter_free(v->held[(v->held_first + v->held_len - 1) % v->held_size].letter);
}

void sim_server_crash(struct sim *s, enum sim_crash how)
{
    static const char *const words[] = {[SIM_CRASH_KILL] = "is killed",
                                        [SIM_CRASH_POWER] = "loses its power",
                                        [SIM_CRASH_WIPE] = "is killed, and its disk is lost"};
    struct sim_server *v = &s->server;
    if (!v->up)
        return;
    sim_say(s, "server", "%s", words[how]);
    if (how == SIM_CRASH_KILL)
        sim_journal_flush(s);
    sim_journal_drop(v);
    sim_judge_crash(s);
    stop(s);
    if (how == SIM_CRASH_WIPE) {
        sim_journal_wipe(v);
        sim_judge_forgot(s);
    }
    v->dark = how == SIM_CRASH_POWER;
    v->paused_until = 0;
    v->ill_until = DT_FOREVER;
    v->went_down = s->now;
    for (uint32_t i = 0; !v->dark && i < s->net.len; i++)
        if (s->net.conns[i].server_life == v->life)
            sim_net_close(s, i, SIM_DOWN);
    sim_disturb(s, s->now);
}

void sim_server_pause(struct sim *s, dt_ms until)
{
    struct sim_server *v = &s->server;
    if (!v->up || v->paused_until > s->now)
        return; /* what waits for the end of the first would be overtaken */
    sim_say(s, "server", "is stopped for %.1f s", (double)(until - s->now) / DT_SECOND);
    v->paused_until = until;
    v->ill_until = until;
    sim_disturb(s, until);
}

void sim_server_jump(struct sim *s, dt_ms by)
{
    struct sim_server *v = &s->server;
    if (!v->up)
        return;
    sim_say(s, "server", "its clock leaps ahead by %.1f s", (double)by / DT_SECOND);
    v->skew += by;
    v->leapt = s->now;
    if (v->ill_until < s->now)
        v->ill_until = s->now;
    arm(s);
    sim_disturb(s, s->now);
}

void sim_server_cut(struct sim *s, dt_ms until)
{
    struct sim_server *v = &s->server;
    const struct dt_run_spec *spec = &s->story.spec;
    if (spec->beats < 3 || s->now < v->cut_until + spec->beat * spec->beats)
        return; /* with two beats a node may be lost before the others owe one */
    sim_say(s, "server", "its network is down for %.1f s", (double)(until - s->now) / DT_SECOND);
    if (v->cut_until < until)
        v->cut_until = until;
    for (uint32_t i = 0; i < s->nodes_len; i++)
        for (enum sim_way way = SIM_UP; way <= SIM_DOWN; way++)
            if (!s->nodes[i].local && s->nodes[i].blocked_until[way] < until)
                s->nodes[i].blocked_until[way] = until;
    sim_disturb(s, until);
}

void sim_server_end(struct sim *s)
{
    struct sim_server *v = &s->server;
    if (!v->up || v->paused_until > s->now || !v->run)
        return;
    sim_say(s, "server", "ends the job");
    sim_disturb(s, s->now);
    step(s, (struct dt_rdzv_event){.type = DT_EV_END, .text = "whoever hosts it was told to end"});
}

void sim_server_drain(struct sim *s, const char *node, bool undo)
{
    struct sim_server *v = &s->server;
    if (!v->up || v->paused_until > s->now)
        return;
    sim_say(s, "server", "%s is %s", node, undo ? "undrained" : "drained");
    if (dt_exclude_drain(&v->exclude, node, undo, "a person asked for it", sim_server_clock(s)) < 0)
        return;
    sim_journal_note(s, node);
    sim_disturb(s, s->now);
    if (v->run)
        step(s, (struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = node});
    else
        sim_journal_sync(s);
}

void sim_server_wish(struct sim *s, enum dt_rdzv_event_type wish, const char *words)
{
    struct sim_server *v = &s->server;
    if (!v->up || v->paused_until > s->now || !v->run)
        return;
    sim_say(s, "server", "a person %s", words);
    sim_disturb(s, s->now);
    step(s, (struct dt_rdzv_event){.type = wish, .text = "by a person"});
}

/* -- stale frames ----------------------------------------------------------------------------- */

/* Whether M can have no effect now but that its sender is alive, which is known anyway. */
static bool is_stale(const struct dt_rdzv *run, const struct dt_message *m)
{
    const struct dt_recovery *recovery = dt_rdzv_recovery(run);
    const struct dt_member *who = dt_members_find(&run->members, m->incarnation);
    if (!who)
        return true;
    if (recovery->until && m->round == recovery->round)
        return false; /* what ended it was forgotten, and counts when it is said again */
    return m->round < run->round && who->link == DT_LINK_ONLINE && m->type == DT_MSG_RESULT;
}

static bool has_effect(const struct dt_rdzv_actions *a)
{
    for (size_t i = 0; i < a->len; i++)
        if (a->at[i].type == DT_DO_SEND &&
            (a->at[i].message == DT_MSG_STOP || a->at[i].message == DT_MSG_WORLD ||
             a->at[i].message == DT_MSG_CLOSE))
            return true;
    return false;
}

void sim_server_replay_stale(struct sim *s)
{
    struct sim_server *v = &s->server;
    if (!v->up || v->paused_until > s->now || !v->run || !v->old_len)
        return;
    struct dt_message m = v->old[sim_below(&s->random, v->old_len)]->m;
    step(s, (struct dt_rdzv_event){.type = DT_EV_TICK});
    /* Nothing arrives over a network that is down, and a node that seems to be heard then hides
     * from the server that all of them are silent. */
    if (!v->run || v->cut_until > s->now || !is_stale(v->run, &m))
        return;
    if (sim_planted(s, SIM_PLANT_OLD_IS_NEW))
        m.round = v->run->round;
    struct dt_buf before = {0}, after = {0};
    sim_say_message(s, "server", "gets from of old", &m);
    dt_rdzv_save(v->run, &before);
    struct dt_rdzv_event event = {.type = DT_EV_FRAME, .frame = &m};
    dt_rdzv_step(v->run, &event, sim_server_clock(s), &v->actions);
    dt_rdzv_save(v->run, &after);
    if (has_effect(&v->actions) || !dt_bytes_equal((struct dt_bytes){before.at, before.len},
                                                   (struct dt_bytes){after.at, after.len}))
        sim_judge_fail(s, SIM_RULE_STALE, "a %s of round %d has an effect in round %d",
                       dt_message_name(m.type), m.round, v->run->round);
    dt_buf_finish(&before);
    dt_buf_finish(&after);
    carry_out(s);
    sim_server_release(s);
}

void sim_server_finish(struct sim *s)
{
    struct sim_server *v = &s->server;
    stop(s);
    sim_journal_wipe(v);
    free(v->records);
    free(v->held);
    for (size_t i = 0; i < v->old_len; i++)
        sim_letter_free(v->old[i]);
    free(v->old);
    dt_rdzv_actions_finish(&v->actions);
}
