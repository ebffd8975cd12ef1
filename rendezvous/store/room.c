/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/room.h"

static dt_ms now_of(const struct dt_store_peer *p)
{
    return dt_store_peers_now(p->peers);
}

/* What is being sent, and what may not be sent yet. */
static uint64_t held_besides(const struct dt_store_peer *p)
{
    return (uint64_t)p->sending.size + p->control.kept;
}

void dt_store_room_offer(struct dt_store_peers *peers)
{
    struct dt_store_holding *h = dt_store_budget_next(&peers->budget);
    if (h)
        dt_store_peer_later(dt_container_of(h, struct dt_store_peer, holding));
}

void dt_store_room_account(struct dt_store_peer *p)
{
    dt_store_budget_set(&p->peers->budget, &p->holding,
                        p->in.size + p->session.out.size + held_besides(p), now_of(p));
    p->incoming = 0;
    dt_store_peers_watch(p->peers);
    dt_store_room_offer(p->peers);
}

bool dt_store_room_take(struct dt_store_peer *p, uint64_t in, uint64_t out)
{
    uint64_t bytes = in + out + held_besides(p);
    if (dt_store_budget_take(&p->peers->budget, &p->holding, bytes, now_of(p)))
        return true;
    dt_store_peers_watch(p->peers);
    return false;
}

bool dt_store_room_take_answer(struct dt_store_peer *p, uint64_t n)
{
    return dt_store_room_take(p, p->in.size + p->incoming, p->session.out.len + n);
}

bool dt_store_room_is_awaited(const struct dt_store_peer *p)
{
    return dt_node_linked(&p->holding.in_waiting);
}

void dt_store_room_note_sent(struct dt_store_peer *p)
{
    size_t left = p->writing ? p->io.stream.write_queue_size : 0;
    dt_store_budget_moved(&p->peers->budget, &p->holding, p->unsent - left, now_of(p));
    p->unsent = left;
}
