/* SPDX-License-Identifier: Apache-2.0 */
/* The real daemon as agents know it: killed and started again, guarded by a token, told to end. */
#include "tests/lib/daemon.h"
#include "tests/lib/folder.h"
#include "tests/lib/node.h"
#include "tests/lib/port.h"

#include <signal.h>
#include <sys/stat.h>

#define PROGRAM getenv("DT_RENDEZVOUS")
#define SECRET "open sesame"

BEFORE_ALL
{
    folder_make();
}

static void two_run(struct node n[2], uint16_t port)
{
    n[0] = node_of("run", "node0", 1, 2);
    n[1] = node_of("run", "node1", 2, 2);
    node_enter(&n[0], port);
    node_enter(&n[1], port);
    node_run(&n[0]);
    node_run(&n[1]);
}

static void two_finish(struct node n[2])
{
    node_finish(&n[0]);
    node_finish(&n[1]);
}

static void write_secret(const char *path, const char *secret, mode_t mode)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    CHECK(fputs(secret, f) >= 0);
    CHECK_EQ(fclose(f), 0);
    CHECK_EQ(chmod(path, mode), 0);
}

TEST(killed_and_started_again_it_lets_agents_go_on)
{
    struct daemon_process d;
    struct node n[2];
    char addr[32], dir_of_state[300];
    snprintf(dir_of_state, sizeof dir_of_state, "%s", at("killed"));
    snprintf(addr, sizeof addr, "127.0.0.1:%d", port_take());
    DAEMON_START(&d, PROGRAM, "--listen", addr, "--state-dir", dir_of_state);
    two_run(n, d.port);
    kill(d.pid, SIGKILL);
    CHECK_EQ(daemon_wait(&d), 128 + SIGKILL);
    daemon_stop(&d);
    DAEMON_START(&d, PROGRAM, "--listen", addr, "--state-dir", dir_of_state);
    CHECK(daemon_log_has(&d, "runs of the journal that wait for their agents: 1"));
    for (int i = 0; i < 2; i++) {
        node_expect_end(&n[i]);
        node_enter(&n[i], d.port);
        node_beat(&n[i]);
    }
    for (int i = 0; i < 2; i++)
        node_succeed(&n[i]);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(node_hear(&n[i], DT_MSG_CLOSE)->close.kind, DT_CLOSE_SUCCEEDED);
        CHECK_EQ(n[i].round, 0);
    }
    two_finish(n);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* So many that the last one has no room in 512 bytes. */
static void drain_many(struct node *person)
{
    char name[32];
    struct dt_message ask = {.type = DT_MSG_DRAIN, .drain = {.node = name}};
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "a-node-with-a-long-name-%d", i);
        node_send(person, &ask);
        node_hear(person, DT_MSG_DRAIN);
    }
}

/* The journal takes its first bytes, and then no more. */
TEST(a_full_disk_is_said_and_ends_no_job)
{
    struct daemon_process d;
    struct node n[2], person = node_of("", "", 3, 1);
    char dir_of_state[300];
    snprintf(dir_of_state, sizeof dir_of_state, "%s", at("full"));
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--state-dir", dir_of_state);
    CHECK_EQ(daemon_stop(&d), 0);
    DAEMON_START(&d, "/bin/sh", "-c",
                 "trap '' XFSZ; ulimit -f 1; exec \"$0\" --listen 127.0.0.1:0 --state-dir \"$1\"",
                 PROGRAM, dir_of_state);
    two_run(n, d.port);
    CHECK(daemon_log_has(&d, "would not survive a restart"));
    node_beat(&n[0]);
    node_greet(&person, d.port);
    drain_many(&person);
    CHECK(strstr(person.heard.why, "its restart would undo it"));
    node_finish(&person);
    two_finish(n);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_second_daemon_does_not_take_its_state)
{
    struct daemon_process first, second;
    char dir_of_state[300];
    snprintf(dir_of_state, sizeof dir_of_state, "%s", at("taken"));
    DAEMON_START(&first, PROGRAM, "--listen", "127.0.0.1:0", "--state-dir", dir_of_state);
    DAEMON_START(&second, PROGRAM, "--listen", "127.0.0.1:0", "--state-dir", dir_of_state);
    CHECK_EQ(daemon_wait(&second), 1);
    CHECK(daemon_log_has(&second, "taken"));
    CHECK_EQ(daemon_log_count(&second, "listening on"), 0);
    daemon_stop(&second);
    CHECK_EQ(daemon_stop(&first), 0);
}

TEST(told_to_end_it_closes_its_agents_connections_and_says_nothing)
{
    struct daemon_process d;
    struct node n[2];
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0");
    two_run(n, d.port);
    kill(d.pid, SIGUSR1);
    CHECK(daemon_log_has(&d, "2 nodes in 1 runs now"));
    kill(d.pid, SIGTERM);
    node_expect_end(&n[0]); /* no stop, no close: their workers run on */
    node_expect_end(&n[1]);
    peer_expect_refusal(d.port); /* as agents try at once: they wait for the next daemon */
    CHECK_EQ(daemon_stop(&d), 0);
    two_finish(n);
}

