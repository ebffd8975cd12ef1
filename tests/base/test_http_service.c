/* SPDX-License-Identifier: Apache-2.0 */
/* Answers over HTTP as a client sees them: the server's loop turns in this thread whenever the
 * client waits. */
#include "base/httpd/service.h"
#include "base/list.h"
#include "tests/lib/http.h"

#include <poll.h>

#define STREAMS 3

BEFORE_ALL
{
    if (!DT_TEST_MICROHTTPD)
        SKIP("built without libmicrohttpd");
}

/* -- the server ------------------------------------------------------------------------------- */

/* A body of COUNT pieces, each "piece N;", or endless ones that are there when they are allowed. */
struct pieces {
    struct dt_httpd_source base;
    int count, allowed;
    int asked, given;
    size_t padding; /* bytes behind each */
    int gone;
};

static struct {
    uv_loop_t loop;
    struct dt_httpd_service *service;
    int port;
    struct pieces whole, endless[16];
    int endless_count; /* of answers so far */
} the;

static enum dt_httpd_piece next(struct dt_httpd_source *s, struct dt_buf *out)
{
    struct pieces *p = dt_container_of(s, struct pieces, base);
    p->asked++;
    if (s->endless && p->given >= p->allowed)
        return DT_HTTPD_LATER;
    dt_buf_printf(out, "piece %d;", p->given++);
    uint8_t *room = dt_buf_room(out, p->padding);
    if (p->padding && room) {
        memset(room, '.', p->padding);
        dt_buf_grew(out, p->padding);
    }
    return !s->endless && p->given == p->count ? DT_HTTPD_LAST : DT_HTTPD_MORE;
}

static void gone(struct dt_httpd_source *s)
{
    dt_container_of(s, struct pieces, base)->gone++;
}

static void answer(void *arg, const struct dt_httpd_request *q, struct dt_httpd_answer *a)
{
    (void)arg;
    a->status = 200;
    a->type = "text/plain";
    if (strcmp(q->path, "/whole") == 0) {
        a->source = &the.whole.base;
    } else if (strcmp(q->path, "/endless") == 0) {
        a->source = &the.endless[the.endless_count++].base;
    } else if (dt_httpd_answer_reads(q, a)) {
        const char *name = q->argument(q, "name"), *said = q->header(q, "X-Said");
        dt_httpd_answer_header(a, "X-Own", "yes");
        dt_buf_printf(&a->body, "%s is %s of %s", name ? name : "nobody", said ? said : "silent",
                      q->path);
    }
}

static void start(void)
{
    struct dt_err err = {0};
    struct dt_addr at, bound;
    const struct dt_httpd_service_config config = {
        .what = "HTTP",
        .limits = {.connections = 8, .streams = STREAMS, .patience = 20 * DT_SECOND},
        .answer = answer,
    };
    memset(&the, 0, sizeof the);
    the.whole.base = (struct dt_httpd_source){.next = next, .gone = gone};
    for (int i = 0; i < 16; i++)
        the.endless[i].base = (struct dt_httpd_source){.next = next, .gone = gone, .endless = true};
    uv_loop_init(&the.loop);
    CHECK_EQ(dt_addr_parse("127.0.0.1:0", 0, &at, &err), 0);
    the.service = dt_httpd_service_open(&the.loop, &at, &config, &bound, &err);
    CHECK_STR(err.text, "");
    CHECK(the.service != NULL);
    the.port = ntohs(((struct sockaddr_in *)&bound.sa)->sin_port);
}

static void stop(void)
{
    dt_httpd_service_close(the.service, NULL, NULL);
    uv_run(&the.loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&the.loop), 0);
}

static void turn(void)
{
    uv_run(&the.loop, UV_RUN_NOWAIT);
}

/* -- the client ------------------------------------------------------------------------------- */

struct client {
    int fd;
    bool over;
    size_t len;
    char text[200000];
};

static void get(struct client *c, const char *method, const char *path, const char *headers)
{
    *c = (struct client){.fd = http_reach(the.port, AF_INET)};
    CHECK(c->fd >= 0);
    http_send(c->fd, method, path, headers);
}

/* Lets the server turn, and takes what has come; it is waited for, for a moment. */
static void take(struct client *c)
{
    struct pollfd readable = {.fd = c->fd, .events = POLLIN};
    turn();
    if (poll(&readable, 1, 5) != 1)
        return;
    ssize_t n = recv(c->fd, c->text + c->len, sizeof c->text - 1 - c->len, MSG_DONTWAIT);
    c->over = n <= 0;
    c->len += n > 0 ? (size_t)n : 0;
}

static void await(struct client *c, const char *words)
{
    for (int i = 0; i < 4000 && !strstr(c->text, words); i++) {
        CHECK(!c->over);
        take(c);
    }
    CHECK(http_has(c->text, words));
}

static void await_end(struct client *c)
{
    for (int i = 0; i < 4000 && !c->over; i++)
        take(c);
    CHECK(c->over);
}

/* -- stories ---------------------------------------------------------------------------------- */

TEST(a_request_has_headers_and_arguments_and_an_answer_has_headers)
{
    static struct client c;
    start();
    get(&c, "GET", "/a?name=Jane%20Doe&x=1", "x-said: quiet\r\nConnection: close\r\n");
    await_end(&c);
    CHECK(http_has(c.text, "HTTP/1.1 200 "));
    CHECK(http_has(c.text, "X-Own: yes\r\n"));
    CHECK(http_has(c.text, "Cache-Control: no-store\r\n"));
    CHECK(http_has(c.text, "X-Content-Type-Options: nosniff\r\n"));
    CHECK(http_has(c.text, "\r\n\r\nJane Doe is quiet of /a"));
    get(&c, "PUT", "/a", "Content-Length: 0\r\n");
    await_end(&c);
    CHECK(http_has(c.text, " 405 "));
    CHECK(http_has(c.text, "Allow: GET, HEAD\r\n"));
    stop();
}

