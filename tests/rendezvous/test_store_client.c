/* SPDX-License-Identifier: Apache-2.0 */
/* The event-loop client, on the same loop as our server, or against a scripted one. Time passes
 * only where a timeout is the story. */
#include "rendezvous/client/client.h"
#include "rendezvous/store/server.h"
#include "tests/lib/port.h"
#include "tests/rendezvous/actor.h"

#define SOON (20 * DT_SECOND) /* never reached unless something is broken */
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* One story's world: everything that was told is appended to `told`, as words. */
struct world {
    uv_loop_t loop;
    struct dt_store_server *server;
    struct dt_addr at;
    char addr[DT_ADDR_TEXT];
    struct dt_buf told;
    int pending; /* requests not told of */
    bool closed;
};

static struct dt_bytes b(const char *s)
{
    return dt_bytes_of(s);
}

static void serve(struct world *w)
{
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct dt_err err;
    w->server = dt_store_server_create(&w->loop, &config, &err);
    CHECK(w->server != NULL);
    CHECK_OK(dt_store_server_listen(w->server, &w->at, NULL, &err), err);
}

static void world_open(struct world *w)
{
    struct dt_err err;
    *w = (struct world){0};
    uv_loop_init(&w->loop);
    CHECK_OK(dt_addr_parse("127.0.0.1", (uint16_t)port_take(), &w->at, &err), err);
    dt_addr_text(&w->at, w->addr, sizeof w->addr);
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static void run_until(struct world *w, const bool *flag)
{
    while (!*flag)
        uv_run(&w->loop, UV_RUN_ONCE);
}

static void stop_serving(struct world *w)
{
    bool closed = false;
    dt_store_server_close(w->server, 0, on_closed, &closed);
    w->server = NULL;
    run_until(w, &closed);
}

static void client_close(struct world *w, struct dt_store_client *c)
{
    bool closed = false;
    dt_store_client_close(c, on_closed, &closed);
    run_until(w, &closed);
}

static void world_close(struct world *w)
{
    if (w->server)
        stop_serving(w);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&w->loop), 0);
    CHECK_EQ(w->pending, 0);
    dt_buf_finish(&w->told);
}

static void on_event(void *arg, enum dt_store_client_event event, const struct dt_err *why)
{
    static const char *const names[] = {"CONNECTED ", "LOST ", "FAILED "};
    struct world *w = arg;
    CHECK_EQ(event == DT_STORE_CLIENT_CONNECTED, why == NULL);
    dt_buf_put_str(&w->told, names[event]);
}

static struct dt_store_client *client_open(struct world *w, const char *addr,
                                           struct dt_store_client_config config)
{
    struct dt_err err;
    config.addr = addr;
    config.on_event = on_event;
    config.arg = w;
    struct dt_store_client *c = dt_store_client_open(&w->loop, &config, &err);
    CHECK(c != NULL);
    return c;
}

static void on_done(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    static const char *const codes[] = {[DT_E_PROTOCOL] = "protocol",
                                        [DT_E_TIMEOUT] = "timeout",
                                        [DT_E_DISCONNECTED] = "disconnected",
                                        [DT_E_CANCELED] = "canceled"};
    struct world *w = arg;
    w->pending--;
    CHECK_EQ(reply == NULL, err != NULL);
    if (err) {
        dt_buf_printf(&w->told, "%s ", codes[err->code]);
        return;
    }
    dt_buf_printf(&w->told, "%s", dt_c10d_op_name(reply->op));
    if (reply->number)
        dt_buf_printf(&w->told, ":%d", (int)reply->number);
    if (reply->value.len)
        dt_buf_printf(&w->told, "=%.*s", (int)reply->value.len, (const char *)reply->value.at);
    struct dt_bytes items = reply->items;
    for (struct dt_bytes item; dt_c10d_next_blob(&items, &item);)
        dt_buf_printf(&w->told, "[%.*s]", (int)item.len, (const char *)item.at);
    dt_buf_put_str(&w->told, " ");
}

