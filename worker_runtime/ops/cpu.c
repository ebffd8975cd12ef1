/* SPDX-License-Identifier: Apache-2.0 */
/* Which table of fast ops this processor gets: the best one it can run, or the one of
 * $DTRUN_CPU_ISA (x86-64, x86-64-v3, x86-64-v4) where it can run that. */
#include <stdlib.h>
#include <string.h>

#include "worker_runtime/ops/cpu/cpu_level.h"
#include "worker_runtime/ops/cpu/tables.h"

static const struct dt_ops *const tables[DT_CPU_LEVELS] = {
    [DT_CPU_BASE] = &dt_cpu_ops_base,
#if defined(__x86_64__)
    [DT_CPU_V3] = &dt_cpu_ops_v3,
    [DT_CPU_V4] = &dt_cpu_ops_v4,
#endif
};

const struct dt_ops *dt_ops_cpu(void)
{
    enum dt_cpu_level best = dt_cpu_level();
    const char *wanted = getenv("DTRUN_CPU_ISA");
    for (int level = DT_CPU_BASE; wanted && level <= (int)best; level++)
        if (strcmp(wanted, tables[level]->name) == 0)
            return tables[level];
    return tables[best];
}
