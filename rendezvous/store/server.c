/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/server.h"

#include "base/loop/ending.h"
#include "base/loop/uvx.h"
#include "base/map.h"
#include "rendezvous/store/peers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct listener {
    struct dt_node in_server;
    union dt_uvx_stream io;
    struct dt_store_server *server;
    bool pending; /* a connection is waiting for a place */
};

/* Closing goes listeners and timers, peers, what peers share, memory; close_step() begins each when
 * the one before it is through. LEAVING comes before, where all is served as before. */
enum closing { OPEN, LEAVING, DRAINING, CLOSING_PEERS };

struct dt_store_server {
    uv_loop_t *loop;
    struct dt_store *store;
    struct dt_store_server_config config;
    struct dt_cidr *allow, *allow_c10d; /* what those of the config point to */
    struct dt_store_server_counters counters;
    struct dt_store_peers peers;
    struct dt_list listeners;
    uv_timer_t sweep; /* idle timeout */
    uv_timer_t grace; /* of leaving, or of a drain */
    enum closing closing;
    struct dt_ending listening; /* of listeners and timers */
    void (*on_closed)(void *arg);
    void *closed_arg;
    struct dt_log_limit accept_notes;
};

/* -- arrivals --------------------------------------------------------------------------------- */

static bool may_note(struct dt_store_server *s)
{
    uint64_t held_back;
    return dt_log_limit_pass(&s->accept_notes, (dt_ms)uv_now(s->loop), &held_back);
}

/* Does not accept while there is no place: libuv then leaves the listener alone, and the kernel
 * keeps the newcomers. */
static void accept_one(struct listener *l)
{
    struct dt_store_server *s = l->server;
    l->pending = true;
    if (s->closing > LEAVING)
        return;
    if (s->peers.count >= s->config.connections) {
        s->counters.waited++;
        dt_store_peers_want_place(&s->peers);
        if (may_note(s))
            dt_warn("%zu clients are connected, the limit; others wait until one leaves (raise "
                    "--max-connections)",
                    s->peers.count);
        return;
    }
    if (dt_store_peers_accept(&s->peers, &l->io.stream) == 0)
        l->pending = false;
}

static void accept_pending(struct dt_store_server *s)
{
    dt_list_each(&s->listeners, n)
    {
        struct listener *l = dt_container_of(n, struct listener, in_server);
        if (l->pending && s->peers.count < s->config.connections)
            accept_one(l);
    }
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct listener *l = dt_container_of((union dt_uvx_stream *)stream, struct listener, io);
    if (status == 0)
        accept_one(l);
    else if (may_note(l->server))
        dt_warn("cannot accept a connection: %s", uv_strerror(status));
}

/* -- listeners -------------------------------------------------------------------------------- */

static void on_listener_closed(uv_handle_t *h)
{
    struct listener *l = dt_container_of((union dt_uvx_stream *)h, struct listener, io);
    struct dt_store_server *s = l->server;
    free(l);
    dt_ending_step(&s->listening);
}

static struct listener *listener_create(struct dt_store_server *s, int family, struct dt_err *err)
{
    struct listener *l = calloc(1, sizeof *l);
    if (!l) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a listener");
        return NULL;
    }
    l->server = s;
    dt_uvx_stream_init(s->loop, &l->io, family);
    dt_list_append(&s->listeners, &l->in_server);
    dt_ending_add(&s->listening);
    return l;
}

static void listener_close(struct listener *l)
{
    dt_list_remove(&l->in_server);
    uv_close(&l->io.handle, on_listener_closed);
}

int dt_store_server_listen(struct dt_store_server *s, const struct dt_addr *addr,
                           struct dt_addr *bound, struct dt_err *err)
{
    struct listener *l = listener_create(s, addr->sa.ss_family, err);
    if (!l)
        return -1;
    if (dt_uvx_listen(&l->io, addr, on_connection, err) < 0) {
        listener_close(l);
        return -1;
    }
    if (bound)
        dt_uvx_local(&l->io, bound);
    return 0;
}

