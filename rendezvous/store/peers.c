/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/peers.h"

#include "base/tcp_user.h"
#include "rendezvous/store/peer.h"
#include "rendezvous/store/room.h"

#include <inttypes.h>

/* How often those that hold bytes, and newcomers, are looked at. */
#define WATCH_EVERY 250
/* Places taken from those that say nothing, at each look. */
#define PLACES_PER_LOOK 16

/* -- arrivals --------------------------------------------------------------------------------- */

/* Counts it among those of its address. */
static int check_source(struct dt_store_peer *p, struct dt_err *err)
{
    const struct dt_store_server_config *config = p->peers->config;
    if (!dt_store_peer_is_in(p, config->allow, config->allow_count))
        return dt_err_set(err, DT_E_LIMIT,
                          "its address is in none of the ranges given with --allow");
    size_t most = config->per_address ? config->per_address : SIZE_MAX;
    if (!dt_store_sources_enter(&p->peers->sources, &p->control.addr, most, &p->source))
        return dt_err_set(err, DT_E_LIMIT,
                          "%zu connections come from its address, the limit (raise "
                          "--max-connections-per-address)",
                          most);
    return 0;
}

static void make_newcomer(struct dt_store_peer *p)
{
    const struct dt_store_server_config *config = p->peers->config;
    p->only_hello = !dt_store_peer_is_in(p, config->allow_c10d, config->allow_c10d_count);
    p->newcomer_since = dt_store_peers_now(p->peers);
    if (p->only_hello)
        dt_store_peers_expect(p);
    else
        dt_list_append(&p->peers->silent, &p->in_newcomers);
}

/* Whether P is on this host: who connects to an address of its own host has that one, too. */
static bool is_local(const struct dt_store_peer *p)
{
    struct dt_addr ours;
    return dt_addr_is_local(&p->control.addr) ||
           (dt_uvx_local(&p->io, &ours) == 0 && dt_addr_is_same_ip(&ours, &p->control.addr));
}

static void admit(struct dt_store_peer *p)
{
    struct dt_store_server_counters *counters = p->peers->counters;
    struct dt_err err;
    counters->accepted++;
    if (dt_uvx_remote(&p->io, &p->control.addr) < 0) {
        dt_store_peer_close(p); /* gone already */
        return;
    }
    if (check_source(p, &err) < 0) {
        counters->not_allowed++;
        dt_store_peer_complain(p, "connection", &err);
        dt_store_peer_close(p);
        return;
    }
    if (p->io.handle.type == UV_TCP) {
        uv_tcp_nodelay(&p->io.tcp, 1);
        uv_tcp_keepalive(&p->io.tcp, 1, 60); /* a host that lost power sends no FIN */
    }
    p->control.local = is_local(p);
    p->connected = true;
    counters->connected++;
    if (dt_log_wants(DT_LOG_DEBUG)) {
        char text[DT_ADDR_TEXT];
        dt_debug("%s connected", dt_addr_text(&p->control.addr, text, sizeof text));
    }
    make_newcomer(p);
    dt_store_peer_read(p, true);
}

int dt_store_peers_accept(struct dt_store_peers *peers, uv_stream_t *listener)
{
    struct dt_store_peer *p =
        dt_store_peer_create(peers, listener->type == UV_TCP ? AF_INET : AF_UNIX);
    if (!p)
        return -1;
    peers->crowded = false;
    if (uv_accept(listener, &p->io.stream) < 0)
        dt_store_peer_close(p);
    else
        admit(p);
    return 0;
}

/* -- those that hold bytes -------------------------------------------------------------------- */

static void end_holder(struct dt_store_peer *p)
{
    struct dt_err err;
    const struct dt_store_budget *b = &p->peers->budget;
    uint64_t held = p->holding.bytes;
    int seconds = dt_clock_seconds(dt_store_peers_now(p->peers) - p->holding.moved_at);
    if (dt_list_empty(&b->waiting))
        dt_err_set(&err, DT_E_LIMIT,
                   "%" PRIu64 " bytes are buffered for it and did not move for %d s", held,
                   seconds);
    else
        dt_err_set(&err, DT_E_LIMIT,
                   "%" PRIu64
                   " bytes are buffered for it and did not move for %d s, and others wait: "
                   "%" PRIu64 " are buffered for all peers, near the limit of %" PRIu64,
                   held, seconds, b->held, b->limit);
    dt_store_peer_complain(p, "buffering", &err);
    dt_store_peer_close(p);
}

