/* SPDX-License-Identifier: Apache-2.0 */
/* The life of dtrun-rendezvous as its operator sees it: what it says when told nonsense, signals,
 * reload, sockets of every kind, systemd. */
#include "base/clock.h"
#include "base/json.h"
#include "tests/lib/check.h"
#include "tests/lib/daemon.h"
#include "tests/lib/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define PROGRAM getenv("DT_RENDEZVOUS")
#define LISTEN "--listen", "127.0.0.1:0"

/* A folder for one story, below the build's. */
static char *make_dir(char *path, size_t size)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, size, "%s/dtrun-test-XXXXXX", base ? base : "/tmp");
    CHECK(mkdtemp(path) != NULL);
    return path;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    CHECK(fputs(text, f) >= 0);
    CHECK(fclose(f) == 0);
}

TEST(nonsense_is_answered_with_one_sentence_and_exit_2)
{
    static const struct {
        const char *args[4];
        const char *words;
    } rows[] = {
        {{"--lisen", "x"}, "--listen"},
        {{"--listen", "localhost:99999"}, "99999"},
        {{"--listen", ":1234"}, "names no host"},
        {{"--listen", "29400"}, "is a port and names no host"},
        {{"--listen", "unix:relative"}, "absolute"},
        {{"--allow", "10.0.0.0/33"}, "--allow"},
        {{"--allow", "everybody"}, "no range of addresses"},
        {{"--max-connections", "many"}, "\"many\" is not a whole number"},
        {{"--max-connections", "0"}, "from 1 to"},
        {{"--max-value-size", "2G"}, "out of range"},
        {{"--max-value-size", "512M"}, "--max-peer-buffer: too small"},
        {{"--max-buffered", "1M"}, "--max-buffered: smaller"},
        {{"--allow-c10d", "10.0.0.0/8"}, "nothing without --token-file"},
        {{"--max-runs", "0"}, "from 1 to"},
        {{"--idle-timeout", "soon"}, "not a duration"},
        {{"--log-level", "loud"}, "error, warn, info or debug"},
        {{"--legacy-dialect", "2.0"}, "1.13"},
        {{"--config", "/nonexistent/file"}, "/nonexistent/file"},
        {{"extra"}, "extra"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s %s", rows[i].args[0], rows[i].args[1] ? rows[i].args[1] : "");
        struct daemon_process d;
        daemon_start(&d, "listening on", PROGRAM, rows[i].args);
        int rc = daemon_wait(&d);
        CHECK(rc == 2 || (rc == 1 && strcmp(rows[i].args[0], "--config") == 0));
        CHECK(daemon_log_count(&d, rows[i].words) == 1);
        CHECK_EQ(daemon_log_count(&d, "\n"), 1);
        daemon_stop(&d);
    }
}

TEST(a_busy_port_exits_1_and_says_what_to_do)
{
    struct daemon_process first, second;
    char addr[32];
    DAEMON_START(&first, PROGRAM, LISTEN);
    snprintf(addr, sizeof addr, "127.0.0.1:%d", first.port);
    DAEMON_START(&second, PROGRAM, "--listen", addr);
    CHECK_EQ(daemon_wait(&second), 1);
    CHECK(daemon_log_has(&second, "another program has that address"));
    CHECK(daemon_log_has(&second, addr));
    daemon_stop(&second);
    DAEMON_START(&second, PROGRAM, "--listen", "192.0.2.1:0");
    CHECK_EQ(daemon_wait(&second), 1);
    CHECK(daemon_log_has(&second, "no such address"));
    daemon_stop(&second);
    DAEMON_START(&second, PROGRAM, "--listen", "unix:/nonexistent/dir/store.sock");
    CHECK_EQ(daemon_wait(&second), 1);
    CHECK(daemon_log_has(&second, "there is no such folder"));
    daemon_stop(&second);
    CHECK_EQ(daemon_stop(&first), 0);
}

/* Leaves 8 answers of 1 MiB unread in the server. They are asked for in one piece, so that all are
 * owed when the first has come. */
static struct dt_buf leave_answers_unread(int fd)
{
    static char value[1 << 20];
    struct dt_c10d_request get = {.op = DT_C10D_GET, .key = dt_bytes_of("big")};
    struct dt_buf answer = {0}, ask = {0};
    peer_set_bytes(fd, "big", value, sizeof value);
    peer_num_keys(fd, 1);
    for (int i = 0; i < 8; i++)
        CHECK(dt_c10d_encode(&ask, DT_C10D_MODERN, &get));
    peer_send(fd, ask.at, ask.len);
    dt_buf_finish(&ask);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    CHECK(poll(&p, 1, 30000) == 1);
    dt_c10d_put_value(&answer, (struct dt_bytes){(uint8_t *)value, sizeof value});
    return answer;
}

/* Too few for libuv's own, and for one listener. */
TEST(a_limit_of_a_few_open_files_is_refused_with_one_sentence)
{
    for (int files = 6; files <= 8; files++) {
        struct daemon_process d;
        char script[64];
        snprintf(script, sizeof script, "ulimit -n %d && exec \"$0\" --listen 127.0.0.1:0", files);
        CHECK_ROW("%d files", files);
        DAEMON_START(&d, "/bin/sh", "-c", script, PROGRAM);
        CHECK_EQ(daemon_wait(&d), 1);
        CHECK(daemon_log_has(&d, "files open; raise the limit to 32"));
        CHECK_EQ(daemon_log_count(&d, "\n"), 1);
        daemon_stop(&d);
    }
}

TEST(sigterm_delivers_what_is_owed_refuses_newcomers_and_exits_0)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN, "--drain-timeout", "1h");
    int idle = peer_greet(d.port), fd = peer_greet(d.port);
    struct dt_buf answer = leave_answers_unread(fd);
    kill(d.pid, SIGTERM);
    CHECK(daemon_log_has(&d, "asked to terminate"));
    peer_expect_end(idle);
    peer_expect_refusal(d.port);
    for (int i = 0; i < 8; i++)
        peer_receive(fd, answer.at, answer.len);
    peer_expect_end(fd);
    dt_buf_finish(&answer);
    CHECK_EQ(daemon_wait(&d), 0);
    daemon_stop(&d);
}

