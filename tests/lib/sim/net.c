/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim/net.h"

#include "tests/lib/sim/sim.h"

#include <stdlib.h>

void sim_net_finish(struct sim_net *n)
{
    free(n->conns);
    *n = (struct sim_net){0};
}

struct sim_conn *sim_net_conn(struct sim *s, uint32_t conn)
{
    return conn == SIM_NO_CONN ? NULL : &s->net.conns[conn];
}

static bool is_blocked(const struct sim *s, const struct sim_conn *c, enum sim_way way)
{
    return s->nodes[c->node].blocked_until[way] > s->now;
}

/* What the host of the other end answers when nobody listens there. */
static void refuse(struct sim *s, uint32_t conn, enum sim_way way, enum sim_parcel what)
{
    if (what != SIM_FIN && what != SIM_RESET)
        sim_net_send(s, conn, way == SIM_UP ? SIM_DOWN : SIM_UP, SIM_RESET, NULL);
}

static void arrive_up(struct sim *s, struct sim_event *ev)
{
    struct sim_conn *c = &s->net.conns[ev->who];
    if (s->server.dark)
        return;
    if (!s->server.up) {
        refuse(s, ev->who, SIM_UP, (enum sim_parcel)ev->what);
    } else if (s->server.paused_until > s->now) {
        sim_queue_put_off(&s->queue, ev, s->server.paused_until);
    } else if (ev->what == SIM_HELLO) {
        c->open[SIM_DOWN] = true;
        c->server_life = s->server.life;
        sim_net_send(s, ev->who, SIM_DOWN, SIM_HELLO, NULL);
    } else if (!c->open[SIM_DOWN] || c->server_life != s->server.life) {
        refuse(s, ev->who, SIM_UP, (enum sim_parcel)ev->what);
    } else {
        sim_server_receive(s, ev->who, (enum sim_parcel)ev->what, ev->letter);
    }
}

static void arrive_down(struct sim *s, struct sim_event *ev)
{
    struct sim_conn *c = &s->net.conns[ev->who];
    struct sim_node *n = &s->nodes[c->node];
    if (!n->host_up)
        return;
    if (!c->open[SIM_UP] || c->agent_life != n->life)
        refuse(s, ev->who, SIM_DOWN, (enum sim_parcel)ev->what);
    else if (n->paused_until > s->now)
        sim_queue_put_off(&s->queue, ev, n->paused_until);
    else
        sim_node_receive(s, n, ev->who, (enum sim_parcel)ev->what, ev->letter);
}

static void arrive(struct sim *s, struct sim_event *ev)
{
    const struct sim_conn *c = &s->net.conns[ev->who];
    enum sim_way way = ev->life ? SIM_DOWN : SIM_UP;
    if (!c->dead && ev->number > c->cut) {
        if (is_blocked(s, c, way))
            sim_queue_put_off(&s->queue, ev, s->nodes[c->node].blocked_until[way]);
        else if (way == SIM_UP)
            arrive_up(s, ev);
        else
            arrive_down(s, ev);
    }
    sim_letter_free(ev->letter);
}

void sim_net_send(struct sim *s, uint32_t conn, enum sim_way way, enum sim_parcel what,
                  struct sim_letter *letter)
{
    struct sim_conn *c = &s->net.conns[conn];
    dt_ms at = s->now + sim_between(&s->random, s->net.delay_min, s->net.delay_max);
    if (at < c->last[way])
        at = c->last[way];
    c->last[way] = at;
    sim_queue_put(&s->queue, (struct sim_event){.at = at,
                                                .run = arrive,
                                                .who = conn,
                                                .life = way,
                                                .what = (int)what,
                                                .letter = letter});
}

uint32_t sim_net_dial(struct sim *s, uint32_t node)
{
    struct sim_net *net = &s->net;
    if (net->len == net->size) {
        net->size = net->size ? net->size * 2 : 64;
        net->conns = realloc(net->conns, net->size * sizeof *net->conns);
        if (!net->conns)
            abort();
    }
    uint32_t conn = net->len++;
    net->conns[conn] = (struct sim_conn){
        .node = node, .agent_life = s->nodes[node].life, .open = {[SIM_UP] = true}};
    sim_net_send(s, conn, SIM_UP, SIM_HELLO, NULL);
    return conn;
}

void sim_net_close(struct sim *s, uint32_t conn, enum sim_way end)
{
    struct sim_conn *c = &s->net.conns[conn];
    if (!c->open[end])
        return;
    c->open[end] = false;
    sim_net_send(s, conn, end, SIM_FIN, NULL);
}

void sim_net_cut(struct sim *s, uint32_t conn)
{
    s->net.conns[conn].cut = s->queue.numbers;
    sim_net_send(s, conn, SIM_UP, SIM_RESET, NULL);
    sim_net_send(s, conn, SIM_DOWN, SIM_RESET, NULL);
}
