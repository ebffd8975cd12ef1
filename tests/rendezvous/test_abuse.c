/* SPDX-License-Identifier: Apache-2.0 */
/* What bad, slow, dead and too many clients do to a real dtrun-rendezvous: nothing that another
 * client notices. In each story a well-behaved client goes on working while the abuse is under way.
 */
#include "tests/lib/check.h"
#include "tests/lib/daemon.h"
#include "tests/lib/peer.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <poll.h>

#define PROGRAM getenv("DT_RENDEZVOUS")
#define LISTEN "--listen", "127.0.0.1:0"

static const uint8_t zero[1];

/* Many descriptors are wanted here; what the system allows is what there is. */
static size_t raise_descriptors(void)
{
    struct rlimit r;
    CHECK(getrlimit(RLIMIT_NOFILE, &r) == 0);
    r.rlim_cur = r.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &r) == 0);
    return r.rlim_cur;
}

static void check_still_serving(int good, int64_t *n)
{
    ++*n;
    peer_add(good, "good", 1, *n);
}

TEST(random_bytes_close_one_peer_each)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN);
    int good = peer_greet(d.port);
    int64_t n = 0;
    uint64_t random = 7;
    for (int i = 0; i < 500; i++) {
        uint8_t bytes[256];
        for (size_t k = 0; k < sizeof bytes; k++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            bytes[k] = (uint8_t)(random >> 56);
        }
        int bad = peer_connect(d.port);
        send(bad, bytes, sizeof bytes, MSG_NOSIGNAL);
        close(bad);
        check_still_serving(good, &n);
    }
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(impossible_lengths_are_refused_before_their_bytes_are_waited_for)
{
    static const struct {
        const char *what, *reason;
        uint8_t bytes[32];
        size_t len;
    } rows[] = {
        {"key of 2^63",
         "SET: a key of 9223372036854775808 bytes",
         {1, 0, 0, 0, 0, 0, 0, 0, 0x80},
         9},
        {"key of 2^64-1", "GET: a key of", {3, 255, 255, 255, 255, 255, 255, 255, 255}, 9},
        {"value of 2^63",
         "SET: a value of",
         {1, 1, 0, 0, 0, 0, 0, 0, 0, 'k', 0, 0, 0, 0, 0, 0, 0, 0x80},
         18},
        {"2^63 keys", "WAIT: 9223372036854775808 keys", {6, 0, 0, 0, 0, 0, 0, 0, 0x80}, 9},
        {"opcode 99", "opcode 99 is unknown", {99}, 1},
    };
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN);
    int good = peer_greet(d.port);
    int64_t n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].what);
        int bad = peer_greet(d.port);
        peer_send(bad, rows[i].bytes, rows[i].len);
        peer_expect_end(bad);
        CHECK(daemon_log_has(&d, rows[i].reason));
        check_still_serving(good, &n);
    }
    CHECK(daemon_rss(&d) < 64 * 1024);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(two_hundred_half_sent_requests_hold_nobody_up)
{
    enum { MANY = 200 };
    static const uint8_t half[] = {4, 8, 0, 0, 0, 0, 0, 0, 0, 'h', 'a', 'l', 'f'};
    struct daemon_process d;
    int bad[MANY];
    DAEMON_START(&d, PROGRAM, LISTEN);
    int good = peer_greet(d.port);
    int64_t n = 0;
    for (int i = 0; i < MANY; i++) {
        bad[i] = i % 2 ? peer_greet(d.port) : peer_connect(d.port);
        if (i % 2)
            peer_send(bad[i], half, 1 + (size_t)i % sizeof half);
        else
            peer_send(bad[i], "\0\xce\xf7", 1 + (size_t)i % 3);
        check_still_serving(good, &n);
    }
    static const uint8_t rest[] = {'-', 'k', 'e', 'y', 1, 0, 0, 0, 0, 0, 0, 0};
    peer_send(bad[25], rest,
              sizeof rest); /* 25 % 13 is 12: its half ended with the last byte but none missing */
    peer_receive(bad[25], "\1\0\0\0\0\0\0\0", 8);
    for (int i = 0; i < MANY; i++)
        close(bad[i]);
    check_still_serving(good, &n);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(one_byte_at_a_time)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN);
    int good = peer_greet(d.port), slow = peer_greet(d.port);
    int64_t n = 0;
    struct dt_buf request = {0};
    struct dt_c10d_request set = {
        .op = DT_C10D_SET, .key = dt_bytes_of("slow"), .value = dt_bytes_of("a longer value")};
    CHECK(dt_c10d_encode(&request, DT_C10D_MODERN, &set));
    for (size_t i = 0; i < request.len; i++) {
        peer_send(slow, request.at + i, 1);
        check_still_serving(good, &n); /* a round trip: the byte has been read on its own */
    }
    peer_get(good, "slow", "a longer value");
    dt_buf_finish(&request);
    close(slow);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_reader_that_never_reads_is_left_waiting_with_bounded_memory)
{
    enum { VALUE = 1 << 20, ASKED = 400 };
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN);
    int good = peer_greet(d.port), bad = peer_greet(d.port);
    int64_t n = 0;
    char *value = calloc(1, VALUE);
    CHECK(value != NULL);
    peer_set_bytes(good, "big", value, VALUE);
    check_still_serving(good, &n); /* the set is through */
    for (int i = 0; i < ASKED; i++) {
        peer_ask_get(bad, "big");
        check_still_serving(good, &n);
    }
    CHECK(daemon_rss(&d) < 64 * 1024); /* 400 answers would be 400 MiB */
    /* It was made to wait, not thrown out: every answer is there for the asking. */
    struct dt_buf answer = {0};
    dt_c10d_put_value(&answer, (struct dt_bytes){(uint8_t *)value, VALUE});
    for (int i = 0; i < ASKED; i++)
        peer_receive(bad, answer.at, answer.len);
    check_still_serving(good, &n);
    dt_buf_finish(&answer);
    free(value);
    close(bad);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_writer_that_leaves_in_the_middle_of_a_request_changes_nothing)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN);
    int good = peer_greet(d.port);
    struct dt_buf request = {0}, items = {0};
    struct dt_bytes one = dt_bytes_of("1");
    dt_c10d_put_item(&items, dt_bytes_of("first"), &one);
    dt_c10d_put_item(&items, dt_bytes_of("second"), &one);
    struct dt_c10d_request sets = {
        .op = DT_C10D_MULTI_SET, .count = 2, .items = {items.at, items.len}};
    CHECK(dt_c10d_encode(&request, DT_C10D_MODERN, &sets));
    for (size_t cut = 1; cut < request.len; cut++) {
        int bad = peer_greet(d.port);
        peer_send(bad, request.at, cut);
        close(bad);
    }
    peer_num_keys(good, 0);
    dt_buf_finish(&request);
    dt_buf_finish(&items);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(connections_beyond_the_cap_are_served_later_and_none_is_reset)
{
    enum { CAP = 8, MORE = 20 };
    struct daemon_process d;
    int fds[CAP + MORE];
    DAEMON_START(&d, PROGRAM, LISTEN, "--max-connections", "8");
    for (int i = 0; i < CAP; i++)
        fds[i] = peer_greet(d.port);
    for (int i = CAP; i < CAP + MORE; i++) {
        fds[i] = peer_connect(d.port); /* the kernel takes it */
        peer_send(fds[i], "\0\xce\xf7\x85\x3c\x0d\1\2\3\4", 10);
    }
    CHECK(daemon_log_has(&d, "8 clients are connected, the limit"));
    int64_t n = 0;
    check_still_serving(fds[0], &n);
    /* Each that leaves lets one in. */
    for (int i = CAP; i < CAP + MORE; i++) {
        close(fds[i - CAP]);
        peer_receive(fds[i], "\1\2\3\4", 4);
    }
    for (int i = MORE; i < CAP + MORE; i++)
        close(fds[i]);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_full_store_closes_the_writer_and_serves_the_readers)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN, "--max-total-size", "1M");
    int good = peer_greet(d.port), bad = peer_greet(d.port);
    char *value = calloc(1, 600 << 10);
    CHECK(value != NULL);
    peer_set(good, "kept", "yes");
    peer_set_bytes(bad, "fits", value, 600 << 10);
    peer_set_bytes(bad, "does not", value, 600 << 10);
    peer_expect_end(bad);
    CHECK(daemon_log_has(&d, "SET: the store is full"));
    peer_get(good, "kept", "yes");
    peer_set(good, "small", "still fits");
    peer_get(good, "small", "still fits");
    peer_num_keys(good, 3);
    free(value);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(buffers_of_all_peers_together_are_bounded)
{
    enum { MANY = 40 };
    struct daemon_process d;
    int bad[MANY];
    DAEMON_START(&d, PROGRAM, LISTEN, "--max-buffered", "32M", "--max-value-size", "8M",
                 "--max-peer-buffer", "17M");
    int good = peer_greet(d.port);
    int64_t n = 0;
    size_t len = 4u << 20;
    uint8_t *part = calloc(1, len);
    CHECK(part != NULL);
    struct dt_buf head = {0};
    dt_buf_put_u8(&head, DT_C10D_SET);
    dt_c10d_put_value(&head, dt_bytes_of("k"));
    dt_buf_put_u64(&head, len + 1); /* one byte more than ever comes */
    for (int i = 0; i < MANY; i++) {
        bad[i] = peer_greet(d.port);
        peer_send(bad[i], head.at, head.len);
        for (size_t at = 0;
             at < len && send(bad[i], part + at, 64u << 10, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
             at += 64u << 10)
            ; /* whoever finds no room is not read from */
        check_still_serving(good, &n);
    }
    CHECK(daemon_log_has(&d, "are buffered for all peers, near the limit"));
    CHECK(daemon_rss(&d) < 80 * 1024); /* 40 peers would hold 160 MiB */
    for (int i = 0; i < MANY; i++)
        close(bad[i]);
    free(part);
    dt_buf_finish(&head);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(ten_thousand_idle_connections_then_ten_thousand_waiters_woken_by_one_set)
{
    enum { MANY = 10000 };
    if (raise_descriptors() < MANY + 100)
        SKIP("10,000 connections take a limit of open files above 10,100 (ulimit -Hn)");
    static int fds[MANY];
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN);
    int good = peer_greet(d.port);
    int64_t n = 0;
    long empty = daemon_rss(&d);
    for (int i = 0; i < MANY; i++)
        fds[i] = peer_greet(d.port);
    check_still_serving(good, &n);
    long idle = daemon_rss(&d);
    printf("# 10,000 idle connections: %ld KiB resident, %ld KiB before\n", idle, empty);
    CHECK(idle - empty < 30 * 1024); /* 3 KiB each would be too much */
    for (int i = 0; i < MANY; i++)
        peer_wait(fds[i], "go");
    check_still_serving(good, &n);
    peer_set(good, "go", "1");
    for (int i = 0; i < MANY; i++) {
        if (i % 100 == 0)
            check_still_serving(good, &n);
        peer_receive(fds[i], zero, 1);
    }
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_flood_of_pipelined_requests_is_served_in_turns)
{
    enum { MANY = 20000 };
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN);
    int good = peer_greet(d.port), flood = peer_greet(d.port);
    int64_t n = 0;
    struct dt_buf all = {0}, want = {0};
    struct dt_c10d_request add = {.op = DT_C10D_ADD, .key = dt_bytes_of("flood"), .number = 1};
    for (int i = 0; i < MANY; i++) {
        CHECK(dt_c10d_encode(&all, DT_C10D_MODERN, &add));
        dt_buf_put_i64(&want, i + 1);
    }
    peer_send(flood, all.at, all.len);
    for (int i = 0; i < 50; i++)
        check_still_serving(good, &n);
    peer_receive(flood, want.at, want.len);
    dt_buf_finish(&all);
    dt_buf_finish(&want);
    close(flood);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(whoever_only_closes_its_sending_side_still_gets_its_answers)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN);
    int fd = peer_greet(d.port);
    struct dt_buf all = {0}, want = {0};
    struct dt_c10d_request add = {.op = DT_C10D_ADD, .key = dt_bytes_of("n"), .number = 1};
    for (int i = 0; i < 1000; i++) {
        CHECK(dt_c10d_encode(&all, DT_C10D_MODERN, &add));
        dt_buf_put_i64(&want, i + 1);
    }
    peer_send(fd, all.at, all.len);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    peer_receive(fd, want.at, want.len);
    peer_expect_end(fd);
    dt_buf_finish(&all);
    dt_buf_finish(&want);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(places_are_taken_from_those_that_say_nothing_while_others_wait)
{
    enum { PLACES = 8 };
    struct daemon_process d;
    int silent[PLACES];
    DAEMON_START(&d, PROGRAM, LISTEN, "--max-connections", "8");
    int good = peer_greet(d.port);
    for (int i = 1; i < PLACES; i++)
        silent[i] = peer_connect(d.port);
    int late = peer_greet(d.port); /* is answered when one of them was ended */
    CHECK(daemon_log_has(&d, "others wait for its place, and it said nothing within 4 s"));
    int64_t n = 0;
    check_still_serving(good, &n);
    check_still_serving(late, &n);
    for (int i = 1; i < PLACES; i++)
        close(silent[i]);
    close(late);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(half_a_hello_keeps_no_place)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, LISTEN);
    int good = peer_greet(d.port), silent = peer_connect(d.port);
    int half = peer_connect(d.port), modern = peer_connect(d.port);
    peer_send(half, "DTR", 3);
    peer_send(modern, "\0\xce\xf7", 3);
    peer_expect_end(half);
    peer_expect_end(modern);
    int64_t n = 0;
    check_still_serving(good, &n);
    static const uint8_t legacy_keys[] = {6}; /* PyTorch 1.13 may say nothing for long */
    peer_send(silent, legacy_keys, 1);
    peer_receive(silent, "\1\0\0\0\0\0\0\0", 8);
    close(half);
    close(modern);
    close(silent);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}
