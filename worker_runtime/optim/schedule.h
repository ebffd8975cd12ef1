/* SPDX-License-Identifier: Apache-2.0 */
/* The learning rate of a step, as DeepSpeed's schedulers and Hugging Face's have it. Pure. This
 * folder decides numbers of an update, this one and the loss scale; the update itself is an op
 * (ops/ops.h), AdamW. */
#ifndef DT_WORKER_RUNTIME_OPTIM_SCHEDULE_H
#define DT_WORKER_RUNTIME_OPTIM_SCHEDULE_H

#include <stdint.h>

enum dt_schedule_kind {
    DT_SCHEDULE_CONSTANT,
    /* DeepSpeed's, which lag a step: the first update is made at step -1 of the formula. */
    DT_WARMUP,
    DT_WARMUP_DECAY,
    DT_WARMUP_COSINE,
    /* Hugging Face's, which do not: the first update of a warm-up has the rate 0. */
    DT_RULE_WARMUP,
    DT_RULE_LINEAR,
    DT_RULE_COSINE,
    DT_RULE_RESTARTS,
    DT_RULE_POLYNOMIAL,
    DT_RULE_INVERSE_SQRT,
    DT_RULE_STABLE,
};
enum dt_warmup_type { DT_WARMUP_LOG, DT_WARMUP_LINEAR };
enum dt_ramp { DT_RAMP_LINEAR, DT_RAMP_COSINE, DT_RAMP_SQRT };

struct dt_schedule {
    enum dt_schedule_kind kind;
    enum dt_warmup_type warmup_type;
    double lr; /* the optimizer's: of CONSTANT, and what the cosine and the rules scale */
    double min_lr, max_lr; /* of POLYNOMIAL, MIN_LR is where it ends */
    int64_t warmup_steps, total_steps;
    double warmup_min_ratio, cos_min_ratio;
    double cycles;           /* of COSINE and STABLE: waves, half a one falls; of RESTARTS: falls */
    double min_ratio;        /* of LR, where COSINE and STABLE end */
    double power;            /* of POLYNOMIAL */
    double timescale;        /* of INVERSE_SQRT; 0: the warm-up, or 10,000 where there is none */
    int64_t stable_steps;    /* of STABLE; -1: what the total leaves */
    int64_t decay_steps;     /* of STABLE, behind those */
    enum dt_ramp rise, fall; /* of STABLE */
};

/* Of the optimizer's step number K, the first being 0. DeepSpeed's run at last_batch_iteration K -
 * 1. */
double dt_schedule_rate(const struct dt_schedule *s, int64_t k);

#endif