TEST(a_second_sigterm_ends_at_once)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN, "--drain-timeout", "1h");
    int fd = peer_greet(d.port);
    struct dt_buf answer = leave_answers_unread(fd);
    kill(d.pid, SIGTERM);
    CHECK(daemon_log_has(&d, "asked to terminate"));
    kill(d.pid, SIGTERM);
    CHECK_EQ(daemon_wait(&d), 0);
    CHECK(daemon_log_has(&d, "closing at once"));
    dt_buf_finish(&answer);
    close(fd);
    daemon_stop(&d);
}

TEST(the_drain_ends_by_itself_when_nobody_reads)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN, "--drain-timeout", "100ms");
    int fd = peer_greet(d.port);
    struct dt_buf answer = leave_answers_unread(fd);
    kill(d.pid, SIGTERM);
    CHECK_EQ(daemon_wait(&d), 0);
    dt_buf_finish(&answer);
    close(fd);
    daemon_stop(&d);
}

TEST(sighup_reads_the_file_again)
{
    char dir[256], path[300];
    struct daemon_process d;
    snprintf(path, sizeof path, "%s/rendezvous.conf", make_dir(dir, sizeof dir));
    write_file(path, "# small values only\nmax-value-size = 4\n");
    DAEMON_START(&d, PROGRAM, LISTEN, "--config", path);
    int fd = peer_greet(d.port);
    peer_set(fd, "k", "12345");
    peer_expect_end(fd);

    write_file(path, "max-value-size = 1K\nlog-level = debug\n");
    kill(d.pid, SIGHUP);
    CHECK(daemon_log_has(&d, "reloaded"));
    fd = peer_greet(d.port);
    peer_set(fd, "k", "12345");
    peer_get(fd, "k", "12345");

    write_file(path, "max-value-size = 2\nmax-keys = lots\n");
    kill(d.pid, SIGHUP);
    CHECK(daemon_log_has(&d, "nothing is changed by this reload"));
    CHECK(daemon_log_has(&d, "rendezvous.conf:2"));
    int other = peer_greet(d.port);
    peer_set(other, "k", "123456");
    peer_get(other, "k", "123456");

    unlink(path);
    CHECK_EQ(mkfifo(path, 0600), 0); /* as of --config <(...): nobody writes to it any more */
    kill(d.pid, SIGHUP);
    CHECK(daemon_log_has(&d, "rendezvous.conf is no ordinary file"));
    peer_get(other, "k", "123456");
    close(other);
    close(fd);
    unlink(path);
    rmdir(dir);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(only_allowed_ranges_may_connect)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN, "--allow", "10.0.0.0/8", "--allow", "fd00::/8");
    int fd = peer_connect(d.port);
    peer_expect_end(fd);
    CHECK(daemon_log_has(&d, "in none of the ranges"));
    CHECK_EQ(daemon_stop(&d), 0);
    DAEMON_START(&d, PROGRAM, LISTEN, "--allow", "10.0.0.0/8", "--allow", "127.0.0.0/8");
    close(peer_greet(d.port));
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_unix_socket_serves_and_a_stale_one_is_taken_over)
{
    char dir[256], path[300], listen[320];
    struct daemon_process d, second;
    snprintf(path, sizeof path, "%s/store.sock", make_dir(dir, sizeof dir));
    snprintf(listen, sizeof listen, "unix:%s", path);
    DAEMON_START(&d, PROGRAM, "--listen", listen, LISTEN);
    int fd = peer_connect_path(path);
    peer_send(fd, "\0\xce\xf7\x85\x3c\x07", 6);
    peer_receive(fd, "\0\0\0\0\0\0\0\0", 8);
    close(fd);
    DAEMON_START(&second, PROGRAM, "--listen", listen);
    CHECK_EQ(daemon_wait(&second), 1); /* the first one is alive */
    daemon_stop(&second);
    kill(d.pid, SIGKILL);
    CHECK_EQ(daemon_wait(&d), 128 + SIGKILL);
    daemon_stop(&d);
    DAEMON_START(&d, PROGRAM, "--listen", listen);
    close(peer_connect_path(path));
    CHECK_EQ(daemon_stop(&d), 0);
    CHECK(access(path, F_OK) != 0);
    rmdir(dir);
}

