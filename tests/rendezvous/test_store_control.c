/* SPDX-License-Identifier: Apache-2.0 */
/* Who is served beside the store's clients: a handler that repeats lines stands for the rendezvous.
 * Peers block, the server is on a thread of its own. */
#include "rendezvous/protocol/messages.h"
#include "rendezvous/store/control.h"
#include "tests/lib/peer.h"
#include "tests/rendezvous/serving.h"

/* -- the parrot ------------------------------------------------------------------------------- */

struct parrot {
    struct dt_control_peer *peer;
    int *closed;
};

static void *on_opened(void *arg, struct dt_control_peer *peer)
{
    struct parrot *p = calloc(1, sizeof *p);
    if (p)
        *p = (struct parrot){peer, arg};
    return p;
}

static void on_closed(void *conn)
{
    struct parrot *p = conn;
    ++*p->closed;
    free(p);
}

static enum dt_decoded on_bytes(void *conn, const uint8_t *bytes, size_t len, size_t *used,
                                struct dt_err *err)
{
    struct parrot *p = conn;
    const uint8_t *end = memchr(bytes, '\n', len);
    if (!end)
        return DT_MORE;
    *used = (size_t)(end - bytes) + 1;
    dt_buf_put(p->peer->out, bytes, *used);
    if (*used >= 4 && memcmp(end - 3, "bad", 3) == 0) {
        dt_err_set(err, DT_E_PROTOCOL, "a bad word");
        return DT_BAD;
    }
    if (*used >= 4 && memcmp(end - 3, "end", 3) == 0)
        dt_control_peer_end(p->peer);
    if (*used >= 5 && memcmp(end - 4, "keep", 4) == 0)
        dt_control_peer_keep(p->peer, 13u << 20);
    if (*used >= 6 && memcmp(end - 5, "flood", 5) == 0) {
        uint8_t *room = dt_buf_room(p->peer->out, 64u << 20);
        if (!room) {
            dt_err_set(err, DT_E_MEMORY, "no memory for a flood");
            return DT_BAD;
        }
        memset(room, 'x', 64u << 20);
        dt_buf_grew(p->peer->out, 64u << 20);
        dt_control_peer_send(p->peer);
    }
    return DT_DONE;
}

static const struct dt_control_ops parrot = {on_opened, on_bytes, on_closed};

struct stage {
    struct serving serving;
    int closed; /* parrots */
};

static void stage_open_with(struct stage *st, const struct dt_store_server_config *config)
{
    st->closed = 0;
    serving_open(&st->serving, config);
    dt_store_server_control(st->serving.server, &parrot, &st->closed);
    serving_start(&st->serving);
}

static void stage_open(struct stage *st)
{
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    stage_open_with(st, &config);
}

static void say(int fd, const char *words)
{
    peer_send(fd, words, strlen(words));
}

static void hear(int fd, const char *words)
{
    peer_receive(fd, words, strlen(words));
}

/* A c10d request by hand: CHECK of KEY. */
static void check_key(int fd, const char *key, const char *answer)
{
    struct dt_buf items = {0}, out = {0};
    dt_c10d_put_item(&items, dt_bytes_of(key), NULL);
    struct dt_c10d_request req = {.op = DT_C10D_CHECK, .count = 1, .items = {items.at, items.len}};
    CHECK(dt_c10d_encode(&out, DT_C10D_MODERN, &req));
    peer_send(fd, out.at, out.len);
    peer_receive(fd, answer, 1);
    dt_buf_finish(&items);
    dt_buf_finish(&out);
}
#define THERE "\0"
#define MISSING "\1"

/* -- stories ---------------------------------------------------------------------------------- */

TEST(four_bytes_make_a_peer_the_handlers_however_they_come)
{
    struct stage st;
    stage_open(&st);
    int client = peer_greet(st.serving.port);
    int whole = peer_connect(st.serving.port), slow = peer_connect(st.serving.port);
    say(whole, "DTRN hello\n");
    hear(whole, "DTRN hello\n");
    for (const char *c = "DTRN one\ntwo\n"; *c; c++)
        peer_send(slow, c, 1);
    hear(slow, "DTRN one\ntwo\n");
    peer_set(client, "k", "v"); /* and the store's clients are served as ever */
    peer_get(client, "k", "v");
    say(whole, "the end");
    close(client);
    close(slow);
    say(whole, "\n");
    hear(whole, "the end\n");
    close(whole);
    serving_stop(&st.serving);
    CHECK_EQ(st.closed, 2);
}

TEST(other_words_that_begin_so_are_no_control_protocol)
{
    struct stage st;
    stage_open(&st);
    int fd = peer_connect(st.serving.port);
    say(fd, "DTR");
    say(fd, "X\n");
    peer_expect_end(fd);
    serving_stop(&st.serving);
    CHECK_EQ(st.closed, 0);
}

