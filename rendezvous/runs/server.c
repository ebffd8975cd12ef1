/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/server.h"

#include "rendezvous/runs/conn.h"
#include "rendezvous/runs/followers.h"
#include "rendezvous/runs/runs.h"
#include "rendezvous/runs/status.h"
#include "rendezvous/runs/tails.h"
#include "rendezvous/runs/tell.h"
#include "rendezvous/runs/wishes.h"
#include "rendezvous/store/control.h"

#include <stdio.h>
#include <stdlib.h>

#define GRACE (2 * DT_SECOND)

/* What was decided is on disk, so all may be told; they have taken it; nothing is left but memory.
 */
enum closing { OPEN, WAITING_FOR_DISK, DRAINING, FREEING };

struct dt_rdzv_server {
    uv_loop_t *loop;
    struct dt_store_server *store;
    dt_ms patience;
    struct dt_rdzv_door door;
    struct dt_rdzv_server_counters counters;
    struct dt_rdzv_runs runs;
    struct dt_list conns;
    uint64_t opened;          /* connections, ever */
    struct dt_list strangers; /* of no run; who came, or last said something, first */
    uv_timer_t timer;         /* of strangers and runs; when closing, of the grace */
    dt_ms armed;              /* when it goes off; DT_FOREVER: not */
    struct dt_buf page;
    dt_alert_test_fn *test_alerts; /* NULL: there are no receivers */
    void *test_arg;
    char http[DT_HTTP_PLACES_MAX]; /* where HTTP is answered; "": nowhere */
    struct dt_log_limit refusals;  /* that are told */
    enum closing closing;
    void (*on_closed)(void *arg);
    void *closed_arg;
};

static dt_ms now_of(const struct dt_rdzv_server *s)
{
    return (dt_ms)uv_now(s->loop);
}

/* -- time ------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *t);

/* A timer that goes off too early costs little, and setting it on each frame much. */
static void arm(struct dt_rdzv_server *s)
{
    dt_ms next = s->runs.next;
    struct dt_node *first = dt_list_first(&s->strangers);
    if (first) {
        struct dt_rdzv_conn *c = dt_container_of(first, struct dt_rdzv_conn, in_strangers);
        dt_ms until = dt_clock_after(c->stranger_since, s->patience);
        if (until < next)
            next = until;
    }
    if (s->closing != OPEN || next >= s->armed)
        return;
    s->armed = next;
    uv_timer_start(&s->timer, on_timer, next > now_of(s) ? (uint64_t)(next - now_of(s)) : 0, 0);
}

static void make_stranger(struct dt_rdzv_server *s, struct dt_rdzv_conn *c)
{
    c->stranger_since = now_of(s);
    dt_list_remove(&c->in_strangers);
    dt_list_append(&s->strangers, &c->in_strangers);
}

/* Who was told to go and is still there is not asked again. */
static void send_away(struct dt_rdzv_server *s, struct dt_rdzv_conn *c)
{
    struct dt_err err;
    if (c->phase == DT_CONN_DEAF) {
        dt_control_peer_close(c->peer);
        return;
    }
    if (c->awaits_test || dt_rdzv_followers_excuse(&s->runs, c) || dt_rdzv_tails_excuse(c)) {
        make_stranger(s, c);
        return;
    }
    if (c->phase != DT_CONN_FRAMES) {
        dt_err_set(&err, DT_E_TIMEOUT, "it did not greet within %g s",
                   (double)s->patience / (double)DT_SECOND);
        dt_rdzv_conn_refuse(c, &err);
    }
    make_stranger(s, c);
    dt_rdzv_conn_end(c);
}

static void on_timer(uv_timer_t *t)
{
    struct dt_rdzv_server *s = dt_container_of(t, struct dt_rdzv_server, timer);
    dt_ms now = now_of(s);
    s->armed = DT_FOREVER;
    dt_list_each(&s->strangers, n)
    {
        struct dt_rdzv_conn *c = dt_container_of(n, struct dt_rdzv_conn, in_strangers);
        if (dt_clock_after(c->stranger_since, s->patience) > now)
            break;
        send_away(s, c);
    }
    if (s->runs.next <= now)
        dt_rdzv_runs_tick(&s->runs);
    arm(s);
}

