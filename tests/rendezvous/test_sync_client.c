/* SPDX-License-Identifier: Apache-2.0 */
/* The blocking client: against our server on a thread of its own, and against servers that follow a
 * script and behave badly at the moment we choose. */
#include "base/addr.h"
#include "rendezvous/protocol/c10d.h"
#include "rendezvous/protocol/sync_client.h"
#include "rendezvous/protocol/sync_socket.h"
#include "rendezvous/store/server.h"
#include "tests/lib/check.h"
#include "tests/rendezvous/actor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#define SOON (20 * DT_SECOND) /* never reached unless something is broken */

static struct dt_bytes b(const char *s)
{
    return dt_bytes_of(s);
}

/* -- our server, on a thread ------------------------------------------------------------------ */

struct serving {
    uv_loop_t loop;
    uv_async_t stop;
    struct dt_store_server *server;
    pthread_t thread;
    char addr[DT_ADDR_TEXT];
};

static void on_stop(uv_async_t *stop)
{
    struct serving *s = dt_container_of(stop, struct serving, stop);
    dt_store_server_close(s->server, 0, NULL, NULL);
    uv_close((uv_handle_t *)stop, NULL);
}

static void *run_server(void *arg)
{
    struct serving *s = arg;
    uv_run(&s->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void serving_create(struct serving *s)
{
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct dt_err err;
    uv_loop_init(&s->loop);
    uv_async_init(&s->loop, &s->stop, on_stop);
    s->server = dt_store_server_create(&s->loop, &config, &err);
    CHECK(s->server != NULL);
}

static void serving_start(struct serving *s, const char *where)
{
    struct dt_addr addr, bound;
    struct dt_err err;
    serving_create(s);
    CHECK_OK(dt_addr_parse(where, 0, &addr, &err), err);
    CHECK_OK(dt_store_server_listen(s->server, &addr, &bound, &err), err);
    dt_addr_text(&bound, s->addr, sizeof s->addr);
    /* What a test sends by signal is for the client. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int rc = pthread_create(&s->thread, NULL, run_server, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    CHECK_EQ(rc, 0);
}

static void serving_stop(struct serving *s)
{
    uv_async_send(&s->stop);
    pthread_join(s->thread, NULL);
    CHECK_EQ(uv_loop_close(&s->loop), 0);
}

static struct dt_sync_client *open_client(const char *addr)
{
    struct dt_err err = {0};
    struct dt_sync_client *c = dt_sync_client_open(addr, SOON, &err);
    CHECK_STR(err.text, "");
    CHECK(c != NULL);
    return c;
}

/* Whether "n" is there; 18 bytes, answered by one. */
static int check_n(struct dt_sync_client *c, bool *there, struct dt_err *err)
{
    return dt_sync_client_check(c, (struct dt_bytes[]){b("n")}, 1, there, err);
}

/* -- stories ---------------------------------------------------------------------------------- */

static void check_value(const struct dt_buf *got, const char *wanted)
{
    CHECK_BYTES(got->at, got->len, wanted, strlen(wanted));
}

static int option(const struct dt_sync_socket *s, int name)
{
    int value = 0;
    socklen_t size = sizeof value;
    CHECK_EQ(getsockopt(s->fd, IPPROTO_TCP, name, &value, &size), 0);
    return value;
}

/* The kernel's own interval would make eleven minutes more of it. */
TEST(a_server_that_is_gone_without_a_word_is_given_up_within_two_minutes)
{
    struct serving serving;
    struct dt_sync_socket s = {.fd = -1};
    struct dt_addr to;
    struct dt_err err;
    serving_start(&serving, "127.0.0.1:0");
    CHECK_OK(dt_addr_parse(serving.addr, 0, &to, &err), err);
    CHECK_OK(dt_sync_socket_connect(&s, &to, dt_clock_monotonic() + SOON, &err), err);
    int seconds = option(&s, TCP_KEEPIDLE) + option(&s, TCP_KEEPINTVL) * option(&s, TCP_KEEPCNT);
    CHECK(seconds <= 120);
    dt_sync_socket_disconnect(&s);
    serving_stop(&serving);
}

TEST(keys_and_values)
{
    struct serving s;
    serving_start(&s, "127.0.0.1:0");
    struct dt_sync_client *c = open_client(s.addr);
    struct dt_err err;
    struct dt_buf v = {0};
    CHECK_OK(dt_sync_client_set(c, b("k"), b("v"), &err), err);
    CHECK_OK(dt_sync_client_get(c, b("k"), &v, &err), err);
    check_value(&v, "v");
    CHECK_OK(dt_sync_client_set(c, b("k"), b(""), &err), err);
    CHECK_OK(dt_sync_client_get(c, b("k"), &v, &err), err);
    check_value(&v, "");
    CHECK_OK(dt_sync_client_compare_set(c, b("k"), b(""), b("w"), &v, &err), err);
    check_value(&v, "w");
    CHECK_OK(dt_sync_client_compare_set(c, b("k"), b("no"), b("x"), &v, &err), err);
    check_value(&v, "w");
    dt_buf_finish(&v);
    dt_sync_client_close(c);
    serving_stop(&s);
}

TEST(many_keys_at_once)
{
    struct serving s;
    serving_start(&s, "127.0.0.1:0");
    struct dt_sync_client *c = open_client(s.addr);
    struct dt_err err;
    struct dt_buf v = {0};
    struct dt_bytes keys[] = {b("a"), b("b"), b("c")}, values[] = {b("1"), b(""), b("333")}, item;
    bool yes;
    CHECK_OK(dt_sync_client_check(c, keys, 3, &yes, &err), err);
    CHECK(!yes);
    for (int i = 0; i < 3; i++)
        CHECK_OK(dt_sync_client_set(c, keys[i], values[i], &err), err);
    CHECK_OK(dt_sync_client_check(c, keys, 3, &yes, &err), err);
    CHECK(yes);
    CHECK_OK(dt_sync_client_check(c, NULL, 0, &yes, &err), err);
    CHECK(yes);
    CHECK_OK(dt_sync_client_wait(c, keys, 3, SOON, &err), err);
    CHECK_OK(dt_sync_client_multi_get(c, keys, 3, &v, &err), err);
    struct dt_bytes rest = {v.at, v.len};
    for (int i = 0; i < 3; i++) {
        CHECK(dt_c10d_next_blob(&rest, &item));
        CHECK_BYTES(item.at, item.len, values[i].at, values[i].len);
    }
    CHECK(!dt_c10d_next_blob(&rest, &item));
    CHECK_OK(dt_sync_client_multi_get(c, NULL, 0, &v, &err), err);
    CHECK_EQ(v.len, 0);
    dt_buf_finish(&v);
    dt_sync_client_close(c);
    serving_stop(&s);
}

TEST(eight_mebibytes_there_and_back)
{
    struct serving s;
    serving_start(&s, "127.0.0.1:0");
    struct dt_sync_client *c = open_client(s.addr);
    struct dt_err err;
    struct dt_buf big = {0}, back = {0};
    size_t size = 8u << 20;
    memset(dt_buf_room(&big, size), 'x', size);
    dt_buf_grew(&big, size);
    CHECK_OK(dt_sync_client_set(c, b("k"), (struct dt_bytes){big.at, big.len}, &err), err);
    CHECK_OK(dt_sync_client_get(c, b("k"), &back, &err), err);
    CHECK(back.len == size && memcmp(back.at, big.at, size) == 0);
    dt_buf_finish(&big);
    dt_buf_finish(&back);
    dt_sync_client_close(c);
    serving_stop(&s);
}

struct helper {
    const char *addr;
    struct dt_err err;
    int rc;
};

static void *join_barrier(void *arg)
{
    struct helper *h = arg;
    struct dt_sync_client *c = dt_sync_client_open(h->addr, SOON, &h->err);
    h->rc = c ? dt_sync_client_barrier(c, b("all"), 3, SOON, &h->err) : -1;
    dt_sync_client_close(c);
    return NULL;
}

TEST(three_meet_at_a_barrier)
{
    struct serving s;
    serving_start(&s, "127.0.0.1:0");
    pthread_t threads[3];
    struct helper h[3];
    for (int i = 0; i < 3; i++) {
        h[i] = (struct helper){.addr = s.addr};
        pthread_create(&threads[i], NULL, join_barrier, &h[i]);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK_OK(h[i].rc, h[i].err);
    }
    serving_stop(&s);
}

TEST(after_a_timeout_the_next_answers_are_right)
{
    struct serving s;
    serving_start(&s, "127.0.0.1:0");
    struct dt_sync_client *c = open_client(s.addr);
    struct dt_err err;
    struct dt_buf v = {0};
    struct dt_bytes keys[] = {b("nev\ner"), b("nor this")};
    bool yes;
    CHECK_FAIL(dt_sync_client_wait(c, keys, 2, 20, &err), err,
               "WAIT of \"nev\\x0aer\" and 1 more: still nothing after 20 ms");
    CHECK_EQ(err.code, DT_E_TIMEOUT);
    CHECK(strstr(err.text, s.addr) != NULL);
    for (int i = 0; i < 2; i++) /* must not wake anybody */
        CHECK_OK(dt_sync_client_set(c, keys[i], keys[i], &err), err);
    CHECK_OK(dt_sync_client_check(c, keys, 2, &yes, &err), err);
    CHECK(yes);
    CHECK_FAIL(dt_sync_client_wait(c, (struct dt_bytes[]){b("x")}, 1, 0, &err), err,
               "still nothing");
    CHECK_FAIL(dt_sync_client_barrier(c, b("alone"), 2, 20, &err), err, "BARRIER of \"alone\"");
    dt_sync_client_set_timeout(c, 20);
    CHECK_FAIL(dt_sync_client_get(c, b("absent"), &v, &err), err, "WAIT of \"absent\"");
    dt_sync_client_set_timeout(c, SOON);
    CHECK_OK(dt_sync_client_get(c, b("nor this"), &v, &err), err);
    check_value(&v, "nor this");
    CHECK_OK(dt_sync_client_barrier(c, b("alone"), 2, SOON, &err), err); /* the first try counts */
    dt_buf_finish(&v);
    dt_sync_client_close(c);
    serving_stop(&s);
}

/* The script reads one WAIT of "k" (18 bytes) and answers only after the CANCEL_WAIT, so the race
 * is no race. */
TEST(a_key_that_comes_while_its_wait_is_taken_back_has_come)
{
    static const struct line script[] = {
        GREET, READ(18), READ(1), SEND("\0"), SEND("\1"), READ(18), SEND("\0"), UNTIL_CLOSED, END,
    };
    struct actor a;
    actor_start(&a, script);
    struct dt_sync_client *c = open_client(a.addr);
    struct dt_err err;
    bool there;
    CHECK_OK(dt_sync_client_wait(c, (struct dt_bytes[]){b("k")}, 1, 20, &err), err);
    CHECK_OK(check_n(c, &there, &err), err);
    CHECK(there);
    dt_sync_client_close(c);
    actor_stop(&a);
}

TEST(a_unix_socket)
{
    char dir[] = "/tmp/dtrun-test-XXXXXX", path[64];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "unix:%s/store", dir);
    struct serving s;
    serving_start(&s, path);
    struct dt_sync_client *c = open_client(path);
    struct dt_err err;
    bool there;
    CHECK_OK(check_n(c, &there, &err), err);
    CHECK(!there);
    dt_sync_client_close(c);
    serving_stop(&s);
    unlink(path + 5);
    rmdir(dir);
}

TEST(nobody_listens_until_somebody_does)
{
    struct dt_err err = {0};
    struct serving s;
    char addr[DT_ADDR_TEXT];
    int fd = bind_somewhere(addr, sizeof addr);
    CHECK(dt_sync_client_open(addr, 50, &err) == NULL);
    CHECK_EQ(err.code, DT_E_TIMEOUT);
    CHECK(strstr(err.text, "cannot be reached within 50 ms: cannot connect: Connection refused"));
    CHECK_EQ(listen(fd, 16), 0);
    serving_create(&s);
    CHECK_OK(dt_store_server_adopt(s.server, fd, NULL, &err), err);
    pthread_create(&s.thread, NULL, run_server, &s);
    dt_sync_client_close(open_client(addr));
    serving_stop(&s);
}

TEST(connections_that_die_before_the_greeting_is_answered_are_tried_again)
{
    static const struct line script[] = {
        ACCEPT, HANG_UP, ACCEPT, READ(10), HANG_UP, GREET, UNTIL_CLOSED, END,
    };
    struct actor a;
    actor_start(&a, script);
    dt_sync_client_close(open_client(a.addr));
    actor_stop(&a);
}

TEST(who_is_no_store_is_told_so)
{
    static const struct line script[] = {ACCEPT, READ(10), SEND("HTTP/1.1 400 Bad Request\r\n"),
                                         UNTIL_CLOSED, END};
    struct actor a;
    struct dt_err err = {0};
    actor_start(&a, script);
    CHECK(dt_sync_client_open(a.addr, SOON, &err) == NULL);
    CHECK_EQ(err.code, DT_E_PROTOCOL);
    CHECK(strstr(err.text, "is the port right?") != NULL);
    actor_stop(&a);
    CHECK(dt_sync_client_open("127.0.0.1:x", SOON, &err) == NULL);
    CHECK_EQ(err.code, DT_E_USAGE);
}

/* What a server does after the greeting, and what the first call, a compare_set of 27 bytes, says.
 */
static const struct {
    struct line script[6];
    enum dt_err_code code;
    const char *words;
} bad[] = {
    {{GREET, READ(27), HANG_UP, END}, DT_E_DISCONNECTED, "COMPARE_SET of \"n\": "},
    {{GREET, READ(27), SEND("\5\0\0"), HANG_UP, END},
     DT_E_DISCONNECTED,
     "the server closed the connection"},
    {{GREET, READ(27), UNTIL_CLOSED, END}, DT_E_TIMEOUT, "COMPARE_SET of \"n\": timed out"},
};

TEST(servers_that_fail_in_the_middle_leave_a_client_that_says_so_at_once)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_ROW("%zu", i);
        struct actor a;
        struct dt_err err = {0};
        struct dt_buf v = {0};
        actor_start(&a, bad[i].script);
        struct dt_sync_client *c = open_client(a.addr);
        dt_sync_client_set_timeout(c, bad[i].code == DT_E_TIMEOUT ? 20 : SOON);
        CHECK_FAIL(dt_sync_client_compare_set(c, b("n"), b(""), b("x"), &v, &err), err,
                   bad[i].words);
        CHECK_EQ(err.code, bad[i].code);
        CHECK_FAIL(dt_sync_client_get(c, b("k"), &v, &err), err, "the connection was given up: ");
        CHECK_EQ(err.code, bad[i].code);
        CHECK_FAIL(dt_sync_client_set(c, b("k"), b("v"), &err), err, "SET of \"k\"");
        dt_sync_client_close(c);
        actor_stop(&a);
    }
}

