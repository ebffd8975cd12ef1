/* SPDX-License-Identifier: Apache-2.0 */
/* Which step a world comes back to, from tables of who holds what. */
#include "tests/lib/check.h"
#include "worker_runtime/vault/choose.h"

#define RANKS 8

struct hold {
    int holder, source, epoch, step, world, rank, shard;
};

struct row {
    const char *name;
    struct hold hold[16]; /* ends with a source of 0 */
    int epoch, step;      /* of the checkpoint; -1: none */
    const char *want;     /* "" : none */
};

enum { MEMORY = DT_VAULT_OWN_MEMORY, OWN = DT_VAULT_OWN, COPY = DT_VAULT_COPY };

static const struct row rows[] = {
    {.name = "nobody holds anything", .epoch = -1, .step = -1, .want = ""},
    {.name = "the newest step of which all is there",
     .hold = {{0, MEMORY, 0, 7, 2, 0, 16}, {1, OWN, 0, 7, 2, 1, 16}, {0, MEMORY, 0, 8, 2, 0, 16}},
     .epoch = -1,
     .step = -1,
     .want = "0.7 of 2: rank 0 from its own memory, rank 1 from its own vault"},
    {.name = "a later world's earlier step",
     .hold = {{0, OWN, 3, 5, 1, 0, 16}, {1, OWN, 2, 9, 1, 0, 16}},
     .epoch = -1,
     .step = -1,
     .want = "3.5 of 1: rank 0 from its own vault"},
    {.name = "the checkpoint is newer",
     .hold = {{0, OWN, 0, 7, 1, 0, 16}},
     .epoch = 0,
     .step = 8,
     .want = ""},
    {.name = "the checkpoint is of a later world",
     .hold = {{0, OWN, 0, 7, 1, 0, 16}},
     .epoch = 1,
     .step = 2,
     .want = ""},
    {.name = "the checkpoint is the same step",
     .hold = {{0, OWN, 0, 7, 1, 0, 16}},
     .epoch = 0,
     .step = 7,
     .want = "0.7 of 1: rank 0 from its own vault"},
    {.name = "shards cut for different worlds do not mix",
     .hold = {{0, OWN, 0, 7, 2, 0, 16}, {1, OWN, 0, 7, 3, 1, 16}, {2, OWN, 0, 7, 3, 2, 16}},
     .epoch = -1,
     .step = -1,
     .want = ""},
    {.name = "nor do shards of different sizes",
     .hold = {{0, OWN, 0, 7, 2, 0, 16}, {1, OWN, 0, 7, 2, 1, 32}},
     .epoch = -1,
     .step = -1,
     .want = ""},
    {.name = "two of one shard are not two shards",
     .hold = {{0, OWN, 0, 7, 2, 0, 16}, {1, COPY, 0, 7, 2, 0, 16}},
     .epoch = -1,
     .step = -1,
     .want = ""},
    {.name = "own memory before a vault, a vault before a copy",
     .hold = {{0, COPY, 0, 7, 3, 1, 16},
              {0, COPY, 0, 7, 3, 0, 16},
              {1, MEMORY, 0, 7, 3, 0, 16},
              {2, OWN, 0, 7, 3, 1, 16},
              {3, COPY, 0, 7, 3, 2, 16}},
     .epoch = -1,
     .step = -1,
     .want = "0.7 of 3: rank 0 from its own memory, rank 1 from its own vault, rank 2 from a copy "
             "on node 1"},
    {.name = "of two copies the one that need not travel",
     .hold = {{0, COPY, 0, 7, 2, 1, 16}, {0, OWN, 0, 7, 2, 0, 16}, {1, COPY, 0, 7, 2, 1, 16}},
     .epoch = -1,
     .step = -1,
     .want = "0.7 of 2: rank 0 from its own vault, rank 1 from a copy on node 0 (rank 1 gives)"},
    {.name = "rows of ranks",
     .hold = {{0, MEMORY, 0, 7, 7, 0, 16},
              {1, MEMORY, 0, 7, 7, 1, 16},
              {2, MEMORY, 0, 7, 7, 2, 16},
              {3, COPY, 0, 7, 7, 3, 16},
              {4, MEMORY, 0, 7, 7, 4, 16},
              {5, MEMORY, 0, 7, 7, 5, 16},
              {2, COPY, 0, 7, 7, 6, 16}},
     .epoch = -1,
     .step = -1,
     .want = "0.7 of 7: ranks 0 to 2, 4 and 5 from their own memory, ranks 3 and 6 from copies on "
             "node 1"},
    {.name = "what another rank says of itself may be nonsense",
     .hold = {{0, OWN, 0, 7, 1, 5, 16}, {1, 9, 0, 7, 1, 0, 16}, {2, OWN, 0, 7, -1, -4, 16}},
     .epoch = -1,
     .step = -1,
     .want = ""},
};