/* -- frames ----------------------------------------------------------------------------------- */

void dt_rdzv_server_set_http(struct dt_rdzv_server *s, const char *places)
{
    snprintf(s->http, sizeof s->http, "%s", places);
}

static int64_t whole(uint64_t n)
{
    return n < (uint64_t)DT_FIELD_WHOLE_MAX ? (int64_t)n : DT_FIELD_WHOLE_MAX;
}

static struct dt_status_server describe(const struct dt_rdzv_server *s)
{
    const struct dt_store_server_config *limits = dt_store_server_limits(s->store);
    return (struct dt_status_server){
        .host = s->door.host,
        .version = DT_VERSION,
        .now_us = dt_clock_wall_us(),
        .http = s->http,
        .runs = whole(s->counters.runs),
        .most_runs = whole(s->runs.most_runs),
        .nodes = whole(s->counters.nodes),
        .most_nodes = whole(s->runs.most_nodes),
        .connections = whole(dt_store_server_counters(s->store)->connected),
        .most_connections = whole(limits->connections),
        .store_bytes = whole(dt_store_server_store(s->store)->bytes),
        .most_store_bytes = whole(limits->store.bytes),
    };
}

static int answer_status(struct dt_rdzv_server *s, struct dt_rdzv_conn *c,
                         const struct dt_message *m, struct dt_err *err)
{
    struct dt_status_server row = describe(s);
    dt_buf_clear(&s->page);
    if (m->status.history)
        dt_rdzv_status_history(&s->runs, &row, m->run, &s->page);
    else
        dt_rdzv_status_page(&s->runs, &row, m->run, m->status.from, &s->page);
    struct dt_message answer = {
        .type = DT_MSG_STATUS, .run = m->run, .status = {.json = dt_buf_cstr(&s->page)}};
    if (s->page.bad) {
        dt_buf_finish(&s->page);
        return dt_err_set(err, DT_E_MEMORY, "there is no memory for a page of status");
    }
    dt_rdzv_conn_send(c, &answer);
    return 0;
}

static void answer_test(struct dt_rdzv_conn *c, bool done, const char *why)
{
    struct dt_message answer = {.type = DT_MSG_ALERT, .run = "", .alert.done = done, .why = why};
    c->awaits_test = false;
    dt_rdzv_conn_send(c, &answer);
}

/* Alerts wake people, so they are the operator's. */
static void test_alerts(struct dt_rdzv_server *s, struct dt_rdzv_conn *c,
                        const struct dt_message *m)
{
    char why[DT_WHY_MAX];
    struct dt_asker who = dt_rdzv_conn_asker(c, m);
    if (c->awaits_test)
        return;
    if (!dt_authority_over_nodes(s->door.operator_key, &who, false, why, sizeof why))
        answer_test(c, false, why);
    else if (!s->test_alerts)
        answer_test(c, false,
                    "this rendezvous tells nobody; start dtrun-rendezvous with --alert-url, "
                    "--alert-cmd or --alert-mail");
    else {
        c->awaits_test = true;
        s->test_alerts(s->test_arg, c->number);
    }
}

void dt_rdzv_server_set_alert_test(struct dt_rdzv_server *s, dt_alert_test_fn *test, void *arg)
{
    s->test_alerts = test;
    s->test_arg = arg;
}

void dt_rdzv_server_alert_tested(struct dt_rdzv_server *s, uint64_t number, bool done,
                                 const char *why)
{
    dt_list_each(&s->conns, n)
    {
        struct dt_rdzv_conn *c = dt_container_of(n, struct dt_rdzv_conn, in_server);
        if (c->number == number && c->awaits_test)
            answer_test(c, done, why);
    }
}

/* An agent whose host is unfit says so before it joins, if it ever does. Each remark may wake
 * people, so nobody is heard who has more of them than any agent. */
static void tell_remark(struct dt_rdzv_server *s, struct dt_rdzv_conn *c,
                        const struct dt_message *m)
{
    if (c->remarks == DT_REMARKS_MOST)
        return;
    c->remarks++;
    dt_rdzv_tell(&s->runs,
                 &(struct dt_event){.kind = m->remark.failed ? DT_EVENT_PREFLIGHT_FAILED
                                                             : DT_EVENT_PREFLIGHT_WARNED,
                                    .run = m->run,
                                    .round = -1,
                                    .node = m->remark.node,
                                    .rank = -1,
                                    .words = m->why},
                 false);
}