TEST(nonsense_after_the_greeting_ends_the_client)
{
    static const struct line wrong_wait[] = {GREET, READ(18), SEND("H"), UNTIL_CLOSED, END};
    static const struct line huge_value[] = {
        GREET, READ(18), SEND("\0"), READ(10), SEND("\0\0\0\0\0\1\0\0"), UNTIL_CLOSED, END};
    static const struct line unasked[] = {GREET, READ(18), SEND("\0\0"), UNTIL_CLOSED, END};
    struct actor a;
    struct dt_err err = {0};
    struct dt_buf v = {0};
    bool there;
    actor_start(&a, wrong_wait);
    struct dt_sync_client *c = open_client(a.addr);
    CHECK_FAIL(dt_sync_client_get(c, b("k"), &v, &err), err, "72 is no answer to WAIT");
    CHECK_EQ(err.code, DT_E_PROTOCOL);
    dt_sync_client_close(c);
    actor_stop(&a);

    actor_start(&a, huge_value);
    c = open_client(a.addr);
    CHECK_FAIL(dt_sync_client_get(c, b("k"), &v, &err), err, "over the limit");
    CHECK_EQ(err.code, DT_E_LIMIT);
    dt_sync_client_close(c);
    actor_stop(&a);

    actor_start(&a, unasked);
    c = open_client(a.addr);
    CHECK_OK(check_n(c, &there, &err), err);
    CHECK_FAIL(check_n(c, &there, &err), err, "sent what nobody asked for");
    dt_sync_client_close(c);
    actor_stop(&a);
    dt_buf_finish(&v);
}