static void list(const struct hold *hold, struct dt_vault_held held[RANKS * DT_VAULT_HELD])
{
    int told[RANKS] = {0};
    memset(held, 0, RANKS * DT_VAULT_HELD * sizeof *held);
    for (const struct hold *h = hold; h->source; h++)
        held[h->holder * DT_VAULT_HELD + told[h->holder]++] =
            (struct dt_vault_held){.source = h->source,
                                   .host = h->holder / 2,
                                   .epoch = h->epoch,
                                   .step = h->step,
                                   .world = h->world,
                                   .rank = h->rank,
                                   .shard = h->shard,
                                   .state = 1};
}

static void choose(const struct row *r, struct dt_vault_choice *c)
{
    struct dt_vault_held held[RANKS * DT_VAULT_HELD];
    list(r->hold, held);
    CHECK(dt_vault_choose(held, RANKS, c, NULL) == 0);
    if (c->world && dt_vault_choice_is_older(c, r->epoch, r->step))
        dt_vault_choice_finish(c);
}

TEST(the_newest_step_that_is_whole_is_chosen)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].name);
        struct dt_vault_choice c;
        struct dt_buf said = {0};
        choose(&rows[i], &c);
        if (c.world) {
            dt_buf_printf(&said, "%lld.%lld of %d: ", (long long)c.epoch, (long long)c.step,
                          c.world);
            dt_vault_choice_describe(&c, &said);
        }
        if (strstr(rows[i].want, "gives"))
            dt_buf_printf(&said, " (rank %d gives)", c.giver[1].rank);
        CHECK_STR(dt_buf_cstr(&said), rows[i].want);
        dt_buf_finish(&said);
        dt_vault_choice_finish(&c);
    }
}

TEST(steps_of_which_there_are_parts_come_newest_first_with_their_best_parts)
{
    static const struct hold hold[] = {{0, OWN, 0, 7, 3, 0, 16},
                                       {0, OWN, 0, 8, 3, 0, 16},
                                       {0, COPY, 0, 8, 3, 2, 16},
                                       {1, COPY, 0, 7, 3, 0, 16},
                                       {1, MEMORY, 1, 2, 3, 1, 16},
                                       {2, 9, 2, 9, 3, 0, 16},
                                       {.source = 0}};
    struct dt_vault_held held[RANKS * DT_VAULT_HELD];
    const size_t count = sizeof held / sizeof *held;
    const struct dt_vault_held *step = NULL;
    struct dt_buf said = {0};
    list(hold, held);
    while ((step = dt_vault_next_step(held, count, step))) {
        dt_buf_printf(&said, "%d.%d:", (int)step->epoch, (int)step->step);
        for (int rank = 0; rank < step->world; rank++) {
            const struct dt_vault_held *part = dt_vault_part(held, count, step, rank);
            dt_buf_printf(&said, " %d", part ? (int)part->source : 0);
        }
        dt_buf_put_str(&said, "; ");
    }
    CHECK_STR(dt_buf_cstr(&said), "1.2: 0 1 0; 0.8: 2 0 3; 0.7: 2 0 0; ");
    dt_buf_finish(&said);
}
