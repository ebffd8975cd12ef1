/* SPDX-License-Identifier: Apache-2.0 */
/* What a person asks of a place of uploads: dtrun-train ls, fetch and rm. A URL names all of it, or
 * one checkpoint there: s3://bucket/run, s3://bucket/run/step-00000100. */
#ifndef DT_WORKER_RUNTIME_TRAIN_DEPOT_COMMANDS_H
#define DT_WORKER_RUNTIME_TRAIN_DEPOT_COMMANDS_H

#include "base/err.h"

#include <stdint.h>
#include <stdio.h>

/* A line for each checkpoint, or for each file of the one that URL names. */
int dt_depot_ls(const char *url, FILE *out, struct dt_err *err);
/* The newest whole checkpoint, or the one that URL names, as DIR/step-00000100. */
int dt_depot_fetch(const char *url, const char *dir, FILE *out, struct dt_err *err);
/* The checkpoint that URL names: no prefix, which may hold more than somebody thinks. */
int dt_depot_rm(const char *url, FILE *out, struct dt_err *err);

#endif
