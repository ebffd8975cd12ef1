/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of what nodes agree on: how people read them, and what is beyond their limits. */
#include "rendezvous/protocol/spec.h"
#include "tests/lib/check.h"

static const struct dt_run_spec usual = {.min_nodes = 2,
                                         .max_nodes = 4,
                                         .max_node_losses = -1,
                                         .quarantine = 600 * DT_SECOND,
                                         .join_timeout = DT_FOREVER,
                                         .beat = 5 * DT_SECOND,
                                         .beats = 3,
                                         .torchrun_ranks = true,
                                         .script = "train.py"};

static size_t row_of(const char *name)
{
    size_t row = 0;
    while (dt_spec_fields[row].name && strcmp(dt_spec_fields[row].name, name) != 0)
        row++;
    CHECK(dt_spec_fields[row].name != NULL);
    return row;
}

TEST(people_read_words_where_a_number_has_one)
{
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"min_nodes", "2"},
        {"max_node_losses", "unlimited"},
        {"restart_reset", "never"},
        {"quarantine", "10 min"},
        {"join_timeout", "for ever"},
        {"fixed_world", "extra"},
        {"torchrun_ranks", "torchrun"},
        {"mixed", "no"},
        {"script", "train.py"},
        {"user", ""},
        {"grow_interval", "0 s"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        CHECK_ROW("%s", rows[i].name);
        CHECK_STR(dt_spec_text(&usual, row_of(rows[i].name), text, sizeof text), rows[i].text);
    }
}

TEST(the_first_member_beyond_its_limits_is_named)
{
    struct dt_run_spec spec = usual;
    struct dt_err err = {0};
    size_t row;
    CHECK_OK(dt_spec_check(&spec, &row, &err), err);
    spec.reconnect_grace = 7200 * DT_SECOND;
    CHECK_FAIL(dt_spec_check(&spec, &row, &err), err, "2 h is too much; give 0 s to 1 h");
    CHECK_EQ(row, row_of("reconnect_grace"));
    spec.spares = -1;
    CHECK_FAIL(dt_spec_check(&spec, &row, &err), err, "-1 is too little; give 0 to 1000000");
    CHECK_EQ(row, row_of("spares"));
}

TEST(members_are_compared_one_by_one)
{
    struct dt_run_spec other = usual;
    other.command = 1;
    snprintf(other.script, sizeof other.script, "eval.py");
    for (size_t row = 0; dt_spec_fields[row].name; row++) {
        const char *name = dt_spec_fields[row].name;
        bool differs = strcmp(name, "command") == 0 || strcmp(name, "script") == 0;
        CHECK_ROW("%s", name);
        CHECK_EQ(dt_spec_is_same(&usual, &other, row), !differs);
    }
}
