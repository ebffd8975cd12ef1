/* SPDX-License-Identifier: Apache-2.0 */
/* Documents that lie behind each other in a sample, and what a model refuses to be given. */
#include "tests/runtime/transformer_world.h"

/* Documents of 3, 2 and 1, and of 1 and 5 positions. */
enum { PACKED = 2, ALONE = 5, LONG = 6 };
static const int32_t packed_documents[PACKED * LONG] = {0, 0, 0, 3, 3, 5, 0, 1, 1, 1, 1, 1};

/* Row I of the packed samples is at *ROW of the samples in which each document is alone. */
static size_t alone_at(size_t i)
{
    size_t document = 0;
    for (size_t k = 1; k <= i; k++)
        document += k % LONG == 0 || packed_documents[k] != packed_documents[k - 1];
    return document * LONG + i % LONG - (size_t)packed_documents[i];
}

/* Each document in a sample of its own, with nothing to learn behind its end. */
static void unpack(struct world *alone, const struct world *packed)
{
    for (size_t i = 0; i < ALONE * LONG; i++) {
        alone->ids[i] = 0;
        alone->targets[i] = -1;
    }
    for (size_t i = 0; i < PACKED * LONG; i++) {
        alone->ids[alone_at(i)] = packed->ids[i];
        alone->targets[alone_at(i)] = packed->targets[i];
    }
}

TEST(documents_of_one_sample_learn_what_each_alone_would)
{
    for (size_t i = 0; i < ROWS(shapes); i++)
        for (int recompute = 0; recompute < 2; recompute++) {
            CHECK_ROW("%s, recompute %d", name_of(&shapes[i]), recompute);
            struct world packed, alone;
            size_t count;
            open_world(&packed, &shapes[i], PACKED, LONG);
            packed.documents = packed_documents;
            open_transformer(&packed, recompute, 1);
            packed.targets[4] = packed.targets[9] = -1; /* not trained on */
            open_world(&alone, &shapes[i], ALONE, LONG);
            unpack(&alone, &packed);
            double mixed = train(&packed, PACKED, 0.1f), apart = train(&alone, ALONE, 0.1f);
            CHECK(fabs(mixed - apart) < 1e-5 * apart);
            float *a = grads_of(&packed, &count), *b = grads_of(&alone, &count);
            check_close(a, b, count, 2e-5);
            free(a);
            free(b);
            packed.documents = NULL; /* they do see each other where nobody tells them apart */
            open_transformer(&packed, recompute, 1);
            CHECK(fabs(loss_of(&packed) - apart) > 1e-3 * apart);
            close_world(&packed);
            close_world(&alone);
        }
}

/* Notes which works it was given, and records none. */
enum { WORKS_MOST = 100, KEY_MOST = 256 };
struct dt_tape {
    size_t count;
    unsigned char keys[WORKS_MOST][KEY_MOST];
};
static struct dt_tape noting;

static struct dt_tape *noting_open(struct dt_device *d, struct dt_err *err)
{
    (void)d;
    (void)err;
    noting.count = 0;
    return &noting;
}

static void noting_play(struct dt_tape *t, const void *key, size_t bytes, dt_work_fn work,
                        void *arg)
{
    size_t i = 0;
    CHECK(bytes <= KEY_MOST);
    while (i < t->count && memcmp(t->keys[i], key, bytes) != 0)
        i++;
    CHECK(i < WORKS_MOST);
    memcpy(t->keys[i], key, bytes);
    t->count += i == t->count;
    work(arg);
}

static void noting_close(struct dt_tape *t)
{
    (void)t;
}

static const struct dt_tape_ops noting_tapes = {
    .open = noting_open, .play = noting_play, .close = noting_close};

/* Else a device would record the head anew at each step, and keep all recordings. */
TEST(steps_with_other_numbers_of_targets_are_the_same_work)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        CHECK_ROW("%s", name_of(&shapes[i]));
        struct world w;
        open_world(&w, &shapes[i], PACKED, LONG);
        w.counted.device.tapes = &noting_tapes;
        w.documents = packed_documents;
        open_transformer(&w, false, 0);
        train(&w, PACKED, 1.0f / 12);
        loss_of(&w);
        size_t works = noting.count;
        CHECK(works > w.shape.layers);
        train(&w, PACKED, 1.0f / 7);
        loss_of(&w);
        CHECK_EQ(noting.count, works);
        close_world(&w);
    }
}

TEST(documents_that_do_not_lie_behind_each_other_are_refused)
{
    static const int32_t rows[][2 * 4] = {
        {1, 1, 1, 1, 0, 0, 0, 0}, {0, 0, 1, 1, 0, 0, 0, 0},  {0, 0, 2, 1, 0, 0, 0, 0},
        {0, 0, 3, 3, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, -1, 0}, {0, 0, 0, 2, 2, 2, 2, 2},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("row %zu", i);
        struct world w;
        struct dt_err err = {0};
        double loss = 0;
        open_world(&w, &shapes[0], 2, 4);
        w.documents = rows[i];
        open_transformer(&w, false, 0);
        CHECK_FAIL(dt_transformer_train(w.t, w.z, 2, w.ids, w.targets, 1, &loss, &err), err,
                   "is in a document that begins at");
        close_world(&w);
    }
}

TEST(a_word_outside_the_vocabulary_is_refused)
{
    struct world w;
    struct dt_err err = {0};
    double loss = 0;
    open_world(&w, &shapes[0], 2, 5);
    w.ids[7] = 11;
    CHECK_FAIL(dt_transformer_train(w.t, w.z, 2, w.ids, w.targets, 1, &loss, &err), err,
               "token 11 of sample 1 at position 2 is none of this model's 11 words");
    w.ids[7] = -1;
    CHECK_FAIL(dt_transformer_train(w.t, w.z, 2, w.ids, w.targets, 1, &loss, &err), err,
               "token -1 of sample 1");
    w.ids[7] = 0;
    w.targets[0] = 11;
    CHECK_FAIL(dt_transformer_loss(w.t, w.z, 2, w.ids, w.targets, &loss, &err), err,
               "target 11 of sample 0 at position 0");
    CHECK_FAIL(dt_transformer_train(w.t, w.z, 3, w.ids, w.targets, 1, &loss, &err), err,
               "3 samples, where there is room for 2");
    CHECK_STR(w.z->calls, "");
    close_world(&w);
}

TEST(a_unit_that_cannot_be_had_ends_the_pass)
{
    struct world w;
    open_world(&w, &shapes[0], 1, 4);
    for (size_t i = 1; i <= 9; i++) {
        struct dt_err err = {0};
        double loss = 0;
        w.z->gathers_left = i;
        CHECK_ROW("gather %zu", i);
        CHECK_FAIL(dt_transformer_train(w.t, w.z, 1, w.ids, w.targets, 1, &loss, &err), err,
                   "is lost");
    }
    close_world(&w);
}
