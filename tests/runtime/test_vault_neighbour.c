/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/vault/neighbour.h"

#define MOST 12

static const struct row {
    const char *what;
    int world, host[MOST], neighbour[MOST];
} rows[] = {
    /* clang-format off */
    {"a rank alone",                         1, {0},                   {-1}},
    {"one host",                             3, {0, 0, 0},             {-1, -1, -1}},
    {"two hosts of one rank",                2, {0, 1},                {1, 0}},
    {"two hosts of two",                     4, {0, 0, 1, 1},          {2, 3, 0, 1}},
    {"three hosts in a ring",                6, {0, 0, 1, 1, 2, 2},    {2, 3, 4, 5, 0, 1}},
    {"three ranks and two",                  5, {0, 0, 0, 1, 1},       {3, 4, 3, 0, 1}},
    {"two ranks and three",                  5, {0, 0, 1, 1, 1},       {2, 3, 0, 1, 0}},
    {"one rank keeps the copies of all",     4, {0, 0, 0, 1},          {3, 3, 3, 0}},
    {"numbers of hosts with gaps",           4, {2, 2, 9, 9},          {2, 3, 0, 1}},
    {"hosts that come in another order",     4, {1, 1, 0, 0},          {2, 3, 0, 1}},
    {"the ring goes by numbers",             3, {5, 0, 3},             {1, 2, 0}},
    {"ranks dealt to hosts in turns",        6, {0, 1, 2, 0, 1, 2},    {1, 2, 0, 4, 5, 3}},
    /* clang-format on */
};

TEST(a_copy_is_kept_in_the_same_place_on_the_next_host)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *t = &rows[i];
        CHECK_ROW("%s", t->what);
        for (int r = 0; r < t->world; r++) {
            CHECK_ROW("rank %d", r);
            CHECK_EQ(dt_neighbour_of(t->host, t->world, r), t->neighbour[r]);
        }
    }
}

/* Neighbours and wards are two views of one thing, so a rank sends to whom listens for it. */
TEST(a_rank_keeps_the_copies_of_those_whose_neighbour_it_is)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *t = &rows[i];
        int wards[MOST], wanted[MOST];
        CHECK_ROW("%s", t->what);
        for (int r = 0; r < t->world; r++) {
            int n = dt_neighbour_wards(t->host, t->world, r, wards), m = 0;
            CHECK_ROW("rank %d", r);
            for (int q = 0; q < t->world; q++)
                if (t->neighbour[q] == r)
                    wanted[m++] = q;
            CHECK_BYTES((const void *)wards, (size_t)n * sizeof *wards, (const void *)wanted,
                        (size_t)m * sizeof *wanted);
        }
    }
}
