/* SPDX-License-Identifier: Apache-2.0 */
/* The shortest honest training program: a network of two layers learns sin(3x), its parameters and
 * Adam's state spread over as many processes as there are. It saves every 100 steps, and goes on
 * from there when it is started again, by however many.
 *
 *   cc train.c -o train $(pkg-config --cflags --libs libdtrun) -lm
 *   dtrun --nproc-per-node 2 --max-restarts 3 --no-python ./train [CHECKPOINTS [STEPS]] */
#include <dtrun/dtrun.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HIDDEN = 64, BATCH = 256 };

/* Two units, each gathered, used, and freed together. Parameters stand in a unit in this order. */
static const struct dt_param hidden[] = {{"hidden.weight", HIDDEN, true},
                                         {"hidden.bias", HIDDEN, false}};
static const struct dt_param out[] = {{"out.weight", HIDDEN, true}, {"out.bias", 1, false}};
static const struct dt_unit units[] = {{"hidden", hidden, 2}, {"out", out, 2}};

/* Any number that depends on nothing but its arguments: all worlds begin alike. */
static float noise(size_t a, size_t b)
{
    double x = sin((double)a * 12.9898 + (double)b * 78.233) * 43758.5453;
    return (float)(2 * (x - floor(x)) - 1);
}

static void fill(void *arg, size_t unit, size_t param, size_t first, size_t count, float *to)
{
    (void)arg;
    for (size_t i = 0; i < count; i++)
        to[i] = noise(10 * unit + param, first + i) * (unit == 0 ? 3.0f : 0.2f);
}

/* Forward and backward of this rank's samples of a step. Losses and gradients are divided by the
 * samples of all ranks, so their sums are means. */
static int learn(struct dt_zero *z, int rank, int world, int64_t step, double *loss,
                 struct dt_err *err)
{
    dt_zero_begin(z, true, true);
    const float *w1 = dt_zero_gather(z, 0, err), *w2 = w1 ? dt_zero_gather(z, 1, err) : NULL;
    float *g2 = w2 ? dt_zero_grads(z, 1, err) : NULL, *g1 = g2 ? dt_zero_grads(z, 0, err) : NULL;
    if (!g1)
        return -1;
    for (int i = rank; i < BATCH; i += world) {
        float x = noise((size_t)step, (size_t)i), h[HIDDEN], y = w2[HIDDEN];
        for (int j = 0; j < HIDDEN; j++) {
            h[j] = tanhf(w1[j] * x + w1[HIDDEN + j]);
            y += w2[j] * h[j];
        }
        float off = y - sinf(3 * x), dy = 2 * off / BATCH;
        *loss += (double)(off * off) / BATCH;
        g2[HIDDEN] += dy;
        for (int j = 0; j < HIDDEN; j++) {
            float dh = dy * w2[j] * (1 - h[j] * h[j]);
            g2[j] += dy * h[j];
            g1[j] += dh * x;
            g1[HIDDEN + j] += dh;
        }
    }
    if (dt_zero_reduce(z, 1, err) < 0 || dt_zero_reduce(z, 0, err) < 0)
        return -1;
    dt_zero_release(z, 1);
    dt_zero_release(z, 0);
    return 0;
}

static int train(struct dt_context *c, struct dt_zero *z, struct dt_checkpoint *k, int64_t steps,
                 struct dt_err *err)
{
    int rank = dt_context_rank(c), world = dt_context_world(c);
    int64_t step, saved;
    if (dt_checkpoint_resume(k, &step, NULL, 0, err) < 0)
        return -1;
    if (step == 0 && dt_zero_fill(z, fill, NULL, err) < 0)
        return -1;
    if (step > 0 && rank == 0)
        printf("going on behind step %" PRId64 "\n", step);
    while (step++ < steps) {
        struct dt_zero_update update = {.lr = 1 / (100 + (float)step), .loss_scale = 1, .clip = 1};
        struct dt_zero_updated updated;
        double loss = 0;
        if (learn(z, rank, world, step, &loss, err) < 0 ||
            dt_coll_all_reduce(dt_context_coll(c), &loss, 1, DT_F64, DT_SUM, err) < 0 ||
            dt_zero_step(z, &update, &updated, err) < 0)
            return -1;
        if (step % 100 == 0 && dt_checkpoint_save(k, step, NULL, 0, err) < 0)
            return -1;
        if (dt_checkpoint_poll(k, &saved, err) < 0)
            return -1;
        struct dt_page_values values = {.step = step, .saved = saved, .steps = steps, .loss = loss};
        dt_page_update(dt_context_page(c), &values);
        if (rank == 0 && (step == 1 || step % 100 == 0))
            printf("step %" PRId64 ": loss %.7f, gradients %.4f\n", step, loss, updated.grad_norm);
    }
    return dt_checkpoint_wait(k, &saved, err);
}

int main(int argc, char **argv)
{
    struct dt_err err = {0};
    struct dt_zero_options o;
    struct dt_zero *z = NULL;
    struct dt_checkpoint *k = NULL;
    setvbuf(stdout, NULL, _IOLBF, 0); /* into a pipe too */
    struct dt_context *c = dt_context_open(NULL, &err);
    dt_zero_defaults(&o);
    o.stage = 3;
    if (c)
        z = dt_zero_create(c, dt_context_coll(c), units, 2, &o, &err);
    if (z)
        k = dt_checkpoint_open(c, z, argc > 1 ? argv[1] : "checkpoints", 2, &err);
    int failed = !k || train(c, z, k, argc > 2 ? atoll(argv[2]) : 400, &err) < 0;
    if (failed)
        fprintf(stderr, "train: %s\n", err.text);
    dt_checkpoint_close(k);
    dt_zero_destroy(z);
    dt_context_close(c);
    return failed;
}
