/* SPDX-License-Identifier: Apache-2.0 */
/* What a process that serves a store inside itself asks of it, beside serving: beginning anew for
 * the next attempt, and leaving last. Clients are on the same loop. */
#include "rendezvous/client/client.h"
#include "rendezvous/store/server.h"
#include "tests/lib/check.h"
#include "tests/lib/peer.h"

#include <sys/resource.h>

#define SOON (20 * DT_SECOND) /* never reached unless something is broken */

struct world {
    uv_loop_t loop;
    struct dt_store_server *server;
    bool server_closed;
    char addr[DT_ADDR_TEXT];
    int connected, lost;
    struct dt_buf told;
};

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static void on_event(void *arg, enum dt_store_client_event event, const struct dt_err *why)
{
    struct world *w = arg;
    (void)why;
    w->connected += event == DT_STORE_CLIENT_CONNECTED;
    w->lost += event != DT_STORE_CLIENT_CONNECTED;
}

static void on_done(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct world *w = arg;
    if (err)
        dt_buf_put_str(&w->told, "failed ");
    else
        dt_buf_printf(&w->told, "%s:%d=%.*s ", dt_c10d_op_name(reply->op), (int)reply->number,
                      (int)reply->value.len, (const char *)reply->value.at);
}

static void world_open_with(struct world *w, const struct dt_store_server_config *config)
{
    struct dt_addr at;
    struct dt_err err;
    *w = (struct world){0};
    uv_loop_init(&w->loop);
    CHECK_OK(dt_addr_parse("127.0.0.1:0", 0, &at, &err), err);
    w->server = dt_store_server_create(&w->loop, config, &err);
    CHECK(w->server != NULL);
    CHECK_OK(dt_store_server_listen(w->server, &at, &at, &err), err);
    dt_addr_text(&at, w->addr, sizeof w->addr);
}

static void world_open(struct world *w)
{
    world_open_with(w, &DT_STORE_SERVER_CONFIG_DEFAULT);
}

/* The server has been told to close. */
static void world_close(struct world *w)
{
    uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK(w->server_closed);
    CHECK_EQ(uv_loop_close(&w->loop), 0);
    dt_buf_finish(&w->told);
}

/* Runs until as many connections were made in all. */
static void run_until_connected(struct world *w, int connected)
{
    while (w->connected < connected)
        uv_run(&w->loop, UV_RUN_ONCE);
}

static struct dt_store_client *client_open(struct world *w)
{
    struct dt_store_client_config config = DT_STORE_CLIENT_CONFIG_DEFAULT;
    struct dt_err err;
    config.addr = w->addr;
    config.on_event = on_event;
    config.arg = w;
    struct dt_store_client *c = dt_store_client_open(&w->loop, &config, &err);
    CHECK(c != NULL);
    run_until_connected(w, w->connected + 1);
    return c;
}

static void client_close(struct world *w, struct dt_store_client *c)
{
    bool closed = false;
    dt_store_client_close(c, on_closed, &closed);
    while (!closed)
        uv_run(&w->loop, UV_RUN_ONCE);
}

static void issue(struct world *w, struct dt_store_client *c, struct dt_c10d_request req)
{
    struct dt_err err;
    CHECK_OK(dt_store_client_request(c, &req, SOON, on_done, w, &err), err);
}

static void check_told(struct world *w, const char *words)
{
    while (strlen(dt_buf_cstr(&w->told)) < strlen(words))
        uv_run(&w->loop, UV_RUN_ONCE);
    CHECK_STR(dt_buf_cstr(&w->told), words);
    dt_buf_clear(&w->told);
}

#define SET_(k, v)                                                                                 \
    ((struct dt_c10d_request){.op = DT_C10D_SET, .key = dt_bytes_of(k), .value = dt_bytes_of(v)})
#define ADD_(k, n)                                                                                 \
    ((struct dt_c10d_request){.op = DT_C10D_ADD, .key = dt_bytes_of(k), .number = (n)})
#define GET_(k) ((struct dt_c10d_request){.op = DT_C10D_GET, .key = dt_bytes_of(k)})