TEST(a_file_that_is_no_socket_keeps_its_path)
{
    char dir[256], path[300], link[300], listen[320];
    struct daemon_process d;
    snprintf(path, sizeof path, "%s/precious.conf", make_dir(dir, sizeof dir));
    snprintf(link, sizeof link, "%s/link", dir);
    write_file(path, "precious");
    CHECK(symlink("precious.conf", link) == 0);
    const char *const taken[] = {path, link, dir};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        struct stat st;
        CHECK_ROW("%s", taken[i]);
        snprintf(listen, sizeof listen, "unix:%s", taken[i]);
        DAEMON_START(&d, PROGRAM, "--listen", listen);
        CHECK_EQ(daemon_wait(&d), 1);
        CHECK_EQ(daemon_log_count(&d, "a file that is no socket has that path"), 1);
        CHECK(lstat(taken[i], &st) == 0);
        daemon_stop(&d);
    }
    CHECK(unlink(link) == 0 && unlink(path) == 0 && rmdir(dir) == 0);
}

TEST(ipv6_and_every_address)
{
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has_ipv6 = probe >= 0 && bind(probe, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    close(probe);
    if (!has_ipv6)
        SKIP("this machine has no IPv6 loopback address");
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, "--listen", "[::1]:0");
    CHECK(daemon_log_has(&d, "listening on [::1]:"));
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    loopback.sin6_port = htons(d.port);
    CHECK(connect(fd, (struct sockaddr *)&loopback, sizeof loopback) == 0);
    peer_send(fd, "\0\xce\xf7\x85\x3c\x07", 6);
    peer_receive(fd, "\0\0\0\0\0\0\0\0", 8);
    close(fd);
    CHECK_EQ(daemon_stop(&d), 0);
    DAEMON_START(&d, PROGRAM, "--listen", "*:0", "--allow", "127.0.0.1");
    close(peer_greet(d.port)); /* IPv4 through the IPv6 socket, and known as IPv4 */
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(idle_clients_are_closed_and_waiting_ones_are_not)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN, "--idle-timeout", "1s");
    int waiter = peer_greet(d.port), idle = peer_greet(d.port);
    peer_wait(waiter, "go");
    peer_expect_end(idle);
    int setter = peer_greet(d.port);
    peer_set(setter, "go", "1");
    peer_receive(waiter, "\0", 1);
    peer_expect_end(waiter); /* idle from here on */
    close(setter);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_flood_of_violations_does_not_fill_the_log)
{
    struct daemon_process d;
    dt_ms began = dt_clock_monotonic();
    DAEMON_START(&d, PROGRAM, LISTEN);
    for (int i = 0; i < 300; i++) {
        int fd = peer_greet(d.port);
        peer_send(fd, "\xee", 1);
        peer_expect_end(fd);
    }
    kill(d.pid, SIGUSR1);
    CHECK(daemon_log_has(&d, "closed 300 for the protocol"));
    CHECK(daemon_log_count(&d, "opcode 238 is unknown") >= 1);
    CHECK(daemon_log_count(&d, "opcode 238 is unknown") <=
          10 + (dt_clock_monotonic() - began) / DT_SECOND + 1);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(json_log_lines_are_json)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN, "--log-format", "json");
    int fd = peer_greet(d.port);
    peer_send(fd, "\xee", 1);
    peer_expect_end(fd);
    kill(d.pid, SIGTERM);
    CHECK_EQ(daemon_wait(&d), 0);
    char *rest = (char *)dt_buf_cstr(&d.log);
    int lines = 0;
    for (char *line; (line = strsep(&rest, "\n")) && *line; lines++) {
        struct dt_json doc;
        struct dt_err err;
        const char *level;
        CHECK_ROW("%s", line);
        CHECK_OK(dt_json_parse(&doc, line, strlen(line), 4096, &err), err);
        CHECK_OK(dt_json_string(&doc, NULL, "level", &level, &err), err);
        dt_json_finish(&doc);
    }
    CHECK(lines >= 3);
    daemon_stop(&d);
}

