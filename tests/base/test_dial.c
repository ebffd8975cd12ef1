/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that is kept up to a server of the test's, in the same loop. The greeting is one
 * letter that the server says, if it says any. */
#include "base/loop/dial.h"
#include "base/list.h"
#include "base/loop/uvx.h"
#include "tests/lib/check.h"

#define SOON (20 * DT_SECOND) /* never reached unless something is broken */
#define PEERS 16

struct story {
    uv_loop_t loop;
    uv_tcp_t listening;
    uv_tcp_t peers[PEERS]; /* connections that the server took, in their order */
    int peer_count;
    enum { GREETS, HANGS_UP, SAYS_NOTHING } server;
    char addr[DT_ADDR_TEXT];
    struct dt_dial_config config;
    struct dt_dial dial;
    enum dt_dial_next next; /* what is to follow a miss */
    struct dt_buf told;     /* a letter for each event: U(p), M(issed), L(ost), F(ailed) */
    struct dt_err why;      /* of the last */
    bool closed;
};

static struct story *story_of(struct dt_dial *d)
{
    return dt_container_of(d, struct story, dial);
}

/* -- the server ------------------------------------------------------------------------------- */

static void greet(uv_tcp_t *peer)
{
    uv_buf_t letter = uv_buf_init((char *)"g", 1);
    CHECK_EQ(uv_try_write((uv_stream_t *)peer, &letter, 1), 1);
}

static void on_knock(uv_stream_t *listening, int status)
{
    struct story *s = listening->data;
    uv_tcp_t *peer = &s->peers[s->peer_count++];
    CHECK_EQ(status, 0);
    CHECK(s->peer_count <= PEERS);
    uv_tcp_init(&s->loop, peer);
    CHECK_EQ(uv_accept(listening, (uv_stream_t *)peer), 0);
    if (s->server == GREETS)
        greet(peer);
    else if (s->server == HANGS_UP)
        uv_close((uv_handle_t *)peer, NULL);
}

static void hang_up(struct story *s)
{
    uv_close((uv_handle_t *)&s->peers[s->peer_count - 1], NULL);
}

/* -- the owner -------------------------------------------------------------------------------- */

static void note(struct story *s, char what, const struct dt_err *why)
{
    dt_buf_put(&s->told, &what, 1);
    if (why)
        s->why = *why;
}

static void on_connected(struct dt_dial *d)
{
    CHECK_EQ(d->state, DT_DIAL_GREETING);
}

static void on_came(struct dt_dial *d)
{
    dt_buf_clear(&d->wire->in);
    dt_dial_up(d);
    dt_backoff_reset(&d->backoff);
    note(story_of(d), 'U', NULL);
}

static enum dt_dial_next on_missed(struct dt_dial *d, const struct dt_err *why)
{
    note(story_of(d), 'M', why);
    return story_of(d)->next;
}

static void on_lost(struct dt_dial *d, const struct dt_err *why)
{
    note(story_of(d), 'L', why);
}

static void on_failed(struct dt_dial *d, const struct dt_err *why)
{
    CHECK_EQ(d->state, DT_DIAL_OVER);
    note(story_of(d), 'F', why);
}

static const struct dt_dial_events events = {.connected = on_connected,
                                             .came = on_came,
                                             .missed = on_missed,
                                             .lost = on_lost,
                                             .failed = on_failed};

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

/* -- stories ---------------------------------------------------------------------------------- */

static void begin(struct story *s)
{
    struct dt_addr at;
    struct dt_err err;
    *s = (struct story){.config = {.addr = s->addr,
                                   .open_timeout = SOON,
                                   .reconnect_timeout = DT_FOREVER,
                                   .attempt_timeout = SOON,
                                   .backoff_first = 1,
                                   .backoff_most = 1,
                                   .lasted = DT_FOREVER,
                                   .events = &events}};
    uv_loop_init(&s->loop);
    uv_tcp_init(&s->loop, &s->listening);
    s->listening.data = s;
    CHECK_OK(dt_addr_parse("127.0.0.1", 0, &at, &err), err);
    CHECK_EQ(uv_tcp_bind(&s->listening, (struct sockaddr *)&at.sa, 0), 0);
    CHECK_EQ(uv_listen((uv_stream_t *)&s->listening, 16, on_knock), 0);
    CHECK_EQ(dt_uvx_local((union dt_uvx_stream *)&s->listening, &at), 0);
    dt_addr_text(&at, s->addr, sizeof s->addr);
}

/* It may be told of more. */
static void run_on_until_told(struct story *s, const char *told)
{
    while (s->told.len < strlen(told))
        uv_run(&s->loop, UV_RUN_ONCE);
    CHECK(strncmp(dt_buf_cstr(&s->told), told, strlen(told)) == 0);
}

static void run_until_told(struct story *s, const char *told)
{
    dt_dial_open(&s->dial, &s->loop, &s->config);
    run_on_until_told(s, told);
}

static void end(struct story *s)
{
    dt_dial_close(&s->dial, on_closed, &s->closed);
    while (!s->closed)
        uv_run(&s->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&s->listening, NULL);
    for (int i = 0; i < s->peer_count; i++)
        if (!uv_is_closing((uv_handle_t *)&s->peers[i]))
            uv_close((uv_handle_t *)&s->peers[i], NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&s->loop), 0);
    dt_buf_finish(&s->told);
}

