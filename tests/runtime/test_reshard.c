/* SPDX-License-Identifier: Apache-2.0 */
#include "base/chance.h"
#include "tests/lib/check.h"
#include "worker_runtime/zero/reshard.h"

enum { UNITS = 7, TENSORS = 64 };

/* A model made up from a seed: units of a few tensors, some of one element. */
struct made {
    size_t sizes[UNITS], units, tensors;
    struct dt_reshard_tensor tensor[TENSORS];
};

static void make(struct made *m, uint64_t *seed)
{
    *m = (struct made){.units = 1 + dt_chance(seed) % UNITS};
    for (size_t u = 0; u < m->units; u++) {
        size_t n = 1 + dt_chance(seed) % 8;
        for (size_t i = 0; i < n; i++) {
            size_t count = 1 + dt_chance(seed) % (dt_chance(seed) % 2 ? 500 : 5);
            m->tensor[m->tensors++] = (struct dt_reshard_tensor){u, m->sizes[u], count};
            m->sizes[u] += count;
        }
    }
}

static struct dt_layout lay(const struct made *m, size_t world)
{
    struct dt_layout l;
    struct dt_err err = {0};
    CHECK_OK(dt_layout_init(&l, m->sizes, m->units, world, &err), err);
    return l;
}

/* Each element of payload space holds its own number + 1; what is not there holds 0. */
static uint32_t *shards_of(const struct dt_layout *l, size_t rank)
{
    uint32_t *row = calloc(l->shard + 1, sizeof *row);
    struct dt_stretch s;
    for (size_t i = 0; dt_layout_owned(l, rank, &i, &s);)
        for (size_t k = 0; k < s.count; k++)
            row[s.shard_at + k] = (uint32_t)(s.payload_at + k + 1);
    return row;
}

static void check_same(const struct dt_layout *l, size_t rank, const uint32_t *got)
{
    uint32_t *wanted = shards_of(l, rank);
    CHECK_BYTES(got, l->shard * sizeof *got, wanted, l->shard * sizeof *wanted);
    free(wanted);
}

static void check_move(const struct dt_layout *old, const struct dt_layout *new)
{
    uint32_t *from[17];
    for (size_t rank = 0; rank < old->world; rank++)
        from[rank] = shards_of(old, rank);
    for (size_t rank = 0; rank < new->world; rank++) {
        uint32_t *to = calloc(new->shard + 1, sizeof *to);
        struct dt_reshard r = {.layout = new, .rank = rank};
        struct dt_reshard_move m;
        while (dt_reshard_by_owner(&r, old, &m)) {
            CHECK(m.from_rank < old->world && m.from_at + m.count <= old->shard);
            for (size_t k = 0; k < m.count; k++) {
                CHECK(to[m.to_at + k] == 0); /* once */
                to[m.to_at + k] = from[m.from_rank][m.from_at + k];
            }
        }
        check_same(new, rank, to);
        free(to);
    }
    for (size_t rank = 0; rank < old->world; rank++)
        free(from[rank]);
}

TEST(every_element_moves_once_between_any_two_worlds)
{
    uint64_t seed = 11;
    for (int round = 0; round < 150; round++) {
        struct made m;
        make(&m, &seed);
        size_t a = 1 + dt_chance(&seed) % 17, b = 1 + dt_chance(&seed) % 17;
        CHECK_ROW("round %d: world %zu to %zu", round, a, b);
        struct dt_layout old = lay(&m, a), new = lay(&m, b);
        check_move(&old, &new);
        dt_layout_finish(&old);
        dt_layout_finish(&new);
    }
}

TEST(units_may_be_joined_on_the_way)
{
    uint64_t seed = 12;
    for (int round = 0; round < 50; round++) {
        struct made m, joined = {.units = 1};
        make(&m, &seed);
        for (size_t u = 0; u < m.units; u++)
            joined.sizes[0] += m.sizes[u];
        struct dt_layout old = lay(&m, 1 + dt_chance(&seed) % 17);
        struct dt_layout new = lay(&joined, 1 + dt_chance(&seed) % 17);
        CHECK_ROW("round %d: world %zu to %zu", round, old.world, new.world);
        check_move(&old, &new);
        check_move(&new, &old);
        dt_layout_finish(&old);
        dt_layout_finish(&new);
    }
}

static size_t payload_of(const struct made *m, const struct dt_layout *l, size_t tensor)
{
    return l->unit[m->tensor[tensor].unit].payload_at + m->tensor[tensor].offset;
}

/* As a checkpoint does: each rank writes its parts into a file, and another world reads them. */
TEST(a_file_written_by_one_world_is_read_by_another)
{
    uint64_t seed = 13;
    for (int round = 0; round < 150; round++) {
        struct made m;
        make(&m, &seed);
        struct dt_layout l = lay(&m, 1 + dt_chance(&seed) % 17);
        CHECK_ROW("round %d: world %zu, %zu tensors", round, l.world, m.tensors);
        uint32_t *file = calloc(l.payload, sizeof *file);
        for (size_t rank = 0; rank < l.world; rank++) {
            uint32_t *row = shards_of(&l, rank);
            struct dt_reshard r = {.layout = &l, .rank = rank};
            struct dt_reshard_part p;
            while (dt_reshard_by_tensor(&r, m.tensor, m.tensors, &p)) {
                CHECK(p.first + p.count <= m.tensor[p.tensor].count);
                CHECK_EQ(p.payload_at, payload_of(&m, &l, p.tensor) + p.first);
                for (size_t k = 0; k < p.count; k++) {
                    CHECK(file[p.payload_at + k] == 0);
                    file[p.payload_at + k] = row[p.shard_at + k];
                }
            }
            free(row);
        }
        for (size_t i = 0; i < l.payload; i++)
            CHECK(file[i] == i + 1);
        free(file);
        dt_layout_finish(&l);
    }
}