TEST(without_a_handler_they_are_a_violation_of_the_stores)
{
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct serving s;
    serving_open(&s, &config);
    serving_start(&s);
    int fd = peer_connect(s.port), client = peer_greet(s.port);
    say(fd, "DTRN hello\n");
    peer_expect_end(fd);
    check_key(client, DT_HELLO_KEY, MISSING);
    close(client);
    serving_stop(&s);
}

TEST(bad_frames_close_one_peer_after_its_answers)
{
    struct stage st;
    stage_open(&st);
    int bad = peer_connect(st.serving.port), good = peer_connect(st.serving.port);
    say(good, "DTRN 1\n");
    hear(good, "DTRN 1\n");
    say(bad, "DTRN 1\nbad\nmore\n");
    hear(bad, "DTRN 1\nbad\n");
    peer_expect_end(bad);
    say(good, "2\nend\n");
    hear(good, "2\nend\n");
    peer_expect_end(good);
    serving_stop(&st.serving);
    CHECK_EQ(st.closed, 2);
}

static void look_at_limits(struct serving *s, void *arg)
{
    *(uint64_t *)arg = dt_store_server_counters(s->server)->limits;
}

TEST(who_does_not_read_is_closed_and_the_others_are_not)
{
    struct stage st;
    stage_open(&st);
    int deaf = peer_connect(st.serving.port), good = peer_connect(st.serving.port);
    uint64_t limits = 0;
    say(deaf, "DTRN flood\n");
    while (limits == 0) {
        say(good, "DTRN 1\n");
        hear(good, "DTRN 1\n");
        serving_do(&st.serving, look_at_limits, &limits);
    }
    close(good);
    close(deaf);
    serving_stop(&st.serving);
    CHECK_EQ(st.closed, 2);
}

TEST(what_the_handler_keeps_for_a_peer_counts_as_buffered_until_it_is_closed)
{
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct stage st;
    config.buffered_bytes = 14u << 20;
    stage_open_with(&st, &config);
    for (int i = 0; i < 2; i++) {
        int fd = peer_connect(st.serving.port);
        say(fd, "DTRN keep\n");
        hear(fd, "DTRN keep\n");
        say(fd, "1\n"); /* whatever the answer: there can never be room for it */
        peer_expect_end(fd);
        close(fd);
    }
    serving_stop(&st.serving);
    CHECK_EQ(st.closed, 2);
}

static void renew(struct serving *s, void *arg)
{
    struct dt_err err;
    CHECK_OK(dt_store_server_renew(s->server, &err), err);
    (void)arg;
}

TEST(a_renewed_store_keeps_its_control_peers_and_its_hello)
{
    struct stage st;
    stage_open(&st);
    int control = peer_connect(st.serving.port), client = peer_greet(st.serving.port);
    say(control, "DTRN 1\n");
    hear(control, "DTRN 1\n");
    check_key(client, DT_HELLO_KEY, THERE);
    peer_set(client, "k", "v");
    peer_num_keys(client, 1); /* the hello counts in none */
    serving_do(&st.serving, renew, NULL);
    peer_expect_end(client);
    say(control, "2\n");
    hear(control, "2\n");
    client = peer_greet(st.serving.port);
    check_key(client, DT_HELLO_KEY, THERE);
    check_key(client, "k", MISSING);
    peer_wait(client, DT_HELLO_KEY);
    peer_receive(client, THERE, 1);
    close(client);
    close(control);
    serving_stop(&st.serving);
    CHECK_EQ(st.closed, 1);
}

TEST(outside_the_ranges_for_c10d_there_is_only_the_hello)
{
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct dt_cidr elsewhere;
    struct dt_err err;
    struct stage st;
    CHECK_OK(dt_cidr_parse("192.0.2.0/24", &elsewhere, &err), err);
    config.allow_c10d = &elsewhere;
    config.allow_c10d_count = 1;
    stage_open_with(&st, &config);
    int agent = peer_greet(st.serving.port), client = peer_greet(st.serving.port);
    check_key(agent, DT_HELLO_KEY, THERE);
    peer_set(client, "k", "v");
    peer_expect_end(client);
    client = peer_greet(st.serving.port);
    peer_wait(client, DT_HELLO_KEY);
    peer_expect_end(client);
    close(agent);
    agent = peer_connect(st.serving.port);
    say(agent, "DTRN 1\n");
    hear(agent, "DTRN 1\n");
    close(agent);
    serving_stop(&st.serving);
    CHECK_EQ(st.closed, 1);
}

TEST(silence_of_control_peers_is_not_idleness)
{
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct stage st;
    config.idle_timeout = DT_SECOND;
    stage_open_with(&st, &config);
    int control = peer_connect(st.serving.port);
    say(control, "DTRN 1\n");
    hear(control, "DTRN 1\n");
    int client = peer_greet(st.serving.port);
    peer_expect_end(client); /* so the other, silent for longer, was passed over */
    say(control, "2\n");
    hear(control, "2\n");
    close(control);
    serving_stop(&st.serving);
}
