/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/daemon.h"

#include "base/list.h"
#include "base/str.h"
#include "base/uvx.h"
#include "rendezvous/systemd.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>

/* Descriptors that are not clients': listeners, signals, the loop, a log. */
#define RESERVED_FDS 64
#define DEFAULT_PORT 29400
#define STATUS_EVERY (10 * DT_SECOND)

struct daemon {
    uv_loop_t loop;
    struct {
        uv_signal_t term, interrupt, hangup, usr1;
    } signals;
    uv_timer_t status;
    struct dt_store_server *server; /* NULL once it is closed */
    struct dt_rendezvous_options options;
    int argc;
    char *const *argv;
    bool stopping;
};

/* As many descriptors as the system lets us have; connections are capped below that. */
static void raise_descriptor_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

static struct dt_store_server_config server_config(const struct dt_rendezvous_options *o)
{
    struct dt_store_server_config c = dt_rendezvous_options_server(o);
    size_t places = dt_store_server_places(c.connections, RESERVED_FDS);
    if (places < c.connections)
        dt_info("taking at most %zu clients instead of %zu: the limit of open files leaves room "
                "for no more (raise LimitNOFILE= or `ulimit -n`)",
                places, c.connections);
    c.connections = places;
    return c;
}

static void say_listening(const struct dt_addr *bound)
{
    char text[DT_ADDR_TEXT];
    dt_info("listening on %s", dt_addr_text(bound, text, sizeof text));
}

/* Sockets from systemd stand in for --listen: the unit says where. */
static int open_listeners(struct daemon *d, struct dt_err *err)
{
    struct dt_addr bound;
    int first, inherited = dt_systemd_take_sockets(&first);
    for (int i = 0; i < inherited; i++) {
        if (dt_store_server_adopt(d->server, first + i, &bound, err) < 0)
            return -1;
        say_listening(&bound);
    }
    for (size_t i = 0; inherited == 0 && i < d->options.listen.len; i++) {
        struct dt_addr addr;
        if (dt_addr_parse(d->options.listen.at[i], DEFAULT_PORT, &addr, err) < 0)
            return dt_err_wrap(err, "--listen");
        if (dt_store_server_listen(d->server, &addr, &bound, err) < 0)
            return -1;
        say_listening(&bound);
    }
    return 0;
}

static void notify_status(struct daemon *d, const char *first)
{
    char size[32];
    struct dt_err err;
    const struct dt_store_counts *store = dt_store_server_store(d->server);
    if (dt_systemd_notify(&err, "%sSTATUS=%zu clients, %" PRIu64 " keys, %s", first,
                          dt_store_server_counters(d->server)->connected, store->keys,
                          dt_str_from_size(store->bytes, size, sizeof size)) < 0)
        dt_warn("%s", err.text);
}

static void on_status(uv_timer_t *t)
{
    notify_status(dt_container_of(t, struct daemon, status), "WATCHDOG=1\n");
}

static void log_counters(const struct daemon *d)
{
    const struct dt_store_server_counters *c = dt_store_server_counters(d->server);
    const struct dt_store_counts *store = dt_store_server_store(d->server);
    uint64_t requests = 0;
    for (int op = 0; op < DT_C10D_OPS; op++)
        requests += c->requests[op];
    dt_info("served %" PRIu64 " requests of %" PRIu64 " clients, %" PRIu64 " bytes in and %" PRIu64
            " out; %zu clients, %" PRIu64 " keys, %" PRIu64 " waits now; closed %" PRIu64
            " for the protocol, %" PRIu64 " for limits, %" PRIu64 " idle, %" PRIu64
            " not allowed; full %" PRIu64 " times",
            requests, c->accepted, c->bytes_in, c->bytes_out, c->connected, store->keys,
            store->waiting, c->violations, c->limits, c->idle, c->not_allowed, c->waited);
}

/* -- the end ---------------------------------------------------------------------------------- */

static void on_server_closed(void *arg)
{
    struct daemon *d = arg;
    d->server = NULL;
    uv_close((uv_handle_t *)&d->status, NULL);
    uv_close((uv_handle_t *)&d->signals.term, NULL);
    uv_close((uv_handle_t *)&d->signals.interrupt, NULL);
    uv_close((uv_handle_t *)&d->signals.hangup, NULL);
    uv_close((uv_handle_t *)&d->signals.usr1, NULL);
}

