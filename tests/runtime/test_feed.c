/* SPDX-License-Identifier: Apache-2.0 */
/* Who trains on what: a step's samples, each exactly once, however they are dealt, and the targets
 * that all ranks divide by. */
#include "tests/lib/folder.h"
#include "worker_runtime/config/config.h"
#include "worker_runtime/data/token_writer.h"
#include "worker_runtime/train/inside.h"

BEFORE_ALL
{
    folder_make();
}

enum { POSITIONS = 4, SAMPLES = 10 };

static struct dt_mixture *mixture_of(const char *path, int raw_width, bool shuffle)
{
    struct dt_err err = {0};
    const struct dt_mixture_file file = {path, 1};
    const struct dt_mixture_options o = {.files = &file,
                                         .count = 1,
                                         .raw_width = raw_width,
                                         .positions = POSITIONS,
                                         .shuffle = shuffle};
    struct dt_mixture *m = dt_mixture_open(&o, &err);
    CHECK_OK(m ? 0 : -1, err);
    return m;
}

/* Token I of the file is I, so a sample's first one says which it is. */
static struct dt_mixture *numbered(bool shuffle)
{
    FILE *f = fopen(at("numbers"), "wb");
    CHECK(f != NULL);
    for (uint16_t i = 0; i <= SAMPLES * POSITIONS; i++)
        CHECK_EQ(fwrite(&i, sizeof i, 1, f), 1);
    CHECK_EQ(fclose(f), 0);
    struct dt_mixture *m = mixture_of(at("numbers"), 2, shuffle);
    CHECK_EQ(dt_mixture_samples(m), SAMPLES);
    return m;
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
    int *rank = &t->mesh.samples.index;
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
    struct dt_mixture *mixtures[] = {numbered(false), numbered(true)};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int shuffle = 0; shuffle < 2; shuffle++)
            for (uint64_t position = 0; position < 2 * SAMPLES; position += 3) {
                struct dt_trainer t = {.config = &config,
                                       .train = mixtures[shuffle],
                                       .ids = ids,
                                       .targets = targets,
                                       .batch = {.micro = rows[i].micro},
                                       .state = {.data_position = position, .seed = 9}};
                const struct dt_sampler order = {.samples = SAMPLES, .seed = 9, .shuffle = shuffle};
                int fed[SAMPLES], wanted[SAMPLES] = {0}, all = 0;
                CHECK_ROW("row %zu, shuffle %d, position %d", i, shuffle, (int)position);
                for (int r = 0; r < rows[i].ranks; r++)
                    all += rows[i].deal[r] * rows[i].micro;
                for (int k = 0; k < all; k++) /* over the end of an epoch too */
                    wanted[dt_sampler_at(&order, position + (uint64_t)k)]++;
                feed_step(&t, rows[i].deal, rows[i].ranks, fed);
                CHECK_BYTES(fed, sizeof fed, wanted, sizeof wanted);
            }
    dt_mixture_close(mixtures[0]);
    dt_mixture_close(mixtures[1]);
}

/* The targets of a piece's last token are the next piece's: samples are cut behind that. */
TEST(ranks_that_share_samples_are_fed_their_pieces)
{
    enum { RANKS = 2, MICRO = 3, OWN = POSITIONS / RANKS };
    struct dt_config config = {.data = {.positions = POSITIONS}};
    struct dt_mixture *numbers = numbered(true);
    int32_t ids[MICRO * OWN], targets[MICRO * OWN], one[POSITIONS], its_targets[POSITIONS];
    int32_t whole_ids[POSITIONS], whole_targets[POSITIONS];
    const int deal[] = {1};
    struct dt_err err = {0};
    for (size_t rank = 0; rank < RANKS; rank++) {
        struct dt_trainer t = {.config = &config,
                               .train = numbers,
                               .pieces = {.ranks = RANKS, .rank = rank, .positions = POSITIONS},
                               .ids = ids,
                               .targets = targets,
                               .whole_ids = whole_ids,
                               .whole_targets = whole_targets,
                               .batch = {.micro = MICRO},
                               .state = {.data_position = 2, .seed = 9}};
        t.balance = dt_balance_create(DT_BALANCE_TIMES, 1, 1, &err);
        CHECK_OK(dt_balance_set(t.balance, deal, 1, &err), err);
        CHECK_OK(dt_feed_micro_batch(&t, 0, &err), err);
        for (size_t n = 0; n < MICRO * OWN; n++) {
            size_t sample, at = dt_pieces_place(&t.pieces, MICRO, n, &sample);
            CHECK_ROW("rank %zu, row %zu", rank, n);
            CHECK_OK(dt_mixture_read(numbers, 9, 2 + sample, one, its_targets, NULL, &err), err);
            CHECK_EQ(ids[n], one[at]);
            CHECK_EQ(targets[n], one[at] + 1);
            CHECK_EQ(targets[n], its_targets[at]);
        }
        dt_balance_destroy(t.balance);
    }
    dt_mixture_close(numbers);
}

