/* SPDX-License-Identifier: Apache-2.0 */
/* What node 0 makes of what the nodes put into the store, by a clock of the test's own. */
#include "agent/backend/fixed/exchange.h"
#include "agent/backend/fixed/panel.h"
#include "rendezvous/hang/finding.h"
#include "tests/lib/check.h"

#define NODES 2 /* with two workers each */

struct stage {
    struct dt_store *store;
    struct dt_panel *panel;
    struct dt_buf key;
    dt_ms now;
};

#define KEY(st, ...) dt_exchange_key(&(st)->key, "job", __VA_ARGS__)

static void stage_open(struct stage *st)
{
    struct dt_store_limits limits = {.keys = 1000, .bytes = 1 << 20, .value = 1 << 18};
    *st = (struct stage){.store = dt_store_create(&limits, 7), .now = 1000000};
    st->panel = dt_panel_create("job", NODES);
    CHECK(st->store && st->panel);
}

static void stage_close(struct stage *st)
{
    dt_panel_destroy(st->panel);
    dt_store_destroy(st->store);
    dt_buf_finish(&st->key);
}

static void step(struct stage *st, dt_ms passed)
{
    st->now += passed;
    dt_panel_step(st->panel, st->store, st->now);
}

static void put(struct stage *st, struct dt_bytes key, const struct dt_message *m)
{
    struct dt_buf value = {0};
    struct dt_err err;
    dt_message_encode(&value, m);
    CHECK_OK(dt_store_set(st->store, key, (struct dt_bytes){value.at, value.len}, &err), err);
    dt_buf_finish(&value);
}

static bool is_there(struct stage *st, struct dt_bytes key)
{
    return dt_store_has(st->store, key);
}

static void greet(struct stage *st, int node)
{
    struct dt_err err;
    CHECK_OK(dt_store_set(st->store, KEY(st, DT_PANEL_KNOWS, node), dt_bytes_of("1"), &err), err);
}

/* All take part, and there are four workers. */
static void begin(struct stage *st)
{
    stage_open(st);
    for (int i = 0; i < NODES; i++)
        greet(st, i);
    dt_panel_set_size(st->panel, 2 * NODES);
    step(st, 0);
}

static void say_still(struct stage *st, int node, int number, dt_ms still, bool sure)
{
    struct dt_message m = {.type = DT_MSG_STILL, .run = "job", .round = number};
    m.still.still = still;
    m.still.sure = sure;
    put(st, KEY(st, DT_PANEL_STILL, node), &m);
}

/* Both workers of NODE do that. */
static void say_looked(struct stage *st, int look, int node, enum dt_doing doing)
{
    struct dt_message m = {.type = DT_MSG_LOOKED, .run = "job"};
    struct dt_stance s = {.doing = doing, .where = "train.py:7", .sequence = -1, .step = -1};
    struct dt_err err;
    m.looked.id = look;
    for (int rank = 2 * node; rank < 2 * node + 2; rank++)
        CHECK_OK(dt_stances_add(&m.looked.stances, &s, rank, &err), err);
    put(st, KEY(st, DT_PANEL_LOOKED, (long long)look, node), &m);
    dt_stances_finish(&m.looked.stances);
}

/* "outside: the job has ..." of that look; "": there is none. */
static const char *finding(struct stage *st, int look, char out[DT_HANG_SENTENCE_MAX])
{
    struct dt_bytes value;
    struct dt_message m;
    size_t used;
    *out = '\0';
    if (!dt_store_get(st->store, KEY(st, DT_PANEL_FINDING, (long long)look), &value))
        return out;
    CHECK_EQ(dt_message_decode(value.at, value.len, DT_FRAME_MAX, &m, &used, NULL), DT_DONE);
    CHECK_EQ(m.type, DT_MSG_FINDING);
    snprintf(out, DT_HANG_SENTENCE_MAX, "%s: %s", m.finding.class, m.finding.sentence);
    dt_message_finish(&m);
    return out;
}

#define FOUND                                                                                      \
    "outside: the job has stood still for 4 s: ranks 2 and 3 sleep at train.py:7; ranks 0 and 1 "  \
    "wait in a collective at train.py:7"

TEST(all_stand_still_and_are_asked_once_and_told_why)
{
    struct stage st;
    char text[DT_HANG_SENTENCE_MAX];
    begin(&st);
    CHECK(is_there(&st, KEY(&st, DT_PANEL_TOGETHER)));
    say_still(&st, 0, 71, 4000, true);
    step(&st, 250);
    CHECK(!is_there(&st, KEY(&st, DT_PANEL_LOOK, 0, 71)));
    say_still(&st, 1, 72, 5000, true);
    step(&st, 0);
    CHECK(is_there(&st, KEY(&st, DT_PANEL_LOOK, 0, 71)));
    CHECK(is_there(&st, KEY(&st, DT_PANEL_LOOK, 1, 72)));
    say_looked(&st, 1, 0, DT_DOING_COLLECTIVE);
    step(&st, 250);
    CHECK_STR(finding(&st, 1, text), "");
    say_looked(&st, 1, 1, DT_DOING_SLEEP);
    step(&st, 250);
    CHECK_STR(finding(&st, 1, text), FOUND);
    CHECK(!is_there(&st, KEY(&st, DT_PANEL_LOOK, 0, 71)));
    CHECK(!is_there(&st, KEY(&st, DT_PANEL_LOOKED, 1ll, 1)));
    step(&st, 60 * DT_SECOND);
    CHECK(!is_there(&st, KEY(&st, DT_PANEL_LOOK, 0, 71)));
    stage_close(&st);
}