static int take_frame(struct dt_rdzv_server *s, struct dt_rdzv_conn *c, const struct dt_message *m,
                      struct dt_err *err)
{
    if (dt_rdzv_conn_check_key(c, m, err) < 0)
        return -1;
    switch (m->type) {
    case DT_MSG_JOIN:
    case DT_MSG_BEAT:
    case DT_MSG_RESULT:
    case DT_MSG_LEAVE:
    case DT_MSG_STILL:
    case DT_MSG_LOOKED:
        return dt_rdzv_runs_frame(&s->runs, c, m, err);
    case DT_MSG_REMARK:
        tell_remark(s, c, m);
        return 0;
    case DT_MSG_DRAIN:
        if (!*m->drain.node && !m->drain.undo)
            return dt_err_set(err, DT_E_PROTOCOL, "a drain without the name of a node");
        dt_rdzv_runs_drain(&s->runs, c, m);
        return 0;
    case DT_MSG_PAUSE:
    case DT_MSG_SAVE:
    case DT_MSG_STOP_RUN:
    case DT_MSG_RESTART_RUN:
        dt_rdzv_wish(&s->runs, c, m);
        return 0;
    case DT_MSG_STATUS:
        return answer_status(s, c, m, err);
    case DT_MSG_STANCES:
        dt_rdzv_runs_look(&s->runs, c, m);
        return 0;
    case DT_MSG_EVENTS:
        dt_rdzv_followers_take(&s->runs, c, m);
        return 0;
    case DT_MSG_LOGS:
        dt_rdzv_runs_logs(&s->runs, c, m);
        return 0;
    case DT_MSG_MORE:
        dt_rdzv_tails_go_on(c, m, now_of(s));
        return 0;
    case DT_MSG_TAILED:
        return dt_rdzv_runs_tailed(&s->runs, c, m, err);
    case DT_MSG_ALERT:
        test_alerts(s, c, m);
        return 0;
    case DT_MSG_HELLO:
    case DT_MSG_PROOF:
    case DT_MSG_REFUSED:
    case DT_MSG_WORLD:
    case DT_MSG_PARK:
    case DT_MSG_STOP:
    case DT_MSG_CLOSE:
    case DT_MSG_STALE:
    case DT_MSG_NOTE:
    case DT_MSG_LOOK:
    case DT_MSG_KEEP:
    case DT_MSG_FINDING:
    case DT_MSG_TAIL:
    case DT_MSG_TYPES:
        break;
    }
    return dt_err_set(err, DT_E_PROTOCOL, "a %s is not for a rendezvous to hear",
                      dt_message_name(m->type));
}

/* -- connections ------------------------------------------------------------------------------ */

static void close_step(struct dt_rdzv_server *s);

static void *on_opened(void *arg, struct dt_control_peer *peer)
{
    struct dt_rdzv_server *s = arg;
    struct dt_rdzv_conn *c = s->closing == OPEN ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return NULL;
    dt_rdzv_conn_init(c, peer, &s->door, &s->counters);
    c->server = s;
    c->number = ++s->opened;
    dt_list_append(&s->conns, &c->in_server);
    make_stranger(s, c);
    arm(s);
    return c;
}

/* The log has it in the words of the store's server. Strangers, whoever they are, must not push out
 * of the chronicle what happened. */
static void tell_refused(struct dt_rdzv_server *s, const struct dt_rdzv_conn *c,
                         const struct dt_err *why)
{
    char from[DT_ADDR_TEXT], words[DT_ADDR_TEXT + sizeof why->text + 16];
    uint64_t held_back;
    if (!dt_log_limit_pass(&s->refusals, now_of(s), &held_back))
        return;
    snprintf(words, sizeof words, "%s is refused: %s",
             dt_addr_text(&c->peer->addr, from, sizeof from), why->text);
    dt_rdzv_tell(&s->runs,
                 &(struct dt_event){
                     .kind = DT_EVENT_CLIENT_REFUSED, .round = -1, .rank = -1, .words = words},
                 true);
}

