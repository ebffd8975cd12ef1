/* SPDX-License-Identifier: Apache-2.0 */
/* The store without its wire: limits, accounting, waits that end in every way. What requests mean
 * to the byte is told by tests/golden through test_store_session.c. */
#include "rendezvous/store/store.h"
#include "tests/lib/check.h"

#include <inttypes.h>

static const struct dt_store_limits roomy = {.keys = 100000, .bytes = 64u << 20, .value = 1u << 20};

struct sleeper {
    struct dt_store_waiter waiter;
    int woken;
};

static void on_woken(struct dt_store_waiter *w)
{
    dt_container_of(w, struct sleeper, waiter)->woken++;
}

static struct dt_bytes B(const char *s) {
    return dt_bytes_of(s);
}

static void
await(struct dt_store *s, struct sleeper *who, const char *key)
{
    struct dt_err err;
    who->waiter.woken = on_woken;
    CHECK_OK(dt_store_wait_begin(s, &who->waiter, 1, &err), err);
    CHECK_OK(dt_store_wait_key(s, &who->waiter, B(key), &err), err);
}

static void check_value(struct dt_store *s, const char *key, const char *want)
{
    struct dt_bytes v;
    CHECK_EQ(dt_store_get(s, B(key), &v), want != NULL);
    if (want)
        CHECK_BYTES(v.at, v.len, want, strlen(want));
}

