/* SPDX-License-Identifier: Apache-2.0 */
/* What a step of training comes to: gradients, dropout, weights of rows, batches. */
#include "tests/runtime/transformer_world.h"

/* Of a way forward on which the same goes by dropout as in train(). */
static double dropped_loss_of(struct world *w)
{
    struct dt_err err = {0};
    float losses[64];
    double loss = 0;
    CHECK(w->batch * w->positions <= ROWS(losses));
    CHECK_OK(dt_transformer_lose(w->t, w->z, 0, w->batch, w->ids, w->targets, true, losses, &err),
             err);
    CHECK(held_all_back(w->z));
    for (size_t i = 0; i < w->batch * w->positions; i++)
        loss += (double)losses[i];
    return loss;
}

/* The loss with this tensor moved by STEP along DIRECTION. */
static double loss_at(struct world *w, const struct dt_tensor *t, const float *direction,
                      float step)
{
    float *at = w->z->unit[t->unit].params + t->offset;
    float *was = malloc(t->count * sizeof *was);
    memcpy(was, at, t->count * sizeof *was);
    for (size_t i = 0; i < t->count; i++)
        at[i] += step * direction[i];
    double loss = dt_shape_drops(&w->shape) ? dropped_loss_of(w) : loss_of(w);
    memcpy(at, was, t->count * sizeof *was);
    free(was);
    return loss;
}

/* How fast the loss rises when this tensor goes along DIRECTION. The error of a difference over two
 * steps is four times that over one, which takes it out. */
static double slope(struct world *w, const struct dt_tensor *t, const float *direction)
{
    const float h = 0.003f;
    double one = loss_at(w, t, direction, h) - loss_at(w, t, direction, -h);
    double two = loss_at(w, t, direction, 2 * h) - loss_at(w, t, direction, -2 * h);
    return (8 * one - two) / (12 * (double)h);
}

static bool is_of_expert(const struct dt_tensor *t)
{
    return strstr(t->name, ".experts.") != NULL;
}

static void check_tensor_gradient(struct world *w, const struct dt_tensor *t, uint64_t *seed)
{
    const float *g = w->z->unit[t->unit].sums + t->offset;
    float *direction = calloc(t->count, sizeof *direction);
    double length = 0, along = 0, size = 0;
    for (size_t i = 0; i < t->count; i++)
        length += (double)g[i] * (double)g[i];
    length = sqrt(length);
    for (size_t i = 0; i < t->count && length > 0; i++)
        direction[i] = g[i] / (float)length;
    double steepest = slope(w, t, direction);
    for (size_t i = 0; i < t->count; i++) {
        direction[i] = random_unit(seed);
        size += (double)direction[i] * (double)direction[i];
    }
    for (size_t i = 0; i < t->count; i++) {
        direction[i] /= (float)sqrt(size);
        along += (double)direction[i] * (double)g[i];
    }
    double sideways = slope(w, t, direction);
    free(direction);
    CHECK_ROW("%s: gradient %g, slope along it %g; elsewhere %g, %g", t->name, length, steepest,
              along, sideways);
    /* An expert that no row takes has none. */
    CHECK(length > 0.01 || (is_of_expert(t) && length == 0));
    CHECK(fabs(length - steepest) < 0.002 * length + 0.002);
    CHECK(fabs(along - sideways) < 0.002 * length + 0.002);
}

TEST(gradients_are_the_slopes_of_the_loss)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        CHECK_ROW("%s", name_of(&shapes[i]));
        struct world w;
        uint64_t seed = 3;
        open_world(&w, &shapes[i], 2, 5);
        double loss = train(&w, 2, 1);
        CHECK(loss > 10 && loss < 100);
        CHECK(loss == loss_of(&w));
        for (size_t k = 0; k < w.tensor_count; k++) {
            check_tensor_gradient(&w, &w.tensors[k], &seed);
        }
        close_world(&w);
    }
}

TEST(gradients_with_dropout_are_the_slopes_of_what_is_left)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        CHECK_ROW("%s", name_of(&shapes[i]));
        struct dt_shape shape = dropping(&shapes[i]);
        struct world w;
        uint64_t seed = 3;
        open_world(&w, &shape, 2, 5);
        dt_transformer_count(w.t, 8); /* where no loss bends within a step of slope() */
        CHECK(train(&w, 2, 1) == dropped_loss_of(&w));
        for (size_t k = 0; k < w.tensor_count; k++)
            check_tensor_gradient(&w, &w.tensors[k], &seed);
        close_world(&w);
    }
}