static void issue(struct world *w, struct dt_store_client *c, struct dt_c10d_request req,
                  dt_ms timeout)
{
    struct dt_err err;
    CHECK_OK(dt_store_client_request(c, &req, timeout, on_done, w, &err), err);
    w->pending++;
}

static void issue_keys(struct world *w, struct dt_store_client *c, enum dt_c10d_op op,
                       const char *keys, dt_ms timeout)
{
    struct dt_buf items = {0};
    struct dt_c10d_request req = {.op = op};
    for (; *keys; keys++, req.count++) { /* each letter is a key, and its value */
        struct dt_bytes letter = {(const uint8_t *)keys, 1};
        dt_c10d_put_item(&items, letter, op == DT_C10D_MULTI_SET ? &letter : NULL);
    }
    req.items = (struct dt_bytes){items.at, items.len};
    issue(w, c, req, timeout);
    dt_buf_finish(&items); /* the client has its own copy */
}

static void check_told(struct world *w, const char *words)
{
    CHECK_STR(dt_buf_cstr(&w->told), words);
    dt_buf_clear(&w->told);
}

/* Runs until nothing is pending. */
static void settle(struct world *w)
{
    while (w->pending > 0)
        uv_run(&w->loop, UV_RUN_ONCE);
}

static void run_until_told(struct world *w, const char *word)
{
    while (!strstr(dt_buf_cstr(&w->told), word))
        uv_run(&w->loop, UV_RUN_ONCE);
}

#define SET_(k, v) ((struct dt_c10d_request){.op = DT_C10D_SET, .key = b(k), .value = b(v)})
#define ADD_(k, n) ((struct dt_c10d_request){.op = DT_C10D_ADD, .key = b(k), .number = (n)})
#define OF(op_, k) ((struct dt_c10d_request){.op = DT_C10D_##op_, .key = b(k)})
#define DEFAULTS DT_STORE_CLIENT_CONFIG_DEFAULT

TEST(every_operation_issued_at_once_is_answered_in_order)
{
    struct world w;
    world_open(&w);
    serve(&w);
    struct dt_store_client *c = client_open(&w, w.addr, DEFAULTS);
    issue(&w, c, SET_("k", "v"), SOON);
    issue(&w, c, ADD_("n", -7), SOON);
    issue(&w, c,
          (struct dt_c10d_request){
              .op = DT_C10D_COMPARE_SET, .key = b("k"), .value = b("v"), .desired = b("w")},
          SOON);
    issue(&w, c, (struct dt_c10d_request){.op = DT_C10D_APPEND, .key = b("k"), .value = b("x")},
          SOON);
    issue_keys(&w, c, DT_C10D_MULTI_SET, "abc", SOON);
    issue_keys(&w, c, DT_C10D_CHECK, "abz", SOON);
    issue(&w, c, (struct dt_c10d_request){.op = DT_C10D_GETNUMKEYS}, SOON);
    issue(&w, c, OF(DELETE_KEY, "a"), SOON);
    issue(&w, c, (struct dt_c10d_request){.op = DT_C10D_PING, .number = 77}, SOON);
    issue(&w, c, (struct dt_c10d_request){.op = DT_C10D_QUEUE_PUSH, .key = b("q"), .value = b("i")},
          SOON);
    issue(&w, c, OF(QUEUE_LEN, "q"), SOON);
    issue(&w, c, OF(QUEUE_POP, "q"), SOON);
    issue(&w, c, OF(DELETE_KEY, "k"), SOON);
    issue(&w, c, OF(DELETE_KEY, "n"), SOON);
    issue(&w, c, OF(DELETE_KEY, "b"), SOON);
    issue(&w, c, (struct dt_c10d_request){.op = DT_C10D_LIST_KEYS}, SOON);
    settle(&w);
    check_told(&w, "CONNECTED SET ADD:-7 COMPARE_SET=w APPEND MULTI_SET CHECK:1 GETNUMKEYS:5 "
                   "DELETE_KEY:1 PING:77 QUEUE_PUSH QUEUE_LEN:1 QUEUE_POP:1=i DELETE_KEY:1 "
                   "DELETE_KEY:1 DELETE_KEY:1 LIST_KEYS:1[c] ");
    client_close(&w, c);
    world_close(&w);
}