TEST(numbers_are_read_as_strtoll_reads_them)
{
    static const struct {
        const char *stored;
        int64_t delta;
        const char *result; /* NULL: refused, and the value stays */
    } rows[] = {
        {"5", 1, "6"},
        {"-5", 1, "-4"},
        {"  +7", 1, "8"},
        {"\t\n\v\f\r 7", 1, "8"},
        {"12abc", 1, "13"},
        {"                                                               7", 1, "8"}, /* 64 bytes */
        {"                                                                7", 1, NULL},
        {"0x10", 1, "1"},
        {"9223372036854775807", 1, "-9223372036854775808"},
        {"-9223372036854775808", -1, "9223372036854775807"},
        {"9223372036854775808", 1, NULL},
        {"-9223372036854775809", 1, NULL},
        {"99999999999999999999999", 1, NULL},
        {"", 1, NULL},
        {"-", 1, NULL},
        {"+ 1", 1, NULL},
        {"x1", 1, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("\"%s\" + %" PRId64, rows[i].stored, rows[i].delta);
        struct dt_store *s = dt_store_create(&roomy, 1);
        struct dt_err err;
        int64_t result;
        CHECK_OK(dt_store_set(s, B("n"), B(rows[i].stored), &err), err);
        if (rows[i].result)
            CHECK_OK(dt_store_add(s, B("n"), rows[i].delta, &result, &err), err);
        else
            CHECK_FAIL(dt_store_add(s, B("n"), rows[i].delta, &result, &err), err, "number");
        check_value(s, "n", rows[i].result ? rows[i].result : rows[i].stored);
        dt_store_destroy(s);
    }
}

TEST(an_absent_counter_is_zero)
{
    struct dt_store *s = dt_store_create(&roomy, 1);
    struct dt_err err;
    int64_t result = 7;
    CHECK_OK(dt_store_add(s, B("n"), 0, &result, &err), err);
    CHECK_EQ(result, 0);
    check_value(s, "n", "0");
    dt_store_destroy(s);
}

TEST(values_grow_shrink_and_are_accounted_for)
{
    struct dt_store *s = dt_store_create(&roomy, 1);
    struct dt_err err;
    static uint8_t big[1u << 20];
    CHECK_OK(dt_store_set(s, B("k"), B("small"), &err), err);
    uint64_t small = dt_store_counts(s)->bytes;
    CHECK_OK(dt_store_set(s, B("k"), (struct dt_bytes){big, sizeof big}, &err), err);
    CHECK(dt_store_counts(s)->bytes >= sizeof big);
    CHECK_OK(dt_store_set(s, B("k"), B("small"), &err), err);
    CHECK_EQ(dt_store_counts(s)->bytes, small);
    check_value(s, "k", "small");
    for (int i = 0; i < 1000; i++)
        CHECK_OK(dt_store_append(s, B("a"), B("0123456789"), &err), err);
    struct dt_bytes v;
    CHECK(dt_store_get(s, B("a"), &v));
    CHECK_EQ(v.len, 10000);
    CHECK(dt_store_delete(s, B("a")));
    CHECK(dt_store_delete(s, B("k")));
    CHECK(!dt_store_delete(s, B("k")));
    CHECK_EQ(dt_store_counts(s)->bytes, 0);
    CHECK_EQ(dt_store_counts(s)->keys, 0);
    CHECK_EQ(dt_store_counts(s)->key_bytes, 0);
    dt_store_destroy(s);
}

TEST(a_full_store_refuses_and_changes_nothing)
{
    struct dt_store_limits tight = {.keys = 3, .bytes = 1100, .value = 400};
    struct dt_store *s = dt_store_create(&tight, 1);
    struct dt_err err;
    static uint8_t bytes[500];
    CHECK_FAIL(dt_store_set(s, B("k"), (struct dt_bytes){bytes, 401}, &err), err, "limit of 400");
    CHECK_OK(dt_store_set(s, B("k"), (struct dt_bytes){bytes, 400}, &err), err);
    CHECK_FAIL(dt_store_append(s, B("k"), B("x"), &err), err, "limit of 400");
    CHECK_OK(dt_store_set(s, B("l"), (struct dt_bytes){bytes, 300}, &err), err);
    CHECK_FAIL(dt_store_set(s, B("m"), (struct dt_bytes){bytes, 300}, &err), err, "store is full");
    check_value(s, "m", NULL);
    uint64_t before = dt_store_counts(s)->bytes;
    CHECK_FAIL(dt_store_append(s, B("l"), (struct dt_bytes){bytes, 100}, &err), err, "is full");
    CHECK_FAIL(dt_store_queue_push(s, B("q"), (struct dt_bytes){bytes, 100}, &err), err, "full");
    CHECK_EQ(dt_store_counts(s)->bytes, before);
    CHECK_EQ(dt_store_counts(s)->queues, 0);
    CHECK_OK(dt_store_set(s, B("m"), B(""), &err), err);
    CHECK_FAIL(dt_store_set(s, B("n"), B(""), &err), err, "3 keys");
    CHECK_OK(dt_store_set(s, B("k"), B("room again"), &err), err);
    CHECK_EQ(dt_store_counts(s)->refused, 6);
    dt_store_destroy(s);
}

TEST(lowered_limits_refuse_more_and_drop_nothing)
{
    struct dt_store_limits lower = {.keys = 1, .bytes = 10, .value = 5000};
    struct dt_store *s = dt_store_create(&roomy, 1);
    struct dt_err err;
    static uint8_t bytes[5000];
    CHECK_OK(dt_store_set(s, B("k"), (struct dt_bytes){bytes, 4000}, &err), err);
    dt_store_set_limits(s, &lower);
    CHECK_FAIL(dt_store_set(s, B("k"), (struct dt_bytes){bytes, 5000}, &err), err, "store is full");
    CHECK_FAIL(dt_store_set(s, B("l"), B(""), &err), err, "1 keys");
    CHECK_OK(dt_store_set(s, B("k"), B("less"), &err), err);
    check_value(s, "k", "less");
    CHECK_OK(dt_store_set(s, B("k"), B("same"), &err), err);
    dt_store_destroy(s);
}

TEST(waits_count_towards_the_limit)
{
    struct dt_store_limits tight = {.keys = 10, .bytes = 700, .value = 100};
    struct dt_store *s = dt_store_create(&tight, 1);
    struct dt_err err;
    struct sleeper who = {.waiter = {.woken = on_woken}};
    CHECK_FAIL(dt_store_wait_begin(s, &who.waiter, 131072, &err), err, "store is full");
    CHECK_FAIL(dt_store_wait_begin(s, &who.waiter, UINT64_MAX / 64, &err), err, "store is full");
    CHECK_OK(dt_store_wait_begin(s, &who.waiter, 8, &err), err);
    int fitted = 0;
    for (char key[] = "a"; key[0] < 'i' && dt_store_wait_key(s, &who.waiter, B(key), &err) == 0;
         key[0]++)
        fitted++;
    CHECK(fitted > 0 && fitted < 8);
    CHECK_EQ(who.waiter.missing, 0); /* the failure ended the whole wait */
    CHECK_EQ(dt_store_counts(s)->bytes, 0);
    CHECK_EQ(dt_store_counts(s)->waiting, 0);
    dt_store_destroy(s);
}

TEST(the_tables_of_keys_count_towards_the_limit)
{
    struct dt_store_limits limits = {.keys = 1u << 20, .bytes = 4u << 20, .value = 100};
    struct dt_store *s = dt_store_create(&limits, 1);
    struct dt_err err;
    int keys = 0;
    char key[16];
    do
        snprintf(key, sizeof key, "%d", keys++);
    while (dt_store_set(s, B(key), B("1"), &err) == 0);
    CHECK_FAIL(dt_store_set(s, B(key), B("1"), &err), err, "store is full");
    CHECK(dt_store_counts(s)->bytes <= limits.bytes);
    /* At the least: an entry of malloc's, and a slot in a table that is full to three quarters. */
    CHECK((uint64_t)keys * (32 + 12 * 4 / 3) <= limits.bytes);
    for (int i = 0; i < keys - 1; i++) {
        snprintf(key, sizeof key, "%d", i);
        CHECK(dt_store_delete(s, B(key)));
    }
    CHECK_EQ(dt_store_counts(s)->bytes, 0);
    dt_store_destroy(s);
}

TEST(one_set_wakes_every_waiter_of_the_key)
{
    enum { MANY = 10000 };
    static struct sleeper who[MANY];
    struct dt_store *s = dt_store_create(&roomy, 1);
    struct dt_err err;
    for (int i = 0; i < MANY; i++)
        await(s, &who[i], "go");
    CHECK_EQ(dt_store_counts(s)->waiting, MANY);
    CHECK_OK(dt_store_set(s, B("stay"), B("1"), &err), err);
    CHECK_EQ(who[0].woken, 0);
    CHECK_OK(dt_store_set(s, B("go"), B("1"), &err), err);
    for (int i = 0; i < MANY; i++)
        if (who[i].woken != 1)
            CHECK_EQ(who[i].woken, 1);
    CHECK_EQ(dt_store_counts(s)->waiting, 0);
    CHECK_EQ(dt_store_counts(s)->woken, MANY);
    CHECK_OK(dt_store_set(s, B("go"), B("2"), &err), err);
    CHECK_EQ(who[0].woken, 1);
    dt_store_destroy(s);
}

TEST(a_key_that_is_named_many_times_in_one_wait_is_waited_for_once)
{
    struct dt_store *s = dt_store_create(&roomy, 7);
    struct sleeper who = {.waiter.woken = on_woken};
    struct dt_err err;
    CHECK_OK(dt_store_wait_begin(s, &who.waiter, 1000, &err), err);
    for (int i = 0; i < 1000; i++)
        CHECK_OK(dt_store_wait_key(s, &who.waiter, B(i == 500 ? "other" : "go"), &err), err);
    CHECK_EQ(dt_store_counts(s)->waiting, 2);
    CHECK_OK(dt_store_set(s, B("go"), B("1"), &err), err);
    CHECK_EQ(who.woken, 0);
    CHECK_OK(dt_store_set(s, B("other"), B("1"), &err), err);
    CHECK_EQ(who.woken, 1);
    CHECK_EQ(dt_store_counts(s)->waiting, 0);
    dt_store_destroy(s);
}

TEST(a_cancelled_wait_leaves_nothing)
{
    struct dt_store *s = dt_store_create(&roomy, 1);
    struct dt_err err;
    struct sleeper who = {.waiter = {.woken = on_woken}}, other = {0};
    await(s, &other, "a");
    CHECK_OK(dt_store_wait_begin(s, &who.waiter, 3, &err), err);
    for (char key[] = "a"; key[0] < 'd'; key[0]++)
        CHECK_OK(dt_store_wait_key(s, &who.waiter, B(key), &err), err);
    CHECK_OK(dt_store_set(s, B("b"), B("1"), &err), err);
    CHECK_EQ(who.waiter.missing, 2);
    dt_store_wait_cancel(s, &who.waiter);
    dt_store_wait_cancel(s, &who.waiter);
    CHECK_OK(dt_store_set(s, B("a"), B("1"), &err), err);
    CHECK_OK(dt_store_set(s, B("c"), B("1"), &err), err);
    CHECK_EQ(who.woken, 0);
    CHECK_EQ(other.woken, 1);
    CHECK_EQ(dt_store_counts(s)->waiting, 0);
    dt_store_destroy(s);
}

TEST(every_way_to_make_a_key_wakes)
{
    static const char *const ways[] = {"set", "append", "add", "compare_set", "push", "barrier"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        CHECK_ROW("%s", ways[i]);
        struct dt_store *s = dt_store_create(&roomy, 1);
        struct dt_err err;
        struct sleeper who = {0}, caller = {.waiter = {.woken = on_woken}};
        struct dt_bytes answer;
        int64_t n;
        bool open;
        await(s, &who, "k");
        int rc[] = {
            i == 0 ? dt_store_set(s, B("k"), B("1"), &err) : 0,
            i == 1 ? dt_store_append(s, B("k"), B("1"), &err) : 0,
            i == 2 ? dt_store_add(s, B("k"), 1, &n, &err) : 0,
            i == 3 ? dt_store_compare_set(s, B("k"), B(""), B("1"), &answer, &err) : 0,
            i == 4 ? dt_store_queue_push(s, B("k"), B("1"), &err) : 0,
            i == 5 ? dt_store_barrier(s, &caller.waiter, B("k"), 1, &open, &err) : 0,
        };
        CHECK_EQ(rc[i], 0);
        CHECK_EQ(who.woken, 1);
        CHECK_EQ(caller.woken, 0); /* whoever opens a barrier is answered, not woken */
        dt_store_destroy(s);
    }
}

TEST(a_barrier_that_cannot_be_waited_for_does_not_count)
{
    struct dt_store_limits tight = {.keys = 10, .bytes = 120, .value = 100};
    struct dt_store *s = dt_store_create(&tight, 1);
    struct dt_err err;
    struct sleeper who = {.waiter = {.woken = on_woken}};
    bool open;
    CHECK_FAIL(dt_store_barrier(s, &who.waiter, B("barrier"), 2, &open, &err), err, "full");
    CHECK_EQ(dt_store_counts(s)->bytes, 0);
    CHECK_EQ(dt_store_counts(s)->keys, 0);
    CHECK_EQ(dt_store_counts(s)->waiting, 0);
    dt_store_destroy(s);
}

TEST(a_barrier_on_what_is_no_number_is_refused)
{
    struct dt_store *s = dt_store_create(&roomy, 1);
    struct dt_err err;
    struct sleeper who = {.waiter = {.woken = on_woken}};
    bool open;
    CHECK_OK(dt_store_set(s, B("b"), B("text"), &err), err);
    CHECK_FAIL(dt_store_barrier(s, &who.waiter, B("b"), 2, &open, &err), err, "number");
    CHECK_EQ(who.waiter.missing, 0);
    CHECK_EQ(dt_store_counts(s)->waiting, 0);
    dt_store_destroy(s);
}

TEST(queues_are_first_in_first_out_and_vanish_when_empty)
{
    struct dt_store *s = dt_store_create(&roomy, 1);
    struct dt_err err;
    struct dt_bytes item;
    for (char text[] = "a"; text[0] <= 'c'; text[0]++)
        CHECK_OK(dt_store_queue_push(s, B("q"), B(text), &err), err);
    CHECK_EQ(dt_store_queue_len(s, B("q")), 3);
    CHECK(dt_store_has(s, B("q")));
    for (char text[] = "a"; text[0] <= 'c'; text[0]++) {
        CHECK(dt_store_queue_front(s, B("q"), &item) > 0);
        CHECK_BYTES(item.at, item.len, text, 1);
        dt_store_queue_pop(s, B("q"));
    }
    CHECK_EQ(dt_store_queue_front(s, B("q"), &item), 0);
    CHECK(!dt_store_has(s, B("q")));
    CHECK_EQ(dt_store_counts(s)->bytes, 0);
    dt_store_destroy(s);
}

TEST(three_hundred_thousand_operations_keep_the_books_straight)
{
    struct dt_store *s = dt_store_create(&roomy, 1);
    struct dt_err err;
    uint64_t random = 42;
    static uint8_t bytes[300];
    for (int i = 0; i < 300000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        char key[16];
        snprintf(key, sizeof key, "k%u", (unsigned)(random >> 40) % 500);
        struct dt_bytes value = {bytes, (size_t)(random >> 33) % sizeof bytes};
        struct dt_bytes item;
        switch (random >> 61) {
        case 0:
            dt_store_delete(s, B(key));
            break;
        case 1:
            dt_store_append(s, B(key), B("xyz"), &err);
            break;
        case 2:
            dt_store_queue_push(s, B(key), value, &err);
            break;
        case 3:
            if (dt_store_queue_front(s, B(key), &item))
                dt_store_queue_pop(s, B(key));
            break;
        default:
            dt_store_set(s, B(key), value, &err);
        }
    }
    for (int i = 0; i < 500; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        dt_store_delete(s, B(key));
        while (dt_store_queue_len(s, B(key)))
            dt_store_queue_pop(s, B(key));
    }
    CHECK_EQ(dt_store_counts(s)->bytes, 0);
    CHECK_EQ(dt_store_counts(s)->keys, 0);
    CHECK_EQ(dt_store_counts(s)->queues, 0);
    dt_store_destroy(s);
}