/* Documents of which each fills a sample, and document I has I targets. */
static struct dt_mixture *lessons(void)
{
    struct dt_err err = {0};
    const struct dt_token_kind kind = {.vocabulary = 10, .documents = true};
    struct dt_token_writer *w = dt_token_writer_open(at("lessons"), &kind, &err);
    CHECK_STR(err.text, "");
    for (int i = 0; i <= POSITIONS; i++) {
        uint32_t ids[POSITIONS + 1] = {0};
        bool trained[POSITIONS + 1] = {false};
        for (int k = 1; k <= i; k++)
            trained[k] = true;
        CHECK_OK(dt_token_writer_document(w, ids, trained, POSITIONS + 1, &err), err);
    }
    CHECK_OK(dt_token_writer_commit(w, &err), err);
    dt_token_writer_close(w);
    return mixture_of(at("lessons"), 0, true);
}

static uint64_t counting_targets(const struct dt_trainer *t)
{
    uint64_t n = 0;
    for (int64_t i = 0; i < t->batch.micro * POSITIONS; i++)
        n += t->targets[i] >= 0;
    return n;
}

TEST(a_step_s_targets_are_those_that_its_ranks_are_fed)
{
    enum { DOCUMENTS = POSITIONS + 1, RANKS = 3 };
    static const int deal[RANKS] = {1, 3, 2};
    struct dt_err err = {0};
    struct dt_config config = {.data = {.positions = POSITIONS}};
    int32_t ids[2 * POSITIONS], targets[2 * POSITIONS], documents[2 * POSITIONS];
    struct dt_mixture *train = lessons();
    CHECK_EQ(dt_mixture_samples(train), DOCUMENTS);
    for (uint64_t position = 0; position < 2 * DOCUMENTS; position++) {
        struct dt_trainer t = {.config = &config,
                               .train = train,
                               .ids = ids,
                               .targets = targets,
                               .documents = documents,
                               .batch = {.micro = 2, .train = 12},
                               .state = {.data_position = position, .seed = 5}};
        uint64_t fed = 0;
        t.balance = dt_balance_create(DT_BALANCE_TIMES, RANKS, 6, &err);
        CHECK_OK(dt_balance_set(t.balance, deal, RANKS, &err), err);
        int *rank = &t.mesh.samples.index;
        for (*rank = 0; *rank < RANKS; ++*rank)
            for (int m = 0; m < deal[*rank]; m++) {
                CHECK_OK(dt_feed_micro_batch(&t, m, &err), err);
                fed += counting_targets(&t);
            }
        CHECK_EQ(dt_feed_targets(&t), fed);
        t.batch.train = 0; /* nothing is divided by nothing */
        CHECK_EQ(dt_feed_targets(&t), 1);
        dt_balance_destroy(t.balance);
    }
    dt_mixture_close(train);
}

/* Three documents of a sample each, of which the middle one has no target. */
TEST(a_validation_without_a_target_is_refused)
{
    struct dt_err err = {0};
    const struct dt_token_kind kind = {.vocabulary = 10, .documents = true};
    struct dt_token_writer *w = dt_token_writer_open(at("held"), &kind, &err);
    for (int i = 0; i < 3; i++) {
        const uint32_t ids[POSITIONS + 1] = {0};
        const bool trained[POSITIONS + 1] = {false, i != 1};
        CHECK_OK(dt_token_writer_document(w, ids, trained, POSITIONS + 1, &err), err);
    }
    CHECK_OK(dt_token_writer_commit(w, &err), err);
    dt_token_writer_close(w);
    char path[] = "held.bin";
    struct dt_config config = {.data = {.positions = POSITIONS, .validation = path},
                               .train = {.validation_batches = 1}};
    struct dt_trainer t = {.config = &config, .batch = {.micro = 1}};
    CHECK_OK(dt_validate_check(&t, &err), err); /* nobody validates */
    t.validation = dt_tokens_open(at("held"), 0, 10, &err);
    t.validation_samples = dt_samples_open(t.validation, POSITIONS, false, &err);
    CHECK_OK(t.validation && t.validation_samples ? 0 : -1, err);
    CHECK_EQ(dt_samples_targets(t.validation_samples, 1), 0);
    CHECK_FAIL(dt_validate_check(&t, &err), err,
               "data.validation: none of the 1 samples that a validation takes from held.bin has a "
               "token that is trained on");
    config.train.validation_batches = 2;
    CHECK_OK(dt_validate_check(&t, &err), err);
    config.train.validation_batches = (int64_t)9e15; /* as many as there are */
    CHECK_OK(dt_validate_check(&t, &err), err);
    dt_samples_close(t.validation_samples);
    dt_tokens_close(t.validation);
}