/* Waits for the next datagram of the daemon and checks that WORDS are in it; others are passed
 * over. */
static void expect_notice(int fd, const char *words)
{
    char text[1024];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        CHECK(poll(&p, 1, 30000) == 1);
        ssize_t n = TEMP_FAILURE_RETRY(recv(fd, text, sizeof text - 1, 0));
        CHECK(n > 0);
        text[n] = '\0';
        if (strstr(text, words))
            return;
    }
}

static int open_notify_socket(struct sockaddr_un *at, char *dir, size_t size)
{
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(at->sun_path, sizeof at->sun_path, "%.90s/notify", make_dir(dir, size));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)at, sizeof *at) == 0);
    setenv("NOTIFY_SOCKET", at->sun_path, 1);
    return fd;
}

TEST(started_without_standard_error_no_client_gets_the_log)
{
    char dir[256], path[300], listen[320];
    struct sockaddr_un at;
    int fd = open_notify_socket(&at, dir, sizeof dir);
    snprintf(path, sizeof path, "%s/store.sock", dir);
    snprintf(listen, sizeof listen, "unix:%s", path);
    struct daemon_process d;
    /* Its log ends where the descriptor is closed, so readiness is what systemd hears. */
    daemon_start(&d, "nothing is logged", "/bin/sh",
                 (const char *const[]){"-c",
                                       "exec \"$0\" --log-level debug --listen \"$1\" <&- >&- 2>&-",
                                       PROGRAM, listen, NULL});
    unsetenv("NOTIFY_SOCKET");
    expect_notice(fd, "READY=1");
    for (int i = 0; i < 3;
         i++) { /* whoever had descriptor 2 would get the line about the next one */
        int peer = peer_connect_path(path);
        peer_send(peer, "\0\xce\xf7\x85\x3c\x07", 6);
        peer_receive(peer, "\0\0\0\0\0\0\0\0", 8);
        peer_send(peer, "\xee", 1);
        peer_expect_end(peer);
    }
    CHECK_EQ(daemon_stop(&d), 0);
    close(fd);
    unlink(at.sun_path);
    rmdir(dir);
}

TEST(systemd_hears_of_readiness_status_watchdog_reload_and_end)
{
    char dir[256];
    struct sockaddr_un at;
    int fd = open_notify_socket(&at, dir, sizeof dir);
    setenv("WATCHDOG_USEC", "100000", 1);
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    expect_notice(fd, "READY=1\nSTATUS=0 clients, 0 keys");
    int peer = peer_greet(d.port);
    peer_add(peer, "k", 1, 1);
    expect_notice(fd, "WATCHDOG=1\nSTATUS=1 clients, 1 keys");
    kill(d.pid, SIGHUP);
    expect_notice(fd, "RELOADING=1");
    expect_notice(fd, "READY=1");
    kill(d.pid, SIGTERM);
    expect_notice(fd, "STOPPING=1");
    close(peer);
    CHECK_EQ(daemon_stop(&d), 0);
    close(fd);
    unlink(at.sun_path);
    rmdir(dir);
}

TEST(systemd_hands_over_several_sockets)
{
    char dir[256], a[300], b[300];
    if (access("/usr/bin/systemd-socket-activate", X_OK) != 0)
        SKIP("systemd-socket-activate is missing (package systemd)");
    make_dir(dir, sizeof dir);
    snprintf(a, sizeof a, "%s/a.sock", dir);
    snprintf(b, sizeof b, "%s/b.sock", dir);
    struct daemon_process d;
    /* It starts the daemon at the first connection; until then "Listening on" is its own word. */
    daemon_start(&d, " as 4", "/usr/bin/systemd-socket-activate",
                 (const char *const[]){"-l", a, "-l", b, PROGRAM, "--listen", "127.0.0.1:1", NULL});
    const char *const paths[] = {a, b};
    for (int i = 0; i < 2; i++) {
        int fd = peer_connect_path(paths[i]);
        peer_send(fd, "\0\xce\xf7\x85\x3c\x07", 6);
        peer_receive(fd, "\0\0\0\0\0\0\0\0", 8);
        close(fd);
    }
    CHECK(daemon_log_has(&d, "listening on unix:"));
    CHECK_EQ(daemon_log_count(&d, "listening on 127.0.0.1"), 0);
    CHECK_EQ(daemon_stop(&d), 0);
    unlink(a);
    unlink(b);
    rmdir(dir);
}
