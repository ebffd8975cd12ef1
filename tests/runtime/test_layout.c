/* SPDX-License-Identifier: Apache-2.0 */
#include "base/chance.h"
#include "tests/lib/check.h"
#include "worker_runtime/zero/layout.h"

TEST(a_unit_is_padded_to_equal_aligned_shards)
{
    struct dt_layout l;
    struct dt_err err = {0};
    CHECK_OK(dt_layout_init(&l, (size_t[]){100, 16, 1}, 3, 3, &err), err);
    CHECK_EQ(l.unit[0].shard, 48); /* 34, aligned */
    CHECK_EQ(l.unit[0].padded, 144);
    CHECK_EQ(l.unit[1].shard, 16);
    CHECK_EQ(l.unit[1].payload_at, 100);
    CHECK_EQ(l.unit[1].padded_at, 144);
    CHECK_EQ(l.unit[2].payload_at, 116);
    CHECK_EQ(l.unit[2].shard_at, 64);
    CHECK_EQ(l.payload, 117);
    CHECK_EQ(l.padded, 144 + 48 + 48);
    CHECK_EQ(l.shard, 80);
    dt_layout_finish(&l);
}

TEST(who_owns_nothing_of_a_unit_gets_no_stretch_of_it)
{
    struct dt_layout l;
    struct dt_err err = {0};
    struct dt_stretch s;
    size_t i = 0;
    CHECK_OK(dt_layout_init(&l, (size_t[]){100, 16, 1}, 3, 3, &err), err);
    CHECK(dt_layout_owned(&l, 2, &i, &s)); /* 4 of the first unit, none of the others */
    CHECK_EQ(s.unit, 0);
    CHECK_EQ(s.payload_at, 96);
    CHECK_EQ(s.count, 4);
    CHECK(!dt_layout_owned(&l, 2, &i, &s));
    CHECK(!dt_layout_owned(&l, 2, &i, &s));
    dt_layout_finish(&l);
}

TEST(nonsense_is_refused)
{
    struct dt_layout l;
    struct dt_err err = {0};
    CHECK_FAIL(dt_layout_init(&l, (size_t[]){1}, 1, 0, &err), err, "0 ranks");
    CHECK_FAIL(dt_layout_init(&l, (size_t[]){SIZE_MAX}, 1, 2, &err), err, "unit 0");
    CHECK_FAIL(dt_layout_init(&l, (size_t[]){5, SIZE_MAX / 63}, 2, 2, &err), err, "unit 1");
    dt_layout_finish(&l);
}

static void check_layout(const struct dt_layout *l)
{
    uint8_t *seen = calloc(l->payload + 1, 1);
    for (size_t rank = 0; rank < l->world; rank++) {
        struct dt_stretch s;
        size_t end = 0;
        for (size_t i = 0; dt_layout_owned(l, rank, &i, &s);) {
            CHECK(s.count > 0 && s.count <= l->unit[s.unit].shard);
            CHECK(s.shard_at >= end); /* in order, and apart */
            CHECK(s.shard_at == l->unit[s.unit].shard_at);
            end = s.shard_at + s.count;
            for (size_t k = 0; k < s.count; k++)
                seen[s.payload_at + k]++;
        }
        CHECK(end <= l->shard);
    }
    for (size_t k = 0; k < l->payload; k++)
        if (seen[k] != 1)
            CHECK_EQ(seen[k], 1);
    free(seen);
}

TEST(every_element_has_one_owner_for_any_sizes_and_worlds)
{
    uint64_t seed = 7;
    for (int round = 0; round < 300; round++) {
        size_t sizes[9], units = dt_chance(&seed) % 10, world = 1 + dt_chance(&seed) % 17;
        for (size_t u = 0; u < units; u++)
            sizes[u] = dt_chance(&seed) % (dt_chance(&seed) % 4 ? 2000 : 20);
        CHECK_ROW("round %d, %zu units, world %zu", round, units, world);
        struct dt_layout l;
        struct dt_err err = {0};
        CHECK_OK(dt_layout_init(&l, sizes, units, world, &err), err);
        CHECK_EQ(l.padded, l.shard * world);
        for (size_t u = 0; u < units; u++) {
            CHECK(l.unit[u].padded >= sizes[u] && l.unit[u].shard % DT_SHARD_ALIGN == 0);
            CHECK(l.unit[u].padded < sizes[u] + world * DT_SHARD_ALIGN + world);
        }
        check_layout(&l);
        dt_layout_finish(&l);
    }
}
