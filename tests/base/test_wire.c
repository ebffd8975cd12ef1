/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a server of the test's, in the same loop, which gives back what it is sent. */
#include "base/loop/wire.h"
#include "base/list.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

BEFORE_ALL
{
    folder_make();
}

struct story {
    uv_loop_t loop;
    struct dt_addr at;
    union dt_uvx_stream listening, peer;
    uv_write_t back;
    uint8_t room[1 << 16];
    struct dt_wire wire;
    bool drops, accepted;  /* the server hangs up at once; it has somebody */
    struct dt_buf events;  /* a letter for each: C(onnected), L(ost), E(nd) */
    size_t wanted;         /* so many bytes are to come back */
    const char *lost_with; /* what came is of no use, says the owner */
    char why[sizeof((struct dt_err *)NULL)->text];
    int code;
};

/* -- the server ------------------------------------------------------------------------------- */

static void on_room(uv_handle_t *h, size_t hint, uv_buf_t *buf)
{
    struct story *s = h->loop->data;
    (void)hint;
    *buf = uv_buf_init((char *)s->room, sizeof s->room);
}

static void on_given_back(uv_write_t *w, int status);

static void on_heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct story *s = stream->loop->data;
    if (n <= 0)
        return;
    uv_buf_t same = uv_buf_init(buf->base, (unsigned)n);
    uv_read_stop(stream); /* the room is taken until this is out */
    CHECK_EQ(uv_write(&s->back, stream, &same, 1, on_given_back), 0);
}

static void on_given_back(uv_write_t *w, int status)
{
    if (status == 0)
        uv_read_start(w->handle, on_room, on_heard);
}

static void on_knock(uv_stream_t *listening, int status)
{
    struct story *s = listening->loop->data;
    CHECK_EQ(status, 0);
    dt_uvx_stream_init(&s->loop, &s->peer, s->at.sa.ss_family);
    CHECK_EQ(uv_accept(listening, &s->peer.stream), 0);
    s->accepted = true;
    if (s->drops)
        uv_close(&s->peer.handle, NULL);
    else
        uv_read_start(&s->peer.stream, on_room, on_heard);
}

/* -- the wire's owner ------------------------------------------------------------------------- */

static struct story *of(struct dt_wire *w)
{
    return dt_container_of(w, struct story, wire);
}

static void on_connected(struct dt_wire *w)
{
    dt_buf_put_str(&of(w)->events, "C");
    dt_wire_flush(w);
}

static void on_came(struct dt_wire *w)
{
    struct story *s = of(w);
    struct dt_err err = {.code = DT_E_PROTOCOL};
    if (s->lost_with) {
        snprintf(err.text, sizeof err.text, "%s", s->lost_with);
        dt_wire_lose(w, &err);
        dt_wire_lose(w, &err); /* only once */
    } else if (w->in.len >= s->wanted) {
        CHECK_EQ(w->in.len, s->wanted);
        CHECK_EQ(w->written, s->wanted);
        dt_wire_close(w);
    }
}

static void on_lost(struct dt_wire *w, const struct dt_err *why)
{
    struct story *s = of(w);
    CHECK(w->closing);
    dt_buf_put_str(&s->events, "L");
    snprintf(s->why, sizeof s->why, "%s", why->text);
    s->code = why->code;
}

static void on_closed(struct dt_wire *w)
{
    struct story *s = of(w);
    dt_buf_put_str(&s->events, "E");
    if (s->accepted && !s->drops)
        uv_close(&s->peer.handle, NULL);
    if (!uv_is_closing(&s->listening.handle))
        uv_close(&s->listening.handle, NULL);
}

static const struct dt_wire_events events = {
    .connected = on_connected, .came = on_came, .lost = on_lost, .closed = on_closed};

static struct story *story_new(const char *where)
{
    struct story *s = calloc(1, sizeof *s);
    struct dt_err err;
    uv_loop_init(&s->loop);
    s->loop.data = s;
    CHECK_OK(dt_addr_parse(where, 0, &s->at, &err), err);
    dt_uvx_stream_init(&s->loop, &s->listening, s->at.sa.ss_family);
    CHECK_OK(dt_uvx_listen(&s->listening, &s->at, on_knock, &err), err);
    if (s->at.sa.ss_family != AF_UNIX)
        CHECK_EQ(dt_uvx_local(&s->listening, &s->at), 0);
    return s;
}

static void run(struct story *s)
{
    struct dt_err err;
    CHECK_OK(dt_wire_open(&s->wire, &s->loop, &s->at, &events, &err), err);
    uv_run(&s->loop, UV_RUN_DEFAULT);
}

static void story_end(struct story *s)
{
    CHECK_EQ(uv_loop_close(&s->loop), 0);
    dt_buf_finish(&s->events);
    free(s);
}

/* -- stories ---------------------------------------------------------------------------------- */

/* More than any buffer of the kernel's, so that it goes in pieces. */
TEST(what_is_queued_goes_out_and_what_comes_back_is_there)
{
    static const size_t sizes[] = {1, 5000, 20 << 20};
    char path[200];
    snprintf(path, sizeof path, "unix:%s", at("socket"));
    const char *const places[] = {"127.0.0.1:0", path};
    for (size_t i = 0; i < 6; i++) {
        struct story *s = story_new(places[i % 2]);
        CHECK_ROW("%zu bytes to %s", sizes[i / 2], places[i % 2]);
        s->wanted = sizes[i / 2];
        memset(dt_buf_room(&s->wire.out, s->wanted), 'x', s->wanted);
        dt_buf_grew(&s->wire.out, s->wanted);
        run(s);
        CHECK_STR(dt_buf_cstr(&s->events), "CE");
        story_end(s);
    }
}

TEST(a_server_that_hangs_up_is_lost)
{
    struct story *s = story_new("127.0.0.1:0");
    s->drops = true;
    run(s);
    CHECK_STR(dt_buf_cstr(&s->events), "CLE");
    CHECK_STR(s->why, "the server closed the connection");
    CHECK_EQ(s->code, DT_E_DISCONNECTED);
    story_end(s);
}

TEST(nobody_there_is_lost_before_it_was_connected)
{
    struct story *s = story_new("127.0.0.1:0");
    uv_close(&s->listening.handle, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    run(s);
    CHECK_STR(dt_buf_cstr(&s->events), "LE");
    CHECK_STR(s->why, "cannot connect: connection refused");
    story_end(s);
}

TEST(what_is_of_no_use_to_the_owner_is_lost_once)
{
    struct story *s = story_new("127.0.0.1:0");
    s->lost_with = "nonsense";
    dt_buf_put_str(&s->wire.out, "hello");
    run(s);
    CHECK_STR(dt_buf_cstr(&s->events), "CLE");
    CHECK_STR(s->why, "nonsense");
    CHECK_EQ(s->code, DT_E_PROTOCOL);
    story_end(s);
}

TEST(closing_while_it_connects_tells_nothing_but_the_end)
{
    struct story *s = story_new("127.0.0.1:0");
    struct dt_err err;
    s->drops = true;
    CHECK_OK(dt_wire_open(&s->wire, &s->loop, &s->at, &events, &err), err);
    dt_wire_close(&s->wire);
    dt_wire_close(&s->wire);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    CHECK_STR(dt_buf_cstr(&s->events), "E");
    story_end(s);
}
