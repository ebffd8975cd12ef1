/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/daemon/daemon.h"

#include "base/list.h"
#include "base/loop/uvx.h"
#include "base/str.h"
#include "rendezvous/daemon/alerting.h"
#include "rendezvous/daemon/event_log.h"
#include "rendezvous/daemon/systemd.h"
#include "rendezvous/protocol/proof.h"
#include "rendezvous/protocol/spec.h"
#include "rendezvous/runs/server.h"
#include "rendezvous/web/web.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* Descriptors that are not clients': listeners, signals, the loop, a log. */
#define RESERVED_FDS 64
#define FILES_AT_LEAST 32
#define STATUS_EVERY (10 * DT_SECOND)
#define EVENTS_WITHIN (5 * DT_SECOND) /* for the file of events to take the last ones ... */
#define EVENTS_IN_A_HURRY_WITHIN (DT_SECOND / 2) /* ... which a disk that works does at once */

struct daemon {
    uv_loop_t loop;
    struct {
        uv_signal_t term, interrupt, hangup, usr1;
    } signals;
    uv_timer_t status;
    struct dt_store_server *server; /* NULL once it is closed */
    struct dt_rdzv_server *rdzv;    /* closed before it */
    struct dt_event_log *event_log; /* NULL: none is wanted, or it is closed */
    struct dt_alerting *alerts;     /* NULL: nobody is told, or not any more */
    struct dt_web *web;             /* closed last, so that /healthz tells to the end; NULL: none */
    struct dt_rendezvous_options options;
    int argc;
    char *const *argv;
    bool guarded; /* agents are asked for a token, whatever a reload says later */
    bool stopping, hurry;
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

/* libuv crashes, or turns for ever, where its loop gets none of its own descriptors. */
static int open_loop(uv_loop_t *loop, struct dt_err *err)
{
    struct rlimit r;
    raise_descriptor_limit();
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < FILES_AT_LEAST)
        return dt_err_set(err, DT_E_RUNTIME,
                          "this process may have only %llu files open; raise the limit to %d and "
                          "one for each connection (ulimit -Hn, LimitNOFILE= of systemd)",
                          (unsigned long long)r.rlim_cur, FILES_AT_LEAST);
    int rc = uv_loop_init(loop);
    if (rc < 0)
        return dt_err_set(err, DT_E_RUNTIME, "cannot make an event loop: %s", uv_strerror(rc));
    return 0;
}

/* A quarter of the places keeps several hosts from being shut out by one, and is enough for the
 * workers of a cluster behind one address. */
static size_t default_per_address(size_t places)
{
    return places / 4 > 1024 ? places / 4 : 1024;
}

static struct dt_store_server_config server_config(const struct daemon *d,
                                                   const struct dt_rendezvous_options *o)
{
    struct dt_store_server_config c = dt_rendezvous_options_server(o);
    if (!d->guarded)
        c.allow_c10d_count = 0;
    size_t reserved = RESERVED_FDS + o->http.len * DT_WEB_FILES;
    size_t places = dt_store_server_places(c.connections, reserved);
    if (places < c.connections)
        dt_info("taking at most %zu clients instead of %zu: the limit of open files leaves room "
                "for no more (raise LimitNOFILE= or `ulimit -n`)",
                places, c.connections);
    c.connections = places;
    if (c.per_address == 0)
        c.per_address = default_per_address(places);
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
        if (dt_addr_parse(d->options.listen.at[i], DT_RENDEZVOUS_PORT, &addr, err) < 0)
            return dt_err_wrap(err, "--listen");
        if (dt_store_server_listen(d->server, &addr, &bound, err) < 0)
            return -1;
        say_listening(&bound);
    }
    return 0;
}

static int open_event_log(struct daemon *d, struct dt_err *err)
{
    if (!d->options.event_log)
        return 0;
    d->event_log =
        dt_event_log_open(&d->loop, dt_rdzv_server_chronicle(d->rdzv), d->options.event_log, err);
    return d->event_log ? 0 : dt_err_wrap(err, "--event-log");
}

