/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for which keys: the value, and what a real server tells whom. */
#include "rendezvous/protocol/key_waits.h"
#include "rendezvous/protocol/sync_client.h"
#include "tests/lib/check.h"
#include "tests/lib/peer.h"
#include "tests/rendezvous/serving.h"

#include <arpa/inet.h>

#define THERE "\0"

static struct dt_key_waits waits; /* as large as a stack should not be */

static void name(struct dt_key_wait *w, const char *const *keys, size_t count, uint64_t missing)
{
    struct dt_bytes bytes[8];
    *w = (struct dt_key_wait){0};
    for (size_t i = 0; i < count; i++)
        bytes[i] = dt_bytes_of(keys[i]);
    dt_key_wait_name(w, bytes, count, missing);
}

TEST(keys_are_named_as_far_as_there_is_room_and_then_counted)
{
    static const char *const keys[] = {"/default_pg/0//cpu//0/1", "//odd", "/", "/fourth"};
    static const char *const hostile[] = {"/\x1b[2J\n\xff"};
    char long_key[400];
    const char *const longs[] = {long_key, long_key, long_key};
    struct dt_key_wait w;
    name(&w, keys, 1, 1);
    CHECK_STR(w.keys, "default_pg/0//cpu//0/1");
    name(&w, keys, 3, 3);
    CHECK_STR(w.keys, "default_pg/0//cpu//0/1, odd, /");
    name(&w, keys, 3, 9);
    CHECK_STR(w.keys, "default_pg/0//cpu//0/1, odd, / and 6 more");
    name(&w, hostile, 1, 1);
    CHECK_STR(w.keys, "\\x1b[2J\\x0a\\xff");
    memset(long_key, 'k', sizeof long_key);
    long_key[sizeof long_key - 1] = '\0';
    name(&w, longs, 3, UINT64_MAX);
    CHECK(strstr(w.keys, "... and 18446744073709551613 more") != NULL);
}

TEST(what_is_put_comes_back)
{
    struct dt_buf value = {0};
    struct dt_err err;
    waits = (struct dt_key_waits){.len = 2};
    waits.at[0] = (struct dt_key_wait){.from = "127.0.0.1:4711", .waited = 8123, .keys = "a, b"};
    waits.at[1] = (struct dt_key_wait){.from = "[::1]:9", .keys = "\"\\"};
    dt_key_waits_put(&waits, &value);
    waits = (struct dt_key_waits){0};
    CHECK_OK(dt_key_waits_get(&waits, (struct dt_bytes){value.at, value.len}, &err), err);
    CHECK_EQ(waits.len, 2);
    const struct dt_key_wait *w = dt_key_waits_find(&waits, "127.0.0.1:4711");
    CHECK(w != NULL);
    CHECK_EQ(w->waited, 8123);
    CHECK_STR(w->keys, "a, b");
    CHECK_STR(dt_key_waits_find(&waits, "[::1]:9")->keys, "\"\\");
    CHECK(dt_key_waits_find(&waits, "127.0.0.1:4712") == NULL);
    CHECK(dt_key_waits_find(&waits, "") == NULL);
    dt_buf_finish(&value);
}

TEST(a_value_that_makes_no_sense_is_refused)
{
    static const char *const values[] = {
        "",
        "[]",
        "{}",
        "{\"waits\":7}",
        "{\"waits\":[7]}",
        "{\"waits\":[{}]}",
        "{\"waits\":[{\"from\":\"a\",\"waited\":-1,\"keys\":\"k\"}]}",
        "{\"waits\":[{\"from\":\"a\",\"waited\":\"x\",\"keys\":\"k\"}]}",
        "{\"waits\":[{\"from\":\"a\",\"waited\":1,\"keys\":[]}]}",
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct dt_err err;
        CHECK_ROW("%s", values[i]);
        CHECK_EQ(dt_key_waits_get(&waits, dt_bytes_of(values[i]), &err), -1);
        CHECK_EQ(waits.len, 0);
    }
}

/* A connection from another address of this host, which stands for another host. */
static int greet_from(const char *address, uint16_t port)
{
    static const uint8_t hello[] = {0, 0xce, 0xf7, 0x85, 0x3c, 0x0d, 1, 2, 3, 4};
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, address, &from.sin_addr);
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    to.sin_port = htons(port);
    CHECK_EQ(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    peer_send(fd, hello, sizeof hello);
    peer_receive(fd, hello + 6, 4);
    return fd;
}

static void ask(struct dt_sync_client *c)
{
    struct dt_bytes key = dt_bytes_of(DT_KEY_WAITS);
    struct dt_buf value = {0};
    struct dt_err err;
    CHECK_OK(dt_sync_client_get(c, key, &value, &err), err);
    CHECK_OK(dt_key_waits_get(&waits, (struct dt_bytes){value.at, value.len}, &err), err);
    dt_buf_finish(&value);
}

/* Until the server has heard of all waits of ours. */
static void ask_until(struct dt_sync_client *c, size_t len)
{
    do
        ask(c);
    while (waits.len != len);
}

TEST(a_server_tells_who_waits_for_what_on_the_askers_host)
{
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct serving s;
    struct dt_err err;
    struct sockaddr_in own;
    socklen_t len = sizeof own;
    char at[DT_ADDR_TEXT];
    bool there = false;
    struct dt_bytes key = dt_bytes_of(DT_KEY_WAITS);
    serving_open(&s, &config);
    serving_start(&s);
    int waiter = peer_greet(s.port), far = greet_from("127.0.0.2", s.port);
    peer_wait(far, "/elsewhere");
    peer_wait(waiter, "/default_pg/0//cpu//0/1");
    snprintf(at, sizeof at, "127.0.0.1:%d", s.port);
    struct dt_sync_client *c = dt_sync_client_open(at, 20 * DT_SECOND, &err);
    CHECK(c != NULL);
    CHECK_OK(dt_sync_client_check(c, &key, 1, &there, &err), err);
    CHECK(there);
    ask_until(c, 1);
    CHECK_EQ(getsockname(waiter, (struct sockaddr *)&own, &len), 0);
    snprintf(at, sizeof at, "127.0.0.1:%d", ntohs(own.sin_port));
    CHECK_STR(waits.at[0].from, at);
    CHECK_STR(waits.at[0].keys, "default_pg/0//cpu//0/1");
    peer_num_keys(far, 0); /* it is no entry of the store */
    peer_set(far, "/default_pg/0//cpu//0/1", "v");
    peer_receive(waiter, THERE, 1);
    ask_until(c, 0);
    dt_sync_client_close(c);
    close(waiter);
    close(far);
    serving_stop(&s);
}
