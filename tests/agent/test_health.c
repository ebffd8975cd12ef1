/* SPDX-License-Identifier: Apache-2.0 */
/* The health port as a process of its own sees it: a child serves, this process asks. */
#include "agent/watch/health.h"
#include "base/clock.h"
#include "tests/lib/http.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

BEFORE_ALL
{
    if (!DT_TEST_MICROHTTPD)
        SKIP("built without libmicrohttpd");
}

/* -- the server ------------------------------------------------------------------------------- */

struct server {
    pid_t pid;
    int port;
};

static struct {
    uv_loop_t loop;
    uv_signal_t term, usr1;
    struct dt_health *health;
    bool ill;
    rlim_t files; /* that it may have open; 0: as many as we */
} child;

static bool state(void *arg, struct dt_buf *out)
{
    (void)arg;
    dt_buf_printf(out, "{\"state\":\"%s\"}", child.ill ? "restarting" : "running");
    return !child.ill;
}

static void on_child_closed(void *arg)
{
    (void)arg;
    uv_close((uv_handle_t *)&child.term, NULL);
    uv_close((uv_handle_t *)&child.usr1, NULL);
}

static void on_child_signal(uv_signal_t *s, int signum)
{
    (void)s;
    if (signum == SIGTERM)
        dt_health_close(child.health, on_child_closed, NULL);
    else
        child.ill = true;
}

static int free_port(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&in, sizeof in), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&in, &len), 0);
    close(fd);
    return ntohs(in.sin_port);
}

static int serve(int port, int ready)
{
    struct dt_err err = {0};
    if (child.files)
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){child.files, child.files});
    uv_loop_init(&child.loop);
    child.health = dt_health_open(&child.loop, NULL, port, state, NULL, &err);
    if (!child.health)
        return 2;
    uv_signal_init(&child.loop, &child.term);
    uv_signal_init(&child.loop, &child.usr1);
    uv_signal_start(&child.term, on_child_signal, SIGTERM);
    uv_signal_start(&child.usr1, on_child_signal, SIGUSR1);
    (void)!write(ready, "x", 1);
    uv_run(&child.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&child.loop) == 0 ? 0 : 3;
}

/* Another program may take the port between finding and opening it: then with the next one. */
static struct server start_server(void)
{
    for (int tries = 0; tries < 20; tries++) {
        struct server s = {.port = free_port()};
        int ready[2];
        char byte;
        CHECK_EQ(pipe(ready), 0);
        s.pid = fork();
        if (s.pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(ready[0]);
            exit(serve(s.port, ready[1]));
        }
        close(ready[1]);
        ssize_t n = read(ready[0], &byte, 1);
        close(ready[0]);
        if (n == 1)
            return s;
        waitpid(s.pid, NULL, 0);
    }
    CHECK(!"a free port");
    return (struct server){0};
}

static void stop_server(struct server s)
{
    int status = -1;
    kill(s.pid, SIGTERM);
    CHECK_EQ(waitpid(s.pid, &status, 0), s.pid);
    CHECK_EQ(status, 0);
}

/* -- the client ------------------------------------------------------------------------------- */

static const char *ask(struct server s, const char *method, const char *path)
{
    return http_ask(s.port, method, path, "");
}

/* -- stories ---------------------------------------------------------------------------------- */

TEST(well_is_200_and_not_well_is_503)
{
    static const char *const paths[] = {"/healthz", "/health", "/", "/healthz?verbose=1"};
    struct server s = start_server();
    for (size_t i = 0; i < 4; i++) {
        CHECK_ROW("%s", paths[i]);
        const char *said = ask(s, "GET", paths[i]);
        CHECK(http_has(said, "HTTP/1.1 200 "));
        CHECK(http_has(said, "Content-Type: application/json\r\n"));
        CHECK(http_has(said, "\r\n\r\n{\"state\":\"running\"}\n"));
    }
    kill(s.pid, SIGUSR1);
    const char *said;
    do /* the signal and the request race in the other process */
        said = ask(s, "GET", "/healthz");
    while (strstr(said, "HTTP/1.1 200 "));
    CHECK(http_has(said, "HTTP/1.1 503 "));
    CHECK(http_has(said, "\r\n\r\n{\"state\":\"restarting\"}\n"));
    stop_server(s);
}