TEST(what_is_there_already_is_got_without_a_second_connection)
{
    struct world w;
    world_open(&w);
    serve(&w);
    struct dt_store_client *c = client_open(&w, w.addr, DEFAULTS);
    issue_keys(&w, c, DT_C10D_MULTI_SET, "ab", SOON);
    issue(&w, c, OF(GET, "a"), SOON);
    issue_keys(&w, c, DT_C10D_WAIT, "ab", SOON);
    settle(&w);
    issue_keys(&w, c, DT_C10D_MULTI_GET, "baa", SOON);
    issue_keys(&w, c, DT_C10D_MULTI_GET, "", SOON);
    settle(&w);
    check_told(&w, "CONNECTED MULTI_SET WAIT GET=a MULTI_GET[b][a][a] MULTI_GET ");
    CHECK_EQ(dt_store_server_counters(w.server)->accepted, 1);
    CHECK_EQ(dt_store_server_counters(w.server)->requests[DT_C10D_WAIT], 0);
    client_close(&w, c);
    world_close(&w);
}

TEST(an_open_wait_holds_up_nobody_and_sees_what_comes)
{
    struct world w;
    world_open(&w);
    serve(&w);
    struct dt_store_client *c = client_open(&w, w.addr, DEFAULTS);
    issue(&w, c, OF(GET, "late"), SOON);
    issue_keys(&w, c, DT_C10D_WAIT, "xy", SOON);
    issue(&w, c, ADD_("n", 1), SOON);
    run_until_told(&w, "ADD");
    check_told(&w, "CONNECTED ADD:1 ");
    issue_keys(&w, c, DT_C10D_MULTI_SET, "xy", SOON);
    run_until_told(&w, "WAIT");
    check_told(&w, "MULTI_SET WAIT ");
    issue(&w, c, SET_("late", "v"), SOON);
    settle(&w);
    check_told(&w, "SET GET=v ");
    client_close(&w, c);
    world_close(&w);
}

TEST(a_wait_begins_behind_all_that_was_issued_before_it)
{
    struct world w;
    world_open(&w);
    serve(&w);
    struct dt_store_client *c = client_open(&w, w.addr, DEFAULTS);
    for (int i = 0; i < 50; i++) {
        issue(&w, c, SET_("k", "old"), SOON);
        issue(&w, c, OF(DELETE_KEY, "k"), SOON);
        issue(&w, c, OF(GET, "k"), SOON);
        run_until_told(&w, "DELETE_KEY:1 ");
        dt_buf_clear(&w.told);
        CHECK_EQ(w.pending, 1); /* the deleted value was not got */
        issue(&w, c, SET_("k", "new"), SOON);
        settle(&w);
        check_told(&w, "SET GET=new ");
    }
    client_close(&w, c);
    world_close(&w);
}