static int open_alerts(struct daemon *d, struct dt_err *err)
{
    if (!dt_alerting_is_wanted(&d->options))
        return 0;
    d->alerts = dt_alerting_open(&d->loop, d->rdzv, &d->options, err);
    return d->alerts ? 0 : -1;
}

static int open_rdzv(struct daemon *d, struct dt_err *err)
{
    struct dt_rdzv_server_config config = dt_rendezvous_options_rdzv(&d->options);
    struct dt_token token = {0}, operator_token = {0};
    if (d->options.token_file) {
        if (dt_proof_read_token(d->options.token_file, &token, err) < 0)
            return dt_err_wrap(err, "--token-file");
        config.token = (const char *)token.secret;
        config.token_len = token.len;
    }
    if (d->options.operator_token_file) {
        if (dt_proof_read_token(d->options.operator_token_file, &operator_token, err) < 0) {
            dt_token_finish(&token);
            return dt_err_wrap(err, "--operator-token-file");
        }
        config.operator_token = &operator_token;
    }
    d->rdzv = dt_rdzv_server_open(&d->loop, d->server, &config, err);
    dt_token_finish(&token);
    dt_token_finish(&operator_token);
    return d->rdzv && open_event_log(d, err) == 0 ? open_alerts(d, err) : -1;
}

static int open_web(struct daemon *d, struct dt_err *err)
{
    const struct dt_rendezvous_options *o = &d->options;
    const struct dt_web_config config = {
        .host = "daemon",
        .server = d->rdzv,
        .store = d->server,
        .alerts = dt_alerting_alerts(d->alerts),
        .at = o->http.at,
        .count = o->http.len,
        .token_file = o->http_token_file,
    };
    if (o->http.len == 0)
        return 0;
    d->web = dt_web_open(&d->loop, &config, err);
    return d->web ? 0 : -1;
}

/* Nothing, once it is closed. */
static struct dt_rdzv_server_counters rdzv_counters(const struct daemon *d)
{
    return d->rdzv ? *dt_rdzv_server_counters(d->rdzv) : (struct dt_rdzv_server_counters){0};
}

static void notify_status(struct daemon *d, const char *first)
{
    char size[32];
    struct dt_err err;
    const struct dt_store_counts *store = dt_store_server_store(d->server);
    struct dt_rdzv_server_counters rdzv = rdzv_counters(d);
    if (dt_systemd_notify(&err, "%sSTATUS=%zu clients, %" PRIu64 " keys, %s; %zu nodes in %zu runs",
                          first, dt_store_server_counters(d->server)->connected, store->keys,
                          dt_str_from_size(store->bytes, size, sizeof size), rdzv.nodes,
                          rdzv.runs) < 0)
        dt_warn("%s", err.text);
}

static void on_status(uv_timer_t *t)
{
    struct daemon *d = dt_container_of(t, struct daemon, status);
    if (d->server)
        notify_status(d, "WATCHDOG=1\n");
}

static void log_counters(const struct daemon *d)
{
    const struct dt_store_server_counters *c = dt_store_server_counters(d->server);
    const struct dt_store_counts *store = dt_store_server_store(d->server);
    struct dt_rdzv_server_counters rdzv = rdzv_counters(d);
    uint64_t requests = 0;
    for (int op = 0; op < DT_C10D_OPS; op++)
        requests += c->requests[op];
    dt_info("served %" PRIu64 " requests of %" PRIu64 " clients, %" PRIu64 " bytes in and %" PRIu64
            " out; %zu clients, %" PRIu64 " keys, %" PRIu64 " waits now; closed %" PRIu64
            " for the protocol, %" PRIu64 " for limits, %" PRIu64 " idle, %" PRIu64
            " not allowed; full %" PRIu64 " times; %zu nodes in %zu runs now, %" PRIu64
            " frames in and %" PRIu64 " out, %" PRIu64 " refused",
            requests, c->accepted, c->bytes_in, c->bytes_out, c->connected, store->keys,
            store->waiting, c->violations, c->limits, c->idle, c->not_allowed, c->waited,
            rdzv.nodes, rdzv.runs, rdzv.frames_in, rdzv.frames_out, rdzv.refused);
}