static void stop(struct daemon *d, const char *why)
{
    if (!d->server)
        return;
    if (d->stopping) {
        dt_info("%s again: closing at once", why);
        dt_store_server_close(d->server, 0, NULL, NULL);
        return;
    }
    d->stopping = true;
    dt_info("%s: no new clients, answers that are owed are delivered", why);
    log_counters(d);
    dt_systemd_notify(NULL, "STOPPING=1");
    dt_store_server_close(d->server, d->options.drain_timeout, on_server_closed, d);
}

/* -- signals ---------------------------------------------------------------------------------- */

static void on_stop_signal(uv_signal_t *s, int signum)
{
    stop(s->data, signum == SIGINT ? "interrupted" : "asked to terminate");
}

static bool same_listeners(const struct dt_rendezvous_options *a,
                           const struct dt_rendezvous_options *b)
{
    if (a->listen.len != b->listen.len)
        return false;
    for (size_t i = 0; i < a->listen.len; i++)
        if (strcmp(a->listen.at[i], b->listen.at[i]) != 0)
            return false;
    return true;
}

/* Takes what can change while clients are connected. A file that does not read leaves all as it
 * was. */
static void reload(struct daemon *d)
{
    struct dt_rendezvous_options next;
    struct dt_opt_result result;
    struct dt_err err;
    dt_systemd_notify(NULL, "RELOADING=1");
    if (dt_rendezvous_options_read(&next, d->argc, d->argv, &result, &err) < 0) {
        dt_error("nothing is changed by this reload: %s", err.text);
        dt_rendezvous_options_finish(&next);
    } else {
        struct dt_store_server_config config = server_config(&next);
        if (!same_listeners(&d->options, &next))
            dt_warn("other addresses to listen on take a restart; the old ones stay");
        if (dt_store_server_reconfigure(d->server, &config, &err) < 0)
            dt_error("nothing is changed by this reload: %s", err.text);
        dt_log_open("dtrun-rendezvous", next.log_level, next.log_format);
        dt_rendezvous_options_finish(&d->options);
        d->options = next;
        dt_info("reloaded: limits, allowed ranges and logging are in force for what comes");
    }
    notify_status(d, "READY=1\n");
}

static void on_hangup(uv_signal_t *s, int signum)
{
    (void)signum;
    struct daemon *d = s->data;
    if (d->server && !d->stopping)
        reload(d);
}

static void on_usr1(uv_signal_t *s, int signum)
{
    (void)signum;
    struct daemon *d = s->data;
    if (d->server)
        log_counters(d);
}

/* -- the beginning ---------------------------------------------------------------------------- */

static void watch_signal(struct daemon *d, uv_signal_t *s, uv_signal_cb on_signal, int signum)
{
    uv_signal_init(&d->loop, s);
    s->data = d;
    uv_signal_start(s, on_signal, signum);
    uv_unref((uv_handle_t *)s);
}

static void start_watching(struct daemon *d)
{
    signal(SIGPIPE, SIG_IGN);
    watch_signal(d, &d->signals.term, on_stop_signal, SIGTERM);
    watch_signal(d, &d->signals.interrupt, on_stop_signal, SIGINT);
    watch_signal(d, &d->signals.hangup, on_hangup, SIGHUP);
    watch_signal(d, &d->signals.usr1, on_usr1, SIGUSR1);
    dt_ms every = dt_systemd_watchdog();
    if (every == 0 || every > STATUS_EVERY)
        every = STATUS_EVERY;
    uv_timer_init(&d->loop, &d->status);
    uv_timer_start(&d->status, on_status, (uint64_t)every, (uint64_t)every);
    uv_unref((uv_handle_t *)&d->status);
}

int dt_daemon_run(struct dt_rendezvous_options *o, int argc, char *const *argv, struct dt_err *err)
{
    struct daemon d = {.options = *o, .argc = argc, .argv = argv};
    *o = (struct dt_rendezvous_options){0};
    int rc = -1;
    raise_descriptor_limit();
    uv_loop_init(&d.loop);
    start_watching(&d);
    struct dt_store_server_config config = server_config(&d.options);
    d.server = dt_store_server_create(&d.loop, &config, err);
    if (d.server)
        rc = open_listeners(&d, err);
    if (rc == 0)
        notify_status(&d, "READY=1\n");
    else if (d.server)
        dt_store_server_close(d.server, 0, on_server_closed, &d);
    else
        on_server_closed(&d);
    uv_run(&d.loop, UV_RUN_DEFAULT);
    uv_loop_close(&d.loop);
    dt_rendezvous_options_finish(&d.options);
    return rc;
}