TEST(a_wait_that_is_over_its_time_is_taken_back_and_its_connection_used_again)
{
    struct world w;
    world_open(&w);
    serve(&w);
    struct dt_store_client *c = client_open(&w, w.addr, DEFAULTS);
    const struct dt_store_server_counters *counters = dt_store_server_counters(w.server);
    bool waited = false;
    for (dt_ms timeout = 10; !waited; timeout *= 2) { /* until the server saw it wait */
        issue(&w, c, OF(GET, "never"), timeout);
        while (w.pending > 0) {
            uv_run(&w.loop, UV_RUN_ONCE);
            waited |= dt_store_server_store(w.server)->waiting > 0;
        }
    }
    CHECK(strstr(dt_buf_cstr(&w.told), "timeout ") != NULL);
    while (counters->requests[DT_C10D_CANCEL_WAIT] == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    CHECK_EQ(dt_store_server_store(w.server)->waiting, 0);
    uint64_t accepted = counters->accepted;
    dt_buf_clear(&w.told);
    issue(&w, c, ADD_("n", 1), SOON); /* by its answer the cancel's is here, too */
    settle(&w);
    issue_keys(&w, c, DT_C10D_WAIT, "k", SOON);
    issue(&w, c, SET_("k", "v"), SOON);
    settle(&w);
    check_told(&w, "ADD:1 SET WAIT ");
    CHECK_EQ(counters->accepted, accepted);
    client_close(&w, c);
    world_close(&w);
}

/* Main: CHECK of "k" is 18 bytes. Lane: WAIT is 18 bytes and answered only behind the CANCEL_WAIT.
 */
TEST(a_key_that_comes_while_its_wait_is_taken_back_shifts_no_answer)
{
    static const struct line script[] = {
        GREET,    READ(18),   SEND("\1"), GREET,    READ(18),   READ(1), SEND("\0\1"), USE(0),
        READ(18), SEND("\1"), USE(1),     READ(18), SEND("\0"), USE(0),  UNTIL_CLOSED, END};
    struct world w;
    struct actor a;
    world_open(&w);
    actor_start(&a, script);
    struct dt_store_client *c = client_open(&w, a.addr, DEFAULTS);
    issue_keys(&w, c, DT_C10D_WAIT, "k", 2000);
    settle(&w);
    check_told(&w, "CONNECTED timeout ");
    issue_keys(&w, c, DT_C10D_WAIT, "k", SOON); /* the script accepts no third connection */
    settle(&w);
    check_told(&w, "WAIT ");
    client_close(&w, c);
    actor_stop(&a);
    world_close(&w);
}

TEST(two_clients_meet_at_a_barrier_with_their_values_set)
{
    struct world w;
    world_open(&w);
    serve(&w);
    struct dt_store_client *c[2];
    for (int i = 0; i < 2; i++) {
        c[i] = client_open(&w, w.addr, DEFAULTS);
        issue(&w, c[i], SET_(i ? "1" : "0", "here"), SOON);
        issue(&w, c[i],
              (struct dt_c10d_request){.op = DT_C10D_BARRIER, .key = b("bar"), .number = 2}, SOON);
    }
    while (w.pending > 0 && !strstr(dt_buf_cstr(&w.told), "BARRIER"))
        uv_run(&w.loop, UV_RUN_ONCE);
    dt_buf_clear(&w.told);
    issue_keys(&w, c[0], DT_C10D_CHECK, "01", SOON);
    run_until_told(&w, "CHECK ");
    settle(&w);
    client_close(&w, c[0]);
    client_close(&w, c[1]);
    world_close(&w);
}

TEST(a_thousand_requests_before_the_connection_is_there)
{
    struct world w;
    world_open(&w);
    serve(&w);
    struct dt_store_client *c = client_open(&w, w.addr, DEFAULTS);
    struct dt_buf wanted = {0};
    dt_buf_put_str(&wanted, "CONNECTED ");
    for (int i = 1; i <= 1000; i++) {
        issue(&w, c, ADD_("n", 1), SOON);
        dt_buf_printf(&wanted, "ADD:%d ", i);
    }
    settle(&w);
    CHECK_BYTES(w.told.at, w.told.len, wanted.at, wanted.len);
    dt_buf_finish(&wanted);
    client_close(&w, c);
    world_close(&w);
}

TEST(a_lost_server_fails_what_was_sent_and_a_new_one_gets_what_was_not)
{
    struct world w;
    world_open(&w);
    serve(&w);
    struct dt_store_client *c = client_open(&w, w.addr, DEFAULTS);
    issue(&w, c, OF(GET, "never"), SOON);
    issue(&w, c, ADD_("n", 1), SOON);
    run_until_told(&w, "ADD");
    stop_serving(&w);
    run_until_told(&w, "disconnected");
    check_told(&w, "CONNECTED ADD:1 LOST disconnected ");
    issue(&w, c, ADD_("n", 5), SOON);
    serve(&w); /* on the same port, and empty */
    settle(&w);
    check_told(&w, "CONNECTED ADD:5 ");
    client_close(&w, c);
    world_close(&w);
}

TEST(a_server_may_start_late)
{
    struct world w;
    world_open(&w);
    struct dt_store_client *c = client_open(&w, w.addr, DEFAULTS);
    issue(&w, c, ADD_("n", 1), 30);
    settle(&w); /* by then it was refused at least once */
    check_told(&w, "timeout ");
    serve(&w);
    issue(&w, c, ADD_("n", 1), SOON);
    settle(&w);
    check_told(&w, "CONNECTED ADD:1 ");
    client_close(&w, c);
    world_close(&w);
}

TEST(who_never_finds_a_server_gives_up)
{
    struct world w;
    struct dt_err err;
    world_open(&w);
    int fd = bind_somewhere(w.addr, sizeof w.addr);
    struct dt_store_client_config config = DEFAULTS;
    config.open_timeout = 500;
    struct dt_store_client *c = client_open(&w, w.addr, config);
    issue(&w, c, ADD_("n", 1), SOON);
    settle(&w);
    check_told(&w, "FAILED disconnected ");
    CHECK_FAIL(dt_store_client_request(c, &ADD_("n", 1), SOON, on_done, &w, &err), err,
               "given up: cannot connect: connection refused");
    client_close(&w, c);
    c = client_open(&w, "127.0.0.1:port", config);
    run_until_told(&w, "FAILED");
    client_close(&w, c);
    close(fd);
    world_close(&w);
}

TEST(who_is_not_to_reconnect_gives_up_at_once)
{
    struct world w;
    struct dt_err err;
    world_open(&w);
    serve(&w);
    struct dt_store_client_config config = DEFAULTS;
    config.reconnect_timeout = 0;
    config.fail_fast = true;
    struct dt_store_client *c = client_open(&w, w.addr, config);
    CHECK_FAIL(dt_store_client_request(c, &ADD_("n", 1), SOON, on_done, &w, &err), err,
               "not connected");
    run_until_told(&w, "CONNECTED");
    issue(&w, c, OF(GET, "never"), SOON);
    issue(&w, c, ADD_("n", 1), SOON);
    run_until_told(&w, "ADD");
    stop_serving(&w);
    settle(&w);
    run_until_told(&w, "FAILED");
    check_told(&w, "CONNECTED ADD:1 FAILED disconnected ");
    client_close(&w, c);
    world_close(&w);
}

TEST(who_is_no_store_is_told_so)
{
    static const struct line script[] = {ACCEPT, READ(10), SEND("HTTP/1.1 400"), UNTIL_CLOSED, END};
    struct world w;
    struct actor a;
    world_open(&w);
    actor_start(&a, script);
    struct dt_store_client *c = client_open(&w, a.addr, DEFAULTS);
    issue(&w, c, ADD_("n", 1), SOON);
    settle(&w);
    check_told(&w, "FAILED protocol ");
    client_close(&w, c);
    actor_stop(&a);
    world_close(&w);
}

/* What PyTorch 1.13 does: it hangs up on our greeting, and answers a CHECK of 29 bytes. One key
 * "k" makes a request of 10 bytes, or 18 in a list. */
#define HANG_UP_ON_GREETING ACCEPT, READ(10), HANG_UP
#define GREET_LEGACY ACCEPT, READ(29), SEND("\1")

TEST(a_legacy_store_is_spoken_to_in_its_own_way)
{
    static const struct line script[] = {
        HANG_UP_ON_GREETING,
        GREET_LEGACY,
        READ(2 * (1 + 9 + 9)), /* MULTI_SET of a and b: a SET each */
        READ(1 + 8 + 2 * 9),   /* CHECK of both */
        SEND("\0"),
        READ(2 * (1 + 9)), /* MULTI_GET: a GET each */
        SEND("\1\0\0\0\0\0\0\0x\2\0\0\0\0\0\0\0yz"),
        UNTIL_CLOSED,
        END};
    struct world w;
    struct actor a;
    struct dt_err err;
    world_open(&w);
    actor_start(&a, script);
    struct dt_store_client *c = client_open(&w, a.addr, DEFAULTS);
    issue_keys(&w, c, DT_C10D_MULTI_SET, "ab", SOON);
    issue_keys(&w, c, DT_C10D_MULTI_GET, "ab", SOON);
    settle(&w);
    check_told(&w, "CONNECTED MULTI_SET MULTI_GET[x][yz] ");
    CHECK(dt_store_client_legacy(c));
    CHECK_FAIL(dt_store_client_request(c, &OF(QUEUE_LEN, "q"), SOON, on_done, &w, &err), err,
               "has no QUEUE_LEN");
    client_close(&w, c);
    actor_stop(&a);
    world_close(&w);
}

/* It cannot be told to forget a wait, so the connection that waits is closed, and the next wait has
 * a new one, which is legacy at once. */
TEST(a_wait_of_a_legacy_store_that_is_over_its_time_costs_its_connection)
{
    static const struct line script[] = {
        HANG_UP_ON_GREETING, GREET_LEGACY, READ(18),     SEND("\1"), GREET_LEGACY, READ(18),
        UNTIL_CLOSED,        USE(1),       READ(18),     SEND("\1"), GREET_LEGACY, READ(18),
        SEND("\0"),          USE(1),       UNTIL_CLOSED, END};
    struct world w;
    struct actor a;
    world_open(&w);
    actor_start(&a, script);
    struct dt_store_client *c = client_open(&w, a.addr, DEFAULTS);
    run_until_told(&w, "CONNECTED");
    issue_keys(&w, c, DT_C10D_WAIT, "k", 2000);
    settle(&w);
    issue_keys(&w, c, DT_C10D_WAIT, "k", SOON);
    settle(&w);
    check_told(&w, "CONNECTED timeout WAIT ");
    client_close(&w, c);
    actor_stop(&a);
    world_close(&w);
}

TEST(who_hangs_up_on_either_greeting_is_tried_again_with_the_modern_one)
{
    static const struct line script[] = {HANG_UP_ON_GREETING, ACCEPT, READ(29), HANG_UP, GREET,
                                         UNTIL_CLOSED,        END};
    struct world w;
    struct actor a;
    world_open(&w);
    actor_start(&a, script);
    struct dt_store_client *c = client_open(&w, a.addr, DEFAULTS);
    run_until_told(&w, "CONNECTED");
    CHECK(!dt_store_client_legacy(c));
    client_close(&w, c);
    actor_stop(&a);
    world_close(&w);
}

TEST(nonsense_after_the_greeting_costs_the_connection)
{
    static const struct line script[] = {GREET,        READ(18), SEND("\1\0\0\0\0\0\0\0unasked"),
                                         GREET,        READ(18), SEND("\2\0\0\0\0\0\0\0"),
                                         UNTIL_CLOSED, END};
    struct world w;
    struct actor a;
    world_open(&w);
    actor_start(&a, script);
    struct dt_store_client *c = client_open(&w, a.addr, DEFAULTS);
    issue(&w, c, ADD_("n", 1), SOON);
    run_until_told(&w, "LOST");
    issue(&w, c, ADD_("n", 1), SOON);
    settle(&w);
    check_told(&w, "CONNECTED ADD:1 LOST CONNECTED ADD:2 ");
    client_close(&w, c);
    actor_stop(&a);
    world_close(&w);
}

/* The first ADD is answered only behind the second, long after its time. */
TEST(an_answer_that_is_late_is_dropped_and_the_next_one_is_right)
{
    static const struct line script[] = {GREET, READ(36), SEND("\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"),
                                         UNTIL_CLOSED, END};
    struct world w;
    struct actor a;
    world_open(&w);
    actor_start(&a, script);
    struct dt_store_client *c = client_open(&w, a.addr, DEFAULTS);
    run_until_told(&w, "CONNECTED");
    issue(&w, c, ADD_("n", 1), 10);
    settle(&w);
    issue(&w, c, ADD_("n", 1), SOON);
    settle(&w);
    check_told(&w, "CONNECTED timeout ADD:2 ");
    client_close(&w, c);
    actor_stop(&a);
    world_close(&w);
}

TEST(there_are_bounds_to_what_may_be_pending)
{
    struct world w;
    struct dt_err err;
    world_open(&w);
    serve(&w);
    struct dt_store_client_config config = DEFAULTS;
    config.requests = 2;
    config.bytes = 10;
    struct dt_store_client *c = client_open(&w, w.addr, config);
    CHECK_FAIL(dt_store_client_request(c, &SET_("k", "0123456789"), SOON, on_done, &w, &err), err,
               "too much");
    issue(&w, c, ADD_("n", 1), SOON);
    issue(&w, c, ADD_("n", 1), SOON);
    CHECK_FAIL(dt_store_client_request(c, &ADD_("n", 1), SOON, on_done, &w, &err), err, "too much");
    settle(&w);
    issue(&w, c, SET_("k", "012345678"), SOON);
    settle(&w);
    client_close(&w, c);
    world_close(&w);
}

TEST(closing_with_requests_pending_tells_each_and_leaves_nothing)
{
    struct world w;
    world_open(&w);
    serve(&w);
    struct dt_store_client *c = client_open(&w, w.addr, DEFAULTS);
    issue(&w, c, ADD_("n", 1), SOON); /* still looking the name up */
    client_close(&w, c);
    check_told(&w, "canceled ");

    c = client_open(&w, w.addr, DEFAULTS);
    run_until_told(&w, "CONNECTED");
    dt_buf_clear(&w.told);
    issue(&w, c, OF(GET, "never"), 5); /* late, and perhaps being taken back */
    issue(&w, c, OF(GET, "never"), SOON);
    issue_keys(&w, c, DT_C10D_WAIT, "z", SOON);
    run_until_told(&w, "timeout");
    issue(&w, c, ADD_("n", 1), SOON);
    client_close(&w, c);
    check_told(&w, "timeout canceled canceled canceled ");
    dt_store_client_close(NULL, NULL, NULL);
    world_close(&w);
}

struct closer {
    struct world *w;
    struct dt_store_client *client;
};

static void on_done_close(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct closer *k = arg;
    (void)reply;
    (void)err;
    k->w->pending--;
    dt_store_client_close(k->client, on_closed, &k->w->closed);
}

TEST(a_callback_may_close_the_client)
{
    struct world w;
    struct dt_err err;
    world_open(&w);
    serve(&w);
    struct closer k = {&w, client_open(&w, w.addr, DEFAULTS)};
    issue(&w, k.client, ADD_("n", 1), SOON);
    CHECK_OK(dt_store_client_request(k.client, &ADD_("n", 1), SOON, on_done_close, &k, &err), err);
    w.pending++;
    issue(&w, k.client, ADD_("n", 1), SOON);
    issue(&w, k.client, OF(GET, "x"), SOON);
    run_until(&w, &w.closed);
    check_told(&w, "CONNECTED ADD:1 canceled canceled ");
    world_close(&w);
}

TEST(a_callback_of_a_lost_connection_may_close_the_client)
{
    struct world w;
    struct dt_err err;
    world_open(&w);
    serve(&w);
    struct closer k = {&w, client_open(&w, w.addr, DEFAULTS)};
    run_until_told(&w, "CONNECTED");
    CHECK_OK(dt_store_client_request(k.client, &OF(GET, "x"), SOON, on_done_close, &k, &err), err);
    w.pending++;
    issue(&w, k.client, OF(GET, "x"), SOON);
    stop_serving(&w);
    run_until(&w, &w.closed);
    check_told(&w, "CONNECTED LOST disconnected ");
    world_close(&w);
}