TEST(with_a_token_agents_show_it_and_pytorch_needs_a_range)
{
    struct dt_err err;
    struct daemon_process d;
    struct node n = node_of("run", "node0", 1, 2);
    char secret[300];
    if (!dt_proof_open(&err))
        SKIP("%s", err.text);
    snprintf(secret, sizeof secret, "%s", at("secret"));
    write_secret(secret, SECRET "\n", 0600);
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--token-file", secret);
    n.token = SECRET;
    node_greet(&n, d.port);
    node_hear(&n, DT_MSG_PROOF);
    node_join(&n);
    node_beat(&n);
    node_finish(&n);
    int client = peer_greet(d.port);
    peer_add(client, "k", 1, 1); /* from the loopback, the default */
    close(client);
    CHECK_EQ(daemon_stop(&d), 0);

    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--token-file", secret, "--allow-c10d",
                 "192.0.2.0/24");
    client = peer_greet(d.port);
    peer_set(client, "k", "v");
    peer_expect_end(client);
    CHECK(daemon_log_has(&d, "--allow-c10d"));
    n = node_of("run", "node0", 1, 2);
    node_greet(&n, d.port);
    node_join(&n);
    node_hear(&n, DT_MSG_REFUSED);
    node_expect_end(&n);
    node_finish(&n);
    CHECK_EQ(daemon_log_count(&d, SECRET), 0);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_reload_does_not_take_the_guard_away)
{
    struct dt_err err;
    struct daemon_process d;
    struct node n = node_of("run", "node0", 1, 2);
    char secret[300], config[300], lines[400];
    if (!dt_proof_open(&err))
        SKIP("%s", err.text);
    snprintf(secret, sizeof secret, "%s", at("kept"));
    snprintf(config, sizeof config, "%s", at("conf"));
    snprintf(lines, sizeof lines, "token-file = %s\n", secret);
    write_secret(secret, SECRET, 0600);
    write_secret(config, lines, 0644);
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--config", config);
    write_secret(config, "# nothing\n", 0644);
    kill(d.pid, SIGHUP);
    CHECK(daemon_log_has(&d, "takes a restart; the old one stays"));
    CHECK(daemon_log_has(&d, "reloaded"));
    node_greet(&n, d.port);
    CHECK(n.heard.hello.token);
    node_finish(&n);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_token_that_cannot_be_used_is_said_before_anybody_is_served)
{
    struct daemon_process d;
    char open_to_all[300];
    snprintf(open_to_all, sizeof open_to_all, "%s", at("open"));
    write_secret(open_to_all, SECRET, 0644);
    const struct {
        const char *path, *words;
    } rows[] = {{"/nonexistent/token", "/nonexistent/token"}, {open_to_all, "--token-file: "}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].path);
        DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--token-file", rows[i].path);
        CHECK(daemon_wait(&d) != 0);
        CHECK(daemon_log_has(&d, rows[i].words));
        CHECK_EQ(daemon_log_count(&d, "listening on"), 0);
        daemon_stop(&d);
    }
}

TEST(a_short_token_is_taken_with_a_warning)
{
    static const struct {
        const char *token;
        int warnings;
    } rows[] = {{"fifteen bytes..", 1}, {"sixteen bytes...", 0}};
    struct dt_err err;
    struct daemon_process d;
    char secret[300];
    if (!dt_proof_open(&err))
        SKIP("%s", err.text);
    snprintf(secret, sizeof secret, "%s", at("short"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].token);
        write_secret(secret, rows[i].token, 0600);
        DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--token-file", secret);
        CHECK_EQ(daemon_log_count(&d, "warn: the token is 15 bytes long"), rows[i].warnings);
        CHECK_EQ(daemon_stop(&d), 0);
    }
}

static void ask_add(int fd, const char *key)
{
    struct dt_buf out = {0};
    struct dt_c10d_request add = {.op = DT_C10D_ADD, .key = dt_bytes_of(key), .number = 1};
    CHECK(dt_c10d_encode(&out, DT_C10D_MODERN, &add));
    peer_send(fd, out.at, out.len);
    dt_buf_finish(&out);
}

TEST(clients_of_the_store_leave_places_for_agents)
{
    enum { PLACES = 32, SEATS = 30 };
    struct daemon_process d;
    int fds[PLACES + 1];
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--max-connections", "32");
    for (int i = 0; i < SEATS; i++) {
        fds[i] = peer_greet(d.port);
        peer_add(fds[i], "n", 1, i + 1);
    }
    fds[SEATS] = peer_greet(d.port); /* is greeted, and served when another has left */
    ask_add(fds[SEATS], "n");
    struct node n = node_of("run", "node0", 1, 2);
    node_greet(&n, d.port);
    node_join(&n);
    node_beat(&n);
    close(fds[0]);
    peer_receive(fds[SEATS], "\37\0\0\0\0\0\0\0", 8);
    node_finish(&n);

    /* Those that only stand give way when an agent finds no place at all; so do those that would,
     * as they have greeted, or sent half a request. */
    for (int i = SEATS + 1; i < PLACES + 1; i++)
        fds[i] = peer_greet(d.port);
    peer_send(fds[PLACES], "\1\1", 2);
    n = node_of("run", "node1", 2, 2);
    node_greet(&n, d.port);
    node_join(&n);
    CHECK(daemon_log_has(&d, "the other places are for agents"));
    node_finish(&n);
    for (int i = 1; i < PLACES + 1; i++)
        close(fds[i]);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_client_whose_first_request_waits_for_a_place_is_no_newcomer)
{
    enum { SEATS = 30 };
    struct daemon_process d;
    int fds[SEATS];
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--max-connections", "32");
    for (int i = 0; i < SEATS; i++) {
        fds[i] = peer_greet(d.port);
        peer_add(fds[i], "n", 1, i + 1);
    }
    int waits = peer_connect(d.port); /* nothing that may be answered comes before the ADD */
    peer_send(waits, "\0\xce\xf7\x85\x3c", 5);
    ask_add(waits, "n");
    int stranger = peer_connect(d.port);
    peer_send(stranger, "DTR", 3);
    peer_expect_end(stranger); /* so much patience is over */
    close(fds[0]);
    peer_receive(waits, "\37\0\0\0\0\0\0\0", 8);
    for (int i = 1; i < SEATS; i++)
        close(fds[i]);
    close(waits);
    CHECK_EQ(daemon_stop(&d), 0);
}
