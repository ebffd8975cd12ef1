/* SPDX-License-Identifier: Apache-2.0 */
/* Who trains on what: a step's samples, each exactly once, however they are dealt. */
#include "tests/lib/folder.h"
#include "worker_runtime/config/config.h"
#include "worker_runtime/train/inside.h"

BEFORE_ALL
{
    folder_make();
}

enum { POSITIONS = 4, SAMPLES = 10 };

/* Token I of the file is I, so a sample's first one says which it is. */
static struct dt_tokens *numbered(void)
{
    struct dt_err err = {0};
    FILE *f = fopen(at("numbers"), "wb");
    CHECK(f != NULL);
    for (uint16_t i = 0; i <= SAMPLES * POSITIONS; i++)
        CHECK_EQ(fwrite(&i, sizeof i, 1, f), 1);
    CHECK_EQ(fclose(f), 0);
    struct dt_tokens *t = dt_tokens_open(at("numbers"), 2, SAMPLES * POSITIONS + 1, &err);
    CHECK_OK(t ? 0 : -1, err);
    CHECK_EQ(dt_tokens_samples(t, POSITIONS), SAMPLES);
    return t;
}

/* Counts what the ranks of DEAL are fed, from POSITION of the order on. */
static void feed_step(struct dt_trainer *t, const int *deal, int ranks, int count[SAMPLES])
{
    struct dt_err err = {0};
    int total = 0;
    memset(count, 0, SAMPLES * sizeof *count);
    for (int r = 0; r < ranks; r++)
        total += deal[r];
    t->balance = dt_balance_create(DT_BALANCE_TIMES, ranks, total, &err);
    CHECK_OK(t->balance ? 0 : -1, err);
    CHECK_OK(dt_balance_set(t->balance, deal, ranks, &err), err);
    int *rank = &t->mesh.axis[DT_MESH_DP].index;
    for (*rank = 0; *rank < ranks; ++*rank)
        for (int m = 0; m < deal[*rank]; m++) {
            CHECK_OK(dt_feed_micro_batch(t, m, &err), err);
            for (int64_t i = 0; i < t->batch.micro; i++) {
                const int32_t *ids = t->ids + i * POSITIONS, *targets = t->targets + i * POSITIONS;
                CHECK_EQ(ids[0] % POSITIONS, 0);
                CHECK_EQ(targets[POSITIONS - 1], ids[0] + POSITIONS);
                count[ids[0] / POSITIONS]++;
            }
        }
    dt_balance_destroy(t->balance);
}

TEST(each_sample_of_a_step_is_fed_once_whatever_the_deal)
{
    static const struct {
        int ranks, deal[4], micro;
    } rows[] = {
        {1, {3}, 2},          {2, {3, 3}, 1},    {2, {1, 2}, 2},
        {2, {5, 1}, 1},       {3, {1, 1, 3}, 1}, {4, {2, 1, 1, 2}, 1},
        {4, {1, 4, 1, 1}, 1}, {3, {1, 1, 1}, 3}, {2, {4, 1}, 2},
    };
    struct dt_config config = {.data = {.positions = POSITIONS}};
    int32_t ids[4 * POSITIONS], targets[4 * POSITIONS];
    struct dt_tokens *tokens = numbered();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int shuffle = 0; shuffle < 2; shuffle++)
            for (uint64_t position = 0; position < 2 * SAMPLES; position += 3) {
                struct dt_trainer t = {
                    .config = &config,
                    .train = tokens,
                    .sampler = {.samples = SAMPLES, .seed = 9, .shuffle = shuffle},
                    .ids = ids,
                    .targets = targets,
                    .batch = {.micro = rows[i].micro},
                    .state = {.data_position = position}};
                int fed[SAMPLES], wanted[SAMPLES] = {0}, all = 0;
                CHECK_ROW("row %zu, shuffle %d, position %d", i, shuffle, (int)position);
                for (int r = 0; r < rows[i].ranks; r++)
                    all += rows[i].deal[r] * rows[i].micro;
                for (int k = 0; k < all; k++) /* over the end of an epoch too */
                    wanted[dt_sampler_at(&t.sampler, position + (uint64_t)k)]++;
                feed_step(&t, rows[i].deal, rows[i].ranks, fed);
                CHECK_BYTES(fed, sizeof fed, wanted, sizeof wanted);
            }
    dt_tokens_close(tokens);
}
