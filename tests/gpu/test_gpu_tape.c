/* SPDX-License-Identifier: Apache-2.0 */
/* Work that a GPU is told as one: done each time, in its place among other work, and told op by op
 * where it cannot be recorded. */
#include "tests/gpu/gpu_kit.h"

BEFORE_ALL
{
    gpu_plugin_or_skip();
}

enum { N = 1000 };

/* sum += more, and more = 0 where it is asked for */
struct adding {
    struct gpu_kit *g;
    void *sum, *more;
    bool clear, wait;
    int told;
};

static void add(void *arg)
{
    struct adding *a = arg;
    double norm;
    a->told++;
    a->g->ops->add(N, a->sum, a->more, a->g->s);
    if (a->clear)
        a->g->device->table->clear(a->g->device, a->more, N * gpu_size(a->g));
    if (a->wait) /* for a result, which no recording can */
        a->g->ops->sum_squares(a->g->elem, 1, &norm, &(struct dt_squares_part){N, a->more},
                               a->g->s);
}

static struct dt_tape *open_tape(struct gpu_kit *g)
{
    struct dt_err err = {0};
    CHECK(g->device->tapes != NULL);
    struct dt_tape *t = g->device->tapes->open(g->device, &err);
    CHECK_OK(t ? 0 : -1, err);
    return t;
}

static void set(struct gpu_kit *g, void *at, float to)
{
    float *x = kit_alloc(&g->k, N * sizeof *x);
    void *there;
    for (size_t i = 0; i < N; i++)
        x[i] = to;
    there = gpu_up(g, N, x);
    g->device->table->clear(g->device, at, N * gpu_size(g));
    g->ops->add(N, at, there, g->s);
}

static void check_all(struct gpu_kit *g, const void *at, int is)
{
    const float *x = gpu_down(g, N, at);
    for (size_t i = 0; i < N; i++)
        CHECK_EQ((int)(2 * x[i]), 2 * is);
}

static void again_and_again(struct gpu_kit *g)
{
    struct dt_tape *t = open_tape(g);
    void *sum = gpu_up(g, N, gpu_numbers(g, N)), *more = gpu_up(g, N, gpu_numbers(g, N));
    struct adding a = {.g = g, .sum = sum, .more = more, .clear = true};
    set(g, sum, 0);
    for (int i = 1; i <= 6; i++) {
        set(g, more, 2);
        g->device->tapes->play(t, "key", 3, add, &a);
        check_all(g, sum, 2 * i);
        check_all(g, more, 0);
    }
    CHECK_EQ(a.told, 2); /* once to be done, once to be recorded */
    g->device->tapes->close(t);
}

TEST(work_is_done_each_time_and_told_twice)
{
    gpu_each(again_and_again);
}

static void two_works(struct gpu_kit *g)
{
    struct dt_tape *t = open_tape(g);
    struct adding a = {.g = g}, b = {.g = g};
    void *one = gpu_up(g, N, gpu_numbers(g, N));
    a.sum = gpu_up(g, N, gpu_numbers(g, N));
    b.sum = gpu_up(g, N, gpu_numbers(g, N));
    a.more = b.more = one;
    set(g, one, 1);
    set(g, a.sum, 0);
    set(g, b.sum, 0);
    for (int i = 1; i <= 8; i++) {
        g->device->tapes->play(t, "a", 1, add, &a);
        g->device->tapes->play(t, "ab", 2, add, &b);
        g->device->tapes->play(t, "ab", 2, add, &b);
    }
    check_all(g, a.sum, 8);
    check_all(g, b.sum, 16);
    CHECK_EQ(a.told, 2);
    CHECK_EQ(b.told, 2);
    g->device->tapes->close(t);
}

TEST(works_are_told_apart_by_their_keys)
{
    gpu_each(two_works);
}

static void waits(struct gpu_kit *g)
{
    struct dt_err err = {0};
    struct dt_tape *t = open_tape(g);
    void *sum = gpu_up(g, N, gpu_numbers(g, N)), *more = gpu_up(g, N, gpu_numbers(g, N));
    struct adding a = {.g = g, .sum = sum, .more = more, .wait = true};
    set(g, sum, 0);
    set(g, more, 1);
    if (g->elem != DT_F32)
        a.wait = false; /* squares are of floats */
    for (int i = 1; i <= 5; i++) {
        g->device->tapes->play(t, "key", 3, add, &a);
        check_all(g, sum, i);
        CHECK_OK(dt_device_sync(g->device, &err), err);
    }
    CHECK_EQ(a.told, a.wait ? 6 : 2); /* each time, and once in vain */
    g->device->tapes->close(t);
}

TEST(what_cannot_be_recorded_is_done_all_the_same)
{
    gpu_each(waits);
}