TEST(a_greeted_connection_is_up_and_leads_where_it_should)
{
    struct story s;
    char at[DT_ADDR_TEXT];
    begin(&s);
    run_until_told(&s, "U");
    CHECK_EQ(s.dial.state, DT_DIAL_UP);
    CHECK_STR(dt_addr_text(dt_dial_at(&s.dial), at, sizeof at), s.addr);
    end(&s);
}

TEST(a_lost_connection_is_made_again)
{
    struct story s;
    begin(&s);
    run_until_told(&s, "U");
    hang_up(&s);
    run_on_until_told(&s, "ULU");
    CHECK_EQ(s.why.code, DT_E_DISCONNECTED);
    CHECK_EQ(s.peer_count, 2);
    end(&s);
}

TEST(a_connection_that_lasted_is_made_again_without_a_pause)
{
    struct story s;
    begin(&s);
    s.config.lasted = 0;
    s.config.backoff_first = s.config.backoff_most = DT_FOREVER / 4;
    run_until_told(&s, "U");
    hang_up(&s);
    run_on_until_told(&s, "UL");
    CHECK_EQ(s.dial.state, DT_DIAL_CONNECTING);
    run_on_until_told(&s, "ULU");
    end(&s);
}

TEST(who_is_not_to_connect_again_fails)
{
    struct story s;
    begin(&s);
    s.config.reconnect_timeout = 0;
    run_until_told(&s, "U");
    hang_up(&s);
    run_on_until_told(&s, "UF");
    end(&s);
}

TEST(a_miss_is_followed_by_what_the_owner_decides)
{
    struct story s;
    begin(&s);
    s.server = HANGS_UP;
    s.next = DT_DIAL_GIVE_UP;
    run_until_told(&s, "MF");
    CHECK_EQ(s.peer_count, 1);
    end(&s);

    begin(&s);
    s.server = HANGS_UP;
    s.next = DT_DIAL_SAME_ADDRESS;
    s.config.backoff_first = s.config.backoff_most = DT_FOREVER / 4; /* it does not pause */
    run_until_told(&s, "MM");
    end(&s);

    begin(&s);
    s.server = HANGS_UP;
    s.next = DT_DIAL_NEXT_ADDRESS; /* there is none, so after a pause the first again */
    run_until_told(&s, "MM");
    end(&s);

    begin(&s);
    s.server = HANGS_UP;
    s.next = DT_DIAL_PAUSE;
    s.config.backoff_first = s.config.backoff_most = DT_FOREVER / 4;
    run_until_told(&s, "M");
    CHECK_EQ(s.dial.state, DT_DIAL_PAUSING);
    end(&s);
}

TEST(who_says_nothing_is_given_up_in_time)
{
    struct story s;
    begin(&s);
    s.server = SAYS_NOTHING;
    s.config.attempt_timeout = 20;
    s.next = DT_DIAL_GIVE_UP;
    run_until_told(&s, "MF");
    CHECK_EQ(s.why.code, DT_E_TIMEOUT);
    end(&s);
}

TEST(the_whole_time_ends_an_attempt_and_a_pause)
{
    struct story s;
    begin(&s);
    s.server = SAYS_NOTHING;
    s.config.open_timeout = 20;
    run_until_told(&s, "F");
    CHECK_EQ(s.why.code, DT_E_TIMEOUT);
    end(&s);

    begin(&s);
    s.server = HANGS_UP;
    s.config.open_timeout = 20;
    s.config.backoff_first = s.config.backoff_most = DT_FOREVER / 4;
    run_until_told(&s, "MF");
    CHECK_EQ(s.why.code, DT_E_DISCONNECTED); /* which says more than that the time is up */
    end(&s);
}

TEST(a_name_that_is_none_is_not_tried_again)
{
    struct story s;
    begin(&s);
    s.config.addr = "127.0.0.1:port";
    run_until_told(&s, "F");
    CHECK_EQ(s.why.code, DT_E_USAGE);
    end(&s);
}

TEST(a_dropped_connection_is_made_again_without_a_word)
{
    static const struct dt_err why = {.code = DT_E_PROTOCOL, .text = "of no use"};
    struct story s;
    begin(&s);
    run_until_told(&s, "U");
    dt_dial_drop(&s.dial, &why);
    CHECK_STR(s.dial.why.text, "of no use");
    run_on_until_told(&s, "UU");
    CHECK_EQ(s.dial.why.code, DT_E_NONE);
    end(&s);
}

TEST(a_connection_that_is_to_be_lost_is_told_of_from_the_loop)
{
    static const struct dt_err why = {.code = DT_E_LIMIT, .text = "stuck"};
    struct story s;
    begin(&s);
    run_until_told(&s, "U");
    dt_dial_lose_soon(&s.dial, &why);
    CHECK_STR(dt_buf_cstr(&s.told), "U");
    run_on_until_told(&s, "ULU");
    CHECK_STR(s.why.text, "stuck");
    end(&s);
}

TEST(it_may_be_closed_at_any_moment)
{
    for (int turns = 0; turns < 12; turns++) {
        struct story s;
        begin(&s);
        s.server = turns % 2 ? HANGS_UP : GREETS;
        dt_dial_open(&s.dial, &s.loop, &s.config);
        for (int i = 0; i < turns; i++)
            uv_run(&s.loop, UV_RUN_NOWAIT);
        end(&s);
    }
}
