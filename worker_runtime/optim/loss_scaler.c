/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/optim/loss_scaler.h"

#include <math.h>
#include <string.h>

void dt_loss_scaler_fixed(struct dt_loss_scaler *s, double scale)
{
    memset(s, 0, sizeof *s);
    s->scale = s->min_scale = scale;
    s->last_overflow = -1;
}

void dt_loss_scaler_dynamic(struct dt_loss_scaler *s, double scale)
{
    s->dynamic = true;
    s->scale = scale;
    s->hysteresis_left = s->hysteresis;
    s->iteration = 0;
    s->last_overflow = -1;
}

static int fall(struct dt_loss_scaler *s, struct dt_err *err)
{
    if (s->hysteresis_left > 1) {
        s->hysteresis_left--;
        return 0;
    }
    if (s->scale <= s->min_scale)
        return dt_err_set(err, DT_E_RUNTIME,
                          "gradients overflow even at the smallest loss scale, %g", s->min_scale);
    s->scale = fmax(s->scale / 2, s->min_scale);
    return 0;
}

/* All clean since the last overflow; how often the window fits in decides. */
static void rise(struct dt_loss_scaler *s)
{
    int64_t clean = s->iteration - s->last_overflow - 1;
    if (s->consecutive_hysteresis)
        s->hysteresis_left = s->hysteresis;
    if (clean <= 0 || s->window <= 0 || clean % s->window != 0)
        return;
    s->hysteresis_left = s->hysteresis;
    s->scale *= 2;
}

int dt_loss_scaler_update(struct dt_loss_scaler *s, bool overflow, struct dt_err *err)
{
    int rc = 0;
    if (s->dynamic && overflow)
        rc = fall(s, err);
    if (s->dynamic && !overflow)
        rise(s);
    if (overflow)
        s->last_overflow = s->iteration;
    s->iteration++;
    return rc;
}