int dt_store_server_adopt(struct dt_store_server *s, int fd, struct dt_addr *bound,
                          struct dt_err *err)
{
    struct dt_addr addr = {.len = sizeof addr.sa};
    struct listener *l = NULL;
    if (getsockname(fd, (struct sockaddr *)&addr.sa, &addr.len) < 0)
        dt_err_set(err, DT_E_RUNTIME, "inherited descriptor %d is no socket", fd);
    else
        l = listener_create(s, addr.sa.ss_family, err);
    if (!l) {
        close(fd);
        return -1;
    }
    if (dt_uvx_listen_fd(&l->io, fd, on_connection, err) < 0) {
        listener_close(l);
        return -1;
    }
    if (bound)
        *bound = addr;
    return 0;
}

/* -- configuration ---------------------------------------------------------------------------- */

static void on_sweep(uv_timer_t *t)
{
    struct dt_store_server *s = dt_container_of(t, struct dt_store_server, sweep);
    dt_store_peers_close_idle(&s->peers, dt_store_peers_now(&s->peers) - s->config.idle_timeout);
}

static struct dt_cidr *copy_ranges(const struct dt_cidr *ranges, size_t count)
{
    struct dt_cidr *copy = calloc(count + 1, sizeof *copy);
    if (copy && count)
        memcpy(copy, ranges, count * sizeof *copy);
    return copy;
}

static int take_ranges(struct dt_store_server *s, const struct dt_store_server_config *config)
{
    struct dt_cidr *allow = copy_ranges(config->allow, config->allow_count);
    struct dt_cidr *allow_c10d = copy_ranges(config->allow_c10d, config->allow_c10d_count);
    if (!allow || !allow_c10d) {
        free(allow);
        free(allow_c10d);
        return -1;
    }
    free(s->allow);
    free(s->allow_c10d);
    s->allow = allow;
    s->allow_c10d = allow_c10d;
    return 0;
}

int dt_store_server_reconfigure(struct dt_store_server *s,
                                const struct dt_store_server_config *config, struct dt_err *err)
{
    if (take_ranges(s, config) < 0)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the allowed ranges");
    s->config = *config;
    s->config.allow = s->allow;
    s->config.allow_c10d = s->allow_c10d;
    s->peers.budget.limit = config->buffered_bytes;
    s->peers.turns.half = config->turn / 2;
    dt_store_set_limits(s->store, &config->store);
    if (config->idle_timeout > 0) {
        uint64_t every = (uint64_t)config->idle_timeout / 4 + 1;
        uv_timer_start(&s->sweep, on_sweep, every, every);
    } else {
        uv_timer_stop(&s->sweep);
    }
    accept_pending(s);
    return 0;
}

/* -- beginning and end ------------------------------------------------------------------------ */

static void close_step(struct dt_store_server *s);

static void on_peer_gone(struct dt_store_peers *peers)
{
    struct dt_store_server *s = dt_container_of(peers, struct dt_store_server, peers);
    accept_pending(s);
    close_step(s);
}

static void on_peers_closed(struct dt_store_peers *peers)
{
    struct dt_store_server *s = dt_container_of(peers, struct dt_store_server, peers);
    void (*on_closed)(void *) = s->on_closed;
    void *arg = s->closed_arg;
    dt_store_destroy(s->store);
    free(s->allow);
    free(s->allow_c10d);
    free(s); /* the only free of a server */
    if (on_closed)
        on_closed(arg);
}

static void on_listening_over(void *arg)
{
    struct dt_store_server *s = arg;
    dt_store_peers_close(&s->peers);
}

void dt_store_server_stop_listening(struct dt_store_server *s)
{
    dt_list_each(&s->listeners, n) listener_close(dt_container_of(n, struct listener, in_server));
}

static void begin_drain(struct dt_store_server *s)
{
    s->closing = DRAINING;
    dt_store_server_stop_listening(s);
}

static void close_step(struct dt_store_server *s)
{
    if (s->closing == LEAVING && s->peers.count == 0)
        begin_drain(s);
    if (s->closing == DRAINING && s->peers.count == 0) {
        s->closing = CLOSING_PEERS;
        dt_ending_begin(&s->listening, NULL, NULL, on_listening_over, s);
        dt_ending_close(&s->listening, &s->sweep);
        dt_ending_close(&s->listening, &s->grace);
    }
}

