/* SPDX-License-Identifier: Apache-2.0 */
/* The kit that tests of GPUs' ops share, by an op that is as simple as can be. */
#include "tests/gpu/gpu_kit.h"

BEFORE_ALL
{
    gpu_plugin_or_skip();
}

static void there_and_back(struct gpu_kit *g)
{
    for (g->shift = 0; g->shift < 2; g->shift++) {
        CHECK_ROW("shift %zu", g->shift);
        float *x = gpu_numbers(g, 1001);
        void *at = gpu_up(g, 1001, x);
        CHECK_EQ((uintptr_t)at % 256, g->shift * gpu_size(g));
        CHECK_BYTES(gpu_down(g, 1001, at), 1001 * 4, x, 1001 * 4);
    }
}

TEST(numbers_come_back_as_they_were)
{
    gpu_each(there_and_back);
}

static void beside(struct gpu_kit *g)
{
    uint8_t *at = gpu_bytes(g, 100, NULL, 0);
    const struct gpu_array a = g->arrays[--g->used];
    CHECK(gpu_guards_hold(g, &a));
    g->device->table->clear(g->device, at + 100, 1);
    CHECK(!gpu_guards_hold(g, &a));
    g->device->table->from_host(g->device, at - 1, (const uint8_t[102]){[101] = 0xff}, 102);
    CHECK(!gpu_guards_hold(g, &a));
    dt_device_free(g->device, a.memory);
}

TEST(writes_beside_an_array_are_seen)
{
    gpu_each(beside);
}

static void one_row_of_losses(struct gpu_kit *g)
{
    float *logits = gpu_numbers(g, 3 * 50), *losses = kit_alloc(&g->k, 3 * 4);
    int32_t *targets = kit_ids(&g->k, 3, 50);
    void *at = gpu_up(g, 3 * 50, logits), *to = gpu_bytes(g, 3 * 4, NULL, 0);
    struct dt_cross_entropy c = {.rows = 3, .vocabulary = 50, .stride = 50, .scale = 1};
    c.targets = gpu_up_ids(g, 3, targets);
    g->ops->cross_entropy(&c, to, at, true, g->s);
    c.targets = targets;
    ref->cross_entropy(&c, losses, logits, true, NULL);
    gpu_near_float(g, "losses", 3, to, losses, 1e-5);
    gpu_near(g, "gradients", 3 * 50, at, logits, 1e-5);
}

TEST(an_op_says_what_its_twin_says)
{
    gpu_each(one_row_of_losses);
}
