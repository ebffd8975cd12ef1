/* SPDX-License-Identifier: Apache-2.0 */
/* The recorded conversations of tests/golden, byte for byte, however the bytes are sliced. */
#include "base/auto.h"
#include "base/fs.h"
#include "base/str.h"
#include "rendezvous/store/session.h"
#include "tests/lib/check.h"

#include <ctype.h>

#define CLIENTS 3

/* One conversation's world: a fresh store and some clients that speak without sockets. */
struct stage {
    struct dt_store *store;
    struct client {
        struct dt_store_session session;
        struct dt_buf in;
        bool there, closed;
    } clients[CLIENTS];
    size_t slice; /* bytes handed over at once */
};

static void nothing_on_wake(struct dt_store_session *s)
{
    (void)s;
}

static struct client *client_of(struct stage *st, char letter)
{
    struct client *c = &st->clients[tolower((unsigned char)letter) - 'a'];
    if (!c->there) {
        struct dt_c10d_limits limits = DT_C10D_LIMITS_DEFAULT;
        dt_store_session_init(&c->session, st->store, &limits, DT_C10D_L1, 64u << 20,
                              nothing_on_wake);
        c->there = true;
    }
    return c;
}

/* Carries out what the client's input holds; what is left is an incomplete request. */
static void drain(struct client *c)
{
    while (!c->closed) {
        size_t used;
        enum dt_c10d_op op;
        struct dt_err err;
        enum dt_decoded got =
            dt_store_session_step(&c->session, c->in.at, c->in.len, &used, &op, &err);
        if (got == DT_MORE) {
            CHECK(c->session.decoder.needed > c->in.len);
            return;
        }
        if (got == DT_BAD)
            c->closed = true;
        else
            dt_buf_consume(&c->in, used);
    }
}

static void send_bytes(struct stage *st, struct client *c, const uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at < len && !c->closed; at += st->slice) {
        dt_buf_put(&c->in, bytes + at, len - at < st->slice ? len - at : st->slice);
        drain(c);
    }
}

static size_t from_hex(const char *text, uint8_t *out, size_t size)
{
    size_t n = 0;
    while (*text && !(text[0] == '-' && text[1] == '-')) {
        unsigned byte;
        if (isspace((unsigned char)*text)) {
            text++;
            continue;
        }
        CHECK_EQ(sscanf(text, "%2x", &byte), 1);
        CHECK(n < size);
        out[n++] = (uint8_t)byte;
        text += 2;
    }
    return n;
}

static void greet(struct stage *st, struct client *c)
{
    static const uint8_t hello[] = {0, 0xce, 0xf7, 0x85, 0x3c, 0x0d, 1, 2, 3, 4};
    send_bytes(st, c, hello, sizeof hello);
    CHECK_BYTES(c->session.out.at, c->session.out.len, hello + 6, 4);
    dt_buf_clear(&c->session.out);
}

static void play_line(struct stage *st, const char *line)
{
    uint8_t bytes[4096];
    struct client *c = client_of(st, line[0]);
    if (isupper((unsigned char)line[0]))
        greet(st, c);
    if (line[1] == '.') {
        CHECK(c->closed);
        return;
    }
    size_t n = from_hex(line + 2, bytes, sizeof bytes);
    if (line[1] == '>') {
        send_bytes(st, c, bytes, n);
    } else {
        CHECK_BYTES(c->session.out.at, c->session.out.len, bytes, n);
        dt_buf_clear(&c->session.out);
    }
}

static void stage_open(struct stage *st, size_t slice)
{
    struct dt_store_limits limits = {.keys = 1000, .bytes = 1u << 20, .value = 64u << 10};
    *st = (struct stage){.store = dt_store_create(&limits, 1), .slice = slice};
}

static void stage_close(struct stage *st)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &st->clients[i];
        /* Unless something was closed on purpose every client was understood to its last byte. */
        CHECK(c->closed || c->in.len == 0);
        if (c->there)
            dt_store_session_finish(&c->session);
        dt_buf_finish(&c->in);
    }
    CHECK_EQ(dt_store_counts(st->store)->waiting, 0);
    dt_store_destroy(st->store);
}

static void play_file(const char *path, size_t slice)
{
    struct dt_buf text = {0};
    struct dt_err err;
    CHECK_OK(dt_fs_read(path, 1u << 20, &text, &err), err);
    struct stage st;
    stage_open(&st, slice);
    int conversations = 0, number = 0;
    char *rest = (char *)text.at;
    dt_buf_cstr(&text);
    for (char *line; (line = strsep(&rest, "\n"));) {
        number++;
        CHECK_ROW("%s:%d in slices of %zu", path, number, slice);
        if (strncmp(line, "==", 2) == 0) {
            stage_close(&st);
            stage_open(&st, slice);
            conversations++;
        } else if (*line && *line != '#') {
            play_line(&st, line);
        }
    }
    stage_close(&st);
    CHECK(conversations > 5);
    dt_buf_finish(&text);
}

static void play_in_slices(const char *name)
{
    static const size_t slices[] = {1, 2, 3, 7, 4096};
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", DT_GOLDEN_DIR, name);
        play_file(path, slices[i]);
    }
}

TEST(modern_conversations_are_answered_as_recorded)
{
    play_in_slices("c10d-modern.golden");
}

TEST(legacy_conversations_are_answered_as_recorded)
{
    play_in_slices("c10d-legacy.golden");
}

TEST(where_we_differ_on_purpose)
{
    play_in_slices("c10d-ours.golden");
}

