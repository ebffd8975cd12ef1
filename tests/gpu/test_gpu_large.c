/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU's ops find elements behind the first 2^32 of an array: no index is kept in 32 bits on the
 * way. Arrays are of zeros but for what is looked at, near both ends. Takes 9 GB of a GPU's memory;
 * where there is less the program is skipped. */
#include "tests/gpu/gpu_kit.h"

#define WIDTH ((size_t)1 << 20)
#define FAR ((size_t)1 << 32)
#define ELEMENTS (FAR + 2 * WIDTH)

enum { LOOK = 24 }; /* elements looked at */

/* A device that computes with bfloat16, and ELEMENTS of them. */
struct large {
    struct gpu_kit g;
    uint16_t *at;
};

static struct large large_open(void)
{
    struct large l = {.g = {.k.state = 7, .elem = DT_BF16}};
    struct dt_err err = {0};
    l.g.device = gpu_open_device(DT_BF16, false);
    l.g.ops = l.g.device->ops;
    l.g.s = l.g.device->stream;
    l.at = dt_device_alloc(l.g.device, ELEMENTS * sizeof *l.at, "a test", &err);
    if (!l.at)
        SKIP("%s", err.text);
    return l;
}

static void large_close(struct large *l)
{
    gpu_free(&l->g);
    dt_device_free(l->g.device, l->at);
    dt_device_close(l->g.device);
}

BEFORE_ALL
{
    struct large l = large_open();
    large_close(&l);
}

static void put(struct large *l, size_t at, size_t n, const float *x)
{
    uint16_t half[64];
    for (size_t i = 0; i < n; i++)
        half[i] = dt_float_to_bf16(x[i]);
    l->g.device->table->from_host(l->g.device, l->at + at, half, n * sizeof *half);
}

static void near(struct large *l, const char *what, size_t at, size_t n, const float *wanted)
{
    gpu_near(&l->g, what, n, l->at + at, wanted, 2e-6);
}

/* Rows so far apart that the fifth is behind the end of 32 bits. */
TEST(rows_far_apart_are_turned_and_lose)
{
    enum { ROWS = 5, STRIDE = (1 << 30) + 8 };
    struct large l = large_open();
    float *speeds = kit_speeds(&l.g.k, LOOK);
    struct dt_rope turn = {ROWS, ROWS, 1, LOOK, STRIDE, speeds, 1, 0}, turn_here = turn;
    struct dt_cross_entropy loss = {ROWS, LOOK, STRIDE, NULL, 1, 0, NULL}, loss_here = loss;
    const int32_t targets[ROWS] = {0, 3, LOOK - 1, 7, 8};
    float *x = gpu_numbers(&l.g, ROWS * LOOK), losses[ROWS];
    turn.speeds = gpu_up_float(&l.g, LOOK / 2, speeds);
    turn_here.stride = loss_here.stride = LOOK;
    loss_here.targets = targets;
    loss.targets = gpu_up_ids(&l.g, ROWS, targets);
    void *losses_there = gpu_up_float(&l.g, ROWS, NULL);
    for (size_t row = 0; row < ROWS; row++)
        put(&l, row * STRIDE, LOOK, x + row * LOOK);
    l.g.ops->cross_entropy(&loss, losses_there, l.at, false, l.g.s);
    ref->cross_entropy(&loss_here, losses, x, false, NULL);
    gpu_near_float(&l.g, "losses", ROWS, losses_there, losses, 2e-6);
    l.g.ops->rope(&turn, l.at, false, l.g.s);
    ref->rope(&turn_here, x, false, NULL);
    for (size_t row = 0; row < ROWS; row++)
        near(&l, "turned", row * STRIDE, LOOK, x + row * LOOK);
    large_close(&l);
}

TEST(words_far_behind_are_looked_up_and_added_to)
{
    struct large l = large_open();
    const int32_t ids[] = {FAR / WIDTH, 0, FAR / WIDTH};
    struct dt_embedding e = {3, 3, WIDTH, FAR / WIDTH + 1, gpu_up_ids(&l.g, 3, ids), 0, NULL};
    const size_t at[] = {0, WIDTH - LOOK, FAR, FAR + WIDTH - LOOK};
    uint16_t *out = gpu_up(&l.g, 3 * WIDTH, NULL);
    for (size_t i = 0; i < 4; i++) {
        float *x = gpu_numbers(&l.g, LOOK);
        put(&l, at[i], LOOK, x);
    }
    l.g.ops->embedding_forward(&e, out, l.at, NULL, l.g.s);
    l.g.ops->embedding_backward(&e, l.at, NULL, out, l.g.s);
    /* Each row's gradient is its word: one is added to the first word, two to the last. */
    for (size_t i = 0; i < 4; i++) {
        size_t row = i / 2 ? 2 : 1;
        float *x = gpu_down(&l.g, LOOK, out + row * WIDTH + at[i] % WIDTH), sum = 0;
        for (size_t c = 0; c < LOOK; c++) {
            sum += fabsf(x[c]);
            x[c] *= i / 2 ? 3 : 2;
        }
        CHECK(sum > 0);
        near(&l, "word", at[i], LOOK, x);
    }
    large_close(&l);
}

TEST(elements_far_behind_are_converted_and_activated)
{
    struct large l = large_open();
    const size_t n = FAR + LOOK - 3, at[] = {0, (size_t)1 << 31, FAR - 5};
    float *x[3];
    for (size_t i = 0; i < 3; i++) {
        x[i] = gpu_numbers(&l.g, LOOK);
        put(&l, at[i], LOOK, x[i]);
    }
    l.g.ops->gelu_forward(n, l.at, l.at, l.g.s);
    for (size_t i = 0; i < 3; i++) {
        size_t within = at[i] + LOOK < n ? LOOK : n - at[i];
        ref->gelu_forward(within, x[i], x[i], NULL);
        near(&l, "gelu", at[i], LOOK, x[i]); /* what is behind n, as it was */
        gpu_rounded(&l.g, LOOK, memcpy(x[i], gpu_down(&l.g, LOOK, l.at + at[i]), LOOK * 4));
    }
    l.g.ops->cast(n, l.at, DT_F16, l.at, DT_BF16, l.g.s);
    for (size_t i = 0; i < 3; i++) {
        uint16_t is[LOOK], want[LOOK];
        size_t within = at[i] + LOOK < n ? LOOK : n - at[i];
        gpu_to_host(&l.g, is, l.at + at[i], sizeof is);
        ref->cast(within, want, DT_F16, x[i], DT_F32, NULL);
        CHECK_BYTES(is, within * 2, want, within * 2);
    }
    large_close(&l);
}

TEST(squares_far_behind_count)
{
    struct large l = large_open();
    const size_t n = FAR / 2 + 5;
    float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
    double sum = 0;
    float *floats = (float *)(void *)l.at;
    l.g.device->table->from_host(l.g.device, floats + n - 5, x, sizeof x);
    l.g.device->table->from_host(l.g.device, floats, x, sizeof x);
    l.g.ops->sum_squares(DT_F32, 1, &sum, &(struct dt_squares_part){n, floats}, l.g.s);
    CHECK(sum == 1 + 4 + 9 + 16 + 25 + 204);
    large_close(&l);
}