/* -- the end ---------------------------------------------------------------------------------- */

static void leave_when_closed(struct daemon *d)
{
    if (d->server || d->event_log)
        return;
    if (d->web)
        dt_web_close(d->web, NULL, NULL);
    sigset_t enough; /* whoever asks once more must not make it a death by signal */
    sigemptyset(&enough);
    sigaddset(&enough, SIGTERM);
    sigaddset(&enough, SIGINT);
    pthread_sigmask(SIG_BLOCK, &enough, NULL);
    uv_close((uv_handle_t *)&d->status, NULL);
    uv_close((uv_handle_t *)&d->signals.term, NULL);
    uv_close((uv_handle_t *)&d->signals.interrupt, NULL);
    uv_close((uv_handle_t *)&d->signals.hangup, NULL);
    uv_close((uv_handle_t *)&d->signals.usr1, NULL);
}

static void on_server_closed(void *arg)
{
    struct daemon *d = arg;
    d->server = NULL;
    leave_when_closed(d);
}

static void on_event_log_closed(void *arg)
{
    struct daemon *d = arg;
    d->event_log = NULL;
    leave_when_closed(d);
}

/* What they are in the middle of is not waited for. */
static void close_alerts(struct daemon *d)
{
    if (d->alerts)
        dt_alerting_close(d->alerts);
    d->alerts = NULL;
}

static void on_rdzv_closed(void *arg)
{
    struct daemon *d = arg;
    d->rdzv = NULL;
    dt_event_log_close(d->event_log, d->hurry ? EVENTS_IN_A_HURRY_WITHIN : EVENTS_WITHIN,
                       on_event_log_closed, d);
    dt_store_server_close(d->server, d->hurry ? 0 : d->options.drain_timeout, on_server_closed, d);
}

static void hurry_up(struct daemon *d)
{
    d->hurry = true;
    if (d->rdzv) {
        dt_rdzv_server_close(d->rdzv, NULL, NULL, NULL);
        return;
    }
    if (d->server)
        dt_store_server_close(d->server, 0, NULL, NULL);
    dt_event_log_close(d->event_log, EVENTS_IN_A_HURRY_WITHIN, NULL, NULL);
}

static void stop(struct daemon *d, const char *why)
{
    if (!d->server && !d->event_log)
        return;
    if (d->stopping) {
        dt_info("%s again: closing at once", why);
        hurry_up(d);
        return;
    }
    d->stopping = true;
    dt_info("%s: no new clients, answers that are owed are delivered", why);
    log_counters(d);
    dt_systemd_notify(NULL, "STOPPING=1");
    if (d->web)
        dt_web_detach(d->web);
    close_alerts(d);
    dt_store_server_stop_listening(d->server); /* agents connect again at once, and not to us */
    dt_rdzv_server_close(d->rdzv, NULL, on_rdzv_closed, d); /* agents work on, and come again */
}

/* -- signals ---------------------------------------------------------------------------------- */

static void on_stop_signal(uv_signal_t *s, int signum)
{
    stop(s->data, signum == SIGINT ? "interrupted" : "asked to terminate");
}