static enum dt_decoded on_bytes(void *conn, const uint8_t *bytes, size_t len, size_t *used,
                                struct dt_err *err)
{
    struct dt_rdzv_conn *c = conn;
    struct dt_rdzv_server *s = c->server;
    struct dt_message m;
    enum dt_rdzv_conn_phase phase = c->phase;
    enum dt_decoded got = dt_rdzv_conn_read(c, bytes, len, &m, used, err);
    if (got == DT_BAD && phase != DT_CONN_FRAMES)
        tell_refused(s, c, err);
    if (got != DT_DONE || m.type == DT_MSG_TYPES)
        return got;
    if (dt_node_linked(&c->in_strangers))
        make_stranger(s, c);
    if (take_frame(s, c, &m, err) < 0)
        got = dt_rdzv_conn_refuse(c, err);
    dt_message_finish(&m);
    arm(s);
    return got;
}

static void on_conn_closed(void *conn)
{
    struct dt_rdzv_conn *c = conn;
    struct dt_rdzv_server *s = c->server;
    dt_rdzv_runs_lost(&s->runs, c);
    dt_rdzv_followers_leave(c);
    dt_rdzv_tails_leave(c);
    dt_rdzv_conn_finish(c);
    free(c);
    arm(s);
    close_step(s);
}

static void on_stranger(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c)
{
    make_stranger(dt_container_of(runs, struct dt_rdzv_server, runs), c);
}

static const struct dt_control_ops control = {on_opened, on_bytes, on_conn_closed};

/* -- beginning and end ------------------------------------------------------------------------ */

static void server_free(struct dt_rdzv_server *s)
{
    dt_token_finish(&s->door.token);
    free(s->door.guesses);
    dt_buf_finish(&s->page);
    free(s); /* the only free of a server */
}

static void on_runs_closed(void *arg)
{
    struct dt_rdzv_server *s = arg;
    void (*on_closed)(void *) = s->on_closed;
    void *closed_arg = s->closed_arg;
    server_free(s);
    if (on_closed)
        on_closed(closed_arg);
}

static void on_timer_closed(uv_handle_t *h)
{
    struct dt_rdzv_server *s = dt_container_of((uv_timer_t *)h, struct dt_rdzv_server, timer);
    dt_rdzv_runs_close(&s->runs, on_runs_closed, s);
}

static void close_step(struct dt_rdzv_server *s)
{
    if (s->closing == WAITING_FOR_DISK && !s->runs.syncing) {
        s->closing = DRAINING;
        dt_list_each(&s->conns, n)
            dt_rdzv_conn_end(dt_container_of(n, struct dt_rdzv_conn, in_server));
    }
    if (s->closing == DRAINING && dt_list_empty(&s->conns)) {
        s->closing = FREEING;
        dt_store_server_control(s->store, NULL, NULL);
        uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    }
}

static void close_all(struct dt_rdzv_server *s)
{
    if (s->closing == FREEING)
        return;
    s->closing = DRAINING;
    if (dt_list_empty(&s->conns))
        close_step(s);
    else
        dt_list_each(&s->conns, n)
            dt_control_peer_close(dt_container_of(n, struct dt_rdzv_conn, in_server)->peer);
}

static void on_grace_over(uv_timer_t *t)
{
    close_all(dt_container_of(t, struct dt_rdzv_server, timer));
}

static void on_durable(struct dt_rdzv_runs *runs)
{
    close_step(dt_container_of(runs, struct dt_rdzv_server, runs));
}

void dt_rdzv_server_close(struct dt_rdzv_server *s, const char *why, void (*on_closed)(void *arg),
                          void *arg)
{
    if (s->closing != OPEN) {
        close_all(s);
        return;
    }
    if (why)
        dt_rdzv_runs_end(&s->runs, why);
    dt_rdzv_tell_of_server(&s->runs, DT_EVENT_SERVER_STOPPED, NULL, "the rendezvous stops");
    s->on_closed = on_closed;
    s->closed_arg = arg;
    s->runs.frozen = true;
    s->closing = WAITING_FOR_DISK;
    uv_timer_start(&s->timer, on_grace_over, GRACE, 0);
    close_step(s);
}