TEST(other_paths_and_methods_are_refused)
{
    struct server s = start_server();
    CHECK(http_has(ask(s, "GET", "/metrics"), "HTTP/1.1 404 "));
    CHECK(http_has(ask(s, "GET", "/metrics"), "with --http ADDR:PORT"));
    CHECK(http_has(ask(s, "GET", "/healthz/x"), "HTTP/1.1 404 "));
    CHECK(http_has(ask(s, "POST", "/nothing"), "HTTP/1.1 404 "));
    const char *said = ask(s, "POST", "/healthz");
    CHECK(http_has(said, "HTTP/1.1 405 "));
    CHECK(http_has(said, "Allow: GET, HEAD\r\n"));
    CHECK(http_has(ask(s, "DELETE", "/"), "HTTP/1.1 405 "));
    said = ask(s, "HEAD", "/healthz");
    CHECK(http_has(said, "HTTP/1.1 200 "));
    CHECK(strstr(said, "running") == NULL);
    stop_server(s);
}

TEST(both_families_are_served)
{
    struct server s = start_server();
    int fd = http_reach(s.port, AF_INET6);
    if (fd < 0) {
        stop_server(s);
        SKIP("no IPv6 on this machine");
    }
    CHECK_EQ(send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    CHECK(http_has(http_read_all(fd), " 200 "));
    stop_server(s);
}

/* One request on a connection that stays, in slices of SLICE bytes, and its answer. */
static void ask_on(int fd, size_t slice)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";
    const size_t len = sizeof request - 1;
    char said[600];
    size_t n = 0;
    for (size_t at = 0; at < len; at += slice) {
        size_t part = len - at < slice ? len - at : slice;
        CHECK_EQ(send(fd, request + at, part, MSG_NOSIGNAL), part);
    }
    do {
        ssize_t got = TEMP_FAILURE_RETRY(recv(fd, said + n, sizeof said - 1 - n, 0));
        CHECK(got > 0);
        n += (size_t)got;
        said[n] = '\0';
    } while (!strstr(said, "}\n"));
    CHECK(http_has(said, " 200 "));
}

TEST(one_connection_serves_many_requests_in_any_slices)
{
    struct server s = start_server();
    int fd = http_reach(s.port, AF_INET);
    for (size_t slice = 1; slice < 50; slice += 7)
        ask_on(fd, slice);
    close(fd);
    stop_server(s);
}

TEST(garbage_harms_nobody)
{
    struct server s = start_server();
    unsigned seed = 4242;
    for (int i = 0; i < 200; i++) {
        char bytes[700];
        size_t n = 1 + (size_t)(rand_r(&seed) % (int)sizeof bytes);
        for (size_t j = 0; j < n; j++)
            bytes[j] =
                (char)(i % 2 ? rand_r(&seed) : "GET /healthz HTTP/1.1\r\n:"[rand_r(&seed) % 24]);
        int fd = http_reach(s.port, AF_INET);
        CHECK(fd >= 0);
        send(fd, bytes, n, MSG_NOSIGNAL);
        close(fd);
    }
    CHECK(http_has(ask(s, "GET", "/healthz"), " 200 "));
    stop_server(s);
}

