/* SPDX-License-Identifier: Apache-2.0 */
/* Names of hosts as people write many of them: node[0-3,7],login1. Pure. */
#ifndef DT_CTL_FOLD_H
#define DT_CTL_FOLD_H

#include "base/buf.h"

#include <stddef.h>

/* Sorts NAMES, and appends them to OUT as they are: a terminal might obey one. */
void dt_ctl_fold(const char **names, size_t count, struct dt_buf *out);

#endif
