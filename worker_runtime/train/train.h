/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of dtrun-train: steps, validation, checkpoints, and the way back. This folder puts
 * together what the others decide and compute; what a run consists of is in inside.h. */
#ifndef DT_WORKER_RUNTIME_TRAIN_TRAIN_H
#define DT_WORKER_RUNTIME_TRAIN_TRAIN_H

#include "worker_runtime/config/config.h"

#include <dtrun/context.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#define DT_TRAIN_PROGRAM "dtrun-train" /* in front of its warnings and errors */

struct dt_train_options {
    const struct dt_config *config;
    const char *resume;                /* "auto", "none", or a folder */
    const char *init_from;             /* a folder of Hugging Face's; NULL: random weights */
    FILE *console;                     /* of rank 0; NULL: nothing */
    bool terminal;                     /* it is one: a progress bar too */
    const volatile sig_atomic_t *stop; /* not 0: finish the step, save, and return */
    /* Samples of a step in the last world of this process that began; 0: there was none. */
    int64_t *batch_before;
};

enum dt_train_end { DT_TRAIN_DONE, DT_TRAIN_STOPPED };

/* Collective over the job. */
int dt_train_run(struct dt_context *context, const struct dt_train_options *o,
                 enum dt_train_end *end, struct dt_err *err);

#endif
