/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tokens beside the checkpoints, by a sum of all that they are made from: another
 * template, a changed dataset or another model makes another file. */
#ifndef DT_LLAMAFACTORY_TOKENS_H
#define DT_LLAMAFACTORY_TOKENS_H

#include "worker_runtime/llamafactory/llamafactory.h"

#include <limits.h>

struct factory_names {
    char train[PATH_MAX];
    char validation[PATH_MAX]; /* "": nothing is validated on */
};

/* What they are to be called, of a run of the model in the folder MODEL that saves in OUTPUT. */
int factory_name_tokens(const struct dt_factory_data *d, const char *model, const char *output,
                        struct factory_names *names, struct dt_err *err);

#endif
