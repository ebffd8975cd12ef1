/* SPDX-License-Identifier: Apache-2.0 */
/* What both ways to write a model share. */
#ifndef DT_WORKER_RUNTIME_EXPORT_INSIDE_H
#define DT_WORKER_RUNTIME_EXPORT_INSIDE_H

#include "worker_runtime/export/export.h"

/* Asked between two writes. -1 and *err: nobody wants the rest any more. */
static inline int dt_export_goes_on(const struct dt_export_options *o, struct dt_err *err)
{
    if (!o->stop || !*o->stop)
        return 0;
    return dt_err_set(err, DT_E_CANCELED, "told to end; %.300s is not written", o->out);
}

#endif