TEST(a_body_in_pieces_arrives_whole_and_the_connection_stays)
{
    static struct client c;
    start();
    the.whole.count = 5;
    get(&c, "GET", "/whole", "");
    await(&c, "piece 4;");
    await(&c, "\r\n0\r\n\r\n"); /* the last chunk */
    CHECK_EQ(the.whole.gone, 1);
    the.whole.given = 0;
    http_send(c.fd, "GET", "/whole", "Connection: close\r\n");
    await_end(&c);
    CHECK_EQ(the.whole.gone, 2);
    stop();
}

TEST(a_client_that_leaves_in_the_middle_ends_the_source)
{
    static struct client c;
    start();
    the.whole.count = 1 << 20;
    the.whole.padding = 16000;
    get(&c, "GET", "/whole", "");
    await(&c, "piece 3;");
    close(c.fd);
    for (int i = 0; i < 20000 && !the.whole.gone; i++)
        turn();
    CHECK_EQ(the.whole.gone, 1);
    CHECK(the.whole.given < the.whole.count);
    stop();
}

TEST(a_client_that_reads_nothing_is_made_no_more_pieces_for)
{
    static struct client c, other;
    start();
    the.endless[0].allowed = 1 << 20; /* 16 GB of them */
    the.endless[0].padding = 16000;
    get(&c, "GET", "/endless", "");
    int before = -1;
    for (int still = 0; still < 200; still++) { /* turns in which nothing was made */
        if (the.endless[0].given != before)
            still = 0;
        before = the.endless[0].given;
        turn();
    }
    CHECK(the.endless[0].given < 4000); /* what the kernel takes */
    get(&other, "GET", "/a", "Connection: close\r\n");
    await_end(&other);
    CHECK(http_has(other.text, "nobody is silent"));
    close(c.fd);
    stop();
    CHECK_EQ(the.endless[0].gone, 1);
}

/* Else who takes much would keep all others on the loop waiting. */
TEST(the_loop_turns_between_pieces)
{
    static struct client c;
    start();
    the.whole.count = 300;
    the.whole.padding = 16000;
    get(&c, "GET", "/whole", "");
    for (int i = 0; i < 200000 && the.whole.gone == 0; i++) {
        int before = the.whole.given;
        turn();
        CHECK(the.whole.given - before <= 4);
        c.len = 0;
        while (recv(c.fd, c.text, sizeof c.text, MSG_DONTWAIT) > 0)
            ;
    }
    CHECK_EQ(the.whole.given, 300);
    close(c.fd);
    stop();
}

TEST(an_endless_body_gets_a_piece_when_there_is_one)
{
    static struct client c;
    start();
    the.endless[0].allowed = 1;
    get(&c, "GET", "/endless", "");
    await(&c, "piece 0;");
    for (int i = 0; i < 50; i++)
        turn();
    int asked = the.endless[0].asked;
    for (int i = 0; i < 50; i++)
        turn();
    CHECK_EQ(the.endless[0].asked, asked); /* who waits costs nothing */
    the.endless[0].allowed = 3;
    dt_httpd_service_wake(the.service, &the.endless[0].base);
    dt_httpd_service_wake(the.service, &the.endless[0].base);
    await(&c, "piece 2;");
    CHECK_EQ(the.endless[0].gone, 0);
    stop(); /* while it waits */
    CHECK_EQ(the.endless[0].gone, 1);
    await_end(&c);
}

TEST(beyond_the_limit_the_oldest_stream_ends)
{
    static struct client c[STREAMS + 1];
    start();
    for (int i = 0; i <= STREAMS; i++) {
        the.endless[i].allowed = 1;
        get(&c[i], "GET", "/endless", "");
        await(&c[i], "piece 0;");
    }
    await_end(&c[0]);
    for (int i = 0; i < 1000 && !the.endless[0].gone; i++)
        turn();
    CHECK_EQ(the.endless[0].gone, 1);
    for (int i = 1; i <= STREAMS; i++) {
        the.endless[i].allowed = 2;
        dt_httpd_service_wake(the.service, &the.endless[i].base);
        await(&c[i], "piece 1;");
    }
    stop();
    for (int i = 0; i <= STREAMS; i++)
        CHECK_EQ(the.endless[i].gone, 1);
}

TEST(a_head_of_an_endless_body_takes_no_stream)
{
    static struct client c;
    start();
    for (int i = 0; i < 8; i++) {
        get(&c, "HEAD", "/endless", "Connection: close\r\n");
        await_end(&c);
        CHECK(http_has(c.text, "HTTP/1.1 200 "));
        CHECK_EQ(the.endless[i].gone, 1);
        CHECK_EQ(the.endless[i].asked, 0);
    }
    stop();
}

TEST(a_port_that_is_taken_is_named)
{
    struct dt_err err = {0};
    struct dt_addr at;
    char text[32];
    const struct dt_httpd_service_config config = {.what = "HTTP", .answer = answer};
    start();
    snprintf(text, sizeof text, "127.0.0.1:%d", the.port);
    CHECK_EQ(dt_addr_parse(text, 0, &at, &err), 0);
    CHECK(dt_httpd_service_open(&the.loop, &at, &config, NULL, &err) == NULL);
    CHECK(http_has(err.text, "HTTP cannot be opened: "));
    CHECK(http_has(err.text, text));
    stop();
}