static void put_key_request(struct dt_buf *to, enum dt_c10d_op op, const char *key, int64_t number,
                            const char *value)
{
    struct dt_c10d_request req = {
        .op = op, .key = dt_bytes_of(key), .value = dt_bytes_of(value), .number = number};
    CHECK(dt_c10d_encode(to, DT_C10D_MODERN, &req));
}

TEST(thousands_of_requests_in_one_segment)
{
    struct stage st;
    stage_open(&st, SIZE_MAX / 2);
    struct client *c = client_of(&st, 'a');
    greet(&st, c);
    struct dt_buf all = {0};
    for (int i = 0; i < 5000; i++)
        put_key_request(&all, DT_C10D_ADD, "n", i, "");
    send_bytes(&st, c, all.at, all.len);
    struct dt_reader r = dt_reader_over(c->session.out.at, c->session.out.len);
    int64_t sum = 0;
    for (int i = 0; i < 5000; i++) {
        sum += i;
        CHECK_EQ(dt_read_i64(&r), sum);
    }
    CHECK_EQ(dt_reader_left(&r), 0);
    dt_buf_finish(&all);
    stage_close(&st);
}

TEST(an_answer_larger_than_a_peer_may_hold_closes_it)
{
    struct stage st;
    stage_open(&st, SIZE_MAX / 2);
    struct client *c = client_of(&st, 'a');
    greet(&st, c);
    c->session.most_out = 30000;
    struct dt_buf all = {0};
    char big[10001];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    put_key_request(&all, DT_C10D_SET, "k", 0, big);
    struct dt_buf items = {0};
    for (int i = 0; i < 3; i++)
        dt_c10d_put_item(&items, dt_bytes_of("k"), NULL);
    struct dt_c10d_request get = {
        .op = DT_C10D_MULTI_GET, .count = 3, .items = {items.at, items.len}};
    CHECK(dt_c10d_encode(&all, DT_C10D_MODERN, &get));
    send_bytes(&st, c, all.at, all.len);
    CHECK(c->closed);
    CHECK_EQ(c->session.out.len, 0); /* nothing of an answer that cannot be whole */
    dt_buf_finish(&items);
    dt_buf_finish(&all);
    stage_close(&st);
}

TEST(the_2_1_dialect_is_a_switch)
{
    struct stage st;
    stage_open(&st, SIZE_MAX / 2);
    struct client *c = client_of(&st, 'a');
    c->session.decoder.legacy = DT_C10D_L2;
    struct dt_buf all = {0};
    struct dt_c10d_request append = {
        .op = DT_C10D_APPEND, .key = dt_bytes_of("k"), .value = dt_bytes_of("xy")};
    struct dt_c10d_request drop = {.op = DT_C10D_DELETE_KEY, .key = dt_bytes_of("k")};
    CHECK(dt_c10d_encode(&all, DT_C10D_L2, &append));
    CHECK(dt_c10d_encode(&all, DT_C10D_L2, &drop));
    CHECK_EQ(all.at[0], 8);
    send_bytes(&st, c, all.at, all.len);
    static const uint8_t one[8] = {1};
    CHECK_BYTES(c->session.out.at, c->session.out.len, one, 8);
    dt_buf_finish(&all);
    stage_close(&st);
}

TEST(a_restricted_peer_is_refused_before_its_lengths_count)
{
    static const struct {
        const char *what;
        uint8_t bytes[32];
        size_t len;
        enum dt_decoded got;
    } rows[] = {
        {"SET", {1}, 1, DT_BAD},
        {"GET", {3}, 1, DT_BAD},
        {"a list of keys to wait for", {6, 1}, 9, DT_BAD},
        {"a longer key to check", {5, 1, 0, 0, 0, 0, 0, 0, 0, 13}, 17, DT_BAD},
        {"two keys to check", {5, 2}, 9, DT_BAD},
        {"half of a ping", {13}, 1, DT_MORE},
        {"half of the key", {5, 1, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, '/'}, 18, DT_MORE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].what);
        struct stage st;
        struct dt_err err;
        size_t used;
        enum dt_c10d_op op;
        stage_open(&st, 1);
        struct dt_store_session *s = &client_of(&st, 'A')->session;
        dt_store_session_restrict(s);
        greet(&st, client_of(&st, 'A'));
        CHECK_EQ(dt_store_session_step(s, rows[i].bytes, rows[i].len, &used, &op, &err),
                 rows[i].got);
        stage_close(&st);
    }
}

static bool say_no(struct dt_store_session *s, uint64_t n)
{
    (void)s;
    return n < 8;
}

TEST(a_request_without_room_for_its_answer_has_no_effect)
{
    static const uint8_t add[] = {4, 1, 0, 0, 0, 0, 0, 0, 0, 'n', 1, 0, 0, 0, 0, 0, 0, 0};
    struct stage st;
    struct dt_err err;
    size_t used;
    enum dt_c10d_op op;
    stage_open(&st, 1);
    struct dt_store_session *s = &client_of(&st, 'A')->session;
    greet(&st, client_of(&st, 'A'));
    s->may_answer = say_no;
    CHECK_EQ(dt_store_session_step(s, add, sizeof add, &used, &op, &err), DT_MORE);
    CHECK(s->no_room);
    CHECK_EQ(dt_store_counts(st.store)->keys, 0);
    s->may_answer = NULL;
    CHECK_EQ(dt_store_session_step(s, add, sizeof add, &used, &op, &err), DT_DONE);
    CHECK(!s->no_room);
    CHECK_BYTES(s->out.at, s->out.len, "\1\0\0\0\0\0\0\0", 8);
    stage_close(&st);
}
