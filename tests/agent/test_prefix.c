/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/prefix.h"

#include "tests/lib/check.h"

/* clang-format off */
static const struct row {
    const char *form;
    int ranks[8];
    size_t count;
    const char *wanted; /* the first local rank is rank 8 */
} rows[] = {
    {NULL, {0}, 1, "[default0]:"},
    {NULL, {7}, 1, "[default7]:"},
    {"${role_name} $rank/${local_rank}> ", {3}, 1, "default 11/3> "},
    {"$$rank $unknown ${rank", {3}, 1, "$rank $unknown ${rank"},
    {"", {3}, 1, ""},
    {NULL, {0, 1, 2, 3}, 4, "[default0-3]:"},
    {NULL, {0, 2, 3, 7}, 4, "[default0,2-3,7]:"},
    {"$rank:", {0, 2, 3, 7}, 4, "8,10-11,15:"},
};
/* clang-format on */

TEST(a_prefix_names_who_speaks)
{
    for (const struct row *r = rows; r < rows + sizeof rows / sizeof *rows; r++) {
        CHECK_ROW("%zu", (size_t)(r - rows));
        struct dt_plan plan = {.role = (char *)"default", .line_prefix = (char *)r->form};
        char *prefix = dt_prefix_many(&plan, r->ranks, r->count, 8);
        CHECK_STR(prefix, r->wanted);
        free(prefix);
    }
    struct dt_plan plan = {.role = (char *)"trainer"};
    char *prefix = dt_prefix_one(&plan, 2, 8);
    CHECK_STR(prefix, "[trainer2]:");
    free(prefix);
}
