/* SPDX-License-Identifier: Apache-2.0 */
/* The real daemon over HTTP: who is let in, what it tells, and that nobody who asks badly costs the
 * others anything. */
#include "tests/lib/daemon.h"
#include "tests/lib/folder.h"
#include "tests/lib/http.h"
#include "tests/lib/node.h"

#include <cjson/cJSON.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#define PROGRAM getenv("DT_RENDEZVOUS")
#define SECRET "0123456789abcdef"

BEFORE_ALL
{
    if (!DT_TEST_MICROHTTPD)
        SKIP("built without libmicrohttpd");
    folder_make();
}

static int http_port(struct daemon_process *d)
{
    static const char words[] = "HTTP at http://127.0.0.1:";
    CHECK(daemon_log_has(d, words));
    return atoi(strstr(dt_buf_cstr(&d->log), words) + sizeof words - 1);
}

/* Listens for both on free ports. */
static int start(struct daemon_process *d)
{
    DAEMON_START(d, PROGRAM, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0");
    return http_port(d);
}

static const char *get(int port, const char *path)
{
    return http_ask(port, "GET", path, "");
}

/* The body of a chunked answer, put together in place. */
static char *body_of(char *answer)
{
    char *from = strstr(answer, "\r\n\r\n") + 4, *to = from, *body = from;
    CHECK(http_has(answer, "Transfer-Encoding: chunked"));
    for (;;) {
        char *bytes;
        unsigned long n = strtoul(from, &bytes, 16);
        memmove(to, bytes + 2, n);
        to += n;
        from = bytes + 2 + n + 2;
        if (n == 0)
            break;
    }
    *to = '\0';
    return body;
}

static cJSON *get_json(int port, const char *path)
{
    char *answer = strdup(get(port, path));
    CHECK(http_has(answer, "HTTP/1.1 200 "));
    cJSON *doc = cJSON_Parse(body_of(answer));
    CHECK(doc != NULL);
    free(answer);
    return doc;
}

static const char *text_at(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));
    return text ? text : "";
}

static int count_at(const cJSON *object, const char *name)
{
    return cJSON_GetArraySize(cJSON_GetObjectItem(object, name));
}

/* -- who is let in ---------------------------------------------------------------------------- */

static const char *write_secret(const char *name, const char *secret)
{
    const char *path = at(name);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    CHECK(fputs(secret, f) >= 0);
    CHECK_EQ(fclose(f), 0);
    CHECK_EQ(chmod(path, 0600), 0);
    return path;
}

TEST(with_a_token_only_health_is_open)
{
    static const char *const guarded[] = {"/metrics", "/status.json"};
    static const char *const open[] = {"/", "/healthz", "/readyz"};
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                 "--http-token-file", write_secret("token", SECRET "\n"));
    int port = http_port(&d);
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        CHECK(http_has(get(port, open[i]), "HTTP/1.1 200 "));
    for (size_t i = 0; i < sizeof guarded / sizeof *guarded; i++) {
        CHECK_ROW("%s", guarded[i]);
        const char *said = get(port, guarded[i]);
        CHECK(http_has(said, "HTTP/1.1 401 "));
        CHECK(http_has(said, "WWW-Authenticate: Bearer\r\n"));
        said = http_ask(port, "GET", guarded[i], "Authorization: Bearer " SECRET "0\r\n");
        CHECK(http_has(said, "HTTP/1.1 401 "));
        said = http_ask(port, "GET", guarded[i], "Authorization: Bearer " SECRET "\r\n");
        CHECK(http_has(said, "HTTP/1.1 200 "));
    }
    CHECK(http_has(get(port, "/events"), "HTTP/1.1 401 "));
    CHECK(!strstr(dt_buf_cstr(&d.log), SECRET));
    CHECK_EQ(daemon_stop(&d), 0);
}