TEST(a_set_that_ended_the_connection_shows_in_the_next_call)
{
    struct serving s;
    serving_start(&s, "127.0.0.1:0");
    struct dt_sync_client *c = open_client(s.addr);
    struct dt_err err;
    char key[9000];
    bool there;
    memset(key, 'k', sizeof key); /* longer than the server allows */
    dt_sync_client_set(c, (struct dt_bytes){(uint8_t *)key, sizeof key}, b("v"), &err);
    CHECK_FAIL(check_n(c, &there, &err), err, "CHECK of \"n\"");
    CHECK_EQ(err.code, DT_E_DISCONNECTED);
    dt_sync_client_close(c);
    serving_stop(&s);
}

static volatile sig_atomic_t signals;

static void on_alarm(int sig)
{
    (void)sig;
    signals++;
}

TEST(signals_interrupt_nothing)
{
    struct serving s;
    serving_start(&s, "127.0.0.1:0");
    struct dt_sync_client *c = open_client(s.addr);
    struct dt_err err;
    struct sigaction old, sa = {.sa_handler = on_alarm}; /* no SA_RESTART */
    struct itimerval every = {{0, 1000}, {0, 1000}}, off = {0};
    sigaction(SIGALRM, &sa, &old);
    setitimer(ITIMER_REAL, &every, NULL);
    CHECK_FAIL(dt_sync_client_wait(c, (struct dt_bytes[]){b("k")}, 1, 60, &err), err,
               "after 60 ms");
    while (signals < 20) {
        bool there;
        CHECK_OK(check_n(c, &there, &err), err);
        CHECK(!there);
    }
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &old, NULL);
    dt_sync_client_close(c);
    serving_stop(&s);
}

TEST(closing_nothing_is_fine)
{
    dt_sync_client_close(NULL);
    CHECK(true);
}
