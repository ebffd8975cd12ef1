/* SPDX-License-Identifier: Apache-2.0 */
/* What both ways to write a model share. */
#ifndef DT_WORKER_RUNTIME_EXPORT_INSIDE_H
#define DT_WORKER_RUNTIME_EXPORT_INSIDE_H

#include "worker_runtime/export/export.h"

#include <math.h>

/* What is rounded to 16 bits becomes infinite from here on. */
#define DT_F16_END 65520.0f

/* Asked between two writes. -1 and *err: nobody wants the rest any more. */
static inline int dt_export_goes_on(const struct dt_export_options *o, struct dt_err *err)
{
    if (!o->stop || !*o->stop)
        return 0;
    return dt_err_set(err, DT_E_CANCELED, "told to end; %.300s is not written", o->out);
}

/* -1 and *err: of COUNT weights X of the tensor NAME one is NaN, or finite and END or more. */
static inline int dt_export_check_range(const float *x, size_t count, float end, const char *name,
                                        struct dt_err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (isnan(x[i]))
            return dt_err_set(err, DT_E_RUNTIME,
                              "tensor %.200s holds NaN: the model has diverged, or its file is "
                              "damaged; export another checkpoint",
                              name);
        if (isfinite(x[i]) && fabsf(x[i]) >= end)
            return dt_err_set(err, DT_E_RUNTIME,
                              "tensor %.200s has the weight %g, which is beyond the numbers of "
                              "this type; export it with --dtype bf16 or f32",
                              name, (double)x[i]);
    }
    return 0;
}

#endif
