/* SPDX-License-Identifier: Apache-2.0 */
/* The factor that keeps fp16 gradients from vanishing: grows while all goes well, falls on
 * overflow, as DeepSpeed's. Pure. */
#ifndef DT_WORKER_RUNTIME_OPTIM_LOSS_SCALER_H
#define DT_WORKER_RUNTIME_OPTIM_LOSS_SCALER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct dt_loss_scaler {
    /* what the configuration says */
    bool dynamic, consecutive_hysteresis;
    double min_scale;
    int64_t window;
    int hysteresis;
    /* what has come of it: saved */
    double scale;
    int hysteresis_left;
    int64_t iteration, last_overflow; /* last_overflow: -1 at first */
};

/* Never changes: what fp16.loss_scale asks for, and 1 where there is no fp16. */
void dt_loss_scaler_fixed(struct dt_loss_scaler *s, double scale);
/* Starts at SCALE; what the configuration says is in S already. */
void dt_loss_scaler_dynamic(struct dt_loss_scaler *s, double scale);
/* After each step. -1: an overflow at the floor, which ends the run. */
int dt_loss_scaler_update(struct dt_loss_scaler *s, bool overflow, struct dt_err *err);

#endif
