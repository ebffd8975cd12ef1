/* SPDX-License-Identifier: Apache-2.0 */
/* train.json in the folder of a run's files: what dtrun-train trains there, and where its metrics
 * and checkpoints lie, for who reports on the run. */
#ifndef DT_WORKER_RUNTIME_TELEMETRY_RUN_FILE_H
#define DT_WORKER_RUNTIME_TELEMETRY_RUN_FILE_H

#include "base/err.h"

#include <stdint.h>

struct dt_run_facts {
    const char *model, *device;     /* in words */
    const char *metrics, *save_dir; /* paths; NULL: there are none */
    int64_t steps;                  /* of the whole run */
};

/* Written anew in each round. Relative paths are written as absolute ones. */
int dt_run_file_write(const char *folder, const struct dt_run_facts *f, struct dt_err *err);

#endif