static bool same_texts(const struct dt_opt_strings *a, const struct dt_opt_strings *b)
{
    if (a->len != b->len)
        return false;
    for (size_t i = 0; i < a->len; i++)
        if (strcmp(a->at[i], b->at[i]) != 0)
            return false;
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_web(const struct dt_rendezvous_options *a, const struct dt_rendezvous_options *b)
{
    return same_texts(&a->http, &b->http) && same_text(a->http_token_file, b->http_token_file);
}

static bool same_alerting(const struct dt_rendezvous_options *a,
                          const struct dt_rendezvous_options *b)
{
    return same_texts(&a->alert_url, &b->alert_url) && same_texts(&a->alert_cmd, &b->alert_cmd) &&
           same_texts(&a->alert_mail, &b->alert_mail) && a->alert_level == b->alert_level &&
           a->alert_cooldown == b->alert_cooldown;
}

static bool same_rdzv(const struct dt_rendezvous_options *a, const struct dt_rendezvous_options *b)
{
    return same_text(a->token_file, b->token_file) &&
           same_text(a->operator_token_file, b->operator_token_file) &&
           same_text(a->state_dir, b->state_dir) && same_text(a->event_log, b->event_log) &&
           a->max_runs == b->max_runs && a->max_nodes == b->max_nodes &&
           a->share_default_id == b->share_default_id;
}

/* What a pipe held is gone: its end would be taken for a file without any limit or range, and who
 * waits for more of it serves nobody. What cannot be looked at is told by whoever opens it. */
static int check_file_again(const char *path, struct dt_err *err)
{
    struct stat st;
    if (!path || stat(path, &st) < 0 || S_ISREG(st.st_mode))
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "--config: %s is no ordinary file, which alone can be read again; name one, "
                      "and restart",
                      path);
}

static void tell_what_takes_a_restart(const struct daemon *d,
                                      const struct dt_rendezvous_options *next)
{
    if (!same_texts(&d->options.listen, &next->listen))
        dt_warn("other addresses to listen on take a restart; the old ones stay");
    if (!same_rdzv(&d->options, next))
        dt_warn("another --token-file, --operator-token-file, --state-dir, --event-log, "
                "--max-runs, --max-nodes or --share-default-id takes a restart; the old one stays");
    if (!same_alerting(&d->options, next))
        dt_warn("other --alert options take a restart; the old ones stay");
    if (!same_web(&d->options, next))
        dt_warn("another --http or --http-token-file takes a restart; the old one stays");
}

static int take_limits(struct daemon *d, const struct dt_rendezvous_options *next,
                       struct dt_err *err)
{
    struct dt_store_server_config config = server_config(d, next);
    return dt_store_server_reconfigure(d->server, &config, err);
}

/* Takes what can change while clients are connected. A file that does not read leaves all as it
 * was. */
static void reload(struct daemon *d)
{
    struct dt_rendezvous_options next = {0};
    struct dt_opt_result result;
    struct dt_err err;
    dt_systemd_notify(NULL, "RELOADING=1");
    if (check_file_again(d->options.config_file, &err) < 0 ||
        dt_rendezvous_options_read(&next, d->argc, d->argv, &result, &err) < 0 ||
        take_limits(d, &next, &err) < 0) {
        dt_error("nothing is changed by this reload: %s", err.text);
        dt_rendezvous_options_finish(&next);
    } else {
        tell_what_takes_a_restart(d, &next);
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
    dt_event_log_reopen(d->event_log);
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

/* What did not begin is not waited for. */
static void give_up(struct daemon *d)
{
    d->stopping = d->hurry = true;
    close_alerts(d);
    if (d->rdzv)
        dt_rdzv_server_close(d->rdzv, NULL, on_rdzv_closed, d);
    else if (d->server)
        on_rdzv_closed(d);
    else
        on_server_closed(d);
}

int dt_daemon_run(struct dt_rendezvous_options *o, int argc, char *const *argv, struct dt_err *err)
{
    struct daemon d = {.options = *o, .argc = argc, .argv = argv};
    *o = (struct dt_rendezvous_options){0};
    int rc = -1;
    d.guarded = d.options.token_file != NULL;
    if (open_loop(&d.loop, err) < 0) {
        dt_rendezvous_options_finish(&d.options);
        return -1;
    }
    start_watching(&d);
    struct dt_store_server_config config = server_config(&d, &d.options);
    d.server = dt_store_server_create(&d.loop, &config, err);
    if (d.server && open_rdzv(&d, err) == 0)
        rc = open_listeners(&d, err) < 0 ? -1 : open_web(&d, err);
    if (rc == 0)
        notify_status(&d, "READY=1\n");
    else
        give_up(&d);
    uv_run(&d.loop, UV_RUN_DEFAULT);
    uv_loop_close(&d.loop);
    dt_rendezvous_options_finish(&d.options);
    return rc;
}