TEST(a_renewed_store_has_the_old_port_and_no_old_key)
{
    struct world w;
    struct dt_bytes value;
    struct dt_err err;
    world_open(&w);
    struct dt_store_client *c[2] = {client_open(&w), client_open(&w)};
    issue(&w, c[0], ADD_("n", 41));
    check_told(&w, "ADD:41= ");
    issue(&w, c[1], GET_("never"));
    while (dt_store_server_store(w.server)->waiting == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    CHECK(dt_store_get(dt_store_server_inside(w.server), dt_bytes_of("n"), &value));
    CHECK_BYTES(value.at, value.len, "41", 2);

    CHECK_OK(dt_store_server_renew(w.server, &err), err);
    CHECK(!dt_store_get(dt_store_server_inside(w.server), dt_bytes_of("n"), &value));
    CHECK_EQ(dt_store_server_store(w.server)->waiting, 0);
    check_told(&w, "failed ");
    run_until_connected(&w, 4); /* they come again by themselves */
    CHECK_EQ(w.lost, 2);
    issue(&w, c[0], ADD_("n", 1));
    check_told(&w, "ADD:1= ");
    issue(&w, c[1], GET_("never"));
    while (dt_store_server_store(w.server)->waiting == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    CHECK_OK(dt_store_set(dt_store_server_inside(w.server), dt_bytes_of("never"),
                          dt_bytes_of("now"), &err),
             err);
    while (!strstr(dt_buf_cstr(&w.told), "GET:0=now"))
        uv_run(&w.loop, UV_RUN_ONCE);
    client_close(&w, c[0]);
    client_close(&w, c[1]);
    dt_store_server_close(w.server, 0, on_closed, &w.server_closed);
    world_close(&w);
}

TEST(who_leaves_last_serves_until_the_others_have_left)
{
    struct world w;
    world_open(&w);
    struct dt_store_client *c = client_open(&w);
    dt_store_server_leave(w.server, SOON, on_closed, &w.server_closed);
    issue(&w, c, SET_("k", "v"));
    check_told(&w, "SET:0= ");
    struct dt_store_client *late = client_open(&w);
    issue(&w, late, GET_("k"));
    check_told(&w, "GET:0=v ");
    client_close(&w, c);
    issue(&w, late, ADD_("n", 1));
    check_told(&w, "ADD:1= ");
    CHECK(!w.server_closed);
    CHECK_EQ(w.lost, 0);
    client_close(&w, late);
    world_close(&w); /* at once: the grace is longer than this test may take */
}

TEST(who_leaves_last_waits_no_longer_than_the_grace)
{
    struct world w;
    world_open(&w);
    struct dt_store_client *c = client_open(&w);
    dt_store_server_leave(w.server, 20, on_closed, &w.server_closed);
    while (!w.server_closed || w.lost == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    client_close(&w, c);
    world_close(&w);
}

TEST(leaving_may_be_cut_short_and_is_quick_when_nobody_is_there)
{
    struct world w;
    world_open(&w);
    struct dt_store_client *c = client_open(&w);
    dt_store_server_leave(w.server, DT_FOREVER, on_closed, &w.server_closed);
    issue(&w, c, ADD_("n", 1));
    check_told(&w, "ADD:1= ");
    dt_store_server_close(w.server, 0, NULL, NULL);
    while (!w.server_closed || w.lost == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    client_close(&w, c);
    world_close(&w);

    world_open(&w);
    dt_store_server_leave(w.server, DT_FOREVER, on_closed, &w.server_closed);
    world_close(&w);
}

TEST(one_turn_of_the_loop_ends_before_all_of_many_long_requests_are_done)
{
    enum { MANY = 32, KEYS = 200000 };
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct world w;
    struct dt_err err;
    int fds[MANY];
    config.turn = 1000000; /* each of the requests below takes longer */
    world_open_with(&w, &config);
    const struct dt_store_server_counters *counters = dt_store_server_counters(w.server);
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        CHECK_OK(
            dt_store_set(dt_store_server_inside(w.server), dt_bytes_of(key), dt_bytes_of(""), &err),
            err);
    }
    for (int i = 0; i < MANY; i++)
        fds[i] = peer_connect((uint16_t)atoi(strrchr(w.addr, ':') + 1));
    while (counters->accepted < MANY)
        uv_run(&w.loop, UV_RUN_NOWAIT);
    for (int i = 0; i < MANY; i++)
        peer_send(fds[i], "\0\xce\xf7\x85\x3c\x11", 6); /* the last is LIST_KEYS */
    uv_run(&w.loop, UV_RUN_NOWAIT);
    CHECK(counters->requests[DT_C10D_LIST_KEYS] < MANY);
    while (counters->requests[DT_C10D_LIST_KEYS] < MANY)
        uv_run(&w.loop, UV_RUN_NOWAIT);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    dt_store_server_close(w.server, 0, on_closed, &w.server_closed);
    world_close(&w);
}

TEST(there_are_no_more_places_than_files_may_be_open)
{
    struct rlimit had, few;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &had), 0);
    few = (struct rlimit){.rlim_cur = 200, .rlim_max = had.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    CHECK_EQ(dt_store_server_places(1000, 64), 136);
    CHECK_EQ(dt_store_server_places(100, 64), 100);
    CHECK_EQ(dt_store_server_places(1000, 150), 100); /* clients get half, at least */
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &had), 0);
}