static int take_token(struct dt_rdzv_server *s, const struct dt_rdzv_server_config *config,
                      struct dt_err *err)
{
    struct dt_token *token = &s->door.token;
    if (!config->token)
        return 0;
    if (config->token_len == 0 || config->token_len > sizeof token->secret)
        return dt_err_set(err, DT_E_USAGE, "a token has 1 to %zu bytes", sizeof token->secret);
    memcpy(token->secret, config->token, config->token_len);
    token->len = config->token_len;
    if (token->len < DT_TOKEN_ADVISED)
        dt_warn("the token is %zu bytes long: whoever poses as this server can find it by trying, "
                "from one attempt of an agent; use one of %d or more, as from \"openssl rand -hex "
                "32\"",
                token->len, DT_TOKEN_ADVISED);
    s->door.guesses = calloc(1, sizeof *s->door.guesses);
    if (!s->door.guesses)
        return dt_err_set(err, DT_E_MEMORY, "no memory to count wrong tokens");
    s->door.proofs = dt_proof_open(err);
    return s->door.proofs ? 0 : -1;
}

static int take_operator_token(struct dt_rdzv_server *s, const struct dt_rdzv_server_config *config,
                               struct dt_err *err)
{
    const struct dt_token *token = config->operator_token;
    if (!token)
        return 0;
    s->door.keys = dt_proof_open(err);
    if (!s->door.keys)
        return -1;
    dt_warrant_key(s->door.keys, token, NULL, s->door.operator_key);
    return 0;
}

struct dt_rdzv_server *dt_rdzv_server_open(uv_loop_t *loop, struct dt_store_server *store,
                                           const struct dt_rdzv_server_config *config,
                                           struct dt_err *err)
{
    struct dt_rdzv_server *s = calloc(1, sizeof *s);
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a rendezvous");
        return NULL;
    }
    s->loop = loop;
    s->store = store;
    s->patience = config->patience;
    s->armed = DT_FOREVER;
    s->refusals = (struct dt_log_limit){.burst = 10, .every = 3600 * DT_SECOND};
    s->door.host = config->host;
    dt_list_init(&s->conns);
    dt_list_init(&s->strangers);
    bool hosted = strcmp(config->host, "agent") == 0;
    s->door.shared = !hosted && !config->share_default_id;
    s->runs = (struct dt_rdzv_runs){.loop = loop,
                                    .most_runs = config->runs,
                                    .most_nodes = config->nodes,
                                    .hosted = hosted,
                                    .share_default_id = config->share_default_id,
                                    .operator_key = s->door.operator_key,
                                    .counters = &s->counters,
                                    .on_stranger = on_stranger,
                                    .on_durable = on_durable};
    if (take_token(s, config, err) < 0 || take_operator_token(s, config, err) < 0 ||
        dt_rdzv_runs_open(&s->runs, config->state_dir, err) < 0) {
        server_free(s);
        return NULL;
    }
    uv_timer_init(loop, &s->timer);
    uv_unref((uv_handle_t *)&s->timer); /* waiting for agents keeps no loop alive */
    arm(s);
    dt_store_server_control(store, &control, s);
    return s;
}

struct dt_chronicle *dt_rdzv_server_chronicle(struct dt_rdzv_server *s)
{
    return &s->runs.chronicle;
}

/* -- looks ------------------------------------------------------------------------------------ */

const struct dt_rdzv_server_counters *dt_rdzv_server_counters(const struct dt_rdzv_server *s)
{
    return &s->counters;
}

const struct dt_rdzv_runs *dt_rdzv_server_runs(const struct dt_rdzv_server *s)
{
    return &s->runs;
}

/* A member whose connection ended before the run did has not been told, but may yet come. */
static bool is_busy(const struct dt_rdzv_run *run)
{
    const struct dt_rdzv *r = run->rdzv;
    struct dt_node *lost = dt_list_first(&r->members.lost);
    if (r->state != DT_RUN_CLOSED)
        return r->members.count > 0;
    return run->conns.count > 0 ||
           (lost && dt_container_of(lost, struct dt_member, in_time)->lost_at < r->since);
}

bool dt_rdzv_server_busy(const struct dt_rdzv_server *s)
{
    dt_list_each(&s->runs.all,
                 n) if (is_busy(dt_container_of(n, struct dt_rdzv_run, in_all))) return true;
    return false;
}
