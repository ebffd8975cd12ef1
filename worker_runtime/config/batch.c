/* SPDX-License-Identifier: Apache-2.0 */
/* train batch = micro batch x accumulation x ranks, always. What is not written follows by whole
 * division, and then the equation is checked: a remainder is an error that says which numbers
 * would do. */
#include "worker_runtime/config/config.h"

#include <stdio.h>

#define BATCH "train_batch_size"
#define MICRO "train_micro_batch_size_per_gpu"
#define STEPS "gradient_accumulation_steps"

/* A job has fewer ranks, and a batch fewer samples, than this: so products below do not overflow.
 */
#define NUMBER_MOST ((int64_t)1 << 31)
#define WORLDS_SHOWN 12

/* "1, 2, 4, 8": the worlds in which UNIT samples of each rank divide the batch; "" when there is
 * none. */
static void list_worlds(int64_t batch, int64_t unit, char *out, size_t size)
{
    size_t n = 0;
    int shown = 0;
    out[0] = '\0';
    if (batch % unit)
        return;
    for (int64_t w = 1; w <= batch / unit && w <= 65536 && shown < WORLDS_SHOWN && n < size; w++)
        if (batch / unit % w == 0)
            n += (size_t)snprintf(out + n, size - n, "%s%lld", shown++ ? ", " : "", (long long)w);
}

static const char *ranks_text(int world)
{
    return world == 1 ? "rank" : "ranks";
}

/* The multiples of STEP on both sides of BATCH, or the one that is not below it. */
static void near_batches(int64_t batch, int64_t step, char *out, size_t size)
{
    int64_t below = batch / step * step;
    if (below > 0)
        snprintf(out, size, "%lld or %lld", (long long)below, (long long)(below + step));
    else
        snprintf(out, size, "%lld", (long long)step);
}

/* Without a number of accumulation steps: it would follow, and does not. */
static int no_accumulation(int64_t batch, int64_t micro, int world, struct dt_err *err)
{
    char worlds[120], batches[60];
    list_worlds(batch, micro, worlds, sizeof worlds);
    near_batches(batch, micro * world, batches, sizeof batches);
    if (*worlds)
        return dt_err_set(
            err, DT_E_USAGE,
            BATCH " %lld is no multiple of " MICRO " %lld x %d %s; with these two, "
                  "worlds of %s ranks divide it; with these ranks, " BATCH " %s would do",
            (long long)batch, (long long)micro, world, ranks_text(world), worlds, batches);
    return dt_err_set(err, DT_E_USAGE,
                      BATCH " %lld is no multiple of " MICRO " %lld x %d %s, nor of " MICRO
                            " alone; " BATCH " %s would do",
                      (long long)batch, (long long)micro, world, ranks_text(world), batches);
}

/* Without a micro batch: BATCH and perhaps accumulation are written. */
static int no_micro(int64_t batch, int64_t accumulation, int world, struct dt_err *err)
{
    char worlds[120], batches[60], steps[60] = "";
    list_worlds(batch, accumulation, worlds, sizeof worlds);
    near_batches(batch, accumulation * world, batches, sizeof batches);
    if (accumulation > 1)
        snprintf(steps, sizeof steps, "%lld accumulation steps x ", (long long)accumulation);
    return dt_err_set(err, DT_E_USAGE,
                      BATCH " %lld is not divided by %s%d %s; " BATCH " %s would do%s%s%s",
                      (long long)batch, steps, world, ranks_text(world), batches,
                      *worlds ? ", or " : "", worlds, *worlds ? " ranks" : "");
}

static int check_all(const struct dt_batch *b, int world, struct dt_err *err)
{
    int64_t product = b->micro * b->accumulation * world;
    char fits[160] = "";
    if (b->train == product)
        return 0;
    if (b->train % (b->micro * world) == 0)
        snprintf(fits, sizeof fits, "; " STEPS " %lld would make it so",
                 (long long)(b->train / (b->micro * world)));
    else if (b->train % (b->accumulation * world) == 0)
        snprintf(fits, sizeof fits, "; " MICRO " %lld would make it so",
                 (long long)(b->train / (b->accumulation * world)));
    return dt_err_set(err, DT_E_USAGE,
                      BATCH " %lld is not micro %lld x accumulation %lld x %d %s = %lld; drop one "
                            "of the three, and it follows from the others%s",
                      (long long)b->train, (long long)b->micro, (long long)b->accumulation, world,
                      ranks_text(world), (long long)product, fits);
}

static int too_large(struct dt_err *err)
{
    return dt_err_set(err, DT_E_USAGE, "the batch is larger than %lld samples",
                      (long long)NUMBER_MOST);
}

static int from_micro(struct dt_batch *b, int world, struct dt_err *err)
{
    b->accumulation = b->accumulation ? b->accumulation : 1;
    if (b->micro > NUMBER_MOST / world || b->accumulation > NUMBER_MOST / (b->micro * world))
        return too_large(err);
    b->train = b->micro * b->accumulation * world;
    return 0;
}

static int from_train(struct dt_batch *b, int world, struct dt_err *err)
{
    b->accumulation = b->accumulation ? b->accumulation : 1;
    b->micro = b->train / world / b->accumulation;
    if (b->micro == 0 || b->micro * b->accumulation * world != b->train)
        return no_micro(b->train, b->accumulation, world, err);
    return 0;
}

static int from_both(struct dt_batch *b, int world, struct dt_err *err)
{
    b->accumulation = b->train / b->micro / world;
    if (b->accumulation == 0 || b->micro * b->accumulation * world != b->train)
        return no_accumulation(b->train, b->micro, world, err);
    return 0;
}

int dt_batch_resolve(struct dt_batch *b, const struct dt_config_batch *written, int world,
                     struct dt_err *err)
{
    *b = (struct dt_batch){written->train_batch, written->micro_batch, written->accumulation};
    if (b->train < 0 || b->micro < 0 || b->accumulation < 0 || world < 1)
        return dt_err_set(err, DT_E_USAGE, "batch sizes, accumulation and ranks are above 0");
    if (b->train > NUMBER_MOST || b->micro > NUMBER_MOST || b->accumulation > NUMBER_MOST)
        return too_large(err);
    if (!b->train && !b->micro)
        return dt_err_set(err, DT_E_USAGE,
                          "neither " BATCH " nor " MICRO " is written; one is needed");
    if (!b->train)
        return from_micro(b, world, err);
    if (!b->micro)
        return from_train(b, world, err);
    if (!b->accumulation)
        return from_both(b, world, err);
    if (b->accumulation > NUMBER_MOST / b->micro ||
        b->micro * b->accumulation > NUMBER_MOST / world)
        return too_large(err);
    return check_all(b, world, err);
}
