/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/fixed/elders.h"
#include "tests/lib/check.h"

static struct dt_store *store_open(void)
{
    struct dt_store_limits limits = {.keys = 1000, .bytes = 1 << 20, .value = 1 << 16};
    struct dt_store *s = dt_store_create(&limits, 1);
    CHECK(s != NULL);
    return s;
}

static struct dt_elders *elders_open(int nodes)
{
    struct dt_elders *e = dt_elders_create("job", nodes);
    CHECK(e != NULL);
    return e;
}

static void set(struct dt_store *s, const char *key, const char *value)
{
    struct dt_err err;
    CHECK_OK(dt_store_set(s, dt_bytes_of(key), dt_bytes_of(value), &err), err);
}

static void check_value(struct dt_store *s, const char *key, const char *want)
{
    struct dt_bytes value;
    CHECK_ROW("%s", key);
    CHECK_EQ(dt_store_get(s, dt_bytes_of(key), &value), want != NULL);
    if (want)
        CHECK_BYTES(value.at, value.len, want, strlen(want));
}

#define PREFIX "/job/torchelastic/"
#define STATE PREFIX "agent/terminal_state"

TEST(what_an_elder_said_is_said_for_the_younger_ones_and_the_reverse)
{
    struct dt_store *s = store_open();
    struct dt_elders *e = elders_open(3);
    set(s, PREFIX "role_info/0", "zero");
    CHECK_EQ(dt_elders_hear(e, s), 0);
    set(s, PREFIX "role_info2", "two");
    CHECK_EQ(dt_elders_hear(e, s), 1);
    check_value(s, PREFIX "role_info/2", "two");
    set(s, PREFIX "role_info/1", "one");
    CHECK_EQ(dt_elders_hear(e, s), 1);
    check_value(s, PREFIX "role_info0", NULL); /* not before all have said it */
    dt_elders_tell(e, s, "host", 29500);
    check_value(s, PREFIX "role_info0", "zero");
    check_value(s, PREFIX "role_info1", "one");
    check_value(s, "/job/MASTER_ADDR", "host");
    check_value(s, "/job/MASTER_PORT", "29500");
    CHECK_EQ(dt_elders_hear(e, s), 1); /* of the younger ones none has become one by that */
    dt_elders_destroy(e);
    dt_store_destroy(s);
}

TEST(elders_are_counted_in_once_and_let_go_with_the_others)
{
    struct dt_store *s = store_open();
    struct dt_elders *e = elders_open(3);
    int64_t count;
    struct dt_err err;
    set(s, PREFIX "role_info1", "one");
    set(s, PREFIX "role_info2", "two");
    CHECK_EQ(dt_elders_hear(e, s), 2);
    set(s, STATE "1", "1");
    dt_elders_count(e, s);
    dt_elders_count(e, s);
    check_value(s, STATE "/num_members", "1");
    CHECK_OK(dt_store_add(s, dt_bytes_of(STATE "/num_members"), 1, &count, &err), err);
    check_value(s, STATE "/last_member", NULL);
    set(s, STATE "2", "2");
    dt_elders_count(e, s);
    check_value(s, STATE "/last_member", "<val_ignored>"); /* it was the last */
    check_value(s, STATE "0", NULL);
    dt_elders_release(e, s);
    check_value(s, STATE "0", "0");
    dt_elders_destroy(e);
    dt_store_destroy(s);
}

TEST(without_elders_nothing_is_set)
{
    struct dt_store *s = store_open();
    struct dt_elders *e = elders_open(2);
    set(s, PREFIX "role_info/0", "zero");
    set(s, PREFIX "role_info/1", "one");
    set(s, STATE "1", "of somebody else");
    CHECK_EQ(dt_elders_hear(e, s), 0);
    dt_elders_tell(e, s, "host", 1);
    dt_elders_count(e, s);
    dt_elders_release(e, s);
    CHECK_EQ(dt_store_counts(s)->keys, 3);
    dt_elders_destroy(e);
    dt_elders_destroy(NULL);
    dt_store_destroy(s);
}