TEST(who_does_not_answer_within_a_second_is_unknown)
{
    struct stage st;
    char text[DT_HANG_SENTENCE_MAX];
    begin(&st);
    say_still(&st, 0, 71, 4000, true);
    say_still(&st, 1, 72, 4000, true);
    step(&st, 250);
    say_looked(&st, 1, 0, DT_DOING_COLLECTIVE);
    step(&st, 999);
    CHECK_STR(finding(&st, 1, text), "");
    step(&st, 1);
    CHECK(strstr(finding(&st, 1, text), "ranks 2 and 3 could not be looked at") != NULL);
    stage_close(&st);
}

TEST(one_that_moves_ends_it_and_the_next_time_is_found_anew)
{
    struct stage st;
    char text[DT_HANG_SENTENCE_MAX];
    begin(&st);
    for (int turn = 1; turn <= 2; turn++) {
        CHECK_ROW("%d", turn);
        say_still(&st, 0, 70 + turn, 4000, true);
        say_still(&st, 1, 80 + turn, 4000, true);
        step(&st, 6 * DT_SECOND);
        say_looked(&st, turn, 0, DT_DOING_COLLECTIVE);
        say_looked(&st, turn, 1, DT_DOING_SLEEP);
        step(&st, 0);
        CHECK(strstr(finding(&st, turn, text), "ranks 2 and 3 sleep") != NULL);
        dt_store_delete(st.store, KEY(&st, DT_PANEL_STILL, 1));
        step(&st, 250);
    }
    CHECK_STR(finding(&st, 1, text), "");
    stage_close(&st);
}

/* Where nobody is sure and nobody waits for another, it is looked at again five seconds later. */
TEST(what_is_doubtful_is_no_finding_and_is_looked_at_again)
{
    struct stage st;
    char text[DT_HANG_SENTENCE_MAX];
    begin(&st);
    say_still(&st, 0, 71, 4000, false);
    say_still(&st, 1, 72, 4000, false);
    step(&st, 250);
    say_looked(&st, 1, 0, DT_DOING_SLEEP);
    say_looked(&st, 1, 1, DT_DOING_SLEEP);
    step(&st, 0);
    CHECK_STR(finding(&st, 1, text), "none: nothing is known");
    say_still(&st, 0, 73, 4000, false);
    step(&st, 4999);
    CHECK(!is_there(&st, KEY(&st, DT_PANEL_LOOK, 0, 73)));
    step(&st, 1);
    CHECK(is_there(&st, KEY(&st, DT_PANEL_LOOK, 0, 73)));
    CHECK(is_there(&st, KEY(&st, DT_PANEL_LOOK, 1, 72)));
    stage_close(&st);
}

TEST(where_one_node_is_an_older_program_nobody_is_asked)
{
    struct stage st;
    stage_open(&st);
    greet(&st, 0);
    dt_panel_set_size(st.panel, 4);
    say_still(&st, 0, 71, 4000, true);
    say_still(&st, 1, 72, 4000, true);
    step(&st, 250);
    CHECK(!is_there(&st, KEY(&st, DT_PANEL_TOGETHER)));
    CHECK(!is_there(&st, KEY(&st, DT_PANEL_LOOK, 0, 71)));
    greet(&st, 1);
    step(&st, 250);
    CHECK(is_there(&st, KEY(&st, DT_PANEL_LOOK, 0, 71)));
    stage_close(&st);
}

/* Workers use the same store. */
TEST(what_makes_no_sense_is_passed_over)
{
    static const char *const values[] = {"", "x", "\x05\0\0\0{\"a\":", "\xff\xff\xff\xff{}"};
    struct stage st;
    struct dt_err err;
    begin(&st);
    say_still(&st, 0, 71, 4000, true);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        CHECK_ROW("%zu", i);
        CHECK_OK(dt_store_set(st.store, KEY(&st, DT_PANEL_STILL, 1), dt_bytes_of(values[i]), &err),
                 err);
        step(&st, 250);
        CHECK(!is_there(&st, KEY(&st, DT_PANEL_LOOK, 0, 71)));
    }
    say_still(&st, 1, 0, 4000, true); /* no number */
    step(&st, 250);
    CHECK(!is_there(&st, KEY(&st, DT_PANEL_LOOK, 0, 71)));
    say_looked(&st, 1, 1, DT_DOING_SLEEP); /* a message, of another type */
    struct dt_bytes value;
    CHECK(dt_store_get(st.store, KEY(&st, DT_PANEL_LOOKED, 1ll, 1), &value));
    struct dt_buf copy = {0};
    dt_buf_put(&copy, value.at, value.len);
    CHECK_OK(dt_store_set(st.store, KEY(&st, DT_PANEL_STILL, 1),
                          (struct dt_bytes){copy.at, copy.len}, &err),
             err);
    step(&st, 250);
    CHECK(!is_there(&st, KEY(&st, DT_PANEL_LOOK, 0, 71)));
    dt_buf_finish(&copy);
    stage_close(&st);
}