static struct dt_store_peer *peer_in(struct dt_node *in_holders)
{
    return dt_container_of(in_holders, struct dt_store_peer, holding.in_holders);
}

static void end_stuck_holders(struct dt_store_peers *peers)
{
    struct dt_store_budget *b = &peers->budget;
    struct dt_list gone;
    dt_list_init(&gone);
    dt_list_each(&b->holders, n) dt_store_room_note_sent(peer_in(n));
    dt_store_budget_choose(b, dt_store_peers_now(peers), &gone);
    for (struct dt_node *n; (n = dt_list_pop(&gone));)
        end_holder(peer_in(n));
    dt_store_room_offer(peers); /* the limit may have been raised */
}

void dt_store_peers_grow(struct dt_store_peers *peers, uint64_t bytes)
{
    if (dt_store_heap_grow(&peers->heap, bytes))
        dt_store_heap_look(&peers->heap,
                           dt_store_counts(peers->store)->bytes + peers->budget.limit);
}

/* -- seats ------------------------------------------------------------------------------------ */

static size_t seats(const struct dt_store_peers *peers)
{
    size_t places = peers->config->connections;
    return peers->control ? places - places / 16 : places;
}

static void take_seat(struct dt_store_peer *p)
{
    dt_list_remove(&p->in_standing);
    p->seated = true;
    p->holding.excused = false;
    p->peers->seated++;
}

/* Those that have stood longest go on, as far as there are seats. */
static void call_standing(struct dt_store_peers *peers)
{
    struct dt_node *n;
    while (peers->seated < seats(peers) && (n = dt_list_first(&peers->standing))) {
        struct dt_store_peer *p = dt_container_of(n, struct dt_store_peer, in_standing);
        take_seat(p);
        dt_store_peer_later(p);
    }
}

bool dt_store_peers_seat(struct dt_store_peer *p)
{
    struct dt_store_peers *peers = p->peers;
    call_standing(peers); /* there may be more seats than there were */
    if (p->seated || dt_node_linked(&p->in_standing))
        return p->seated;
    if (peers->seated < seats(peers)) {
        take_seat(p);
        return true;
    }
    p->holding.excused = true;
    p->standing_since = dt_store_peers_now(peers);
    dt_list_append(&peers->standing, &p->in_standing);
    dt_store_peers_watch(peers);
    return false;
}

void dt_store_peers_unseat(struct dt_store_peer *p)
{
    dt_list_remove(&p->in_standing);
    if (!p->seated)
        return;
    p->seated = false;
    p->peers->seated--;
    call_standing(p->peers);
}

/* Those that stand in the places of control peers while others wait for these. */
static void end_standing(struct dt_store_peers *peers)
{
    dt_ms now = dt_store_peers_now(peers);
    struct dt_node *n;
    for (int i = 0; i < PLACES_PER_LOOK && (n = dt_list_first(&peers->standing)); i++) {
        struct dt_store_peer *p = dt_container_of(n, struct dt_store_peer, in_standing);
        struct dt_err err;
        if (now - p->standing_since < DT_STORE_YIELD)
            return;
        dt_err_set(&err, DT_E_LIMIT,
                   "%zu clients are served, and the other places are for agents (raise "
                   "--max-connections)",
                   peers->seated);
        dt_store_peer_complain(p, "connection", &err);
        dt_store_peer_close(p);
    }
}

/* -- newcomers -------------------------------------------------------------------------------- */

void dt_store_peers_expect(struct dt_store_peer *p)
{
    p->newcomer_since = dt_store_peers_now(p->peers);
    dt_list_remove(&p->in_newcomers);
    dt_list_append(&p->peers->expected, &p->in_newcomers);
    dt_store_peers_watch(p->peers);
}

/* Ends at most MOST of those in LIST that have been there for longer than PATIENCE. */
static void end_newcomers(struct dt_store_peers *peers, struct dt_list *list, dt_ms patience,
                          size_t most, const char *what)
{
    dt_ms now = dt_store_peers_now(peers);
    for (struct dt_node *n; most-- > 0 && (n = dt_list_first(list));) {
        struct dt_store_peer *p = dt_container_of(n, struct dt_store_peer, in_newcomers);
        if (now - p->newcomer_since < patience)
            return; /* the lists are ordered by that time */
        struct dt_err err;
        dt_err_set(&err, DT_E_TIMEOUT, "%s within %d s", what, dt_clock_seconds(patience));
        dt_store_peer_complain(p, "connection", &err);
        dt_store_peer_close(p);
    }
}