static void refuses_to_start(const char *const *args, const char *sentence)
{
    struct daemon_process d;
    CHECK_ROW("%s", sentence);
    daemon_start(&d, sentence, PROGRAM, args);
    CHECK(daemon_log_has(&d, sentence));
    CHECK_EQ(daemon_wait(&d), 2);
    daemon_stop(&d);
}

TEST(mistakes_are_refused_with_a_sentence)
{
    refuses_to_start((const char *[]){"--listen", "127.0.0.1:0", "--http", "0.0.0.0:0", NULL},
                     "--http: other hosts reach 0.0.0.0:0, so give --http-token-file FILE");
    refuses_to_start((const char *[]){"--check-config", "--http", "*:9400", NULL},
                     "--http: other hosts reach *:9400, so give --http-token-file FILE");
    refuses_to_start((const char *[]){"--http", "/run/x", NULL}, "is a path; give ADDR:PORT");
    refuses_to_start((const char *[]){"--http-token-file", "/x", NULL},
                     "--http-token-file: says nothing without --http");
    refuses_to_start((const char *[]){"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                                      "--http-token-file", write_secret("blank", "a b"), NULL},
                     "--http-token-file: a header of HTTP cannot carry byte 2 of the token");
}

TEST(a_page_of_another_site_cannot_ask_by_its_own_name)
{
    struct daemon_process d;
    int port = start(&d), fd = http_reach(port, AF_INET);
    static const char request[] = "GET /status.json HTTP/1.1\r\nHost: evil.example\r\n"
                                  "Connection: close\r\n\r\n";
    CHECK_EQ(send(fd, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    CHECK(http_has(http_read_all(fd), "HTTP/1.1 403 "));
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(other_paths_and_methods_are_refused)
{
    struct daemon_process d;
    int port = start(&d);
    CHECK(http_has(get(port, "/nothing"), "HTTP/1.1 404 "));
    CHECK(http_has(get(port, "/metrics/x"), "HTTP/1.1 404 "));
    CHECK(http_has(get(port, "/status.json?run=none"), "HTTP/1.1 404 "));
    CHECK(http_has(get(port, "/events?after=x"), "HTTP/1.1 400 "));
    const char *said = http_ask(port, "POST", "/metrics", "Content-Length: 0\r\n");
    CHECK(http_has(said, "HTTP/1.1 405 "));
    CHECK(http_has(said, "Allow: GET, HEAD\r\n"));
    said = http_ask(port, "HEAD", "/status.json", "");
    CHECK(http_has(said, "HTTP/1.1 200 "));
    CHECK(!strstr(said, "runs"));
    CHECK_EQ(daemon_stop(&d), 0);
}

/* -- what it tells ---------------------------------------------------------------------------- */

TEST(a_run_and_its_nodes_are_told)
{
    struct daemon_process d;
    struct node n[2] = {node_of("run", "node0", 1, 2), node_of("run", "node1", 2, 2)};
    int port = start(&d);
    for (int i = 0; i < 2; i++)
        node_enter(&n[i], d.port);
    for (int i = 0; i < 2; i++)
        node_run(&n[i]);
    static const char *const paths[] = {"/status.json", "/status.json?run=run"};
    for (size_t i = 0; i < 2; i++) {
        CHECK_ROW("%s", paths[i]);
        cJSON *doc = get_json(port, paths[i]);
        const cJSON *server = cJSON_GetObjectItem(doc, "server");
        CHECK_STR(text_at(server, "host"), "daemon");
        CHECK_EQ(strlen(text_at(server, "now")), DT_CLOCK_TEXT - 1);
        CHECK_EQ(strlen(text_at(server, "started")), DT_CLOCK_TEXT - 1);
        CHECK_EQ(count_at(doc, "runs"), 1);
        CHECK_STR(text_at(cJSON_GetObjectItem(doc, "runs")->child, "state"), "running");
        CHECK_EQ(count_at(doc, "nodes"), 2);
        CHECK_EQ(count_at(doc, "excluded"), 0);
        CHECK_EQ(count_at(doc, "alerts"), 0);
        CHECK_EQ(cJSON_HasObjectItem(doc, "past"), i == 1);
        CHECK_EQ(cJSON_HasObjectItem(doc, "samples"), i == 1);
        cJSON_Delete(doc);
    }
    const char *said = get(port, "/metrics");
    CHECK(http_has(said, "Content-Type: text/plain; version=0.0.4"));
    CHECK(http_has(said, "\ndtrun_runs{state=\"running\"} 1\n"));
    CHECK(http_has(said, "\ndtrun_run_workers{run=\"run\"} 4\n"));
    CHECK(http_has(said, "\ndtrun_node_workers{run=\"run\",node=\"node1\"} 2\n"));
    said = http_ask(port, "GET", "/metrics", "Accept: application/openmetrics-text\r\n");
    CHECK(http_has(said, "Content-Type: application/openmetrics-text; version=1.0.0"));
    CHECK(http_has(said, "\n# EOF\n"));
    for (int i = 0; i < 2; i++)
        node_finish(&n[i]);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* What is told at PATH, as soon as the array that FIND finds in it is not empty. */
static cJSON *await(int port, const char *path, const cJSON *(*find)(const cJSON *doc))
{
    for (;;) {
        cJSON *doc = get_json(port, path);
        if (cJSON_GetArraySize(find(doc)) > 0)
            return doc;
        cJSON_Delete(doc);
        poll(NULL, 0, 20);
    }
}

static const cJSON *points_of(const cJSON *doc)
{
    return cJSON_GetObjectItem(cJSON_GetObjectItem(doc, "samples"), "points");
}

static const cJSON *alerts_of(const cJSON *doc)
{
    return cJSON_GetObjectItem(doc, "alerts");
}

TEST(how_a_run_went_and_what_is_wrong_with_it_now_are_told)
{
    struct daemon_process d;
    struct node n[2] = {node_of("run", "node0", 1, 2), node_of("run", "node1", 2, 2)};
    int port = start(&d);
    for (int i = 0; i < 2; i++)
        node_enter(&n[i], d.port);
    for (int i = 0; i < 2; i++)
        node_run(&n[i]);
    struct dt_message m = node_message(&n[0], DT_MSG_BEAT);
    m.beat = (struct dt_beat){.step = 7, .step_age_ms = 1, .running = 2, .tokens_per_s = 51200};
    node_send(&n[0], &m);
    node_hear(&n[0], DT_MSG_BEAT);
    cJSON *doc = await(port, "/status.json?run=run", points_of);
    const cJSON *point = points_of(doc)->child;
    CHECK_EQ(cJSON_GetArraySize(point), 6);
    CHECK_EQ((int)cJSON_GetArrayItem(point, 1)->valuedouble, 7);
    CHECK(cJSON_IsNull(cJSON_GetArrayItem(point, 2)));
    CHECK_EQ((int)cJSON_GetArrayItem(point, 5)->valuedouble, 51200);
    cJSON_Delete(doc);
    node_hang_up(&n[1]);
    doc = await(port, "/status.json", alerts_of);
    const cJSON *alert = alerts_of(doc)->child;
    CHECK_STR(text_at(alert, "alert"), "node_lost");
    CHECK_STR(text_at(alert, "state"), "raised");
    CHECK_STR(text_at(alert, "run"), "run");
    CHECK_STR(text_at(alert, "node"), "node1");
    CHECK(!cJSON_HasObjectItem(alert, "server"));
    cJSON_Delete(doc);
    node_stop(&n[0]);
    n[1].claim = (struct dt_claim){.seat = -1};
    node_enter(&n[1], d.port);
    for (int i = 0; i < 2; i++)
        node_run(&n[i]);
    doc = get_json(port, "/status.json?run=run");
    CHECK_EQ(count_at(doc, "alerts"), 0);
    CHECK(cJSON_GetArraySize(points_of(doc)) > 0);
    cJSON_Delete(doc);
    for (int i = 0; i < 2; i++)
        node_finish(&n[i]);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(an_alert_lasts_over_a_restart_of_the_server)
{
    struct daemon_process d;
    struct node n[2] = {node_of("run", "node0", 1, 2), node_of("run", "node1", 2, 2)};
    char state[300];
    snprintf(state, sizeof state, "%s", at("state"));
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--state-dir",
                 state);
    for (int i = 0; i < 2; i++)
        node_enter(&n[i], d.port);
    for (int i = 0; i < 2; i++)
        node_run(&n[i]);
    node_hang_up(&n[1]);
    cJSON_Delete(await(http_port(&d), "/status.json", alerts_of));
    CHECK_EQ(daemon_stop(&d), 0);
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--state-dir",
                 state);
    cJSON *doc = get_json(http_port(&d), "/status.json?run=run");
    CHECK_EQ(count_at(doc, "alerts"), 2);
    CHECK_STR(text_at(alerts_of(doc)->child, "alert"), "node_lost");
    CHECK_STR(text_at(alerts_of(doc)->child->next, "alert"), "below_min");
    cJSON_Delete(doc);
    for (int i = 0; i < 2; i++)
        node_finish(&n[i]);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* Tells the loss of its last step, and is answered. */
static void node_tell_loss(struct node *n, const char *loss)
{
    struct dt_message m = node_message(n, DT_MSG_BEAT);
    m.beat = (struct dt_beat){
        .step = 7, .step_age_ms = 1, .running = 2, .telemetry = {.number = 1, .loss = loss}};
    node_send(n, &m);
    node_hear(n, DT_MSG_BEAT);
}

TEST(an_alert_ends_after_a_restart_of_the_server_when_all_is_well)
{
    struct daemon_process d;
    struct node n = node_of("run", "node0", 1, 1);
    char state[300];
    snprintf(state, sizeof state, "%s", at("well"));
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--state-dir", state);
    node_enter(&n, d.port);
    node_run(&n);
    node_tell_loss(&n, "nan");
    CHECK_EQ(daemon_stop(&d), 0);
    node_finish(&n);
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--state-dir",
                 state);
    cJSON *doc = get_json(http_port(&d), "/status.json?run=run");
    CHECK_STR(text_at(alerts_of(doc)->child, "alert"), "loss_nan");
    cJSON_Delete(doc);
    node_enter(&n, d.port);
    node_tell_loss(&n, "2.5");
    doc = get_json(http_port(&d), "/status.json?run=run");
    CHECK_EQ(count_at(doc, "alerts"), 0);
    cJSON_Delete(doc);
    node_finish(&n);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* Its worker fails, and it comes back to hear what follows. */
static void node_fail(struct node *n)
{
    struct dt_message m = node_message(n, DT_MSG_RESULT);
    m.result = (struct dt_result){.exit_code = 1, .signature = "", .text = "rank 0 exited with 1"};
    node_send(n, &m);
    n->claim = (struct dt_claim){.seat = -1};
    node_join(n);
}

TEST(a_run_that_failed_is_told_from_one_that_did_well)
{
    struct daemon_process d;
    struct node good = node_of("good", "node0", 1, 1), bad = node_of("bad", "node1", 2, 1);
    int port = start(&d);
    bad.spec.max_restarts = 0;
    node_enter(&good, d.port);
    node_run(&good);
    node_succeed(&good);
    node_hear(&good, DT_MSG_CLOSE);
    node_enter(&bad, d.port);
    node_run(&bad);
    node_fail(&bad);
    node_hear(&bad, DT_MSG_STOP);
    node_hear(&bad, DT_MSG_CLOSE);
    const char *said = get(port, "/metrics");
    CHECK(http_has(said, "\ndtrun_runs{state=\"closed\"} 2\n"));
    CHECK(http_has(said, "\ndtrun_run_failed{run=\"good\"} 0\n"));
    CHECK(http_has(said, "\ndtrun_run_failed{run=\"bad\"} 1\n"));
    node_finish(&good);
    node_finish(&bad);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* More than one slice of the answer has. */
TEST(many_nodes_are_told_once_each)
{
    enum { MANY = 150 };
    static struct node n[MANY];
    static char names[MANY][16];
    struct daemon_process d;
    int port = start(&d);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "node%d", i);
        n[i] = node_of(i % 3 ? "a" : "b", names[i], (uint64_t)i + 1, MANY + 1);
        node_enter(&n[i], d.port);
        node_beat(&n[i]); /* it was heard */
    }
    cJSON *doc = get_json(port, "/status.json"), *node;
    CHECK_EQ(count_at(doc, "nodes"), MANY);
    bool told[MANY] = {false};
    cJSON_ArrayForEach(node, cJSON_GetObjectItem(doc, "nodes"))
    {
        int i = atoi(text_at(node, "name") + 4);
        CHECK(!told[i]);
        told[i] = true;
    }
    cJSON_Delete(doc);
    doc = get_json(port, "/status.json?run=b");
    CHECK_EQ(count_at(doc, "nodes"), MANY / 3);
    cJSON_Delete(doc);
    for (int i = 0; i < MANY; i++)
        node_finish(&n[i]);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(the_page_may_run_its_own_scripts_alone)
{
    struct daemon_process d;
    int port = start(&d);
    const char *said = get(port, "/");
    CHECK(http_has(said, "Content-Type: text/html; charset=utf-8\r\n"));
    CHECK(http_has(said, "Content-Security-Policy: default-src 'none'; "));
    CHECK(http_has(said, "\r\n\r\n<!DOCTYPE html>"));
    CHECK_EQ(daemon_stop(&d), 0);
}

/* -- what happens ----------------------------------------------------------------------------- */

static int listen_to(int port, const char *path, const char *headers)
{
    int fd = http_reach(port, AF_INET);
    CHECK(fd >= 0);
    http_send(fd, "GET", path, headers);
    return fd;
}

TEST(who_listens_hears_what_happened_and_what_happens)
{
    struct daemon_process d;
    struct node n = node_of("run", "node0", 1, 2), other = node_of("other", "node9", 2, 2);
    int port = start(&d), fd = listen_to(port, "/events", "");
    const char *said = http_read_until(fd, "\"kind\":\"server_started\"");
    CHECK(http_has(said, "Content-Type: text/event-stream\r\n"));
    CHECK(http_has(said, "retry: 2000\n\n"));
    CHECK(http_has(said, "id: 1\ndata: {\"number\":1,"));
    node_enter(&n, d.port);
    http_read_until(fd, "\"node\":\"node0\"");
    node_enter(&other, d.port);
    http_read_until(fd, "\"node\":\"node9\"");
    close(fd);
    fd = listen_to(port, "/events?run=other", "");
    CHECK(!strstr(http_read_until(fd, "\"node\":\"node9\""), "\"node0\""));
    close(fd);
    static const char *const behind[][2] = {
        {"/events?after=1", ""},
        {"/events", "Last-Event-ID: 1\r\n"},
        {"/events?after=0", "Last-Event-ID: 1\r\n"},
    };
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        CHECK_ROW("%s %s", behind[i][0], behind[i][1]);
        fd = listen_to(port, behind[i][0], behind[i][1]);
        said = http_read_until(fd, "\"node\":\"node9\"");
        CHECK(!strstr(said, "server_started"));
        CHECK(http_has(said, "id: 2\n"));
        close(fd);
    }
    fd = listen_to(port, "/events?after=123456789", ""); /* of a server before this one */
    http_read_until(fd, "\"node\":\"node9\"");
    CHECK(http_has(get(port, "/metrics"), "\ndtrun_events_total{kind=\"run_began\"} 2\n"));
    node_finish(&n);
    node_finish(&other);
    CHECK_EQ(daemon_stop(&d), 0);
    http_read_all(fd); /* it has ended */
}

/* -- the end ---------------------------------------------------------------------------------- */

/* A client that does not take what it asked for holds the daemon up. */
TEST(a_daemon_that_ends_is_alive_and_not_ready)
{
    static char value[8 << 20];
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--drain-timeout",
                 "1h");
    int port = http_port(&d), fd = peer_greet(d.port);
    CHECK(http_has(get(port, "/readyz"), "HTTP/1.1 200 "));
    peer_set_bytes(fd, "key", value, sizeof value);
    for (int i = 0; i < 4; i++)
        peer_ask_get(fd, "key");
    char byte;
    CHECK_EQ(recv(fd, &byte, 1, 0), 1); /* its answers are under way */
    CHECK_EQ(kill(d.pid, SIGTERM), 0);
    CHECK(daemon_log_has(&d, "answers that are owed are delivered"));
    CHECK(http_has(get(port, "/readyz"), "HTTP/1.1 503 "));
    CHECK(http_has(get(port, "/healthz"), "HTTP/1.1 200 "));
    CHECK(http_has(get(port, "/metrics"), "HTTP/1.1 503 "));
    CHECK(http_has(get(port, "/status.json"), "HTTP/1.1 503 "));
    close(fd);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* -- abuse ------------------------------------------------------------------------------------ */

TEST(who_holds_connections_or_reads_nothing_costs_nobody_anything)
{
    enum { MANY = 300 };
    static int held[MANY];
    struct daemon_process d;
    int port = start(&d), fd = peer_greet(d.port);
    for (int i = 0; i < MANY; i++) {
        held[i] = http_reach(port, AF_INET);
        CHECK(held[i] >= 0);
        const char *part = i % 2 ? "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" : "GET /me";
        send(held[i], part, strlen(part), MSG_NOSIGNAL); /* it may be closed already */
        peer_add(fd, "count", 1, i + 1);
    }
    CHECK(http_has(get(port, "/healthz"), "HTTP/1.1 200 "));
    for (int i = 0; i < MANY; i++)
        close(held[i]);
    CHECK(http_has(get(port, "/metrics"), "HTTP/1.1 200 "));
    close(fd);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* Beyond the bound the oldest listener gives way. */
TEST(listeners_that_read_nothing_keep_nobody_from_listening)
{
    enum { MANY = 100 };
    static int held[MANY];
    struct daemon_process d;
    struct node n = node_of("run", "node0", 1, 2);
    int port = start(&d);
    for (int i = 0; i < MANY; i++)
        held[i] = listen_to(port, "/events", "");
    int fd = listen_to(port, "/events", "");
    http_read_until(fd, "server_started");
    node_enter(&n, d.port);
    http_read_until(fd, "\"node\":\"node0\"");
    for (int i = 0; i < MANY - 40; i++)
        http_read_all(held[i]); /* it has ended */
    for (int i = MANY - 40; i < MANY; i++)
        close(held[i]);
    CHECK(http_has(get(port, "/healthz"), "HTTP/1.1 200 "));
    node_finish(&n);
    CHECK_EQ(daemon_stop(&d), 0);
    close(fd);
}

TEST(garbage_harms_nobody)
{
    struct daemon_process d;
    int port = start(&d);
    static const char some[] = "GET /metrics?run=%00 HTTP/1.1\r\n:";
    unsigned seed = 4242;
    for (int i = 0; i < 200; i++) {
        char bytes[700];
        size_t n = 1 + (size_t)(rand_r(&seed) % (int)sizeof bytes);
        for (size_t j = 0; j < n; j++)
            bytes[j] = (char)(i % 2 ? rand_r(&seed) : some[rand_r(&seed) % (int)(sizeof some - 1)]);
        int fd = http_reach(port, AF_INET);
        CHECK(fd >= 0);
        send(fd, bytes, n, MSG_NOSIGNAL);
        close(fd);
    }
    CHECK(http_has(get(port, "/status.json?run=%00%ff%"), "HTTP/1.1 "));
    CHECK(http_has(get(port, "/healthz"), " 200 "));
    CHECK_EQ(daemon_stop(&d), 0);
}
