/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/way.h"

#include "tests/lib/check.h"

#define O DT_STDOUT
#define E DT_STDERR

static char *filters[] = {(char *)"loss", NULL};
static char *no_filters[] = {NULL};

/* clang-format off */
static const struct row {
    const char *what;
    struct dt_plan_streams streams;
    bool no_files, inherit, strip;
    char **out_filters;
    enum dt_way out, err;
    bool shared; /* where our two are one */
} rows[] = {
    {"nothing asked for", {0}, .out = DT_WAY_RELAYED, .err = DT_WAY_RELAYED, .shared = true},
    {"hidden", {.hidden = true}, .out = DT_WAY_RELAYED, .err = DT_WAY_RELAYED, .shared = true},
    {"redirected", {.redirect = O}, .out = DT_WAY_FILE, .err = DT_WAY_RELAYED},
    {"both redirected", {.redirect = O | E}, .out = DT_WAY_FILE, .err = DT_WAY_FILE},
    {"teed", {.tee = E}, .out = DT_WAY_RELAYED, .err = DT_WAY_TEED},
    {"redirected and teed", {.redirect = O | E, .tee = O}, .out = DT_WAY_TEED, .err = DT_WAY_FILE},
    {"teed, hidden", {.tee = O, .hidden = true}, .out = DT_WAY_FILE, .err = DT_WAY_RELAYED},
    {"teed, hidden, searched", {.tee = O | E, .hidden = true}, .out_filters = filters,
        .out = DT_WAY_TEED, .err = DT_WAY_FILE},
    {"teed, hidden, not searched", {.tee = O, .hidden = true}, .out_filters = no_filters,
        .out = DT_WAY_FILE, .err = DT_WAY_RELAYED},
    {"teed, hidden, stripped", {.tee = O, .hidden = true}, .strip = true,
        .out = DT_WAY_TEED, .err = DT_WAY_RELAYED},
    {"redirected, searched", {.redirect = O}, .out_filters = filters,
        .out = DT_WAY_FILE, .err = DT_WAY_RELAYED},
    {"no files", {.redirect = O, .tee = E}, .no_files = true,
        .out = DT_WAY_RELAYED, .err = DT_WAY_RELAYED, .shared = true},
    {"really inherited", {.tee = E}, .inherit = true, .out = DT_WAY_INHERITED, .err = DT_WAY_TEED},
    {"really inherited, no files", {.tee = E}, .no_files = true, .inherit = true,
        .out = DT_WAY_INHERITED, .err = DT_WAY_INHERITED},
};
/* clang-format on */

TEST(the_options_of_output_together_say_which_way_a_stream_goes)
{
    for (const struct row *r = rows; r < rows + sizeof rows / sizeof *rows; r++) {
        CHECK_ROW("%s", r->what);
        struct dt_plan_streams streams[2] = {{.redirect = O | E, .hidden = true}, r->streams};
        struct dt_plan plan = {.nproc = 2,
                               .streams = streams,
                               .inherit_streams = r->inherit,
                               .strip_codes = r->strip,
                               .stdout_filters = r->out_filters};
        CHECK_EQ(dt_way_of(&plan, !r->no_files, 1, O), r->out);
        CHECK_EQ(dt_way_of(&plan, !r->no_files, 1, E), r->err);
        CHECK_EQ(dt_way_shared(&plan, !r->no_files, 1, true), r->shared);
        CHECK(!dt_way_shared(&plan, !r->no_files, 1, false));
    }
}