/* The loss and all gradients of training on the sample number FIRST and the next one. */
static double train_from(struct world *w, uint64_t first, bool recompute, float **grads,
                         size_t *count)
{
    open_transformer(w, recompute, 1);
    dt_transformer_count(w->t, first);
    held_clear_grads(w->z);
    double loss = train(w, 2, 1);
    *grads = grads_of(w, count);
    return loss;
}

/* To the bit where blocks are gone through once more; and other samples of the run lose others. A
 * loss without a way back is one without dropout. */
TEST(dropout_is_of_training_alone_and_hangs_on_the_sample)
{
    for (size_t i = 0; i < 3; i += 2) {
        struct dt_shape shape = dropping(&shapes[i]);
        struct world w, plain;
        float *was, *now;
        size_t count;
        CHECK_ROW("%s", name_of(&shape));
        open_world(&w, &shape, 2, 5);
        open_world(&plain, &shapes[i], 2, 5);
        double loss = train_from(&w, 4, false, &was, &count);
        CHECK(train_from(&w, 4, true, &now, &count) == loss);
        check_same_bits(now, was, count);
        free(now);
        CHECK(train_from(&w, 5, false, &now, &count) != loss);
        CHECK(memcmp(now, was, count * sizeof *now) != 0);
        CHECK(loss_of(&w) == loss_of(&plain));
        CHECK(loss_of(&w) != loss);
        free(now);
        free(was);
        close_world(&w);
        close_world(&plain);
    }
}

/* Gradients of the sum of all losses, each times its row's weight, by the head that goes twice. */
static void weigh(struct world *w, const float *weights, float *losses)
{
    struct dt_err err = {0};
    double loss = 0;
    CHECK_OK(dt_transformer_lose(w->t, w->z, 0, w->batch, w->ids, w->targets, true, losses, &err),
             err);
    CHECK_OK(dt_transformer_weigh(w->t, w->z, 0, weights, 1, &err), err);
    CHECK_OK(dt_transformer_backward(w->t, w->z, 0, &loss, &err), err);
    CHECK(held_all_back(w->z));
}

/* Rows of weight 1 are as if there were no weights, to the bit; and a row of weight 0 as if its
 * target did not count. */
TEST(rows_of_the_loss_have_their_weights)
{
    enum { BATCH = 2, POSITIONS = 5, N = BATCH * POSITIONS };
    for (size_t i = 0; i < ROWS(shapes); i++) {
        float weights[N], losses[N], sum = 0;
        struct world w;
        size_t count;
        CHECK_ROW("%s", name_of(&shapes[i]));
        open_world(&w, &shapes[i], BATCH, POSITIONS);
        w.targets[3] = -1;
        double loss = train(&w, BATCH, 1);
        float *wanted = grads_of(&w, &count);
        for (size_t k = 0; k < N; k++)
            weights[k] = 1;
        held_clear_grads(w.z);
        weigh(&w, weights, losses);
        float *got = grads_of(&w, &count);
        check_same_bits(got, wanted, count);
        for (size_t k = 0; k < N; k++)
            sum += losses[k];
        CHECK(losses[3] == 0 && fabs((double)sum - loss) < 1e-4);
        free(got);
        free(wanted);
        /* Twice the first sample, and nothing of the second. */
        for (size_t k = 0; k < N; k++)
            weights[k] = k < POSITIONS ? 2 : 0;
        held_clear_grads(w.z);
        weigh(&w, weights, losses);
        got = grads_of(&w, &count);
        for (size_t k = POSITIONS; k < N; k++)
            w.targets[k] = -1;
        held_clear_grads(w.z);
        train(&w, BATCH, 2);
        wanted = grads_of(&w, &count);
        check_close(got, wanted, count, 1e-6);
        free(got);
        free(wanted);
        close_world(&w);
    }
}

TEST(what_is_recomputed_has_the_same_bits)
{
    struct dt_shape deep[] = {shapes[0], shapes[2]};
    for (size_t i = 0; i < ROWS(deep); i++) {
        struct world w;
        size_t count;
        deep[i].layers = 5;
        open_world(&w, &deep[i], 2, 6);
        double loss = train(&w, 2, 1);
        float *kept = grads_of(&w, &count);
        for (size_t every = 0; every <= 7; every++) {
            CHECK_ROW("%s: every %zu", name_of(&deep[i]), every);
            held_clear_grads(w.z);
            open_transformer(&w, true, every);
            CHECK(loss == train(&w, 2, 1));
            float *again = grads_of(&w, &count);
            check_same_bits(again, kept, count);
            free(again);
        }
        free(kept);
        close_world(&w);
    }
}