void dt_store_peers_want_place(struct dt_store_peers *peers)
{
    peers->crowded = true;
    dt_store_peers_watch(peers);
}

/* -- now and then ----------------------------------------------------------------------------- */

static bool is_worth_watching(const struct dt_store_peers *peers)
{
    return !dt_list_empty(&peers->budget.holders) || !dt_list_empty(&peers->budget.waiting) ||
           !dt_list_empty(&peers->expected) ||
           (peers->crowded && !(dt_list_empty(&peers->silent) && dt_list_empty(&peers->standing)));
}

dt_ms dt_store_peers_now(const struct dt_store_peers *peers)
{
    return (dt_ms)uv_now(peers->loop) - peers->stopped;
}

/* A look that comes late says that the process was stopped, or had no processor. */
static void note_stop(struct dt_store_peers *peers)
{
    dt_ms late = dt_store_peers_now(peers) - peers->watched_at - WATCH_EVERY;
    if (late > WATCH_EVERY)
        peers->stopped += late;
    peers->watched_at = dt_store_peers_now(peers);
}

static void on_watch(uv_timer_t *t)
{
    struct dt_store_peers *peers = dt_container_of(t, struct dt_store_peers, watch);
    note_stop(peers);
    end_stuck_holders(peers);
    end_newcomers(peers, &peers->expected, DT_STORE_PATIENCE, SIZE_MAX,
                  "it sent nothing that it may send");
    if (peers->crowded) {
        end_newcomers(peers, &peers->silent, DT_STORE_YIELD, PLACES_PER_LOOK,
                      "others wait for its place, and it said nothing");
        end_standing(peers);
    }
    if (!is_worth_watching(peers))
        uv_timer_stop(t);
}

void dt_store_peers_watch(struct dt_store_peers *peers)
{
    if (uv_is_active((uv_handle_t *)&peers->watch) || !is_worth_watching(peers))
        return;
    peers->watched_at = dt_store_peers_now(peers);
    uv_timer_start(&peers->watch, on_watch, WATCH_EVERY, WATCH_EVERY);
}

/* -- all of them ------------------------------------------------------------------------------ */

static void on_watch_closed(uv_handle_t *h)
{
    struct dt_store_peers *peers = dt_container_of((uv_timer_t *)h, struct dt_store_peers, watch);
    dt_buf_finish(&peers->spare_out);
    dt_store_sources_finish(&peers->sources);
    peers->on_closed(peers);
}

static void on_turns_closed(void *arg)
{
    struct dt_store_peers *peers = arg;
    uv_close((uv_handle_t *)&peers->watch, on_watch_closed);
}

static void on_peer_due(struct dt_node *in_due)
{
    dt_store_peer_continue(dt_container_of(in_due, struct dt_store_peer, in_due));
}

static void on_turn(struct dt_store_turns *t)
{
    struct dt_store_peers *peers = dt_container_of(t, struct dt_store_peers, turns);
    dt_store_heap_note(&peers->heap, dt_store_counts(peers->store)->bytes + peers->budget.held,
                       dt_store_peers_now(peers));
}

void dt_store_peers_open(struct dt_store_peers *peers)
{
    dt_list_init(&peers->list);
    dt_list_init(&peers->expected);
    dt_list_init(&peers->silent);
    dt_list_init(&peers->standing);
    dt_store_sources_init(&peers->sources);
    peers->complaints = (struct dt_log_limit){.burst = 10, .every = DT_SECOND};
    peers->turns = (struct dt_store_turns){
        .loop = peers->loop,
        .on_due = on_peer_due,
        .on_turn = on_turn,
    };
    dt_store_turns_open(&peers->turns);
    dt_store_budget_init(&peers->budget, peers->config->buffered_bytes);
    uv_timer_init(peers->loop, &peers->watch);
    uv_unref((uv_handle_t *)&peers->watch); /* watching keeps no loop alive */
}

void dt_store_peers_close(struct dt_store_peers *peers)
{
    dt_store_turns_close(&peers->turns, on_turns_closed, peers);
}

