/* SPDX-License-Identifier: Apache-2.0 */
/* A model's config.json where "model.config" is a path. */
#ifndef DT_WORKER_RUNTIME_CONFIG_MODEL_FILE_H
#define DT_WORKER_RUNTIME_CONFIG_MODEL_FILE_H

#include "base/json.h"

/* PATH is the file, or the folder it is in, or one of checkpoints: then it is the newest one's.
 * Errors name it; then nothing is to be finished. */
int dt_model_file_read(struct dt_json *doc, const char *path, struct dt_err *err);

#endif