TEST(units_are_asked_for_in_one_order)
{
    struct world w;
    open_world(&w, &shapes[0], 1, 4);
    train(&w, 1, 1);
    CHECK_STR(w.z->calls, "+0 -0 +1 -1 +2 -2 +3 -3 +4 +0 ~4 ~0 -0 -4 =4 "
                          "+3 ~3 -3 =3 +2 ~2 -2 =2 +1 ~1 -1 =1 ~0 =0");
    held_clear_grads(w.z);
    loss_of(&w);
    CHECK_STR(w.z->calls, "+0 -0 +1 -1 +2 -2 +3 -3 +4 +0 -0 -4");
    held_clear_grads(w.z);
    open_transformer(&w, true, 2);
    train(&w, 1, 1);
    CHECK_STR(w.z->calls, "+0 -0 +1 -1 +2 -2 +3 -3 +4 +0 ~4 ~0 -0 -4 =4 "
                          "+3 ~3 -3 =3 +1 -1 +2 ~2 -2 =2 +1 ~1 -1 =1 ~0 =0");
    close_world(&w);
}

TEST(an_empty_micro_step_makes_the_same_stops_and_adds_nothing)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        for (size_t every = 0; every < 3; every++) {
            CHECK_ROW("%s, every %zu", name_of(&shapes[i]), every);
            struct world w;
            struct dt_err err = {0};
            double loss = 0;
            char calls[sizeof w.z->calls];
            size_t count;
            open_world(&w, &shapes[i], 1, 4);
            open_transformer(&w, every > 0, every);
            train(&w, 1, 1);
            memcpy(calls, w.z->calls, sizeof calls);
            held_clear_grads(w.z);
            CHECK_OK(dt_transformer_train(w.t, w.z, 0, NULL, NULL, 1, &loss, &err), err);
            CHECK_STR(w.z->calls, calls);
            CHECK(loss == 0);
            float *grads = grads_of(&w, &count);
            for (size_t k = 0; k < count; k++)
                CHECK(grads[k] == 0);
            free(grads);
            close_world(&w);
        }
    }
}

TEST(a_batch_that_is_not_full_is_as_one_of_its_size)
{
    struct world large, small;
    size_t count;
    open_world(&large, &shapes[2], 3, 5);
    open_world(&small, &shapes[2], 1, 5);
    memcpy(small.ids, large.ids, 5 * sizeof *small.ids);
    memcpy(small.targets, large.targets, 5 * sizeof *small.targets);
    train(&large, 3, 1); /* leaves its traces */
    held_clear_grads(large.z);
    CHECK(train(&large, 1, 1) == train(&small, 1, 1));
    float *a = grads_of(&large, &count), *b = grads_of(&small, &count);
    check_same_bits(a, b, count);
    free(a);
    free(b);
    close_world(&large);
    close_world(&small);
}

TEST(micro_steps_add_up_and_scale_multiplies_gradients_alone)
{
    struct world w;
    size_t count;
    open_world(&w, &shapes[0], 2, 5);
    double once = train(&w, 2, 1);
    float *a = grads_of(&w, &count);
    CHECK(train(&w, 2, 2) == once);
    float *b = grads_of(&w, &count);
    for (size_t i = 0; i < count; i++)
        a[i] *= 3;
    check_close(b, a, count, 1e-6);
    free(a);
    free(b);
    close_world(&w);
}

TEST(a_target_below_0_does_not_count)
{
    struct world w;
    size_t count;
    open_world(&w, &shapes[0], 2, 5);
    for (size_t i = 5; i < 10; i++)
        w.targets[i] = -100;
    double both = train(&w, 2, 1);
    float *a = grads_of(&w, &count);
    held_clear_grads(w.z);
    double first = train(&w, 1, 1);
    float *b = grads_of(&w, &count);
    CHECK(both == first);
    check_close(a, b, count, 1e-6);
    for (size_t i = 0; i < 5; i++)
        w.targets[i] = -1;
    held_clear_grads(w.z);
    CHECK(train(&w, 2, 1) == 0);
    free(b);
    b = grads_of(&w, &count);
    for (size_t i = 0; i < count; i++)
        CHECK(b[i] == 0);
    free(a);
    free(b);
    close_world(&w);
}

TEST(time_is_counted_until_it_is_asked_for)
{
    struct world w;
    uint64_t forward, backward;
    open_world(&w, &shapes[0], 2, 5);
    dt_transformer_times(w.t, &forward, &backward);
    CHECK(forward == 0 && backward == 0);
    loss_of(&w);
    dt_transformer_times(w.t, &forward, &backward);
    CHECK(forward > 0 && backward == 0);
    train(&w, 2, 1);
    dt_transformer_times(w.t, &forward, &backward);
    CHECK(forward > 0 && backward > 0);
    dt_transformer_times(w.t, &forward, &backward);
    CHECK(forward == 0 && backward == 0);
    close_world(&w);
}