void dt_store_peers_end_all(struct dt_store_peers *peers)
{
    dt_list_each(&peers->list, n)
    {
        struct dt_store_peer *p = dt_container_of(n, struct dt_store_peer, in_list);
        if (p->control.conn) {
            dt_store_peer_close(p); /* its handler has said to it what there was to say */
            continue;
        }
        dt_store_peer_end(p);
        dt_store_peer_continue(p); /* closes it when nothing is owed */
    }
}

void dt_store_peers_close_all(struct dt_store_peers *peers)
{
    dt_list_each(&peers->list, n)
        dt_store_peer_close(dt_container_of(n, struct dt_store_peer, in_list));
}

void dt_store_peers_close_clients(struct dt_store_peers *peers)
{
    dt_list_each(&peers->list, n)
    {
        struct dt_store_peer *p = dt_container_of(n, struct dt_store_peer, in_list);
        if (!p->control.conn)
            dt_store_peer_close(p);
    }
}

void dt_store_peers_close_idle(struct dt_store_peers *peers, dt_ms before)
{
    dt_list_each(&peers->list, n)
    {
        struct dt_store_peer *p = dt_container_of(n, struct dt_store_peer, in_list);
        if (p->last_active > before)
            break; /* the list is ordered by activity */
        if (p->session.waiter.missing > 0 || p->control.conn)
            continue;
        peers->counters->idle++;
        dt_store_peer_close(p);
    }
}

/* -- who waits for what ----------------------------------------------------------------------- */

static bool is_on_host_of(const struct dt_store_peer *a, const struct dt_store_peer *b)
{
    return dt_addr_is_same_ip(&a->control.addr, &b->control.addr);
}

/* A client that waits has sent nothing since. */
static void note_wait(const struct dt_store_peer *p, struct dt_key_wait *out)
{
    const struct dt_store_waiter *waiter = &p->session.waiter;
    struct dt_bytes keys[DT_KEY_WAIT_NAMED];
    *out = (struct dt_key_wait){.waited = dt_store_peers_now(p->peers) - p->last_active};
    dt_addr_text(&p->control.addr, out->from, sizeof out->from);
    size_t count = dt_store_wait_keys(waiter, keys, DT_KEY_WAIT_NAMED);
    dt_key_wait_name(out, keys, count, waiter->missing);
}

void dt_store_peers_note_waits(const struct dt_store_peer *p, struct dt_key_waits *waits)
{
    dt_list_each(&p->peers->list, n)
    {
        const struct dt_store_peer *other = dt_container_of(n, struct dt_store_peer, in_list);
        if (waits->len == DT_KEY_WAITS_MAX)
            return;
        if (other->session.waiter.missing > 0 && is_on_host_of(other, p))
            note_wait(other, &waits->at[waits->len++]);
    }
}

/* -- control peers ---------------------------------------------------------------------------- */

static struct dt_store_peer *peer_of(struct dt_control_peer *control)
{
    return dt_container_of(control, struct dt_store_peer, control);
}

int64_t dt_control_peer_user(const struct dt_control_peer *control)
{
    const struct dt_store_peer *p = dt_container_of(control, struct dt_store_peer, control);
    struct dt_addr ours;
    uid_t user;
    if (p->io.handle.type == UV_NAMED_PIPE)
        return dt_uvx_remote_user(&p->io);
    if (!control->local)
        return DT_CONTROL_USER_UNKNOWN;
    if (dt_uvx_local(&p->io, &ours) < 0)
        return DT_CONTROL_USER_GONE;
    switch (dt_tcp_user_find(&control->addr, &ours, &user)) {
    case DT_TCP_USER_FOUND:
        return user;
    case DT_TCP_USER_GONE:
        return DT_CONTROL_USER_GONE;
    case DT_TCP_USER_HIDDEN:
        break;
    }
    return DT_CONTROL_USER_UNKNOWN;
}

void dt_control_peer_keep(struct dt_control_peer *control, size_t bytes)
{
    control->kept = bytes;
    dt_store_room_account(peer_of(control));
}

void dt_control_peer_send(struct dt_control_peer *control)
{
    dt_store_room_account(peer_of(control));
    dt_store_peer_later(peer_of(control));
}

void dt_control_peer_end(struct dt_control_peer *control)
{
    struct dt_store_peer *p = peer_of(control);
    dt_store_peer_end(p);
    dt_store_peer_later(p);
}

void dt_control_peer_close(struct dt_control_peer *control)
{
    dt_store_peer_close(peer_of(control));
}