static void on_grace_over(uv_timer_t *t)
{
    struct dt_store_server *s = dt_container_of(t, struct dt_store_server, grace);
    dt_store_server_close(s, 0, NULL, NULL);
}

void dt_store_server_close(struct dt_store_server *s, dt_ms grace, void (*on_closed)(void *arg),
                           void *arg)
{
    if (s->closing == CLOSING_PEERS)
        return; /* no peer is left that could hurry */
    if (s->closing == OPEN) {
        s->on_closed = on_closed;
        s->closed_arg = arg;
    }
    if (s->closing < DRAINING)
        begin_drain(s);
    if (grace == 0) {
        dt_store_peers_close_all(&s->peers);
    } else {
        uv_timer_start(&s->grace, on_grace_over, (uint64_t)grace, 0);
        dt_store_peers_end_all(&s->peers);
    }
    close_step(s);
}

void dt_store_server_leave(struct dt_store_server *s, dt_ms grace, void (*on_closed)(void *arg),
                           void *arg)
{
    if (s->closing != OPEN)
        return;
    s->closing = LEAVING;
    s->on_closed = on_closed;
    s->closed_arg = arg;
    uv_timer_start(&s->grace, on_grace_over, (uint64_t)grace, 0);
    close_step(s);
}

int dt_store_server_renew(struct dt_store_server *s, struct dt_err *err)
{
    struct dt_store *fresh = dt_store_create(&s->config.store, dt_map_random_seed());
    if (!fresh)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a store");
    dt_store_peers_close_clients(&s->peers); /* from here on none of them touches the store */
    dt_store_destroy(s->store);
    s->store = s->peers.store = fresh;
    return 0;
}

void dt_store_server_control(struct dt_store_server *s, const struct dt_control_ops *ops, void *arg)
{
    s->peers.control = ops;
    s->peers.control_arg = arg;
}

size_t dt_store_server_places(size_t wanted, size_t reserve)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur == RLIM_INFINITY)
        return wanted;
    size_t most = r.rlim_cur > 2 * reserve ? r.rlim_cur - reserve : r.rlim_cur / 2;
    return wanted < most ? wanted : most;
}

struct dt_store_server *dt_store_server_create(uv_loop_t *loop,
                                               const struct dt_store_server_config *config,
                                               struct dt_err *err)
{
    struct dt_store_server *s = calloc(1, sizeof *s);
    struct dt_store *store = s ? dt_store_create(&config->store, dt_map_random_seed()) : NULL;
    if (!store) {
        free(s);
        dt_err_set(err, DT_E_MEMORY, "no memory for a store");
        return NULL;
    }
    s->loop = loop;
    s->store = store;
    s->accept_notes = (struct dt_log_limit){.burst = 10, .every = DT_SECOND};
    dt_list_init(&s->listeners);
    uv_timer_init(loop, &s->sweep);
    uv_timer_init(loop, &s->grace);
    uv_unref((uv_handle_t *)&s->sweep); /* sweeping keeps no loop alive */
    s->peers = (struct dt_store_peers){
        .loop = loop,
        .store = store,
        .config = &s->config,
        .counters = &s->counters,
        .on_gone = on_peer_gone,
        .on_closed = on_peers_closed,
    };
    dt_store_peers_open(&s->peers);
    if (dt_store_server_reconfigure(s, config, err) < 0) {
        dt_store_server_close(s, 0, NULL, NULL);
        return NULL;
    }
    return s;
}

struct dt_store *dt_store_server_inside(struct dt_store_server *s)
{
    return s->store;
}

const struct dt_store_server_config *dt_store_server_limits(const struct dt_store_server *s)
{
    return &s->config;
}

const struct dt_store_server_counters *dt_store_server_counters(const struct dt_store_server *s)
{
    return &s->counters;
}

const struct dt_store_counts *dt_store_server_store(const struct dt_store_server *s)
{
    return dt_store_counts(s->store);
}