TEST(a_request_has_a_largest_size)
{
    static char line[] = "X-Padding: 0123456789012345678901234567890123456789\r\n";
    struct server s = start_server();
    int fd = http_reach(s.port, AF_INET);
    ssize_t n = send(fd, "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL);
    for (int i = 0; i < 2000 && n > 0; i++)
        n = send(fd, line, sizeof line - 1, MSG_NOSIGNAL);
    CHECK(strstr(http_read_all(fd), " 200 ") == NULL);
    CHECK(http_has(ask(s, "GET", "/healthz"), " 200 "));
    stop_server(s);
}

/* Whether the server has closed FD, which is waited for. */
static void await_end(int fd)
{
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    char byte;
    CHECK_EQ(poll(&ended, 1, 30000), 1);
    CHECK(TEMP_FAILURE_RETRY(recv(fd, &byte, 1, 0)) <= 0);
}

TEST(whoever_holds_all_connections_keeps_nobody_waiting)
{
    int held[80];
    struct server s = start_server();
    for (int i = 0; i < 80; i++) {
        held[i] = http_reach(s.port, AF_INET);
        CHECK(held[i] >= 0);
        CHECK_EQ(send(held[i], "G", 1, MSG_NOSIGNAL), 1);
    }
    CHECK(http_has(ask(s, "GET", "/healthz"), " 200 "));
    for (int i = 0; i < 80; i++) { /* closed in the order in which they came, and only as needed */
        struct pollfd ended = {.fd = held[i], .events = POLLIN};
        CHECK_ROW("connection %d", i);
        if (i < 16)
            await_end(held[i]);
        else if (i > 16) /* whose place the probe had */
            CHECK_EQ(poll(&ended, 1, 0), 0);
        close(held[i]);
    }
    stop_server(s);
}

/* Else the launcher could not start its workers anew. */
TEST(callers_leave_descriptors_where_there_are_few)
{
    int held[40];
    child.files = 96; /* and so six callers */
    struct server s = start_server();
    child.files = 0;
    for (int i = 0; i < 40; i++) {
        held[i] = http_reach(s.port, AF_INET);
        CHECK(held[i] >= 0);
    }
    ask_on(held[39], 100); /* all before it have been let in */
    for (int i = 0; i < 40; i++) {
        struct pollfd ended = {.fd = held[i], .events = POLLIN};
        CHECK_ROW("connection %d", i);
        if (i < 34)
            await_end(held[i]);
        else
            CHECK_EQ(poll(&ended, 1, 0), 0);
        close(held[i]);
    }
    stop_server(s);
}

/* The time for a request does not begin anew with each byte of it. */
TEST(a_client_that_goes_on_slowly_is_let_go)
{
    struct server s = start_server();
    int slow = http_reach(s.port, AF_INET);
    struct pollfd ended = {.fd = slow, .events = POLLIN};
    int turns = 0;
    while (poll(&ended, 1, 500) == 0 && ++turns < 60)
        CHECK_EQ(send(slow, "G", 1, MSG_NOSIGNAL), 1);
    CHECK(turns < 60);
    close(slow);
    stop_server(s);
}

TEST(a_full_server_makes_room_again)
{
    int held[80];
    struct server s = start_server();
    for (int i = 0; i < 80; i++) {
        held[i] = http_reach(s.port, AF_INET);
        CHECK(held[i] >= 0);
    }
    ask_on(held[79], 100); /* all before it have been let in */
    kill(s.pid, SIGSTOP);
    for (int i = 0; i < 80; i++)
        close(held[i]);
    kill(s.pid, SIGCONT); /* and finds that all have left at once */
    CHECK(http_has(ask(s, "GET", "/healthz"), " 200 "));
    stop_server(s);
}

TEST(a_silent_client_is_let_go)
{
    struct server s = start_server();
    int idle = http_reach(s.port, AF_INET);
    struct pollfd ended = {.fd = idle, .events = POLLIN};
    CHECK_EQ(poll(&ended, 1, 30000), 1); /* closed by the server, as no byte came */
    close(idle);
    stop_server(s);
}

TEST(a_taken_port_is_named_with_its_holder)
{
    struct server s = start_server();
    struct dt_err err = {0};
    uv_loop_t loop;
    char words[200];
    uv_loop_init(&loop);
    snprintf(words, sizeof words, "[::]:%d is in use by pid %d (test_health)", s.port, (int)s.pid);
    CHECK_FAIL(dt_health_open(&loop, NULL, s.port, state, NULL, &err) ? 0 : -1, err, ":");
    if (strstr(err.text, "[::]"))
        CHECK(http_has(err.text, words));
    else
        CHECK(http_has(err.text, "is in use by pid "));
    CHECK_EQ(uv_loop_close(&loop), 0);
    stop_server(s);
}

TEST(one_address_alone_is_served)
{
    struct dt_err err = {0};
    uv_loop_t loop;
    int port = free_port();
    uv_loop_init(&loop);
    struct dt_health *h = dt_health_open(&loop, "127.0.0.2", port, state, NULL, &err);
    CHECK(h != NULL);
    CHECK(http_reach(port, AF_INET) < 0); /* at 127.0.0.1 */
    CHECK_FAIL(dt_health_open(&loop, "no-such-host.invalid", port, state, NULL, &err) ? 0 : -1, err,
               "the address of the health port: ");
    dt_health_close(h, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop), 0);
}

TEST(without_the_helper_the_option_says_so)
{
    struct dt_err err = {0};
    uv_loop_t loop;
    uv_loop_init(&loop);
    char *was = strdup(getenv("DTRUN_PLUGIN_DIR") ? getenv("DTRUN_PLUGIN_DIR") : "");
    setenv("DTRUN_PLUGIN_DIR", "/nonexistent", 1);
    CHECK_FAIL(dt_health_open(&loop, NULL, 0, state, NULL, &err) ? 0 : -1, err,
               "the health port takes libmicrohttpd: there is no dt_httpd.so in /nonexistent/");
    setenv("DTRUN_PLUGIN_DIR", was, 1);
    free(was);
    CHECK_EQ(uv_loop_close(&loop), 0);
}
