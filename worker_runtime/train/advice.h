/* SPDX-License-Identifier: Apache-2.0 */
/* What to change in a run's configuration so that it takes less memory, and how much less, by the
 * estimate. Pure. */
#ifndef DT_WORKER_RUNTIME_TRAIN_ADVICE_H
#define DT_WORKER_RUNTIME_TRAIN_ADVICE_H

#include "worker_runtime/train/estimate.h"

#define DT_ADVICE_MOST 9 /* changes that there may be */

struct dt_advice {
    char change[112]; /* keys and values as they are written: "zero_optimization.stage 1" */
    size_t saves;     /* bytes of each rank, made alone */
    bool same;        /* trains the same, step by step */
};

/* How many are in OUT: first those that change nothing but memory and time, and of these and of the
 * others first what saves most. What would save next to nothing is left out. Where the memory of AT
 * is known, a smaller micro batch is the largest that fits in it. */
size_t dt_advice_find(const struct dt_config *c, const struct dt_estimate_place *at,
                      struct dt_advice out[DT_ADVICE_MOST]);

/* As many of them as there is room for: "zero_optimization.stage 1 (saves 200 MiB in each rank),
 * lora.base "nf4" (150 MiB)". ALONE: the rank is. Returns OUT; "" where there is none. */
const char *dt_advice_write(const struct dt_advice *a, size_t count, bool alone, char *out,
                            size_t size);

#endif
