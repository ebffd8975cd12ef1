/* SPDX-License-Identifier: Apache-2.0 */
/* Who carries which file: rows of sizes, and the rank of each. */
#include "tests/lib/check.h"
#include "worker_runtime/ckpt/upload/share.h"

#define FILES 6

TEST(files_are_shared_by_size_and_over_hosts)
{
    static const struct {
        int world, hosts;
        uint64_t bytes[FILES];
        int rank[FILES];
    } rows[] = {
        {1, 1, {5, 4, 3, 2, 1, 0}, {0, 0, 0, 0, 0, 0}},
        {2, 1, {100, 100, 100, 100, 1, 1}, {0, 1, 0, 1, 0, 1}},
        /* The largest first: 50, 10 and 9 against 40, 20 and 8. */
        {2, 1, {10, 40, 50, 20, 9, 8}, {0, 1, 0, 1, 0, 1}},
        {2, 1, {100, 20, 20, 20, 20, 10}, {0, 1, 1, 1, 1, 1}},
        /* Four ranks on two hosts: 0, 1 and 2, 3. */
        {4, 2, {60, 50, 40, 30, 2, 1}, {0, 2, 1, 3, 3, 3}},
        {8, 4, {6, 5, 4, 3, 2, 1}, {0, 2, 4, 6, 1, 3}},
        /* Hosts with unlike numbers of ranks, or unknown: one after the other. */
        {3, 2, {6, 5, 4, 0, 0, 0}, {0, 1, 2, 2, 1, 2}},
        {16, 0, {6, 5, 4, 3, 2, 1}, {0, 1, 2, 3, 4, 5}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_err err = {0};
        for (int rank = 0; rank < rows[i].world; rank++) {
            struct dt_share_ranks r = {rank, rows[i].world, rows[i].hosts};
            bool mine[FILES] = {0};
            CHECK_OK(dt_share_split(&r, rows[i].bytes, FILES, mine, &err), err);
            for (int f = 0; f < FILES; f++) {
                CHECK_ROW("row %zu, rank %d, file %d", i, rank, f);
                CHECK_EQ(mine[f], rows[i].rank[f] == rank);
            }
        }
    }
}

TEST(no_files_are_nobodys)
{
    struct dt_share_ranks r = {0, 3, 1};
    struct dt_err err = {0};
    CHECK_OK(dt_share_split(&r, NULL, 0, NULL, &err), err);
}
