/* SPDX-License-Identifier: Apache-2.0 */
/* The learning rate of a step, as DeepSpeed's schedulers have it. Pure. This folder decides numbers
 * of an update, this one and the loss scale; the update itself is an op (ops/ops.h), AdamW. */
#ifndef DT_WORKER_RUNTIME_OPTIM_SCHEDULE_H
#define DT_WORKER_RUNTIME_OPTIM_SCHEDULE_H

#include <stdint.h>

enum dt_schedule_kind { DT_SCHEDULE_CONSTANT, DT_WARMUP, DT_WARMUP_DECAY, DT_WARMUP_COSINE };
enum dt_warmup_type { DT_WARMUP_LOG, DT_WARMUP_LINEAR };

struct dt_schedule {
    enum dt_schedule_kind kind;
    enum dt_warmup_type warmup_type;
    double lr; /* the optimizer's: of CONSTANT, and what the cosine scales */
    double min_lr, max_lr;
    int64_t warmup_steps, total_steps;
    double warmup_min_ratio, cos_min_ratio;
};

/* Of the optimizer's step number K, the first being 0: it runs at last_batch_iteration K - 1. */
double dt_schedule_rate(const struct dt_schedule *s, int64_t k);

#endif
